# SPDX-License-Identifier: Apache-2.0
"""Nonsense is refused where it is written, with the field and the allowed range in one line."""

from __future__ import annotations

from typing import Any

import pytest

import acrux_otel as acrux
from acrux_otel import CircuitBreaker, Guard, Retry, RunBudget, ToolFailureLimits

CASES: list[tuple[Any, dict[str, Any], str]] = [
    (Retry, {"max_attempts": 0}, "Retry(max_attempts=) is 0; expected a whole number from 1 to 100"),
    (Retry, {"max_attempts": 2.0}, "Retry(max_attempts=) is 2.0; expected a whole number from 1 to 100"),
    (Retry, {"max_attempts": True}, "Retry(max_attempts=) is True; expected a whole number from 1 to 100"),
    (Retry, {"base_delay": -1}, "Retry(base_delay=) is -1; expected a number from 0 to 3600"),
    (Retry, {"max_delay": float("nan")}, "Retry(max_delay=) is nan; expected a number from 0 to 86400"),
    (Retry, {"max_delay": 0.1}, "Retry(max_delay=) is 0.1; expected at least base_delay, 0.5"),
    (Retry, {"jitter": 2}, "Retry(jitter=) is 2; expected a number from 0 to 1"),
    (Retry, {"budget": -0.1}, "Retry(budget=) is -0.1; expected a number from 0 to 1, or None"),
    (Retry, {"retry_codes": "rate_limited"}, "expected a set of errorCodes"),
    (Retry, {"retry_codes": 3}, "Retry(retry_codes=) is 3; expected a set of errorCodes"),
    (Retry, {"retry_ambiguous": "yes"}, "Retry(retry_ambiguous=) is 'yes'; expected True or False"),
    (
        CircuitBreaker,
        {"cooldown": 0},
        "CircuitBreaker(cooldown=) is 0; expected a number above 0 and at most 86400",
    ),
    (CircuitBreaker, {"failures": 0}, "CircuitBreaker(failures=) is 0; expected a whole number from 1"),
    (CircuitBreaker, {"window": -1}, "CircuitBreaker(window=) is -1; expected a number above 0"),
    (CircuitBreaker, {"half_open": 0}, "CircuitBreaker(half_open=) is 0; expected a whole number from 1"),
    (CircuitBreaker, {"per": "day"}, "CircuitBreaker(per=) is 'day'; expected 'tool' or 'run'"),
    (CircuitBreaker, {"key": ""}, "CircuitBreaker(key=) is ''; expected a name, or None"),
    (CircuitBreaker, {"key": "a", "per": "run"}, "give one of them"),
    (Guard, {"timeout": 0}, "Guard(timeout=) is 0; expected a number above 0 and at most 86400, or None"),
    (Guard, {"deadline": -3}, "Guard(deadline=) is -3; expected a number above 0"),
    (Guard, {"retry": 3}, "Guard(retry=) is 3; expected a Retry, or None"),
    (Guard, {"breaker": "on"}, "Guard(breaker=) is 'on'; expected a CircuitBreaker, or None"),
    (Guard, {"allowed": "lookup"}, "Guard(allowed=) is 'lookup'; expected names of tools"),
    (Guard, {"allowed": 3}, "Guard(allowed=) is 3; expected names of tools"),
    (Guard, {"next_step": "retry"}, "Guard(next_step=) is 'retry'; expected 'fallback', 'partial'"),
    (Guard, {"clock": 1}, "Guard(clock=) is 1; expected a Clock, or None"),
    (RunBudget, {}, "RunBudget() limits nothing; give at least one limit, such as max_calls=20"),
    (RunBudget, {"max_calls": 0}, "RunBudget(max_calls=) is 0; expected a whole number from 1"),
    (
        RunBudget,
        {"max_calls_per_tool": {"a": -1}},
        "RunBudget(max_calls_per_tool['a']=) is -1; expected a whole number from 0",
    ),
    (RunBudget, {"max_seconds": 0}, "RunBudget(max_seconds=) is 0; expected a number above 0"),
    (RunBudget, {"max_cost": "1"}, "RunBudget(max_cost=) is '1'; expected a number above 0"),
    (RunBudget, {"stop_on": "http_401"}, "RunBudget(stop_on=) is 'http_401'; expected a set of errorCodes"),
    (ToolFailureLimits, {"max_retry": 0}, "ToolFailureLimits(max_retry=) is 0; expected a whole number"),
    (ToolFailureLimits, {"circuit_cooldown_s": 0}, "ToolFailureLimits(circuit_cooldown_s=) is 0; expected"),
]


@pytest.mark.parametrize(("kind", "options", "line"), CASES, ids=lambda value: str(value)[:60])
def test_one_line_names_the_field_and_the_range(kind: Any, options: dict[str, Any], line: str) -> None:
    """What was given, what was expected."""
    with pytest.raises(ValueError) as caught:
        kind(**options)
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_no_guard_is_refused_where_it_is_put() -> None:
    """By `@tool`, `run` and a guard's own decorator."""
    with pytest.raises(TypeError, match=r"tool\(guard=\) is 3; expected a Guard, or False"):
        acrux.tool(guard=3)(len)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match=r"run\(budget=\) is 3; expected a RunBudget, such as"):
        acrux.run("agent", budget=3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="guard is 3; expected a Guard, or False"):
        acrux.configure(guard=3, backend="none")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="Guard was put on 3; expected a function or another callable"):
        Guard()(3)  # type: ignore[type-var]


def test_defaults_are_those_of_the_design() -> None:
    """Two attempts in total; three failures, twenty seconds, one probe."""
    guard = Guard()
    assert guard.retry.max_attempts == 2
    assert guard.breaker is not None
    assert (guard.breaker.failures, guard.breaker.cooldown, guard.breaker.half_open) == (3, 20, 1)
    assert (guard.timeout, guard.deadline, guard.has_fallback) == (None, None, False)
