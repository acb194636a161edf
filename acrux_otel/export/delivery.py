# SPDX-License-Identifier: Apache-2.0
"""Sends encoded requests to one target: bounded attempts, retries that end, one log line for a problem."""

from __future__ import annotations

import logging
import os
import random
import threading
from collections.abc import Callable
from time import monotonic
from typing import Final, Protocol

from acrux_otel.export.endpoints import GRPC, METRICS, Target
from acrux_otel.verdict import warn_once

__all__ = ["Delivery", "SendFailed", "Sender", "sender_for"]

_log: Final = logging.getLogger("acrux_otel")
_LONGEST_PAUSE: Final = 10.0


class SendFailed(Exception):
    """One attempt failed.

    Attributes:
        reason: short text without anything secret.
        retryable: the OTLP specification allows to send the same again.
        retry_after: seconds that the endpoint asked to wait.
        connected: an answer came, so something lives there.
        too_large: the request is beyond what the endpoint takes.
        unsupported: the endpoint does not know this signal.
    """

    def __init__(
        self,
        reason: str,
        *,
        retryable: bool = False,
        retry_after: float | None = None,
        connected: bool = True,
        too_large: bool = False,
        unsupported: bool = False,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retryable = retryable
        self.retry_after = retry_after
        self.connected = connected
        self.too_large = too_large
        self.unsupported = unsupported


class Sender(Protocol):
    """One attempt over one protocol."""

    def send(self, body: bytes, timeout: float) -> str | None:
        """Send one encoded request.

        Returns:
            What the endpoint says about a part that it did not take, else None.

        Raises:
            SendFailed: nothing was taken.
        """

    def close(self) -> None:
        """End what is under way, if the protocol can, and free connections."""


def sender_for(target: Target) -> Sender:
    """The sender of a target's protocol.

    Raises:
        ImportError: the optional package is missing; the text has the command to install it.
    """
    if target.protocol == GRPC:
        from acrux_otel.export.over_grpc import GrpcSender

        return GrpcSender(target)
    from acrux_otel.export.over_http import HttpSender

    return HttpSender(target)


class Delivery:
    """What happens between an encoded request and its target.

    Args:
        target: where to.
        patience: seconds during which one request is tried again.
        make: makes the sender; called again in a forked child, which must not share connections.
    """

    def __init__(
        self, target: Target, patience: float, make: Callable[[Target], Sender] = sender_for
    ) -> None:
        self.target = target
        self._patience = patience
        self._make = make
        self._sender: Sender | None = None
        self._pid = os.getpid()
        self._closing = threading.Event()
        self._deadline: float | None = None
        self._off = False

    def send(self, body: bytes) -> bool:
        """Send one request; whether it was taken.

        Raises:
            SendFailed: only where it is too large, so that the caller can divide it.
        """
        give_up = monotonic() + self._patience
        pause = 1.0
        while not self._off:
            failure = self._attempt(body)
            if failure is None:
                return True
            if failure.too_large:
                raise failure
            self._report(failure)
            wait = max(failure.retry_after or 0.0, pause * random.uniform(0.5, 1.0))
            until = give_up if self._deadline is None else min(give_up, self._deadline)
            if not failure.retryable or monotonic() + wait > until:
                self._off = self._off or self._deadline is not None
                return False
            if self._closing.wait(wait) and not failure.connected:
                self._off = True  # nobody is there: the program's end is not the time to wait for him
            pause = min(pause * 2, _LONGEST_PAUSE)
        return False

    def _attempt(self, body: bytes) -> SendFailed | None:
        timeout = self.target.timeout
        if self._deadline is not None:
            timeout = min(timeout, max(0.05, self._deadline - monotonic()))
        try:
            partial = self._current().send(body, timeout)
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

    def _current(self) -> Sender:
        if self._sender is None:
            self._sender = self._make(self.target)
        return self._sender

    def _report(self, failure: SendFailed) -> None:
        target = self.target
        if target.implicit and not failure.connected:
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
        # One line for a host, not one for each signal.
        place = target.url if failure.connected else target.url.split("/v1/")[0]
        warn_once(
            f"export:{place}:{failure.reason}",
            "cannot send %s to %s: %s; the program is not affected",
            target.signal,
            target.shown,
            failure.reason,
        )

    def close_by(self, deadline: float) -> None:
        """End soon: attempts and retries stop at ``deadline`` (monotonic seconds)."""
        self._deadline = deadline
        self._closing.set()

    def close(self) -> None:
        """Free the connections."""
        self._off = True
        self._closing.set()
        if self._sender is not None:
            self._sender.close()

    def after_fork(self) -> None:
        """In a child: forget the parent's connections without ending them."""
        self._sender = None
        self._closing = threading.Event()
