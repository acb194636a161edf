# SPDX-License-Identifier: Apache-2.0
"""Which calls run together, which wait, and which do not run."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import acrux_otel as acrux
from acrux_otel import ToolAnnotations, ToolCall, ToolSession, arun_tool_calls, run_tool_calls


class Log:
    """What ran when: `("begin", "a")` and `("end", "a")`."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []
        self.running = 0
        self.most = 0
        self._lock = threading.Lock()

    def begin(self, name: str) -> None:
        with self._lock:
            self.events.append(("begin", name))
            self.running += 1
            self.most = max(self.most, self.running)

    def end(self, name: str) -> None:
        with self._lock:
            self.events.append(("end", name))
            self.running -= 1

    def alone(self, name: str) -> bool:
        """Whether nothing else ran between its begin and its end."""
        return self.events.index(("end", name)) == self.events.index(("begin", name)) + 1

    def before(self, first: str, then: str) -> bool:
        return self.events.index(("end", first)) < self.events.index(("begin", then))

    def ran(self) -> list[str]:
        return [name for what, name in self.events if what == "begin"]


@pytest.fixture
def log() -> Log:
    return Log()


def make(
    log: Log, name: str, hints: ToolAnnotations | None = None, *, fails: bool = False, wait: float = 0.05
) -> Any:
    async def body() -> str:
        log.begin(name)
        await asyncio.sleep(wait)
        log.end(name)
        if fails:
            return acrux.ToolResult.error("failed", f"{name} failed")
        return name

    return acrux.tool(name=name, annotations=hints)(body)


READS = ToolAnnotations(read_only=True)
WRITES = ToolAnnotations(read_only=False)
DESTROYS = ToolAnnotations(destructive=True)


def calls(text: str) -> list[ToolCall]:
    return [ToolCall(name, name) for name in text.split()]


def outcomes(results: Any) -> list[str]:
    return [each.verdict.outcome.value for each in results]


# -- auto ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hints", [None, READS, ToolAnnotations(idempotent=True, open_world=True)])
def test_auto_runs_tools_together_that_are_not_said_to_write(log: Log, hints: Any) -> None:
    """Unannotated tools run together, as everywhere today."""
    run_tool_calls(calls("a b c"), [make(log, name, hints) for name in "abc"])
    assert log.most == 3


@pytest.mark.parametrize("hints", [WRITES, DESTROYS])
def test_auto_runs_a_writer_alone_and_in_its_place(log: Log, hints: Any) -> None:
    """What was asked before it is over, what was asked behind it has not begun."""
    tools = [make(log, "a"), make(log, "b"), make(log, "w", hints), make(log, "c"), make(log, "d")]
    results = run_tool_calls(calls("a b w c d"), tools)
    assert log.alone("w")
    assert log.before("a", "w") and log.before("b", "w") and log.before("w", "c") and log.before("w", "d")
    assert log.most == 2
    assert outcomes(results) == ["ok"] * 5


def test_auto_stops_at_the_first_failure_of_a_writer(log: Log, exported: Any) -> None:
    """The rest is not executed and says so; what ran before stays."""
    tools = [make(log, "a"), make(log, "w", WRITES, fails=True), make(log, "b"), make(log, "v", WRITES)]
    results = run_tool_calls(calls("a w b v"), tools)
    assert outcomes(results) == ["ok", "error", "not_executed", "not_executed"]
    assert [each.value for each in results[2:]] == ["Not executed: the preceding w call failed."] * 2
    assert [each.executed for each in results] == [True, True, False, False]
    assert log.ran() == ["a", "w"]
    skipped = [each for each in exported.tools() if each.outcome == "not_executed"]
    assert [each.status for each in skipped] == ["UNSET", "UNSET"]
    assert {each.attributes["acrux.tool.not_executed_reason"] for each in skipped} == {
        "the preceding w call failed."
    }
    assert {each.attributes["gen_ai.tool.call.id"] for each in skipped} == {"b", "v"}
    assert not any("errorType" in each.attributes for each in skipped)


def test_auto_goes_on_after_a_readers_failure(log: Log) -> None:
    """A tool that is not said to write stops nobody."""
    tools = [make(log, "a", fails=True), make(log, "w", WRITES), make(log, "b")]
    assert outcomes(run_tool_calls(calls("a w b"), tools)) == ["error", "ok", "ok"]


def test_a_writer_that_is_refused_stops_the_rest_too(log: Log) -> None:
    """Arguments that do not fit are a failure like any other."""
    tools = [make(log, "w", WRITES), make(log, "b")]
    results = run_tool_calls([ToolCall("w", "w", {"x": 1}), ToolCall("b", "b")], tools)
    assert outcomes(results) == ["error", "not_executed"]
    assert log.ran() == []


def test_a_warning_is_no_failure() -> None:
    """Neither for the order nor for the model."""

    @acrux.tool(annotations=WRITES)
    def w() -> Any:
        return acrux.ToolResult.warn("old", "six hours old", "data")

    @acrux.tool
    def b() -> str:
        return "b"

    results = run_tool_calls(calls("w b"), [w, b], order="sequential")
    assert outcomes(results) == ["warning", "ok"]
    assert "is_error" not in acrux.to_anthropic(results)["content"][0]


