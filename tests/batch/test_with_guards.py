# SPDX-License-Identifier: Apache-2.0
"""Guards and budgets inside a turn: what they refuse is an answer for the model."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from typing import Any

from acrux_otel import (
    Outcome,
    ToolAnnotations,
    ToolCall,
    ToolSession,
    run,
    run_tool_calls,
    to_anthropic,
    to_openai_chat,
    tool,
)
from acrux_otel.guard import CircuitBreaker, Guard, Retry, RunBudget


def test_an_open_circuit_is_an_answer(exported: Any) -> None:
    """The model learns why, what this run has, and what to do instead; the call is not executed."""
    ran: list[int] = []

    @tool(guard=Guard(Retry(max_attempts=1), CircuitBreaker(failures=1)))
    def billing() -> None:
        ran.append(1)
        raise ConnectionRefusedError("refused")

    @tool
    def customer() -> str:
        return "Ada"

    calls = [ToolCall("1", "customer"), ToolCall("2", "billing"), ToolCall("3", "billing")]
    with run("invoices"):
        results = run_tool_calls(calls, [billing, customer], max_concurrency=1)
    assert ran == [1]
    assert [each.executed for each in results] == [True, True, False]
    assert results[2].verdict.outcome in (Outcome.ERROR, Outcome.NOT_EXECUTED)
    (block,) = to_anthropic(results[2:])["content"]
    said = json.loads(block["content"])
    assert block["is_error"] is True
    assert said["error"].startswith("Not executed: ")
    assert (said["stop_reason"], said["checked"]) == ("tool_unavailable:circuit_open", ["customer"])
    assert said["next_step"] in ("fallback", "partial", "escalate")
    assert json.loads(to_openai_chat(results[2:])[0]["content"]) == said
    assert len(exported.tools()) == 3


def test_a_spent_budget_is_an_answer() -> None:
    """Calls over the run's budget are not executed, guarded or not."""

    @tool
    def search(q: str) -> str:
        return q

    calls = [ToolCall(q, "search", {"q": q}) for q in "abc"]
    with run("agent", budget=RunBudget(max_calls=2)):
        results = run_tool_calls(calls, [search], max_concurrency=1)
    assert [each.verdict.outcome.value for each in results] == ["ok", "ok", "not_executed"]
    assert results[2].value["stop_reason"] == "run_stopped:budget_exhausted"


def test_a_retry_that_helped_is_one_good_answer(exported: Any) -> None:
    """One result, one span, two attempts."""
    tries: list[int] = []

    @tool(guard=Guard(Retry(base_delay=0.001)), annotations=ToolAnnotations(idempotent=True))
    async def flaky() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionRefusedError
        return "fine"

    (result,) = run_tool_calls([ToolCall("1", "flaky")], [flaky])
    assert (result.value, result.verdict.outcome) == ("fine", Outcome.OK)
    assert exported.only.attributes["acrux.tool.attempts"] == 2
    assert exported.only.attributes["gen_ai.tool.call.id"] == "1"


def test_a_fallback_is_no_failure() -> None:
    """It stops nobody and is not flagged."""

    @tool(
        guard=Guard(Retry(max_attempts=1), fallback="yesterday's rate"),
        annotations=ToolAnnotations(read_only=False),
    )
    def rate() -> str:
        raise ConnectionRefusedError

    @tool
    def after() -> str:
        return "ran"

    results = run_tool_calls([ToolCall("1", "rate"), ToolCall("2", "after")], [rate, after])
    assert [each.value for each in results] == ["yesterday's rate", "ran"]
    assert results[0].verdict.outcome is Outcome.WARNING
    assert "is_error" not in to_anthropic(results)["content"][0]


def test_nothing_is_tried_again_for_a_turn_that_is_over() -> None:
    """A sync tool that comes back late with something to retry is left at that."""
    tries: list[int] = []
    release = threading.Event()

    @tool(guard=Guard(Retry(max_attempts=5, base_delay=0.001)), annotations=ToolAnnotations(idempotent=True))
    def slow() -> None:
        tries.append(1)
        release.wait(10)
        raise ConnectionRefusedError

    (result,) = run_tool_calls([ToolCall("1", "slow")], [slow], timeout=0.1)
    assert result.verdict.code == "timeout"
    release.set()
    time.sleep(0.2)
    assert tries == [1]


def test_a_resend_after_a_dependency_failure_is_no_repeat() -> None:
    """The budget's limit on identical calls does not count what the session runs again in order."""
    there: list[bool] = []

    @tool(annotations=ToolAnnotations(read_only=False))
    async def create() -> str:
        there.clear()
        await asyncio.sleep(0.05)
        there.append(True)
        return "created"

    @tool
    async def read() -> str:
        if not there:
            raise LookupError("not there")
        return "read"

    calls = [ToolCall("1", "create"), ToolCall("2", "read")]
    session = ToolSession()
    with run("agent", budget=RunBudget(max_repeats=0)):
        first = run_tool_calls(calls, [create, read], order="parallel", session=session)
        second = run_tool_calls(calls, [create, read], order="parallel", session=session)
        third = run_tool_calls(calls[1:], [create, read], session=session)
    assert [each.verdict.outcome.value for each in first] == ["ok", "error"]
    assert [each.verdict.outcome.value for each in second] == ["ok", "ok"]
    assert third[0].verdict.outcome is Outcome.NOT_EXECUTED
