# SPDX-License-Identifier: Apache-2.0
"""A guard for a loop that somebody has already: told of each status, it says in one string what to do."""

from __future__ import annotations

import dataclasses
from typing import Final

from acrux_otel.guard.checks import number
from acrux_otel.guard.clock import SYSTEM, Clock
from acrux_otel.guard.locking import LOCK
from acrux_otel.guard.unavailable import CIRCUIT_OPEN, NON_RETRYABLE, RETRY_EXHAUSTED

__all__ = ["RETRY_ALLOWED", "ToolFailureGuard", "ToolFailureLimits"]

RETRY_ALLOWED: Final = "tool_retry:allowed"
_RETRYABLE: Final = frozenset((408, 429, 500, 502, 503, 504))
_NON_RETRYABLE: Final = frozenset((400, 401, 403, 404, 409, 422))


@dataclasses.dataclass(frozen=True)
class ToolFailureLimits:
    """Limits of a `ToolFailureGuard`.

    Args:
        max_retry: attempts in total; they count from 1.
        open_circuit_after: retryable failures in a row, over all calls, that open the circuit.
        circuit_cooldown_s: seconds for which it then stays open.

    Raises:
        ValueError: a limit out of its range.
    """

    max_retry: int = 2
    open_circuit_after: int = 3
    circuit_cooldown_s: float = 20

    def __post_init__(self) -> None:
        owner = "ToolFailureLimits"
        number(owner, "max_retry", self.max_retry, 1, 100, whole=True)
        number(owner, "open_circuit_after", self.open_circuit_after, 1, 10_000, whole=True)
        number(owner, "circuit_cooldown_s", self.circuit_cooldown_s, 0, 86_400, above=True)


class ToolFailureGuard:
    """One per tool; asks for nothing but the HTTP status of each attempt. Safe from any thread.

    ::

        stop = guard.before_call()
        if stop is None:
            status = call_the_tool()
            stop = guard.on_result(status, attempt)

    Args:
        limits: the defaults of `ToolFailureLimits` where left out.
        clock: for simulations.
    """

    def __init__(self, limits: ToolFailureLimits | None = None, *, clock: Clock | None = None) -> None:
        self.limits = limits or ToolFailureLimits()
        self._clock = clock or SYSTEM
        self._streak = 0
        self._open_until: float | None = None

    def before_call(self) -> str | None:
        """``tool_unavailable:circuit_open`` where the tool must not be called now, else None."""
        with LOCK:
            return CIRCUIT_OPEN if self._is_open() else None

    def on_result(self, status_code: int, attempt: int) -> str | None:
        """What to do after an attempt.

        Args:
            status_code: the HTTP status.
            attempt: its number, from 1.

        Returns:
            ``tool_unavailable:circuit_open``, which outranks the rest; ``tool_failure:non_retryable`` (400,
            401, 403, 404, 409, 422; the service works, so the streak ends);
            ``tool_failure:retry_exhausted`` or ``tool_retry:allowed`` (408, 429, 500, 502, 503, 504); None
            for any other status, which ends the streak too.

        Raises:
            ValueError: an attempt that is no whole number from 1.
        """
        number("ToolFailureGuard.on_result", "attempt", attempt, 1, 1_000_000, whole=True)
        with LOCK:
            if status_code not in _RETRYABLE:
                self._streak, self._open_until = 0, None
                return NON_RETRYABLE if status_code in _NON_RETRYABLE else None
            self._streak += 1
            if self._streak >= self.limits.open_circuit_after:
                self._open_until = self._clock.now() + self.limits.circuit_cooldown_s
            if self._is_open():
                return CIRCUIT_OPEN
            return RETRY_EXHAUSTED if attempt >= self.limits.max_retry else RETRY_ALLOWED

    def _is_open(self) -> bool:
        # After the cool-down the streak still stands: one more failure opens it again at once.
        return self._open_until is not None and self._clock.now() < self._open_until
