# SPDX-License-Identifier: Apache-2.0
"""Each call id gets one answer, in the order asked, and each call one span."""

from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import gc
import json
import threading
import time
from typing import Annotated, Any

import pydantic
import pytest
from opentelemetry import baggage
from opentelemetry.context import attach, detach

import acrux_otel as acrux
from acrux_otel import Outcome, ToolCall, arun_tool_calls, run_tool_calls, to_anthropic
from acrux_otel.testing import record_calls

VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")


def outcomes(results: Any) -> list[str]:
    return [each.verdict.outcome.value for each in results]


def by_id(exported: Any) -> dict[str, Any]:
    return {each.attributes["gen_ai.tool.call.id"]: each for each in exported.tools()}


# -- A19 -------------------------------------------------------------------------------------------------


@acrux.tool
def sync_tool() -> str:
    VARIABLE.set("changed by the tool")
    return str(baggage.get_baggage("who"))


@acrux.tool
async def async_tool() -> str:
    VARIABLE.set("changed by the tool")
    return str(baggage.get_baggage("who"))


@acrux.tool
async def variable() -> str:
    await asyncio.sleep(0.02)
    return VARIABLE.get()


def test_a19_every_call_belongs_to_the_callers_span(exported: Any, tracer: Any) -> None:
    """Sync and async tools have the caller's span as parent and its baggage, each in a context of its own."""
    calls = [ToolCall("1", "sync_tool", {}), ToolCall("2", "sync_tool", {}), ToolCall("3", "async_tool", {})]
    token = attach(baggage.set_baggage("who", "ada"))
    try:
        with tracer.start_as_current_span("agent"):
            results = run_tool_calls([*calls, ToolCall("4", "variable")], [sync_tool, async_tool, variable])
    finally:
        detach(token)
    agent = next(each for each in exported if each.name == "agent")
    assert {each.parent_id for each in exported.tools()} == {agent.span_id}
    assert {each.trace_id for each in exported.tools()} == {agent.trace_id}
    assert [each.value for each in results] == ["ada", "ada", "ada", "unset"]
    assert VARIABLE.get() == "unset"
    assert set(by_id(exported)) == {"1", "2", "3", "4"}


def test_a19_the_run_counts_the_calls_of_its_threads() -> None:
    """A batch's calls belong to the run that is current where it is asked for."""
    with acrux.run("agent") as run:
        run_tool_calls([ToolCall("1", "sync_tool"), ToolCall("2", "async_tool")], [sync_tool, async_tool])
    assert run.summary.calls == 2


# -- A20 -------------------------------------------------------------------------------------------------


class Boom(Exception):
    pass


@acrux.tool
async def ok() -> dict[str, int]:
    return {"n": 1}


@acrux.tool
async def boom() -> None:
    raise Boom("it broke: 503 of 402913")


@acrux.tool
async def slow_ok() -> dict[str, int]:
    await asyncio.sleep(0.05)
    return {"n": 3}


async def test_a20_a_raising_tool_costs_no_sibling_its_answer(exported: Any) -> None:
    """Results come in the order asked, the failed one has the exception's own words."""
    complaints: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    calls = [ToolCall("u1", "slow_ok", {}), ToolCall("u2", "boom", {}), ToolCall("u3", "ok", {})]
    results = await arun_tool_calls(calls, [ok, boom, slow_ok])
    assert [each.id for each in results] == ["u1", "u2", "u3"]
    assert [each.value for each in results] == [{"n": 3}, "it broke: 503 of 402913", {"n": 1}]
    assert isinstance(results[1].exception, Boom)
    message = to_anthropic(results)
    assert message == {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "u1", "content": '{"n":3}'},
            {
                "type": "tool_result",
                "tool_use_id": "u2",
                "content": "it broke: 503 of 402913",
                "is_error": True,
            },
            {"type": "tool_result", "tool_use_id": "u3", "content": '{"n":1}'},
        ],
    }
    statuses = {call_id: span.status for call_id, span in by_id(exported).items()}
    assert statuses == {"u1": "UNSET", "u2": "ERROR", "u3": "UNSET"}
    gc.collect()
    await asyncio.sleep(0)
    assert complaints == []
    assert asyncio.all_tasks() == {asyncio.current_task()}


