# SPDX-License-Identifier: Apache-2.0
"""Sends encoded requests to one target: bounded attempts, retries that end, one log line for a problem."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable
from math import inf
from time import monotonic, sleep
from typing import Final, Protocol

from acrux_otel.export import exit as exiting
from acrux_otel.export.endpoints import FILE, GRPC, METRICS, Target
from acrux_otel.verdict import warn_once

__all__ = ["METRICS_PATIENCE", "PATIENCE", "Delivery", "SendFailed", "Sender", "require", "sender_for"]

_log: Final = logging.getLogger("acrux_otel")
# seconds
PATIENCE: Final = 60.0  # an outage of less than this loses nothing that fits into the queue
METRICS_PATIENCE: Final = 5.0  # the next collection says the same and more
_LONGEST_PAUSE: Final = 10.0
_SHORTEST_ATTEMPT: Final = 0.05
_EXIT_POLL: Final = 0.1
_EXIT_PAUSE: Final = 0.4


class SendFailed(Exception):
    """One attempt failed.

    Attributes:
        reason: short text without anything secret.
        retryable: the OTLP specification allows to send the same again.
        retry_after: seconds that the endpoint asked to wait.
        answered: something lives there and said no.
        too_large: the request is beyond what the endpoint takes.
        unsupported: the endpoint does not know this signal.
    """

    def __init__(
        self,
        reason: str,
        *,
        retryable: bool = False,
        retry_after: float | None = None,
        answered: bool = True,
        too_large: bool = False,
        unsupported: bool = False,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retryable = retryable
        self.retry_after = retry_after
        self.answered = answered
        self.too_large = too_large
        self.unsupported = unsupported


class Sender(Protocol):
    """One attempt over one protocol."""

    def send(self, body: bytes, timeout: float) -> str | None:
        """Send one encoded request within ``timeout`` seconds.

        Returns:
            What the endpoint says about a part that it did not take, else None.

        Raises:
            SendFailed: nothing was taken.
        """

    def close(self) -> None:
        """Free the connections."""


def require(target: Target) -> None:
    """Say now, and not in the background, that an optional package is missing.

    Raises:
        ImportError: the text has the command to install it.
    """
    if target.protocol == GRPC:
        import acrux_otel.export.over_grpc  # noqa: F401


def sender_for(target: Target) -> Sender:
    """The sender of a target's protocol.

    Raises:
        ImportError: see `require`.
    """
    if target.protocol == GRPC:
        from acrux_otel.export.over_grpc import GrpcSender

        return GrpcSender(target)
    if target.protocol == FILE:
        from acrux_otel.export.files import FileSender

        return FileSender(target.url)
    from acrux_otel.export.over_http import HttpSender

    return HttpSender(target)


class Delivery:
    """What happens between an encoded request and its target.

    Args:
        target: where to.
        patience: seconds during which one request is tried again.
        watch_exit: the SDK's own processor waits for us, and nobody else says when the process ends.
        make: makes the sender.
    """

    def __init__(
        self,
        target: Target,
        patience: float,
        *,
        watch_exit: bool = False,
        make: Callable[[Target], Sender] = sender_for,
    ) -> None:
        self.target = target
        self._patience = patience
        self._watch_exit = watch_exit
        self._make = make
        self._sender: Sender | None = None
        self._others: list[Sender | None] = []
        self._nudge = threading.Event()
        self._deadline: float | None = None
        self._off = False
        self._reported = False
        exiting.reset_in_children(self)

    @property
    def over(self) -> bool:
        """Whether nothing more will be sent, so that it need not even be encoded."""
        end = self._end()
        return self._off or (end is not None and monotonic() >= end)

    def send(self, body: bytes) -> bool:
        """Send one request; whether it was taken.

        Raises:
            SendFailed: only where it is too large, so that the caller can divide it.
        """
        until = monotonic() + self._patience
        pause = 1.0
        while not self._off:
            failure = self._attempt(body)
            if failure is None:
                return True
            if failure.too_large:
                raise failure
            if self._off:
                return False
            self._report(failure)
            if not failure.retryable or not self._pause(pause, until, failure):
                return False
            pause = min(pause * 2, _LONGEST_PAUSE)
        return False

    def _attempt(self, body: bytes) -> SendFailed | None:
        timeout, end = self.target.timeout, self._end()
        if end is not None:
            timeout = min(timeout, max(_SHORTEST_ATTEMPT, end - monotonic()))
        elif self._watch_exit:
            return self._attempt_while_alive(body, timeout)
        return self._attempt_now(body, timeout)

    def _attempt_now(self, body: bytes, timeout: float) -> SendFailed | None:
        try:
            if self._sender is None:
                self._sender = self._make(self.target)
            partial = self._sender.send(body, timeout)
        except SendFailed as failure:
            return failure
        except Exception as error:
            return SendFailed(f"{type(error).__name__} in the exporter")
        if partial:
            warn_once(
                f"export:{self.target.url}:partial",
                "%s took only a part of the %s: %s",
                self.target.shown,
                self.target.signal,
                partial,
            )
        return None

    def _attempt_while_alive(self, body: bytes, timeout: float) -> SendFailed | None:
        """The SDK waits for its worker, so what is under way must not outlast the end of the process."""
        outcome: list[SendFailed | None] = []
        job = exiting.Job(lambda: outcome.append(self._attempt_now(body, timeout)))
        while not job.wait(min(monotonic() + _EXIT_POLL, self._end() or inf)):
            end = self._end()
            if end is not None and monotonic() >= end:
                self.abandon()
                return SendFailed("abandoned")
        if outcome:
            return outcome[0]
        # No thread can be started any more, so the end has a time.
        return self._attempt_now(
            body, max(_SHORTEST_ATTEMPT, min(timeout, (self._end() or inf) - monotonic()))
        )

    def _end(self) -> float | None:
        if self._deadline is None and self._watch_exit:
            self._deadline = exiting.exit_deadline()
        return self._deadline

    def _pause(self, longest: float, until: float, failure: SendFailed) -> bool:
        """Wait before the next attempt; whether there is to be one."""
        if self.target.implicit and not failure.answered:
            return False  # nobody said that somebody lives there
        wait = max(failure.retry_after or 0.0, longest * random.uniform(0.5, 1.0))
        if self._end() is None:
            if monotonic() + wait > until:
                return False
            self._nudge.wait(wait)
            self._nudge.clear()
            return True
        # The process ends: who is not there will not come, who said "later" gets what time there is.
        wait = failure.retry_after or min(wait, _EXIT_PAUSE)
        end = min(until, self._deadline or until)
        if not failure.answered or monotonic() + wait > end:
            self._off = True
            return False
        sleep(wait)
        return True

    def _report(self, failure: SendFailed) -> None:
        target = self.target
        if target.implicit and not failure.answered:
            if self._reported:
                return
            self._reported = True
            _log.info(
                "no endpoint is configured and nothing answers at OpenTelemetry's default %s (%s); "
                "set OTEL_EXPORTER_OTLP_ENDPOINT or configure(endpoint=...)",
                target.shown,
                failure.reason,
            )
            return
        own = target.source.startswith("OTEL_EXPORTER_OTLP_METRICS")
        if failure.unsupported and target.signal == METRICS and not own:
            self._off = True
            _log.info("%s takes no metrics (%s); none are sent there", target.shown, failure.reason)
            return
        self._warn(failure.reason, answered=failure.answered)

    def _warn(self, reason: str, *, answered: bool) -> None:
        self._reported = True
        # Spans and metrics fail alike: one line for the place.
        place = self.target.url.split("/v1/")[0]
        warn_once(
            f"export:{place}:{reason if answered else 'silent'}",
            "cannot send %s to %s: %s; the program is not affected",
            self.target.signal,
            self.target.shown,
            reason,
        )

    def hurry(self) -> None:
        """End a pause between attempts: somebody waits."""
        self._nudge.set()

    def end_by(self, deadline: float) -> None:
        """Stop attempts and retries at ``deadline`` (`time.monotonic` seconds)."""
        self._deadline = deadline
        self._nudge.set()

    def abandon(self) -> None:
        """The deadline is over and something was not sent."""
        self._off = True
        if not self._reported and not self.target.implicit:
            self._warn("no answer before the process had to end", answered=False)

    def close(self) -> None:
        """Free the connections."""
        self._off = True
        self._nudge.set()
        if self._sender is not None:
            self._sender.close()

    def after_fork(self) -> None:
        """In a child: leave the parent's connections alone, also by not letting them be collected."""
        self._others.append(self._sender)
        self._sender = None
        self._nudge = threading.Event()
        self._deadline = None
