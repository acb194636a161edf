# SPDX-License-Identifier: Apache-2.0
"""Tool calls as they end, one line each, on standard error: nothing that a program prints is mixed up."""

from __future__ import annotations

import os
import sys
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, TextIO

from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.trace import StatusCode, format_trace_id

from acrux_otel import attributes as names
from acrux_otel.export import exit as exiting

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import Span

__all__ = ["Console"]

_COLUMNS: Final = (
    ("run", 20),
    ("trace", 6),
    ("tool", 24),
    ("outcome", 12),
    ("errorType", 15),
    ("errorCode", 22),
    ("errorDetail", 0),
)
_COLOURS: Final = {"red": "31", "amber": "33", "green": "32", "error": "31", "warning": "33", "ok": "32"}
_TRACES: Final = 1000
_WORST: Final = ("green", "amber", "red")


class Console(SpanProcessor):
    """Prints a header and then the calls of every run."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream
        self._runs: OrderedDict[int, tuple[str, int]] = OrderedDict()
        self._headed = False
        self.after_fork()
        exiting.reset_in_children(self)

    def after_fork(self) -> None:
        self._lock = threading.Lock()

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Learn the run's name from its span."""
        attributes = span.attributes or {}
        if span.context is not None and attributes.get(names.OPERATION_NAME) == names.INVOKE_AGENT:
            with self._lock:
                self._note(span.context.trace_id, str(attributes.get(names.AGENT_NAME, "")), 0)

    def on_end(self, span: ReadableSpan) -> None:
        """Print the line of a tool call; a broken terminal is no reason to fail one."""
        attributes = span.attributes or {}
        if span.context is None:
            return
        badness = 2 if span.status.status_code is StatusCode.ERROR else int(names.WARNING_TYPE in attributes)
        trace = span.context.trace_id
        try:
            with self._lock:
                name, worst = self._note(trace, "", badness)
                if attributes.get(names.OPERATION_NAME) != names.EXECUTE_TOOL:
                    return
                self._print(
                    name or format_trace_id(trace)[:8],
                    _WORST[worst],
                    *(
                        str(attributes.get(key, "-"))
                        for key in (
                            names.TOOL_NAME,
                            names.OUTCOME,
                            names.ERROR_TYPE,
                            names.ERROR_CODE,
                            names.ERROR_DETAIL,
                        )
                    ),
                )
        except (OSError, ValueError):
            pass

    def _note(self, trace: int, name: str, badness: int) -> tuple[str, int]:
        known, worst = self._runs.pop(trace, ("", 0))
        self._runs[trace] = known or name, max(worst, badness)
        if len(self._runs) > _TRACES:
            self._runs.popitem(last=False)
        return self._runs[trace]

    def _print(self, *cells: str) -> None:
        stream = self._stream or sys.stderr
        if not self._headed:
            self._headed = True
            print(_line([name for name, _ in _COLUMNS], colours=False), file=stream)
        colours = stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        print(_line(cells, colours=colours), file=stream, flush=True)


def _line(cells: tuple[str, ...] | list[str], *, colours: bool) -> str:
    made = []
    for cell, (_, width) in zip(cells, _COLUMNS, strict=True):
        shown = "".join(char if char.isprintable() else " " for char in cell)
        padded = shown.ljust(width)
        colour = _COLOURS.get(shown) if colours else None
        made.append(f"\x1b[{colour}m{shown}\x1b[0m{padded[len(shown) :]}" if colour else padded)
    return "  ".join(made).rstrip()
