# SPDX-License-Identifier: Apache-2.0
"""The shared vectors that a guard decides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from vectors import CASES

import acrux_otel as acrux
from acrux_otel import CircuitBreaker, Guard, RunBudget, ToolUnavailable


def circuit_open() -> None:
    @acrux.tool(guard=Guard(None, CircuitBreaker(failures=1)))
    def down() -> None:
        raise ConnectionRefusedError

    with pytest.raises(ConnectionRefusedError):
        down()
    down()


def policy_denied() -> None:
    acrux.tool(guard=Guard(allowed=()))(circuit_open)()


def budget_exhausted() -> None:
    with RunBudget(max_calls_per_tool={"circuit_open": 0}):
        acrux.tool(circuit_open)()


WAYS: dict[str, Callable[[], None]] = {
    "circuit-open": circuit_open,
    "policy-denied": policy_denied,
    "budget-exhausted": budget_exhausted,
}
DECIDED = [case for case in CASES if case.where == "guard"]


def test_every_vector_of_a_guard_has_its_way() -> None:
    """A new one needs a line above."""
    assert {case.id for case in DECIDED} == set(WAYS)


@pytest.mark.parametrize("case", DECIDED, ids=str)
def test_the_verdict_is_the_vectors(case: Any, exported: Any) -> None:
    """On the span of the call that was refused."""
    with pytest.raises(ToolUnavailable):
        WAYS[case.id]()
    span = exported.tools()[-1]
    expected = dict(case.expect)
    assert span.outcome == expected.pop("outcome")
    if "retryable" in expected:
        assert span.attributes["acrux.tool.retryable"] is expected.pop("retryable")
    assert {key: span.attributes.get(key) for key in expected} == expected