def test_a_raised_message_is_passed_on_whole() -> None:
    """What the model reads is never cut, while the verdict's detail is."""

    @acrux.tool
    def chatty() -> None:
        raise ValueError("x" * 50_000)

    (result,) = run_tool_calls([ToolCall("1", "chatty")], [chatty])
    assert result.value == "x" * 50_000
    assert len(result.verdict.detail or "") <= 1024


# -- A21 -------------------------------------------------------------------------------------------------


def test_a21_unknown_tools_and_broken_arguments_never_reach_a_body(exported: Any) -> None:
    """They get a span with schema_mismatch, and words that the model can act on."""
    ran: list[str] = []

    @acrux.tool
    def search(q: str) -> str:
        ran.append(q)
        return q

    calls = [
        ToolCall("1", "no_such_tool", "{}"),
        ToolCall("2", "search", '{"q": "a'),
        ToolCall("3", "search", '{"q":"ok"}'),
        ToolCall("4", "search", '{"query":"ok"}'),
    ]
    results = run_tool_calls(calls, [search])
    assert ran == ["ok"]
    assert [each.executed for each in results] == [False, False, True, False]
    assert [each.verdict.code for each in results] == [
        "unknown_tool",
        "malformed_arguments",
        None,
        "invalid_arguments",
    ]
    assert results[0].value == "Unknown tool: no tool is named 'no_such_tool'."
    assert "not valid JSON" in results[1].value and '{"q": "a' in results[1].value
    assert "query: Unexpected argument; the tool takes q" in results[3].value
    spans = by_id(exported)
    for call_id in ("1", "2", "4"):
        assert spans[call_id].status == "ERROR"
        assert spans[call_id].attributes["errorType"] == "schema_mismatch"
        assert spans[call_id].attributes["acrux.tool.retryable"] is False
    assert spans["1"].attributes["gen_ai.tool.name"] == "no_such_tool"
    assert spans["3"].status == "UNSET"


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ("[1, 2]", "malformed_arguments", "got an array"),
        ('"text"', "malformed_arguments", "got a string"),
        ("null", "malformed_arguments", "got null"),
        ("7", "malformed_arguments", "got a number"),
        ([1], "malformed_arguments", "got an array"),
        ("[" * 100_000, "malformed_arguments", "nested too deeply"),
        ('{"q": ' + "9" * 5000 + "}", "malformed_arguments", "not valid JSON"),
        ('{"q": "secret-value", "n": "x"}', "invalid_arguments", "n: Input should be a valid integer"),
        ("{}", "invalid_arguments", "q: "),
    ],
)
def test_arguments_that_do_not_fit_are_told_without_their_values(
    exported: Any, arguments: Any, code: str, says: str
) -> None:
    """Each wrong argument is named with what was expected; no value of it reaches the span."""

    @acrux.tool
    def search(q: str, n: int = 1) -> str:
        raise AssertionError("the body ran")

    (result,) = run_tool_calls([ToolCall("1", "search", arguments)], [search])
    assert (result.verdict.code, result.executed) == (code, False)
    assert says in result.value
    assert len(result.value) < 400
    assert "secret-value" not in exported.only.everything()


def test_no_arguments_are_an_empty_object() -> None:
    """None, empty and blank text mean that there are none."""

    @acrux.tool
    def now() -> str:
        return "noon"

    calls = [ToolCall(str(place), "now", given) for place, given in enumerate((None, "", "  ", b"", {}))]
    assert [each.value for each in run_tool_calls(calls, [now])] == ["noon"] * 5


def test_arguments_are_coerced_and_models_are_instances() -> None:
    """The body gets what its annotations say, as pydantic makes it of the JSON."""

    class Place(pydantic.BaseModel):
        city: str

    @dataclasses.dataclass
    class Size:
        width: int

    seen: list[Any] = []

    @acrux.tool
    def book(place: Place, size: Size, nights: Annotated[int, pydantic.Field(ge=1)]) -> None:
        seen.extend((place, size, nights))

    given = {"place": {"city": "Kathmandu"}, "size": {"width": "3"}, "nights": "2"}
    (result,) = run_tool_calls([ToolCall("1", "book", json.dumps(given))], [book])
    assert result.verdict.outcome is Outcome.OK
    assert seen == [Place(city="Kathmandu"), Size(3), 2]


