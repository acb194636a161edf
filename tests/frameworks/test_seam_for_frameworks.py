# SPDX-License-Identifier: Apache-2.0
"""What the seam promises to a framework's hook."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from acrux_otel_instrumentation.definitions import FrameworkDefinition
from opentelemetry.trace import Status, StatusCode

import acrux_otel
from acrux_otel import Outcome, ToolResult, Verdict
from acrux_otel.seam import current_call, open_call
from acrux_otel.testing import record_calls
from tests.conftest import Exported

DEFINITION = FrameworkDefinition("forecast", description="Tell the weather.")
FAILED = Verdict(Outcome.ERROR, acrux_otel.ErrorType.TOOL_DECLARED, "no_station", "no station nearby")


@pytest.mark.parametrize("later", [StatusCode.OK, StatusCode.ERROR])
def test_a_framework_cannot_take_back_the_error_on_its_span(
    later: StatusCode, exported: Exported, tracer: Any
) -> None:
    """OK set by the framework, or an ERROR without a description, does not replace the verdict."""
    with tracer.start_as_current_span("tools/call forecast") as span:
        open_call(DEFINITION, span=span).declared(FAILED)
        span.set_status(Status(later))
    (made,) = exported
    assert (made.status, made.description) == ("ERROR", "no station nearby")


def test_a_framework_does_not_record_the_exception_again(exported: Exported, tracer: Any) -> None:
    """One exception event is enough, also where the framework records what it lets escape."""
    with (
        pytest.raises(LookupError),
        tracer.start_as_current_span("tools/call forecast") as span,
    ):
        try:
            raise LookupError("nowhere")
        except LookupError as error:
            open_call(DEFINITION, span=span).raised(error)
            raise
    (made,) = exported
    assert [name for name, _ in made.events] == ["exception"]


def test_an_ok_call_leaves_the_frameworks_span_to_the_framework(exported: Exported, tracer: Any) -> None:
    """Nothing of the framework's is held back where there is nothing to protect."""
    with tracer.start_as_current_span("tools/call forecast") as span:
        open_call(DEFINITION, span=span).ok({"temp": 3})
        span.set_status(Status(StatusCode.OK))
    (made,) = exported
    assert (made.status, made.outcome) == ("OK", "ok")


def test_a_swallowed_exception_is_the_verdict_of_the_answer(exported: Exported) -> None:
    """What the framework answers in its own words is judged by what the tool raised, with its one event."""
    call = open_call(DEFINITION)
    try:
        raise ConnectionRefusedError("nobody listens")
    except ConnectionRefusedError as error:
        call.swallowed(error)
    assert call.ok("Something went wrong.") == "Something went wrong."
    assert exported.only.attributes["errorCode"] == "connection_refused"
    assert [name for name, _ in exported.only.events] == ["exception"]


def test_an_inner_exception_that_the_framework_wraps_keeps_its_verdict(exported: Exported) -> None:
    """Control flow of a decorated function stays control flow inside the framework's own exception."""

    class Ask(Exception):
        pass

    @acrux_otel.tool(name="other", control_flow=(Ask,))
    def forecast() -> str:
        raise Ask

    call = open_call(FrameworkDefinition("forecast"), function=forecast)
    try:
        try:
            forecast()
        except Ask as error:
            raise RuntimeError("wrapped") from error
    except RuntimeError as error:
        call.raised(error)
    assert exported.only.outcome == "interrupted"


def test_a_result_on_its_way_is_unwrapped_as_the_function_promises(exported: Exported) -> None:
    """A ToolResult of a tool annotated -> str is its message, of any other the error dict; None is left."""

    def text() -> str: ...

    def data() -> dict: ...

    for function, expected in ((text, "no such city"), (data, {"error": "no such city"})):
        call = open_call(FrameworkDefinition(function.__name__), function=function)
        assert call.unwrapped(ToolResult.error("location_not_found", "no such city")) == expected
        assert call.unwrapped(None) is None
        call.ok(expected)
    assert [each.attributes["errorCode"] for each in exported.tools()] == ["location_not_found"] * 2


def test_arguments_are_made_only_when_somebody_reads_them(exported: Exported) -> None:
    """Arguments may be given as what makes them, which runs once, and not at all where nobody asks."""
    made: list[int] = []

    def arguments() -> Mapping[str, Any]:
        made.append(1)
        return {"city": "Rome"}

    open_call(DEFINITION, arguments=arguments).ok(1)
    assert made == []
    with record_calls() as calls:
        open_call(DEFINITION, arguments=arguments).ok(1)
    assert (calls.last.arguments, made) == ({"city": "Rome"}, [1])


async def test_a_call_on_the_other_side_of_a_queue_is_part_of_the_one_that_waits(
    exported: Exported, tracer: Any
) -> None:
    """`within` joins across tasks: one call, the body's spans below it, and nothing left current."""
    outer = open_call(DEFINITION)
    queue: asyncio.Queue[Any] = asyncio.Queue()

    async def serve() -> None:
        inner = open_call(FrameworkDefinition("forecast"), within=await queue.get())
        with tracer.start_as_current_span("inside"):
            pass
        inner.raised(ConnectionRefusedError("nobody listens"))
        assert current_call() is None

    import contextvars

    with record_calls() as calls:
        task = asyncio.create_task(serve(), **_in(contextvars.Context()))
        await queue.put(outer)
        await task
        outer.ok("an answer")
    (inside,) = [each for each in exported if each.name == "inside"]
    assert inside.parent_id == exported.only.span_id
    assert exported.only.attributes["errorCode"] == "connection_refused"
    assert len(calls) == 1


def _in(context: Any) -> dict[str, Any]:
    import sys

    if sys.version_info < (3, 11):
        pytest.skip("tasks take no context before 3.11")
    return {"context": context}


def test_an_inner_layer_tells_the_id_that_the_outer_one_lacks(exported: Exported) -> None:
    """The model's id of the call is on the span, whichever layer knows it."""
    outer = open_call(DEFINITION)
    open_call(FrameworkDefinition("forecast"), call_id="call-7").ok(1)
    outer.ok(1)
    assert exported.only.attributes["gen_ai.tool.call.id"] == "call-7"
