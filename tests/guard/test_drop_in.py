# SPDX-License-Identifier: Apache-2.0
"""`ToolFailureGuard`: told of a status, it answers in one string."""

from __future__ import annotations

from typing import Any

import pytest

from acrux_otel import ToolFailureGuard, ToolFailureLimits

from .conftest import FakeClock

OPEN = "tool_unavailable:circuit_open"
FATAL = "tool_failure:non_retryable"
SPENT = "tool_failure:retry_exhausted"
AGAIN = "tool_retry:allowed"

# What happens, in order: a number of seconds passes, "before" a call, or (status, attempt); and the answer.
SEQUENCE: list[tuple[Any, str | None]] = [
    ("before", None),
    ((503, 1), AGAIN),
    ((503, 2), SPENT),  # max_retry=2: the second attempt was the last
    ("before", None),
    ((429, 1), OPEN),  # the third failure in a row; it outranks AGAIN
    ("before", OPEN),
    (19.9, None),
    ("before", OPEN),
    ((500, 2), OPEN),  # and SPENT
    (19.9, None),
    ("before", OPEN),
    (0.2, None),
    ("before", None),
    ((504, 1), OPEN),  # the streak stood: one more is enough
    (20.1, None),
    ("before", None),
    ((200, 1), None),
    ((408, 1), AGAIN),
    ((404, 1), FATAL),  # the service works: the streak ends
    ((500, 1), AGAIN),
    ((502, 2), SPENT),
    ((302, 1), None),
    ((501, 1), None),
    ((503, 1), AGAIN),
    ("before", None),
]


def test_the_sequence(clock: FakeClock) -> None:
    """Retry, exhaustion, opening, cool-down, closing; attempts count from 1."""
    guard = ToolFailureGuard(
        ToolFailureLimits(max_retry=2, open_circuit_after=3, circuit_cooldown_s=20), clock=clock
    )
    for step, (event, expected) in enumerate(SEQUENCE):
        if isinstance(event, float):
            clock.advance(event)
            continue
        got = guard.before_call() if event == "before" else guard.on_result(*event)
        assert got == expected, (step, event)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 422])
def test_what_is_not_retryable(status: int) -> None:
    """Whatever the attempt."""
    guard = ToolFailureGuard()
    assert guard.on_result(status, 1) == guard.on_result(status, 5) == FATAL


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_what_is_retryable(status: int) -> None:
    """On the first attempt."""
    assert ToolFailureGuard().on_result(status, 1) == AGAIN


@pytest.mark.parametrize("attempt", [0, -1, 1.5, "1", True])
def test_an_attempt_is_a_number_from_one(attempt: Any) -> None:
    """Counting from 0 would allow one attempt too many."""
    with pytest.raises(ValueError, match="expected a whole number from 1"):
        ToolFailureGuard().on_result(500, attempt)
