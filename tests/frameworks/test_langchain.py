# SPDX-License-Identifier: Apache-2.0
"""LangChain and LangGraph: what only they do with a tool."""

from __future__ import annotations

import time
from typing import Annotated, Any

import acrux_otel_instrumentation as instrumentations
import pytest

pytest.importorskip("langchain_core")
pytest.importorskip("langgraph")

from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, InjectedToolArg, InjectedToolCallId, StructuredTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState, ToolNode
from langgraph.types import Command, interrupt
from pydantic import BaseModel

from acrux_otel import ToolResult
from acrux_otel.seam import observe, unobserve
from acrux_otel.testing import record_calls
from tests.conftest import Exported
from tests.frameworks.rigs.langchain import graph_of, message


@pytest.fixture(autouse=True)
def watched(everywhere: Exported, instrument: Any) -> None:
    instrument("acrux_langchain")


def call(name: str = "forecast", **arguments: Any) -> dict[str, Any]:
    return {"name": name, "args": arguments, "id": "call-7", "type": "tool_call"}


def verdict(spans: Exported) -> tuple[Any, ...]:
    span = spans.only
    return span.outcome, span.attributes.get("errorType"), span.attributes.get("errorCode")


def test_arguments_that_do_not_validate_are_judged_also_where_the_error_escapes(everywhere: Exported) -> None:
    """Without handle_validation_error the ValidationError escapes, and is still the arguments'."""

    @tool
    def forecast(city: str) -> str:
        """Tell the weather."""
        return city

    with pytest.raises(Exception, match="city"):
        forecast.invoke(call(town=1))
    assert verdict(everywhere) == ("error", "schema_mismatch", "invalid_arguments")


@pytest.mark.parametrize("handled", [True, False])
def test_a_validation_error_of_the_body_is_not_the_arguments(handled: bool, everywhere: Exported) -> None:
    """pydantic's error raised inside the body is a transform, however the framework answers it."""

    class Row(BaseModel):
        temp: float

    def forecast(city: str) -> str:
        """Tell the weather."""
        return str(Row.model_validate({"temp": "warm"}))

    made = StructuredTool.from_function(forecast, handle_validation_error=handled)
    if handled:
        made.invoke(call(city="Rome"))
    else:
        with pytest.raises(ValueError):
            made.invoke(call(city="Rome"))
    assert verdict(everywhere) == ("error", "transform", "validation_error")


def test_arguments_that_only_the_signature_refuses_are_a_schema_mismatch(everywhere: Exported) -> None:
    """A tool with a plain JSON schema is not validated; the TypeError of the call itself is."""
    made = StructuredTool.from_function(
        lambda city: city,
        name="forecast",
        description="Tell.",
        args_schema={"type": "object", "properties": {"city": {"type": "string"}}},
    )
    with pytest.raises(TypeError):
        made.invoke(call(town="Rome"))
    assert verdict(everywhere) == ("error", "schema_mismatch", "invalid_arguments")


def test_a_type_error_of_the_body_is_the_bodys(everywhere: Exported) -> None:
    """A TypeError raised inside the body is no binding error."""

    @tool
    def forecast(city: str) -> str:
        """Tell the weather."""
        return city + 1  # type: ignore[operator]

    with pytest.raises(TypeError):
        forecast.invoke(call(city="Rome"))
    assert verdict(everywhere) == ("error", "tool_declared", "type_error")


@pytest.mark.parametrize("decorated", [False, True])
def test_a_declared_error_fits_content_and_artifact(decorated: bool, everywhere: Exported) -> None:
    """A tool that has to return a pair hands over its declared error as the content of one."""
    import acrux_otel

    def forecast(city: str) -> tuple[str, list[int]]:
        """Tell the weather."""
        return ToolResult.error("location_not_found", "no such city", result="no such city")

    function = acrux_otel.tool(forecast) if decorated else forecast
    made = StructuredTool.from_function(function, response_format="content_and_artifact")
    answer = made.invoke(call(city="Atlantis"))
    assert (answer.content, answer.artifact) == ("no such city", None)
    assert verdict(everywhere) == ("error", "tool_declared", "location_not_found")


