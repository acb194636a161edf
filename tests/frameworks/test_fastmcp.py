# SPDX-License-Identifier: Apache-2.0
"""FastMCP: mounted servers, masked errors, types, three spans of which one carries the verdict."""

from __future__ import annotations

import asyncio
import warnings
from typing import Any

import pytest

pytest.importorskip("fastmcp")

import fastmcp
from fastmcp import Client, Context, FastMCP
from pydantic import BaseModel

from acrux_otel import ToolResult
from acrux_otel.seam import observe, unobserve
from acrux_otel.testing import record_calls
from tests.conftest import Exported
from tests.frameworks import tools
from tests.frameworks.rigs.fastmcp import V4, server_with

if V4:
    from fastmcp.tools.base import ToolResult as Result
else:
    from fastmcp.tools.tool import ToolResult as Result


@pytest.fixture(autouse=True)
def watched(everywhere: Exported, instrument: Any) -> None:
    instrument("acrux_fastmcp", "acrux_mcp")


def verdicts(spans: Exported) -> list[tuple[Any, ...]]:
    return [
        (each.outcome, each.attributes.get("errorType"), each.attributes.get("errorCode"))
        for each in spans
        if each.outcome is not None
    ]


async def ask(server: Any, name: str = "forecast", **arguments: Any) -> Any:
    async with Client(server) as client:
        return await client.call_tool_mcp(name, arguments)


def text_of(result: Any) -> str:
    return "\n".join(block.text for block in result.content if hasattr(block, "text"))


async def test_three_layers_are_one_call(everywhere: Exported) -> None:
    """Client, SDK client and server see one call: one verdict, on the client's own span, counted once."""
    with record_calls() as calls:
        await ask(server_with(tools.aforecast, name="forecast"), city="Nowhere")
    assert verdicts(everywhere) == [("error", "tool_declared", "lookup_error")]
    assert len(calls) == 1
    (span,) = [each for each in everywhere if each.outcome is not None]
    assert (span.scope, span.status, span.description) == ("fastmcp", "ERROR", "there is no Nowhere")


async def test_what_the_framework_deprecates_is_not_asked_for(everywhere: Exported) -> None:
    """A program that lists tools and calls them gets no warning for what is read of them here."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        async with Client(server_with(tools.aforecast, name="forecast")) as client:
            await client.list_tools()
            await client.call_tool("forecast", {"city": "Rome"})
    assert verdicts(everywhere) == [("ok", None, None)]
    assert [str(each.message) for each in seen if "acrux_otel" in each.filename] == []


async def test_a_masked_error_is_judged_by_what_it_was(everywhere: Exported) -> None:
    """A server that hides its exceptions from the client does not hide them from its operator."""
    server = FastMCP("weather", mask_error_details=True)
    server.tool(tools.aforecast, name="forecast")
    result = await ask(server, city="Refusal")
    assert "nobody listens" not in text_of(result)
    assert verdicts(everywhere) == [("error", "transport", "connection_refused")]


async def test_a_result_that_says_it_failed(everywhere: Exported) -> None:
    """ToolResult(is_error=True) of FastMCP is the tool speaking, where that version has it."""
    if "is_error" not in getattr(Result, "model_fields", {}) and not V4:
        pytest.skip("this version has no such field")

    async def forecast(city: str) -> Result:
        return Result(content="no station", is_error=True)

    await ask(server_with(forecast), city="Rome")
    assert verdicts(everywhere) == [("error", "tool_declared", "tool_error")]


class Weather(BaseModel):
    city: str
    temp: float


@pytest.mark.parametrize("decorated", [False, True])
async def test_a_declared_error_of_a_typed_tool_does_not_blow_up_at_the_client(
    decorated: bool, everywhere: Exported
) -> None:
    """A tool typed to return a model hands its declared error over as FastMCP's own error result."""
    import acrux_otel

    async def forecast(city: str) -> Weather:
        if city == "Rome":
            return Weather(city=city, temp=21)
        return ToolResult.error("location_not_found", "no such city")

    server = server_with(acrux_otel.tool(forecast) if decorated else forecast)
    async with Client(server) as client:
        assert (await client.call_tool("forecast", {"city": "Rome"})).data.temp == 21
        everywhere.clear()
        with pytest.raises(fastmcp.exceptions.ToolError, match="no such city"):
            await client.call_tool("forecast", {"city": "Atlantis"})
    assert verdicts(everywhere) == [("error", "tool_declared", "location_not_found")]
    (span,) = [each for each in everywhere if each.outcome is not None]
    assert span.description == "no such city"


