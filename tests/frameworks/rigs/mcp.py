# SPDX-License-Identifier: Apache-2.0
"""A client and a server of the MCP SDK, joined in memory."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import asynccontextmanager
from typing import Any

import mcp
import mcp.types as types

from tests.frameworks.rig import NOT_THERE, Rig, declared

try:
    from mcp.server.mcpserver import MCPServer as Server
    from mcp.server.mcpserver.exceptions import ToolError

    V2 = True
except ImportError:
    from mcp.server.fastmcp import FastMCP as Server
    from mcp.server.fastmcp.exceptions import ToolError

    V2 = False

__all__ = ["RIG", "V2", "Server", "ToolError", "connected", "raw_call", "session_of", "text_of"]


@asynccontextmanager
async def connected(server: Any) -> Any:
    """A client session of ``server``, high-level or low-level."""
    if V2:
        async with mcp.Client(server) as client:
            yield client
    else:
        from mcp.shared.memory import create_connected_server_and_client_session

        async with create_connected_server_and_client_session(
            getattr(server, "_mcp_server", server)
        ) as session:
            yield session


def session_of(client: Any) -> Any:
    """The session of what `connected` gave."""
    return client.session if V2 else client


async def raw_call(client: Any, name: str, arguments: dict[str, Any]) -> Any:
    """A call as a client in another process makes it: nothing on this side is instrumented."""
    params = types.CallToolRequestParams(name=name, arguments=arguments)
    request: Any = types.CallToolRequest(params=params)
    if not V2:
        request = types.ClientRequest(request)
    return await session_of(client).send_request(request, types.CallToolResult)


def text_of(result: Any) -> str:
    """All text that the model gets of a result."""
    return "\n".join(block.text for block in result.content if hasattr(block, "text"))


class _MCP(Rig):
    name = "acrux_mcp"
    call_id = None

    def soft(self, kind: str) -> Callable[..., Any]:
        if kind == "sync":

            def forecast(city: str) -> str:
                raise ToolError(f"no station in {city}")
        else:

            async def forecast(city: str) -> str:
                raise ToolError(f"no station in {city}")

        return forecast

    async def turn(self, function: Callable[..., Any], name: str, arguments: dict[str, Any]) -> str:
        server = Server("weather")
        server.add_tool(function, name="forecast")
        async with connected(server) as client:
            return text_of(await client.call_tool(name, arguments))


# A server does not limit the time of a tool; a client does, and that is tested apart.
RIG = _MCP(timeout=NOT_THERE, soft=declared("tool_error"))
