# SPDX-License-Identifier: Apache-2.0
"""What a run may use up, and what a policy lets through."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Mapping
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

import acrux_otel as acrux
from acrux_otel import CircuitBreaker, Guard, RunBudget, ToolAnnotations, ToolResult, ToolUnavailable
from acrux_otel.expected import EXPECTED, Expected
from acrux_otel.guard.budget import spending
from acrux_otel.seam import open_call
from acrux_otel.settings import settings

from .conftest import FakeClock


@acrux.tool
def lookup(city: str = "Berlin") -> dict[str, str]:
    return {"city": city}


def refused(call: Any, *args: Any) -> ToolUnavailable:
    with pytest.raises(ToolUnavailable) as caught:
        call(*args)
    assert caught.value.stop_reason == "run_stopped:budget_exhausted"
    return caught.value


# -- limits ------------------------------------------------------------------------------------------------


def test_calls_over_the_limit_do_not_run(exported: Any) -> None:
    """`not_executed`, with words that a model can read; also for tools without a guard."""
    with acrux.run("agent", budget=RunBudget(max_calls=2)) as run:
        lookup("a")
        lookup("b")
        exc = refused(lookup, "c")
    assert "the run has used its 2 tool calls." in str(exc)
    assert exc.next_step == "partial" and exc.checked == ("lookup",)
    span = exported.tools()[-1]
    assert (span.outcome, span.status) == ("not_executed", "UNSET")
    assert span.attributes["acrux.tool.not_executed_reason"].startswith("run_stopped:budget_exhausted: ")
    assert span.attributes["acrux.tool.stop_reason"] == "run_stopped:budget_exhausted"
    assert span.events == []
    assert (run.summary.calls, run.summary.not_executed) == (2, 1)
    assert run.summary.stop_reason == "run_stopped:budget_exhausted"
    root = next(each for each in exported if each.name == "invoke_agent agent")
    assert root.attributes["acrux.run.budget.calls"] == 0
    assert root.attributes["acrux.run.stop_reason"] == "run_stopped:budget_exhausted"
    assert root.attributes["acrux.trace.outcome"] == "ok"


def test_what_is_left_is_on_the_run_span(exported: Any, clock: FakeClock) -> None:
    """Of every limit that was set."""
    budget = RunBudget(max_calls=10, max_failures=5, max_seconds=60, max_cost=1.5, clock=clock)
    with acrux.run("agent", budget=budget) as run:
        lookup()
        clock.advance(10)
        acrux.record_cost(0.25)
        assert run.spending is not None
        assert run.spending.left == {"calls": 9, "failures": 5, "seconds": 50, "cost": 1.25}
    root = next(each for each in exported if each.name == "invoke_agent agent")
    left = {name: value for name, value in root.attributes.items() if "budget" in name}
    assert left == {
        "acrux.run.budget.calls": 9,
        "acrux.run.budget.failures": 5,
        "acrux.run.budget.seconds": 50,
        "acrux.run.budget.cost": 1.25,
    }
    assert "acrux.run.stop_reason" not in root.attributes


@pytest.mark.parametrize("limit", [2, {"lookup": 2}])
def test_one_tool_may_have_its_own_limit(limit: Any) -> None:
    """The others go on."""

    @acrux.tool
    def other() -> int:
        return 1

    with acrux.run("agent", budget=RunBudget(max_calls_per_tool=limit)):
        lookup("a")
        lookup("b")
        assert "lookup was called 2 times" in str(refused(lookup, "c"))
        assert other() == 1


def test_the_same_call_may_be_repeated_so_often(exported: Any) -> None:
    """The same tool with the same arguments, however they were passed."""
    with acrux.run("agent", budget=RunBudget(max_repeats=1)):
        lookup("Berlin")
        lookup(city="Berlin")
        lookup("Paris")
        assert "lookup was called 2 times with the same arguments already" in str(refused(lookup, "Berlin"))
        lookup("Rome")
    hashes = [each.attributes.get("acrux.tool.arguments.hash") for each in exported.tools()]
    assert hashes[0] == hashes[1] and hashes[0] != hashes[2] and len(hashes[0]) == 32
    assert "Berlin" not in hashes[0]


def test_no_hash_is_recorded_under_capture_none(exported: Any) -> None:
    """The repeats are counted all the same."""
    settings.capture = 0
    with acrux.run("agent", budget=RunBudget(max_repeats=0)):
        lookup("a")
        refused(lookup, "a")
    assert not [each for each in exported.tools() if "acrux.tool.arguments.hash" in each.attributes]


def test_calls_that_did_not_run_and_resends_are_no_repeats() -> None:
    """What was refused, and what the batch runner sends again because it had to wait."""

    def resent(city: str) -> Any:
        token = EXPECTED.set(Expected("call_1", resend=True))
        try:
            return lookup.call(city)
        finally:
            EXPECTED.reset(token)

    with acrux.run("agent", budget=RunBudget(max_repeats=0, max_calls_per_tool={"never": 0})):
        lookup("a")
        resent("a")
        resent("a")
        refused(lookup, "a")
        lookup("b")


def test_a_call_that_a_circuit_refused_may_be_sent_again(clock: FakeClock) -> None:
    """It was told when to come back."""
    up = False

    @acrux.tool(guard=Guard(None, CircuitBreaker(failures=1, clock=clock), clock=clock))
    def service(x: int) -> str:
        if not up:
            raise ConnectionRefusedError
        return "fine"

    with RunBudget(max_repeats=0):
        with pytest.raises(ConnectionRefusedError):
            service(1)
        for _ in range(3):
            with pytest.raises(ToolUnavailable) as caught:
                service(2)
            assert caught.value.stop_reason == "tool_unavailable:circuit_open"
        clock.advance(21)
        up = True
        assert service(2) == "fine"
        refused(service, 2)


def test_failures_end_the_run() -> None:
    """Declared or raised; warnings are none."""

    @acrux.tool
    def shaky(how: str) -> Any:
        if how == "raise":
            raise ValueError
        return ToolResult.error("no", "no") if how == "error" else ToolResult.warn("hm", "hm")

    with acrux.run("agent", budget=RunBudget(max_failures=2)):
        shaky("warn")
        shaky("error")
        with pytest.raises(ValueError):
            shaky("raise")
        assert "2 failed tool calls" in str(refused(shaky, "warn"))


def test_elapsed_time_ends_the_run(clock: FakeClock) -> None:
    """And no wait between attempts goes past it."""
    from acrux_otel import Retry

    calls = 0

    @acrux.tool(guard=Guard(Retry(max_attempts=5, base_delay=20, max_delay=20, jitter=0), None, clock=clock))
    def down() -> None:
        nonlocal calls
        calls += 1
        raise ConnectionRefusedError

    with acrux.run("agent", budget=RunBudget(max_seconds=30, clock=clock)):
        with pytest.raises(ConnectionRefusedError):
            down()
        assert (calls, clock.slept) == (2, [20])
        clock.advance(11)
        assert "its 30 seconds" in str(refused(lookup, "a"))


def test_cost_ends_the_run() -> None:
    """Recorded in a tool, or for the model between tools."""

    @acrux.tool
    def priced() -> int:
        acrux.record_cost(0.4)
        return 1

    with acrux.run("agent", budget=RunBudget(max_cost=1)):
        priced()
        acrux.record_cost(0.3)
        priced()
        assert "the run has cost 1.1; its limit is 1" in str(refused(priced))


@pytest.mark.parametrize("amount", [-1, float("nan"), float("inf"), "1", True, None])
def test_a_senseless_cost_is_ignored_with_one_warning(amount: Any, caplog: pytest.LogCaptureFixture) -> None:
    """It must not fail the tool that records it."""
    with caplog.at_level(logging.WARNING), RunBudget(max_cost=1) as spent:
        acrux.record_cost(amount)
        acrux.record_cost(amount)
    assert spent.cost == 0
    assert len(caplog.records) == 1
    acrux.record_cost(1)  # outside of a budget


def test_some_codes_end_the_run() -> None:
    """`stop_on`: asking again would only be refused again."""

    class Denied(Exception):
        status_code = 403

    @acrux.tool
    def forbidden() -> None:
        raise Denied

    with acrux.run("agent", budget=RunBudget(stop_on={"http_401", "http_403"})) as run:
        with pytest.raises(Denied):
            forbidden()
        assert "failed with http_403, which ends the run" in str(refused(lookup, "a"))
    assert run.summary.stop_reason == "run_stopped:budget_exhausted"


# -- where it applies --------------------------------------------------------------------------------------


def test_a_budget_works_without_a_run() -> None:
    """`with RunBudget(...) as spending`; outside of it nothing is counted."""
    with RunBudget(max_calls=1) as spent:
        lookup("a")
        refused(lookup, "b")
    assert (spent.calls, spent.stop_reason) == (1, "run_stopped:budget_exhausted")
    assert spending() is None
    lookup("c")


def test_the_budgets_around_apply_too() -> None:
    """A run within a run cannot spend more than the outer one has."""
    with RunBudget(max_calls=2) as outer, acrux.run("inner", budget=RunBudget(max_calls=5)):
        lookup("a")
        lookup("b")
        refused(lookup, "c")
    assert outer.calls == 2


def test_a_decorated_run_has_its_budget_anew() -> None:
    """Each call of the function is a run."""

    @acrux.run("agent", budget=RunBudget(max_calls=1))
    def agent() -> None:
        lookup("a")
        refused(lookup, "b")

    agent()
    agent()


async def test_parallel_runs_count_for_themselves() -> None:
    """The context says which run a call belongs to."""

    async def agent(calls: int) -> int:
        async with acrux.run("agent", budget=RunBudget(max_calls=3)) as run:
            for number in range(calls):
                await asyncio.sleep(0)
                lookup(str(number))
        return run.summary.calls

    assert await asyncio.gather(agent(1), agent(2), agent(3)) == [1, 2, 3]


def test_parallel_calls_never_overshoot() -> None:
    """Taken before the body runs, under the lock."""
    import contextvars

    done: list[int] = []
    with acrux.run("agent", budget=RunBudget(max_calls=25)) as run:

        def work() -> None:
            for _ in range(10):
                try:
                    lookup("a")
                    done.append(1)
                except ToolUnavailable:
                    pass

        contexts = [contextvars.copy_context() for _ in range(8)]
        threads = [threading.Thread(target=each.run, args=(work,)) for each in contexts]
        for each in threads:
            each.start()
        for each in threads:
            each.join(20)
    assert len(done) == 25
    assert (run.summary.calls, run.summary.not_executed) == (25, 55)


async def test_every_kind_of_function_is_refused_in_its_own_way(exported: Any) -> None:
    """A coroutine when it is awaited, a generator at its first step, `.call` too."""

    @acrux.tool
    async def coroutine() -> None: ...

    @acrux.tool
    def generator() -> Any:
        yield 1

    @acrux.tool
    async def stream() -> Any:
        yield 1

    with RunBudget(max_calls_per_tool={"coroutine": 0, "generator": 0, "stream": 0, "lookup": 0}):
        with pytest.raises(ToolUnavailable):
            await coroutine()
        with pytest.raises(ToolUnavailable):
            next(generator())
        with pytest.raises(ToolUnavailable):
            await stream().__anext__()
        refused(lookup, "a")
        with pytest.raises(ToolUnavailable):
            lookup.call("a")
    assert [each.outcome for each in exported.tools()] == ["not_executed"] * 5


def test_a_guards_fallback_answers_also_for_the_budget(exported: Any) -> None:
    """The caller gets an answer, and the call still did not run."""

    @acrux.tool(guard=Guard(fallback="cached"))
    def priced() -> str:
        return "fresh"

    with RunBudget(max_calls=1):
        assert priced() == "fresh"
        answer = priced.call()
    assert (answer.value, answer.executed) == ("cached", False)
    span = exported.tools()[-1]
    assert (span.outcome, span.attributes["errorCode"]) == ("warning", "fallback_used")
    assert "run_stopped:budget_exhausted" in span.attributes["warning.message"]


def test_a_frameworks_tool_counts_and_a_decorated_one_in_it_is_refused(exported: Any) -> None:
    """One call is counted once, in whatever layers it is seen."""
    definition = lookup.__acrux_tool__.definition
    with RunBudget(max_calls=2) as spent:
        open_call(acrux.definition_of(test_budget_shaped)).ok("ran")
        assert spent.calls == 1
        call = open_call(definition, function=lookup)
        call.ok(lookup("a"))
        assert spent.calls == 2
        call = open_call(definition, function=lookup)
        exc = refused(lookup, "b")
        call.raised(exc)
    span = exported.tools()[-1]
    assert (span.outcome, call.executed) == ("not_executed", False)


def test_budget_shaped() -> None:
    """A retried call counts once: attempts are the guard's business."""
    calls = 0

    @acrux.tool(guard=Guard())
    def shaky() -> int:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise ConnectionRefusedError
        return calls

    with RunBudget(max_calls=1, max_failures=1) as spent:
        assert shaky() == 2
    assert (spent.calls, spent.failures) == (1, 0)