# -- parallel and sequential -----------------------------------------------------------------------------


def test_parallel_runs_writers_together_too(log: Log) -> None:
    """What is asked for explicitly is done, and no failure stops anybody."""
    tools = [make(log, "v", WRITES, fails=True), make(log, "w", WRITES), make(log, "a")]
    results = run_tool_calls(calls("v w a"), tools, order="parallel")
    assert log.most == 3
    assert outcomes(results) == ["error", "ok", "ok"]


def test_sequential_runs_one_by_one_and_stops_at_the_first_failure(log: Log) -> None:
    """The rest is answered with the words that name the call that failed."""
    tools = [make(log, "a"), make(log, "b", fails=True), make(log, "c"), make(log, "d")]
    results = run_tool_calls(calls("a b c d"), tools, order="sequential")
    assert log.most == 1
    assert log.ran() == ["a", "b"]
    assert outcomes(results) == ["ok", "error", "not_executed", "not_executed"]
    assert results[3].value == "Not executed: the preceding b call failed."
    assert results[1].value == "b failed"


def test_sequential_stops_at_an_unknown_tool(log: Log) -> None:
    """It failed, whether or not a body ran."""
    results = run_tool_calls(calls("nothing a"), [make(log, "a")], order="sequential")
    assert outcomes(results) == ["error", "not_executed"]


def test_a_long_sequence_of_skips_ends(log: Log) -> None:
    """Two thousand skipped calls are answered without two thousand frames."""
    tools = [make(log, "a", fails=True, wait=0)]
    asked = [ToolCall(str(place), "a") for place in range(2000)]
    results = run_tool_calls(asked, tools, order="sequential")
    assert outcomes(results) == ["error"] + ["not_executed"] * 1999


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_no_more_calls_run_than_may(log: Log, limit: int) -> None:
    """`max_concurrency` holds for sync and async tools together."""

    def blocking() -> None:
        log.begin("s")
        threading.Event().wait(0.03)
        log.end("s")

    tools = {"s": blocking, "a": make(log, "a", wait=0.03)}
    asked = [ToolCall(str(place), "s" if place % 2 else "a") for place in range(8)]
    results = run_tool_calls(asked, tools, max_concurrency=limit)
    assert log.most == limit
    assert outcomes(results) == ["ok"] * 8


# -- after -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["auto", "parallel", "sequential"])
def test_a_call_runs_after_those_it_names(log: Log, order: Any) -> None:
    """Whatever the order and whichever was asked first; results stay in the order asked."""
    tools = [make(log, name) for name in "abc"]
    asked = [ToolCall("a", "a", after=("c",)), ToolCall("b", "b"), ToolCall("c", "c")]
    results = run_tool_calls(asked, tools, order=order)
    assert log.before("c", "a")
    assert [each.id for each in results] == ["a", "b", "c"]


def test_dependencies_of_a_providers_message_are_given_by_id(log: Log) -> None:
    """`after=` says what the message cannot."""
    message = [
        {"type": "tool_use", "id": "u1", "name": "a", "input": {}},
        {"type": "tool_use", "id": "u2", "name": "b", "input": {}},
    ]
    run_tool_calls(message, [make(log, "a"), make(log, "b")], after={"u1": "u2"})
    assert log.before("b", "a")


def test_a_call_does_not_run_when_one_that_it_names_failed(log: Log) -> None:
    """Nor do those that name it; the others do."""
    tools = [make(log, "a", fails=True), make(log, "b"), make(log, "c"), make(log, "d")]
    asked = [
        ToolCall("a", "a"),
        ToolCall("b", "b", after=("a",)),
        ToolCall("c", "c", after=("b",)),
        ToolCall("d", "d"),
    ]
    results = run_tool_calls(asked, tools, order="parallel")
    assert outcomes(results) == ["error", "not_executed", "not_executed", "ok"]
    assert [each.value for each in results[1:3]] == ["Not executed: the preceding a call failed."] * 2


# -- what a session remembers ----------------------------------------------------------------------------


class Store:
    """A writer that takes its time, and a reader that fails until it is done."""

    def __init__(self, log: Log, hints: ToolAnnotations | None = WRITES) -> None:
        self.there = False

        async def create() -> str:
            self.there = False
            log.begin("create")
            await asyncio.sleep(0.05)
            self.there = True
            log.end("create")
            return "created"

        async def read() -> str:
            log.begin("read")
            await asyncio.sleep(0.01)
            log.end("read")
            return "read" if self.there else acrux.ToolResult.error("not_found", "it is not there")

        self.tools = [acrux.tool(annotations=hints)(create), acrux.tool(read)]