async def test_a_validation_error_of_the_body_is_not_the_arguments(everywhere: Exported) -> None:
    """pydantic's error raised inside the body is a transform."""

    async def forecast(city: str) -> str:
        return str(Weather.model_validate({"temp": "warm"}))

    await ask(server_with(forecast), city="Rome")
    assert verdicts(everywhere) == [("error", "transform", "validation_error")]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("north_forecast", ("error", "tool_declared", "lookup_error")),
        ("north_nope", ("error", "schema_mismatch", "unknown_tool")),
    ],
)
async def test_a_mounted_server_is_one_call(
    name: str, expected: tuple[Any, ...], everywhere: Exported
) -> None:
    """A call that one server hands to another has one verdict, under the prefix or not."""
    outer: Any = FastMCP("outer")
    inner = server_with(tools.aforecast, name="forecast")
    outer.mount(inner, namespace="north")
    with record_calls() as calls:
        await ask(outer, name, city="Nowhere")
    assert verdicts(everywhere) == [expected]
    assert len(calls) == 1


async def test_a_server_that_is_called_by_hand(everywhere: Exported) -> None:
    """`FastMCP.call_tool` without a client is a call on the server's span."""
    server = server_with(tools.aforecast, name="forecast")
    with pytest.raises(Exception, match="Nowhere"):
        await server.call_tool("forecast", {"city": "Nowhere"})
    with pytest.raises(fastmcp.exceptions.NotFoundError):
        await server.call_tool("nope", {})
    assert verdicts(everywhere) == [
        ("error", "tool_declared", "lookup_error"),
        ("error", "schema_mismatch", "unknown_tool"),
    ]
    assert next(each for each in everywhere if each.outcome).name == "tools/call forecast"


async def test_a11_the_context_is_not_the_models(everywhere: Exported) -> None:
    """A11: FastMCP's context is neither in the definition nor among the arguments."""

    async def search(q: str, ctx: Context) -> str:
        """Search the shelves."""
        return q

    search.__annotations__.update(q=str, ctx=Context)
    seen: list[Any] = []
    observe(opened=seen.append)
    try:
        await server_with(search).call_tool("search", {"q": "otters"})
    finally:
        unobserve(opened=seen.append)
    (made,) = seen
    assert set(made.site.definition.parameters["properties"]) == {"q"}
    assert dict(made.arguments()) == {"q": "otters"}


async def test_nothing_of_ours_makes_a_deprecation_warning(everywhere: Exported) -> None:
    """Reading a result does not ask it for names of the past."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        async with Client(server_with(tools.aforecast, name="forecast")) as client:
            await client.call_tool("forecast", {"city": "Rome"})


async def test_calls_at_the_same_time_are_not_mixed_up(everywhere: Exported) -> None:
    """Twelve calls of one client at once have twelve verdicts."""
    cities = ["Rome", "Nowhere", "Atlantis"] * 4
    async with Client(server_with(tools.aforecast, name="forecast")) as client:
        await asyncio.gather(*(client.call_tool_mcp("forecast", {"city": city}) for city in cities))
    assert sorted(str(each[2]) for each in verdicts(everywhere)) == (
        ["None"] * 4 + ["location_not_found"] * 4 + ["lookup_error"] * 4
    )