def test_what_is_left_is_a_metric() -> None:
    """The smallest share over the runs that are open; nothing where there are none."""
    reader = InMemoryMetricReader()
    settings.meter_provider = MeterProvider([reader])

    def read() -> list[float]:
        data: Any = reader.get_metrics_data()
        found = [
            point.value
            for r in (data.resource_metrics if data else ())
            for s in r.scope_metrics
            for m in s.metrics
            if m.name == "acrux.run.budget.left"
            for point in m.data.data_points
        ]
        return found

    with RunBudget(max_calls=4, max_cost=10):
        lookup("a")
        assert read() == [0.75]
        acrux.record_cost(9)
        assert read() == [pytest.approx(0.1)]
    assert read() == []


def test_arguments_that_cannot_be_compared_are_no_repeats(caplog: pytest.LogCaptureFixture) -> None:
    """One line in the log, and the calls go on."""

    @acrux.tool
    def odd(x: Any) -> int:
        return 1

    with caplog.at_level(logging.WARNING), RunBudget(max_repeats=0):
        assert odd(iter([])) == odd(iter([])) == 1
    assert len([each for each in caplog.records if "arguments were compared" in each.getMessage()]) == 1


# -- policy ------------------------------------------------------------------------------------------------


def test_a_tool_that_is_not_allowed_does_not_run(exported: Any) -> None:
    """`policy_denied`: a failure of the call, never retried, never covered by a fallback."""
    asked = 0

    @acrux.tool(guard=Guard(allowed={"read_invoice"}, fallback="covered"))
    def delete_invoice() -> None:
        nonlocal asked
        asked += 1

    with pytest.raises(ToolUnavailable) as caught:
        delete_invoice()
    assert caught.value.stop_reason == "tool_failure:policy_denied"
    assert caught.value.next_step == "escalate"
    assert asked == 0
    span = exported.only
    assert (span.outcome, span.status) == ("error", "ERROR")
    assert (span.attributes["errorType"], span.attributes["errorCode"]) == ("tool_declared", "policy_denied")
    assert span.attributes["acrux.tool.retryable"] is False
    assert span.attributes["acrux.tool.attempts"] == 0