def test_a_resent_dependency_failure_runs_in_order_for_one_turn(log: Log) -> None:
    """The reader that failed beside the writer waits for it next turn, and not the turn after."""
    store, session = Store(log), ToolSession()
    asked = calls("read create")
    first = run_tool_calls(asked, store.tools, order="parallel", session=session)
    assert outcomes(first) == ["error", "ok"]
    assert session.dependencies == {("create", "read")}
    second = run_tool_calls(asked, store.tools, order="parallel", session=session)
    assert outcomes(second) == ["ok", "ok"]
    assert session.dependencies == frozenset()
    third = run_tool_calls(asked, store.tools, order="parallel", session=session)
    assert outcomes(third) == ["error", "ok"]


def test_a_turn_between_forgets(log: Log) -> None:
    """It is the next turn that counts."""
    store, session = Store(log), ToolSession()
    run_tool_calls(calls("create read"), store.tools, order="parallel", session=session)
    run_tool_calls(calls("read"), store.tools, session=session)
    assert session.dependencies == frozenset()


def test_a_resent_call_alone_is_not_held_back(log: Log) -> None:
    """Without the other one there is nothing to wait for."""
    store, session = Store(log), ToolSession()
    run_tool_calls(calls("create read"), store.tools, order="parallel", session=session)
    assert outcomes(run_tool_calls(calls("read"), store.tools, session=session)) == ["ok"]


def test_the_later_one_does_not_run_where_the_earlier_failed(log: Log) -> None:
    """In order means in order."""
    store, session = Store(log), ToolSession()
    run_tool_calls(calls("create read"), store.tools, order="parallel", session=session)
    broken = [make(log, "create", WRITES, fails=True), store.tools[1]]
    results = run_tool_calls(calls("read create"), broken, order="parallel", session=session)
    assert results[0].value == "Not executed: the preceding create call failed."


@pytest.mark.parametrize("hints", [None, READS])
def test_tools_that_are_not_said_to_write_explain_no_failure(log: Log, hints: Any) -> None:
    """Beside them, a failure is a failure, unless the session was told."""
    store, session = Store(log, hints), ToolSession()
    run_tool_calls(calls("create read"), store.tools, session=session)
    assert session.dependencies == frozenset()
    told = ToolSession(after={"read": ["create"]})
    run_tool_calls(calls("create read"), store.tools, session=told)
    assert told.dependencies == {("create", "read")}
    assert outcomes(run_tool_calls(calls("create read"), store.tools, session=told)) == ["ok", "ok"]


def test_a_writer_that_was_over_before_explains_no_failure(log: Log) -> None:
    """They did not overlap in time."""
    session = ToolSession()
    tools = [make(log, "w", WRITES, wait=0), make(log, "b", fails=True)]
    run_tool_calls(calls("w b"), tools, order="sequential", session=session)
    assert session.dependencies == frozenset()


def test_a_writer_that_failed_too_explains_no_failure(log: Log) -> None:
    """There is nothing yet that waiting would have helped."""
    session = ToolSession()
    tools = [make(log, "w", WRITES, fails=True), make(log, "b", fails=True, wait=0.01)]
    run_tool_calls(calls("w b"), tools, order="parallel", session=session)
    assert session.dependencies == frozenset()


def test_a_call_that_did_not_run_is_no_dependency_failure(log: Log) -> None:
    """Wrong arguments do not come right by waiting."""
    session = ToolSession()
    tools = [make(log, "w", WRITES), make(log, "b")]
    asked = [ToolCall("w", "w"), ToolCall("b", "b", {"x": 1})]
    run_tool_calls(asked, tools, order="parallel", session=session)
    assert session.dependencies == frozenset()


def test_two_calls_of_one_tool_that_collide_run_in_the_order_asked(log: Log) -> None:
    """The same tool can be both sides of a dependency."""
    session, held = ToolSession(), set()

    async def put(n: int) -> str:
        if held:
            return acrux.ToolResult.error("locked", "somebody writes")
        held.add(n)
        await asyncio.sleep(0.03)
        held.discard(n)
        return "done"

    tools = [acrux.tool(annotations=WRITES)(put)]
    asked = [ToolCall("1", "put", {"n": 1}), ToolCall("2", "put", {"n": 2})]
    assert outcomes(run_tool_calls(asked, tools, order="parallel", session=session)) == ["ok", "error"]
    assert outcomes(run_tool_calls(asked, tools, order="parallel", session=session)) == ["ok", "ok"]


def test_what_is_remembered_never_contradicts_what_was_said(log: Log) -> None:
    """An explicit order wins over a remembered one."""
    store, session = Store(log), ToolSession()
    run_tool_calls(calls("create read"), store.tools, order="parallel", session=session)
    asked = [ToolCall("create", "create", after=("read",)), ToolCall("read", "read")]
    log.events.clear()
    run_tool_calls(asked, store.tools, session=session)
    assert log.before("read", "create")


async def test_a_session_has_the_results_of_its_last_turn(log: Log) -> None:
    """The same objects that were returned."""
    session = ToolSession()
    results = await arun_tool_calls(calls("a"), [make(log, "a")], session=session)
    assert session.results == results


def test_a_session_refuses_what_is_no_mapping() -> None:
    """One line."""
    with pytest.raises(TypeError, match=r"ToolSession\(after=\) is a list; expected tool names by tool name"):
        ToolSession(after=["a"])  # type: ignore[arg-type]