def test_a_returned_error_message_is_an_error(everywhere: Exported) -> None:
    """A tool that returns its own ToolMessage with status error says that it failed."""

    @tool
    def forecast(city: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> ToolMessage:
        """Tell the weather."""
        return ToolMessage("no station", tool_call_id=tool_call_id, status="error")

    answer = forecast.invoke(call(city="Rome"))
    assert answer.status == "error"
    assert verdict(everywhere) == ("error", "tool_declared", "tool_error")


def test_a_command_is_no_failure_and_comes_back_as_it_is(everywhere: Exported) -> None:
    """A tool that returns a Command routes the graph; its object is handed on."""
    given = Command(goto="elsewhere")

    @tool
    def forecast(city: str) -> Command:
        """Tell the weather."""
        return given

    assert forecast.invoke(call(city="Rome")) is given
    assert verdict(everywhere) == ("ok", None, None)


def test_a04_an_interrupt_is_no_failure(everywhere: Exported) -> None:
    """A04: a tool that asks a person is interrupted, not red; resumed, it is a call of its own."""

    @tool
    def forecast(city: str) -> str:
        """Tell the weather."""
        return str(interrupt("may I?"))

    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode([forecast]))
    graph.add_edge(START, "tools")
    compiled = graph.compile(checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "1"}}
    compiled.invoke({"messages": [message("forecast", {"city": "Rome"})]}, thread)
    span = everywhere.only
    assert (span.outcome, span.status, span.events) == ("interrupted", "UNSET", [])
    everywhere.clear()
    answer = compiled.invoke(Command(resume="yes"), thread)
    assert answer["messages"][-1].content == "yes"
    assert verdict(everywhere) == ("ok", None, None)


def test_a11_injected_parameters_are_not_the_models(everywhere: Exported) -> None:
    """A11: state, call id and other injected arguments are neither in the definition nor recorded."""

    @tool
    def search(
        q: str,
        state: Annotated[dict, InjectedState],
        who: Annotated[str, InjectedToolArg] = "nobody",
        tool_call_id: Annotated[str, InjectedToolCallId] = "",
    ) -> str:
        """Search."""
        return q + tool_call_id

    seen: list[Any] = []
    observe(opened=seen.append)
    try:
        graph_of(search).invoke({"messages": [message("search", {"q": "otters"})]})
    finally:
        unobserve(opened=seen.append)
    (made,) = seen
    assert set(made.site.definition.parameters["properties"]) == {"q"}
    assert made.site.definition.parameters["required"] == ["q"]
    assert dict(made.arguments()) == {"q": "otters"}
    assert made.site.definition.description == "Search."


class Subclass(BaseTool):
    name: str = "forecast"
    description: str = "Tell the weather."

    def _run(self, city: str) -> Any:
        return ToolResult.error("location_not_found", f"no such city: {city}")


async def test_a_tool_class_of_the_users_own_is_seen_too(everywhere: Exported) -> None:
    """A subclass of BaseTool declares like a function, called synchronously or not."""
    made = Subclass()
    assert "no such city" in made.invoke(call(city="Atlantis")).content
    assert verdict(everywhere) == ("error", "tool_declared", "location_not_found")
    everywhere.clear()
    assert "no such city" in (await made.ainvoke(call(city="Atlantis"))).content
    assert verdict(everywhere) == ("error", "tool_declared", "location_not_found")


def test_a_tool_that_is_invoked_by_hand_returns_what_it_returned(everywhere: Exported) -> None:
    """Without a call id the tool's own object comes back, and there is no id on the span."""
    given = {"temp": 21}

    @tool
    def forecast(city: str) -> dict:
        """Tell the weather."""
        return given

    assert forecast.invoke({"city": "Rome"}) is given
    assert "gen_ai.tool.call.id" not in everywhere.only.attributes


def test_tools_in_the_frameworks_threads_hang_below_who_asked(everywhere: Exported) -> None:
    """Calls that ToolNode runs in threads are children of the span that was current, and keep their ids."""
    from opentelemetry import trace

    @tool
    def forecast(city: str) -> str:
        """Tell the weather."""
        time.sleep(0.02)
        return city

    asked = message("forecast", {"city": "Rome"})
    asked.tool_calls = [{**call(city=f"city {n}"), "id": f"call-{n}"} for n in range(8)]  # type: ignore[typeddict-item]
    with record_calls() as calls, trace.get_tracer("agent").start_as_current_span("agent") as agent:
        graph_of(forecast).invoke({"messages": [asked]})
    root = format(agent.get_span_context().span_id, "016x")
    assert {each.parent_id for each in everywhere.tools()} == {root}
    assert sorted(each.id or "" for each in calls) == [f"call-{n}" for n in range(8)]


