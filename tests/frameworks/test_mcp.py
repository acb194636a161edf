# SPDX-License-Identifier: Apache-2.0
"""MCP, SDK 1.x and 2.x: what only the client or only the server can know, and what both see."""

from __future__ import annotations

import asyncio
import sys
import threading
from datetime import timedelta
from typing import Any

import pytest

pytest.importorskip("mcp")

import mcp.types as types
from mcp.client.session import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client
from pydantic import BaseModel

from acrux_otel import ToolResult
from acrux_otel.seam import observe, unobserve
from acrux_otel.testing import record_calls
from tests.conftest import Exported
from tests.frameworks import tools
from tests.frameworks.rigs.mcp import V2, Server, connected, raw_call, session_of, text_of

pytestmark = pytest.mark.usefixtures("watched")


@pytest.fixture
def watched(everywhere: Exported, instrument: Any) -> None:
    instrument("acrux_mcp")


def failed_result(content: list[Any]) -> Any:
    return types.CallToolResult(content=content, **{"is_error" if V2 else "isError": True})


def failed(result: Any) -> bool:
    return bool(result.is_error if V2 else result.isError)


def low_level(answer: Any) -> Any:
    """A low-level server whose one handler calls ``answer(name, arguments)``."""
    if V2:
        from mcp.server import Server as LowLevel

        async def call(context: Any, params: Any) -> Any:
            return answer(params.name, params.arguments)

        async def listing(context: Any, params: Any) -> Any:
            return types.ListToolsResult(
                tools=[types.Tool(name="forecast", input_schema={"type": "object", "required": ["city"]})]
            )

        return LowLevel("low", on_call_tool=call, on_list_tools=listing)
    from mcp.server.lowlevel import Server as LowLevel

    server: Any = LowLevel("low")

    @server.list_tools()
    async def tools_listed() -> list[types.Tool]:
        return [types.Tool(name="forecast", inputSchema={"type": "object", "required": ["city"]})]

    @server.call_tool()
    async def called(name: str, arguments: dict[str, Any]) -> Any:
        return answer(name, arguments)

    return server


def verdict(spans: Exported) -> tuple[Any, ...]:
    (span,) = [each for each in spans if each.outcome is not None]
    return span.outcome, span.attributes.get("errorType"), span.attributes.get("errorCode"), span.description


@pytest.mark.parametrize(
    ("content", "description"),
    [
        ([types.TextContent(type="text", text="no such row")], "no such row"),
        ([], "the tool reported an error without text"),
        (
            [
                types.ImageContent(
                    type="image", data="aGk=", **{"mime_type" if V2 else "mimeType": "image/png"}
                )
            ],
            "the tool reported an error without text",
        ),
    ],
    ids=["text", "empty", "image"],
)
async def test_a05_an_error_result_is_an_error_with_a_type(
    content: list[Any], description: str, everywhere: Exported
) -> None:
    """A05: isError makes the span ERROR with a type and a description, whatever its content is."""
    async with connected(low_level(lambda name, arguments: failed_result(content))) as client:
        await client.call_tool("forecast", {"city": "Rome"})
    assert verdict(everywhere) == ("error", "tool_declared", "tool_error", description)


REMOTE = """
try:
    from mcp.server.mcpserver import MCPServer as Server
except ImportError:
    from mcp.server.fastmcp import FastMCP as Server
server = Server("weather")

@server.tool()
def forecast(city: str) -> str:
    if city == "Nowhere":
        raise LookupError("there is no Nowhere")
    return city

server.run()
"""


async def test_a05_the_error_of_a_server_in_another_process_is_the_tools(everywhere: Exported) -> None:
    """A05: all that comes back is isError and a text, and that is enough for the client's span."""
    server = StdioServerParameters(command=sys.executable, args=["-c", REMOTE])
    async with stdio_client(server) as streams, ClientSession(*streams) as session:
        await session.initialize()
        await session.call_tool("forecast", {"city": "Nowhere"})
        outcome, error_type, code, description = verdict(everywhere)
        assert (outcome, error_type, code) == ("error", "tool_declared", "tool_error")
        assert description.startswith("Error executing tool forecast")
        everywhere.clear()
        await session.call_tool("forecast", {"city": "Rome"})
    assert verdict(everywhere)[0] == "ok"


async def test_a05_a_protocol_error_is_not_the_tool_speaking(everywhere: Exported) -> None:
    """A05: a JSON-RPC error on the same call is no tool_declared."""
    exception = _protocol_error(-32603, "the disk is full")

    def broken(name: str, arguments: Any) -> Any:
        raise exception

    server = low_level(broken)
    async with connected(server) as client:
        try:
            await raw_call(client, "forecast", {"city": "Rome"})
        except type(exception):
            pass
    assert verdict(everywhere) == ("error", "provider_error", "jsonrpc_32603", "the disk is full")


def _protocol_error(code: int, message: str) -> Exception:
    if V2:
        from mcp.shared.exceptions import MCPError

        return MCPError(code=code, message=message)
    from mcp.shared.exceptions import McpError

    return McpError(types.ErrorData(code=code, message=message))


