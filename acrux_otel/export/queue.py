# SPDX-License-Identifier: Apache-2.0
"""A queue of ended spans before an exporter, as the SDK's batch processor is one, but with waits that end.

The SDK's ignores the timeout of `force_flush` and joins its thread for up to 30 s at shutdown, in every
version that we support. The standard ``OTEL_BSP_…`` variables apply.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from time import monotonic
from typing import TYPE_CHECKING, Final

from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY, attach, set_value
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor

from acrux_otel.export import exit as exiting
from acrux_otel.verdict import warn_once

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import Span

    from acrux_otel.export.otlp import SpanExport

__all__ = ["SpanQueue"]

_SIZE: Final = 2048
_BATCH: Final = 512
_DELAY_MS: Final = 5000


class SpanQueue(SpanProcessor):
    """Keeps ended spans until a background thread has exported them; full, it drops the oldest.

    Args:
        exporter: never raises.
        most: spans in one export.
    """

    def __init__(self, exporter: SpanExport, most: int = _BATCH) -> None:
        self._exporter = exporter
        self._size = _number("OTEL_BSP_MAX_QUEUE_SIZE", _SIZE)
        self._batch = min(most, _number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", _BATCH), self._size)
        self._delay = _number("OTEL_BSP_SCHEDULE_DELAY", _DELAY_MS) / 1000
        self._ended = False
        self.after_fork()
        exiting.reset_in_children(self)

    def after_fork(self) -> None:
        """The parent sends what it had queued; a child starts empty."""
        self._queue: deque[ReadableSpan] = deque(maxlen=self._size)
        self._wake = threading.Event()
        self._turn = threading.Condition()
        self._begun = self._finished = 0
        self._thread: threading.Thread | None = None

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Nothing to do."""

    def on_end(self, span: ReadableSpan) -> None:
        """Queue a sampled span; never blocks."""
        context = span.context
        if context is None or not context.trace_flags.sampled or self._ended:
            return
        queue = self._queue
        if len(queue) == self._size:
            warn_once(
                "export:queue",
                "more than %d spans wait to be sent (OTEL_BSP_MAX_QUEUE_SIZE); the oldest are dropped",
                self._size,
            )
        queue.append(span)
        if self._thread is None:
            self._start()
        if len(queue) >= self._batch and not self._wake.is_set():
            self._wake.set()

    def _start(self) -> None:
        with self._turn:
            if self._thread is not None:
                return
            self._thread = threading.Thread(target=self._work, name="acrux-otel-export", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:
                pass  # the interpreter is ending

    def _work(self) -> None:
        # An instrumented HTTP client must not make spans of our own requests.
        attach(set_value(_SUPPRESS_INSTRUMENTATION_KEY, True))
        ended = False
        while not ended:
            self._wake.wait(self._delay)
            self._wake.clear()
            ended = self._ended
            self._pass()
        with self._turn:
            self._thread = None
            self._turn.notify_all()

    def _pass(self) -> None:
        with self._turn:
            self._begun += 1
            number = self._begun
        left = len(self._queue)
        while left > 0:
            batch: list[ReadableSpan] = []
            try:
                while len(batch) < min(left, self._batch):
                    batch.append(self._queue.popleft())
            except IndexError:
                left = 0  # what was there has been dropped for newer ones
            if batch:
                self._exporter.export(batch)
            left -= len(batch)
        with self._turn:
            self._finished = number
            self._turn.notify_all()

    def flush_by(self, deadline: float) -> bool:
        """See `Outlet`."""
        lost = self._exporter.lost
        with self._turn:
            if self._thread is None:
                return True
            wanted = self._begun + 1  # a pass that begins from now on
            self._wake.set()
            self._exporter.delivery.hurry()
            done = self._turn.wait_for(
                lambda: self._finished >= wanted or self._thread is None, max(0.0, deadline - monotonic())
            )
        return done and self._exporter.lost == lost

    def end_by(self, deadline: float) -> None:
        """See `Outlet`."""
        self._ended = True
        self._exporter.delivery.end_by(deadline)
        self._wake.set()

    def ended_by(self, deadline: float) -> None:
        """See `Outlet`."""
        lost = self._exporter.lost
        if not self.flush_by(deadline) and self._exporter.lost == lost:
            self._exporter.delivery.abandon()

    def force_flush(self, timeout_millis: int | None = None) -> bool:
        """Send what is queued, for at most ``timeout_millis`` (default 30 s)."""
        return self.flush_by(monotonic() + (30_000 if timeout_millis is None else timeout_millis) / 1000)

    def shutdown(self) -> None:
        """Send the rest, for at most the exit timeout, also where the provider is somebody else's."""
        held = exiting.exit_timeout()
        deadline = monotonic() + held
        self.end_by(deadline)
        if held:
            self.ended_by(deadline)
        self._exporter.shutdown()


def _number(variable: str, default: int) -> int:
    text = os.environ.get(variable, "").strip()
    if not text:
        return default
    if not text.isdecimal() or int(text) == 0:
        raise ValueError(f"{variable} is {text!r}; expected a positive whole number")
    return int(text)