def test_a_schema_given_by_the_owner_holds_too() -> None:
    """What `parameters=` forbids is refused, also where the signature would take it."""

    @acrux.tool(
        parameters={
            "type": "object",
            "properties": {"unit": {"type": "string", "enum": ["C", "F"]}},
            "required": ["unit"],
        }
    )
    def convert(unit: str) -> str:
        return unit

    results = run_tool_calls(
        [ToolCall("1", "convert", {"unit": "K"}), ToolCall("2", "convert", {"unit": "C"})], [convert]
    )
    assert [each.verdict.code for each in results] == ["invalid_arguments", None]
    assert "unit" in results[0].value


# -- bad input -------------------------------------------------------------------------------------------


def test_the_second_call_of_an_id_does_not_run(exported: Any) -> None:
    """A duplicate id is not executed and stops nobody; the message answers the id once."""
    ran: list[int] = []

    @acrux.tool
    def note(n: int) -> int:
        ran.append(n)
        return n

    calls = [
        ToolCall("a", "note", {"n": 1}),
        ToolCall("a", "note", {"n": 2}),
        ToolCall("b", "note", {"n": 3}),
    ]
    results = run_tool_calls(calls, [note], order="sequential")
    assert ran == [1, 3]
    assert outcomes(results) == ["ok", "not_executed", "ok"]
    assert results[1].value == "Not executed: the call id 'a' was used before in this turn."
    assert [block["tool_use_id"] for block in to_anthropic(results)["content"]] == ["a", "b"]
    assert len(exported.tools()) == 3


def test_whatever_a_tool_returns_becomes_one_answer() -> None:
    """An exception object is no raise, a generator runs to its end, the rest is its repr, 10 MB are whole."""

    class Odd:
        def __repr__(self) -> str:
            return "<odd>"

    class Worse:
        def __repr__(self) -> str:
            raise RuntimeError

    circle: list[Any] = []
    circle.append(circle)
    given = {
        "exception": ValueError("kept"),
        "odd": Odd(),
        "worse": Worse(),
        "circle": circle,
        "big": "x" * 10_000_000,
        "surrogate": "a\ud800b",
        "nested": {"text": "a\ud800b"},
        "bytes": b"\xff\x00",
        "none": None,
        "nan": float("nan"),
    }

    @acrux.tool
    def give(name: str) -> Any:
        return given[name]

    @acrux.tool
    def count() -> Any:
        yield from range(3)

    @acrux.tool
    def late() -> Any:
        async def made() -> int:
            return 7

        return made()

    calls = [ToolCall(name, "give", {"name": name}) for name in given]
    calls += [ToolCall("count", "count"), ToolCall("late", "late")]
    results = run_tool_calls(calls, [give, count, late])
    assert set(outcomes(results)) == {"ok"}
    said = {block["tool_use_id"]: block["content"] for block in to_anthropic(results)["content"]}
    assert said["exception"] == "ValueError: kept"
    assert said["odd"] == '"<odd>"'
    assert "Worse" in said["worse"]
    assert "..." in said["circle"]
    assert said["big"] == given["big"]
    assert said["surrogate"] == "a�b"
    assert (said["none"], said["nan"], said["count"], said["late"]) == ("null", "NaN", "[0,1,2]", "7")
    json.dumps(said).encode()
    for text in said.values():
        text.encode()


@pytest.mark.parametrize(
    "error", [ValueError(), StopIteration("x"), GeneratorExit(), asyncio.CancelledError()]
)
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_nothing_that_a_tool_raises_comes_out(kind: str, error: BaseException) -> None:
    """Also what asyncio and generators treat in their own way is one answer, and not an empty one."""

    @acrux.tool
    def sync_raiser() -> None:
        raise error

    @acrux.tool
    async def async_raiser() -> None:
        raise error

    results = run_tool_calls(
        [ToolCall("1", f"{kind}_raiser"), ToolCall("2", "ok")], [sync_raiser, async_raiser, ok]
    )
    assert results[0].verdict.outcome is not Outcome.OK
    assert results[0].value and results[0].exception is not None
    assert results[1].value == {"n": 1}


def test_an_exception_that_cannot_say_its_message_is_told_by_its_class() -> None:
    """A raising __str__ changes nothing."""

    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    @acrux.tool
    def mute() -> None:
        raise Mute

    (result,) = run_tool_calls([ToolCall("1", "mute")], [mute])
    assert result.value == "Mute without a message"