async def test_a_client_that_waits_too_long_is_a_transport_timeout(everywhere: Exported) -> None:
    """The client's own time limit is a transport timeout, and the cancelled server adds no second call."""
    server = Server("weather")
    server.add_tool(tools.aforecast, name="forecast")
    async with connected(server) as client:
        limit: Any = 0.05 if V2 else timedelta(seconds=0.05)
        with pytest.raises(Exception, match=r"(?i)time"):
            await session_of(client).call_tool("forecast", {"city": "Slowwater"}, read_timeout_seconds=limit)
        await asyncio.sleep(0.1)
    (span,) = [each for each in everywhere if each.name == "execute_tool forecast"]
    assert (span.outcome, span.attributes["errorType"], span.attributes["errorCode"]) == (
        "error",
        "transport",
        "timeout",
    )


async def test_a_closed_connection_is_a_transport_error(everywhere: Exported) -> None:
    """A server that goes away during the call leaves a transport error."""
    entered = asyncio.Event()

    async def forecast(city: str) -> str:
        entered.set()
        await asyncio.sleep(5)
        return "never"

    server = Server("weather")
    server.add_tool(forecast)
    async with connected(server) as client:
        session = session_of(client)
        pending = asyncio.create_task(session.call_tool("forecast", {"city": "Rome"}))
        await entered.wait()
        if not V2:
            await session._write_stream.aclose()
            await session._read_stream.aclose()
        else:
            pending.cancel()
        with pytest.raises((Exception, asyncio.CancelledError)):
            await asyncio.wait_for(pending, 5)
    (span,) = [each for each in everywhere if each.name == "execute_tool forecast"]
    if V2:
        assert span.outcome == "cancelled"
    else:
        assert (span.outcome, span.attributes["errorType"]) == ("error", "transport")


async def test_a_server_alone_writes_on_its_own_span(everywhere: Exported) -> None:
    """Called from another process, a server's own span carries the verdict and keeps its description."""
    server = Server("weather")
    server.add_tool(tools.aforecast, name="forecast")
    async with connected(server) as client:
        assert await raw_call(client, "forecast", {"city": "Nowhere"})
    (span,) = [each for each in everywhere if each.outcome is not None]
    assert span.name == ("tools/call forecast" if V2 else "execute_tool forecast")
    assert (span.status, span.description) == ("ERROR", "there is no Nowhere")
    assert span.attributes["errorCode"] == "lookup_error"
    assert [name for name, _ in span.events] == ["exception"]


async def test_an_unknown_tool_of_a_server_alone_is_a_schema_mismatch(everywhere: Exported) -> None:
    """A name that the server does not have is unknown_tool."""
    async with connected(Server("weather")) as client:
        await raw_call(client, "no_such_tool", {})
    assert verdict(everywhere)[:3] == ("error", "schema_mismatch", "unknown_tool")


@pytest.mark.parametrize("raw", [True, False], ids=["server alone", "client beside it"])
async def test_a_low_level_server_is_one_call(raw: bool, everywhere: Exported) -> None:
    """A handler that raises is judged by what it raised, once."""

    def broken(name: str, arguments: Any) -> Any:
        raise ConnectionRefusedError("nobody listens")

    with record_calls() as calls:
        async with connected(low_level(broken)) as client:
            try:
                await (
                    raw_call(client, "forecast", {"city": "Rome"})
                    if raw
                    else client.call_tool("forecast", {"city": "Rome"})
                )
            except Exception:
                assert V2  # 1.x answers with an error result
    assert verdict(everywhere)[1:3] == ("transport", "connection_refused")
    assert [each.verdict.code for each in calls] == ["connection_refused"]


@pytest.mark.skipif(V2, reason="2.x leaves the check to the handler")
async def test_a_low_level_server_that_checks_its_arguments(everywhere: Exported) -> None:
    """Arguments that the low-level server refuses are a schema mismatch."""
    async with connected(low_level(lambda name, arguments: {})) as client:
        await client.call_tool("forecast", {})
    assert verdict(everywhere)[1:3] == ("schema_mismatch", "invalid_arguments")


class Weather(BaseModel):
    city: str
    temp: float


@pytest.mark.parametrize("decorated", [False, True])
async def test_a_declared_error_of_a_typed_tool_is_the_frameworks_own_error_result(
    decorated: bool, everywhere: Exported
) -> None:
    """A tool typed to return a model hands its declared error over as an error result; nothing blows up."""
    import acrux_otel

    def forecast(city: str) -> Weather:
        if city == "Rome":
            return Weather(city=city, temp=21)
        return ToolResult.error("location_not_found", "no such city")

    # Early 1.x resolves text annotations where a wrapper was written, not where the function was.
    forecast.__annotations__.update({"city": str, "return": Weather})
    server = Server("weather")
    server.add_tool(acrux_otel.tool(forecast) if decorated else forecast)
    async with connected(server) as client:
        good = await client.call_tool("forecast", {"city": "Rome"})
        assert not failed(good)
        everywhere.clear()
        result = await client.call_tool("forecast", {"city": "Atlantis"})
    assert failed(result)
    assert "no such city" in text_of(result)
    assert verdict(everywhere) == ("error", "tool_declared", "location_not_found", "no such city")
    (span,) = [each for each in everywhere if each.outcome is not None]
    assert span.events == []


