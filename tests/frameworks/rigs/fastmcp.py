# SPDX-License-Identifier: Apache-2.0
"""A FastMCP server with a FastMCP client in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fastmcp
from fastmcp.exceptions import ToolError
from fastmcp.tools import Tool

from tests.frameworks.rig import NOT_THERE, Expected, Rig
from tests.frameworks.tools import limit

__all__ = ["RIG", "V4", "server_with"]

V4 = not fastmcp.__version__.startswith("3.")


def server_with(function: Callable[..., Any], **options: Any) -> Any:
    """A server that offers ``function``."""
    server = fastmcp.FastMCP("weather")
    server.add_tool(Tool.from_function(function, **options))
    return server


class _FastMCP(Rig):
    name = "acrux_fastmcp"
    also = ("acrux_mcp",)
    call_id = None
    own_span = "tools/call "

    def expects(self, case: str, kind: str) -> Expected:
        late = case == "timeout" and kind == "sync"  # a thread cannot be stopped
        return NOT_THERE if late else super().expects(case, kind)

    def soft(self, kind: str) -> Callable[..., Any]:
        if kind == "sync":

            def forecast(city: str) -> str:
                raise ToolError(f"no station in {city}")
        else:

            async def forecast(city: str) -> str:
                raise ToolError(f"no station in {city}")

        return forecast

    async def turn(self, function: Callable[..., Any], name: str, arguments: dict[str, Any]) -> str:
        server = server_with(function, name="forecast", timeout=limit(arguments))
        async with fastmcp.Client(server) as client:
            result = await client.call_tool_mcp(name, arguments)
        return "\n".join(block.text for block in result.content if hasattr(block, "text"))


RIG = _FastMCP()