def test_a_pause_is_answered_as_one() -> None:
    """An exception of control_flow= is no failure; the program finds it on the result."""

    class NeedsApproval(Exception):
        pass

    @acrux.tool(control_flow=(NeedsApproval,))
    def pay() -> None:
        raise NeedsApproval("over 100 USD")

    results = run_tool_calls([ToolCall("1", "pay"), ToolCall("2", "ok")], [pay, ok], order="sequential")
    assert outcomes(results) == ["interrupted", "not_executed"]
    assert results[0].value == "Interrupted: over 100 USD"
    assert isinstance(results[0].exception, NeedsApproval)
    assert results[1].value == "Not executed: the preceding pay call was interrupted."


# -- tools -----------------------------------------------------------------------------------------------


class Shop:
    def __init__(self, name: str) -> None:
        self.name = name

    @acrux.tool
    def sell(self, item: str) -> str:
        return f"{self.name} sold {item}"

    @acrux.tool
    async def order(self, item: str) -> str:
        return f"{self.name} ordered {item}"

    @acrux.tool
    @staticmethod
    def hours() -> str:
        return "9-17"


def test_methods_and_plain_callables_are_tools_too(exported: Any) -> None:
    """A dict's name is the one that the model knows; what is not decorated is recorded all the same."""
    shop = Shop("Ada's")

    def plain(a: int) -> int:
        return a + 1

    tools = {"sell": shop.sell, "order": shop.order, "hours": Shop.hours, "add": plain, "shout": str.upper}
    calls = [
        ToolCall("1", "sell", {"item": "tea"}),
        ToolCall("2", "order", {"item": "tea"}),
        ToolCall("3", "hours"),
        ToolCall("4", "add", {"a": "4"}),
        ToolCall("5", "add", {"a": "four"}),
    ]
    results = run_tool_calls(calls, tools)
    assert [each.value for each in results[:4]] == ["Ada's sold tea", "Ada's ordered tea", "9-17", 5]
    assert results[4].verdict.code == "invalid_arguments"
    assert [each.attributes["gen_ai.tool.name"] for each in by_id(exported).values()].count("add") == 2


def test_a_name_given_in_a_dict_wins(exported: Any) -> None:
    """The result has the model's name; the span has the tool's own."""

    @acrux.tool(name="search_v2")
    def search() -> str:
        return "found"

    (result,) = run_tool_calls([ToolCall("1", "search")], {"search": search})
    assert (result.name, result.value) == ("search", "found")
    assert exported.only.attributes["gen_ai.tool.name"] == "search_v2"


def test_client_tools_are_not_for_the_catalog(exported: Any) -> None:
    """They get the options of `@tool(sync=False)`, once however often a turn hands them in."""
    from acrux_otel.tool import loaded_tools

    def charge(amount: float) -> dict[str, float]:
        return {"charged": amount}

    for turn in ("1", "2"):
        (result,) = run_tool_calls(
            [ToolCall(turn, "charge", {"amount": 3})], [], client_tools={"charge@production": charge}
        )
        assert result.value == {"charged": 3.0}
    (made,) = [each for each in loaded_tools() if each.definition.name == "charge"]
    assert (made.options["sync"], made.options["alias"]) == (False, "production")


class Session:
    pass


