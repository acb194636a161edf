# SPDX-License-Identifier: Apache-2.0
"""An in-process server of the Claude Agent SDK, called as the SDK does for the CLI."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from claude_agent_sdk import create_sdk_mcp_server, tool

from tests.frameworks.rig import NOT_THERE, Rig
from tests.frameworks.rigs.mcp import connected, text_of

__all__ = ["RIG", "server_with"]

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def server_with(handler: Any) -> Any:
    """A server that offers ``handler`` as ``forecast``."""
    made = tool("forecast", "Tell the weather.", SCHEMA)(handler)
    return create_sdk_mcp_server("weather", tools=[made])["instance"]


class _Claude(Rig):
    name = "acrux_claude_agent_sdk"
    also = ("acrux_mcp",)
    kinds = ("async",)
    call_id = None

    def soft(self, kind: str) -> Callable[..., Any]:
        async def forecast(city: str) -> Any:
            return {"content": [{"type": "text", "text": f"no station in {city}"}], "is_error": True}

        return forecast

    async def turn(self, function: Callable[..., Any], name: str, arguments: dict[str, Any]) -> str:
        async with connected(server_with(_handler(function))) as client:
            return text_of(await client.call_tool(name, arguments))


def _handler(function: Any) -> Any:
    """A function as it is written for this SDK: it takes one dict, and plain results become content."""
    decorated = getattr(function, "__acrux_tool__", None)

    def content(result: Any) -> Any:
        if isinstance(result, dict) and "content" not in result and "error" not in result:
            return {"content": [{"type": "text", "text": str(result)}]}
        return result

    @functools.wraps(decorated.function if decorated is not None else function)
    async def handler(arguments: dict[str, Any]) -> Any:
        return content(await function(**arguments))

    if decorated is not None:
        handler.__acrux_tool__ = decorated  # type: ignore[attr-defined]
    return handler


# The SDK does not limit the time of a tool, and takes nothing but content.
RIG = _Claude(timeout=NOT_THERE, error_dict=NOT_THERE)