@pytest.mark.parametrize("first", [True, False], ids=["before us", "on top"])
def test_the_span_of_another_vendor_stays_as_it_is(first: bool, everywhere: Exported) -> None:
    """With OpenInference, in either order: ours carries the one verdict, theirs is not written on."""
    vendor = pytest.importorskip("openinference.instrumentation.langchain").LangChainInstrumentor()

    @tool
    def forecast(city: str) -> str:
        """Tell the weather."""
        raise LookupError("nowhere")

    def theirs() -> list[Any]:
        return [
            (each.name, each.status, sorted(each.attributes))
            for each in everywhere
            if each.scope.startswith("openinference")
        ]

    instrumentations.uninstrument("acrux_langchain")
    vendor.instrument()
    try:
        with pytest.raises(LookupError):
            forecast.invoke(call(city="Rome"))
        alone = theirs()
        assert [name for name, *_ in alone] == ["forecast"]
        everywhere.clear()
        if not first:
            vendor.uninstrument()
        instrumentations.instrument("acrux_langchain")
        if not first:
            vendor.instrument()
        with record_calls() as calls, pytest.raises(LookupError):
            forecast.invoke(call(city="Rome"))
    finally:
        vendor.uninstrument()
    assert theirs() == alone
    assert [each.verdict.code for each in calls] == ["lookup_error"]
    (ours,) = [each for each in everywhere if each.outcome is not None]
    assert ours.scope == "acrux_otel_instrumentation.langchain"


def test_a_renamed_tool_is_called_by_its_new_name(everywhere: Exported) -> None:
    """The name on the span is the one that the model used."""

    @tool
    def forecast(city: str) -> str:
        """Tell the weather."""
        return city

    forecast.invoke(call(city="Rome"))
    forecast.name = "weather"
    forecast.invoke(call("weather", city="Rome"))
    assert [each.attributes["gen_ai.tool.name"] for each in everywhere.tools()] == ["forecast", "weather"]


def test_a_tool_that_takes_its_config_still_gets_it(everywhere: Exported) -> None:
    """What the framework passes by reading signatures is passed as before."""

    @tool
    def forecast(city: str, config: RunnableConfig) -> str:
        """Tell the weather."""
        return str(config["metadata"]["who"])

    assert forecast.invoke({"city": "Rome"}, {"metadata": {"who": "me"}}) == "me"


def test_a_tool_that_handles_the_failure_of_another_of_its_name_is_ok(everywhere: Exported) -> None:
    """The name alone does not make two functions one call."""

    def primary(q: str) -> str:
        raise ConnectionRefusedError("primary down")

    def cached(q: str) -> str:
        try:
            return str(first.invoke({"q": q}))
        except ConnectionError:
            return "from the cache"

    first = StructuredTool.from_function(primary, name="search", description="Search.")
    second = StructuredTool.from_function(cached, name="search", description="Search, whatever happens.")
    assert second.invoke({"q": "otters"}) == "from the cache"
    inner, outer = everywhere.tools()
    assert (outer.outcome, outer.status, outer.parent_id) == ("ok", "UNSET", "")
    assert (inner.outcome, inner.attributes["errorCode"]) == ("error", "connection_refused")
    assert inner.parent_id == outer.span_id


def test_a_tool_that_runs_itself_has_a_span_for_each_call(everywhere: Exported) -> None:
    """Also through the framework, and each has a verdict of its own."""

    @tool
    def down(depth: int) -> int:
        """Go down."""
        if depth == 0:
            raise KeyError("bottom")
        try:
            return int(down.invoke({"depth": depth - 1}))
        except KeyError:
            return -1

    assert down.invoke({"depth": 3}) == -1
    spans = everywhere.tools()
    assert [each.outcome for each in spans] == ["error", "ok", "ok", "ok"]
    assert [each.parent_id for each in spans] == [*(each.span_id for each in spans[1:]), ""]