def test_injected_parameters_come_from_the_program() -> None:
    """The model neither sees nor fills them; where nobody does, it is said before anything runs."""

    @acrux.tool(inject=(Session,))
    def whoami(session: Session, loud: bool = False) -> str:
        return f"{type(session).__name__}{'!' if loud else ''}"

    call = ToolCall("1", "whoami", {"loud": True})
    (result,) = run_tool_calls([call], [whoami], inject={Session: Session()})
    assert result.value == "Session!"
    with pytest.raises(TypeError, match=r"needs its parameter .session. filled in; pass inject"):
        run_tool_calls([call], [whoami])


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"order": "random"}, "order is 'random'; expected 'auto', 'parallel' or 'sequential'"),
        ({"timeout": 0}, "timeout is 0; expected seconds greater than 0, or None"),
        ({"timeout": float("inf")}, "timeout is inf"),
        ({"timeout": True}, "timeout is True"),
        ({"max_concurrency": 0}, "max_concurrency is 0; expected a whole number from 1"),
        ({"tools": [ok, ok]}, "two tools are named 'ok'"),
        ({"tools": [3]}, "tools holds 3; expected functions decorated with @tool"),
        ({"tools": ok}, "tools is <function"),
        ({"tools": {"x": 3}}, "the tool 'x' is 3; expected a function"),
        ({"calls": "ok"}, "calls is a str; expected ToolCall"),
        ({"calls": 3}, "calls is a int; expected ToolCall"),
        ({"after": {"9": ["1"]}}, "after= names the call '9', which is not among the calls of this turn"),
        ({"after": {"1": ["9"]}}, "call '1' is to run after '9', which is not among the calls of this turn"),
        ({"after": {"1": ["1"]}}, "call '1' is to run after itself"),
        ({"after": {"1": "2", "2": "1"}}, "in a circle"),
        ({"session": 3}, "session is a int; expected a ToolSession"),
        ({"client_tools": [ok]}, "client_tools is a list; expected a dict of functions by name"),
        ({"toolsets": {"phone": ok}}, "toolsets has 'phone'; there are 'computer' and 'browser'"),
        ({"toolsets": {"browser": ok}, "order": "parallel"}, 'order="parallel" does not go with'),
    ],
)
def test_a_programs_mistake_is_told_before_anything_runs(arguments: dict[str, Any], error: str) -> None:
    """One line: what was given, what was expected."""
    given = {"calls": [ToolCall("1", "ok"), ToolCall("2", "ok")], "tools": [ok], **arguments}
    with record_calls() as recorded, pytest.raises((TypeError, ValueError)) as caught:
        run_tool_calls(given.pop("calls"), given.pop("tools"), **given)
    assert error in str(caught.value)
    assert "\n" not in str(caught.value)
    assert recorded == []


def test_no_calls_are_no_turn() -> None:
    """A message of words only has no results."""
    assert run_tool_calls({"role": "assistant", "content": "done"}, [ok]) == []


# -- where it runs ---------------------------------------------------------------------------------------


async def test_the_sync_form_works_where_a_loop_runs(exported: Any, tracer: Any) -> None:
    """It gets a loop of its own in a thread, with the caller's context."""
    with tracer.start_as_current_span("agent"):
        results = run_tool_calls([ToolCall("1", "ok"), ToolCall("2", "sync_tool")], [ok, sync_tool])
    assert outcomes(results) == ["ok", "ok"]
    agent = next(each for each in exported if each.name == "agent")
    assert {each.parent_id for each in exported.tools()} == {agent.span_id}


def test_the_sync_form_leaves_the_threads_event_loop_alone() -> None:
    """`asyncio.run` would set it to none, which breaks programs that ask for theirs."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        run_tool_calls([ToolCall("1", "ok")], [ok])
        assert asyncio.get_event_loop_policy().get_event_loop() is loop
    finally:
        asyncio.set_event_loop(None)
        loop.close()


async def test_sync_tools_do_not_hold_the_loop() -> None:
    """While one sleeps in its thread, the loop goes on."""

    @acrux.tool
    def sleeper() -> str:
        time.sleep(0.3)
        return threading.current_thread().name

    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    ticking = asyncio.create_task(tick())
    (result,) = await arun_tool_calls([ToolCall("1", "sleeper")], [sleeper])
    ticking.cancel()
    assert result.value.startswith("acrux-otel")
    assert ticks >= 5


def test_metrics_count_calls_in_flight_and_time_only_what_ran() -> None:
    """The in-flight gauge rises while tools run and falls again; a refused call has no duration."""
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    from acrux_otel.settings import settings

    reader = InMemoryMetricReader()
    settings.meter_provider = MeterProvider([reader])
    barrier = threading.Barrier(3)

    @acrux.tool
    def meet() -> str:
        barrier.wait(5)
        barrier.wait(5)
        return "met"

    seen: list[Any] = []

    def look() -> None:
        barrier.wait(5)
        seen.append(read("acrux.tool.in_flight"))
        barrier.wait(5)

    def read(name: str) -> dict[str, Any]:
        data = reader.get_metrics_data()
        return {
            point.attributes["gen_ai.tool.name"]: getattr(point, "value", getattr(point, "count", None))
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        }

    watcher = threading.Thread(target=look)
    watcher.start()
    run_tool_calls([ToolCall("1", "meet"), ToolCall("2", "meet"), ToolCall("3", "nothing")], [meet])
    watcher.join(5)
    assert seen[0]["meet"] == 2
    assert read("acrux.tool.in_flight") == {"meet": 0}  # a made-up name leaves no series
    assert read("gen_ai.execute_tool.duration") == {"meet": 2}