def test_a_policy_may_look_at_the_arguments() -> None:
    """`fn(name, arguments)`, with the arguments as the model sees them."""
    seen: list[tuple[str, Mapping[str, Any]]] = []

    def allowed(name: str, arguments: Mapping[str, Any]) -> bool:
        seen.append((name, dict(arguments)))
        return arguments["amount"] <= 100

    @acrux.tool(guard=Guard(allowed=allowed))
    def pay(amount: int) -> str:
        return f"paid {amount}"

    assert pay(50) == "paid 50"
    with pytest.raises(ToolUnavailable, match="pay is not allowed with these arguments"):
        pay(amount=500)
    assert seen == [("pay", {"amount": 50}), ("pay", {"amount": 500})]


@pytest.mark.parametrize("answer", [ZeroDivisionError(), None, "yes", 1], ids=repr)
def test_without_an_answer_only_what_reads_may_run(answer: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Write tools fail closed, and one that says nothing may write."""

    def allowed(name: str, arguments: Mapping[str, Any]) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    def made(**annotations: bool) -> Any:
        said = ToolAnnotations(**annotations)
        return acrux.tool(name="tool", guard=Guard(allowed=allowed), annotations=said)(lambda: "ran")

    with caplog.at_level(logging.WARNING):
        for annotations in ({}, {"read_only": False}, {"destructive": True}):
            with pytest.raises(ToolUnavailable, match="the policy gave no answer"):
                made(**annotations)()
        assert made(read_only=True)() == "ran"
    assert len([each for each in caplog.records if "Guard(allowed=)" in each.getMessage()]) == 1


def test_a_denial_can_end_the_run() -> None:
    """`stop_on={"policy_denied"}`."""

    @acrux.tool(guard=Guard(allowed=()))
    def forbidden() -> None: ...

    with acrux.run("agent", budget=RunBudget(stop_on={"policy_denied"})):
        with pytest.raises(ToolUnavailable):
            forbidden()
        refused(lookup, "a")