async def test_a_result_that_the_client_refuses_is_an_invalid_result(everywhere: Exported) -> None:
    """Structured content that does not fit the listed output schema is a schema mismatch of the result."""

    def forecast(city: str) -> Weather:
        return Weather(city=city, temp=21)

    server = Server("weather")
    server.add_tool(forecast)
    async with connected(server) as client:
        session = session_of(client)
        await session.list_tools()
        session._tool_output_schemas["forecast"] = {"type": "object", "required": ["wind"]}
        with pytest.raises(RuntimeError):
            await session.call_tool("forecast", {"city": "Rome"})
    assert verdict(everywhere)[1:3] == ("schema_mismatch", "invalid_result")


async def test_a11_the_context_parameter_is_not_the_models(everywhere: Exported) -> None:
    """A11: an injected Context is neither in the definition nor among the recorded arguments."""
    if V2:
        from mcp.server.mcpserver import Context
    else:
        from mcp.server.fastmcp import Context

    async def search(q: str, ctx: Context) -> str:
        return q

    search.__annotations__["ctx"] = Context
    search.__annotations__["q"] = str
    seen: list[Any] = []
    observe(opened=seen.append)
    server = Server("library")
    server.add_tool(search)
    try:
        async with connected(server) as client:
            await raw_call(client, "search", {"q": "otters"})
    finally:
        unobserve(opened=seen.append)
    (call,) = [each for each in seen if each.site.name == "search"]
    assert set(call.site.definition.parameters["properties"]) == {"q"}
    assert dict(call.arguments()) == {"q": "otters"}
    assert call.site.catalogued


async def test_a_clients_definition_is_what_the_server_listed(everywhere: Exported) -> None:
    """What a server lists describes the tool on the client's span; an unlisted one has its name alone."""
    server = Server("weather")
    server.add_tool(tools.aforecast, name="forecast", description="Tell the weather.")
    async with connected(server) as client:
        await client.list_tools()
        await client.call_tool("forecast", {"city": "Rome"})
    (span,) = [each for each in everywhere if each.outcome is not None]
    assert span.attributes["gen_ai.tool.description"] == "Tell the weather."


async def test_a_tool_that_calls_a_tool_keeps_a_span_each(everywhere: Exported) -> None:
    """Real nested calls stay two calls, the inner one below the outer one."""
    inner = Server("inner")
    inner.add_tool(tools.aforecast, name="forecast")

    async def plan(city: str) -> str:
        async with connected(inner) as client:
            return text_of(await client.call_tool("forecast", {"city": city}))

    outer = Server("outer")
    outer.add_tool(plan)
    async with connected(outer) as client:
        await client.call_tool("plan", {"city": "Nowhere"})
    spans = {each.attributes["gen_ai.tool.name"]: each for each in everywhere if each.outcome is not None}
    assert {name: each.outcome for name, each in spans.items()} == {"forecast": "error", "plan": "ok"}
    assert spans["forecast"].trace_id == spans["plan"].trace_id


async def test_calls_at_the_same_time_are_not_mixed_up(everywhere: Exported) -> None:
    """Twenty calls of one session at once have twenty verdicts, each its own."""
    server = Server("weather")
    server.add_tool(tools.aforecast, name="forecast")
    cities = ["Berlin", "Nowhere", "Atlantis", "Staleville"] * 5
    async with connected(server) as client:
        await asyncio.gather(*(client.call_tool("forecast", {"city": city}) for city in cities))
    outcomes = sorted(each.outcome for each in everywhere if each.outcome is not None)
    assert outcomes == ["error"] * 10 + ["ok"] * 5 + ["warning"] * 5
    assert threading.active_count() < 50


async def test_a_server_that_asks_another_for_a_tool_of_the_same_name_and_tries_again_is_ok(
    everywhere: Exported,
) -> None:
    """What its own function has handled is not its verdict."""
    asked: list[str] = []

    def flaky(q: str) -> str:
        asked.append(q)
        if len(asked) == 1:
            raise LookupError("flaky")
        return "hit"

    back, front = Server("back"), Server("front")
    back.add_tool(flaky, name="search")

    async def gateway(q: str) -> str:
        async with connected(back) as client:
            if failed(await client.call_tool("search", {"q": q})):
                assert not failed(await client.call_tool("search", {"q": q}))
        return "hit"

    front.add_tool(gateway, name="search")
    async with connected(front) as client:
        assert text_of(await client.call_tool("search", {"q": "otters"})) == "hit"
    first, again, outer = [each for each in everywhere if each.outcome is not None]
    assert [each.outcome for each in (first, again, outer)] == ["error", "ok", "ok"]
    assert first.trace_id == again.trace_id == outer.trace_id
