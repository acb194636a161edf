# SPDX-License-Identifier: Apache-2.0
"""A08: a framework's own decorator on top of ours sees what it would see of the bare function."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

import acrux_otel as acrux


async def bare(
    city: Annotated[str, Field(description="City name")], days: int = 3, unit: Literal["c", "f"] = "c"
) -> dict[str, Any]:
    """Tell the weather.

    Args:
        days: How many days.
    """
    if city == "Atlantis":
        return acrux.ToolResult.error("location_not_found", "no coordinates")
    return {"city": city, "days": days, "unit": unit}


decorated = acrux.tool(bare)


def _langchain(function: Any) -> tuple[Any, Any]:
    tools = pytest.importorskip("langchain_core.tools")
    made = tools.tool(function)
    return made.tool_call_schema.model_json_schema(), lambda **arguments: made.ainvoke(arguments)


def _fastmcp(function: Any) -> tuple[Any, Any]:
    fastmcp = pytest.importorskip("fastmcp")
    server = fastmcp.FastMCP("x")
    server.tool()(function)

    async def call(**arguments: Any) -> Any:
        async with fastmcp.Client(server) as client:
            return (await client.call_tool("bare", arguments)).data

    async def schema() -> Any:
        async with fastmcp.Client(server) as client:
            [tool] = await client.list_tools()
            return tool.model_dump(mode="json")

    return asyncio.run(schema()), call


def _pydantic_ai(function: Any) -> tuple[Any, Any]:
    pydantic_ai = pytest.importorskip("pydantic_ai")
    models = pytest.importorskip("pydantic_ai.models.function")
    messages = pytest.importorskip("pydantic_ai.messages")
    made = pydantic_ai.Tool(function, takes_ctx=False)

    async def call(**arguments: Any) -> Any:
        seen: list[Any] = []

        def model(history: Any, info: Any) -> Any:
            for part in history[-1].parts:
                if isinstance(part, messages.ToolReturnPart):
                    seen.append(part.content)
                    return messages.ModelResponse(parts=[messages.TextPart("done")])
            return messages.ModelResponse(parts=[messages.ToolCallPart("bare", arguments)])

        await pydantic_ai.Agent(models.FunctionModel(model), tools=[made]).run("go")
        return seen[0]

    return made.function_schema.json_schema, call


def _openai_agents(function: Any) -> tuple[Any, Any]:
    agents = pytest.importorskip("agents")
    context = pytest.importorskip("agents.tool_context")
    made = agents.function_tool(function)

    async def call(**arguments: Any) -> Any:
        text = json.dumps(arguments)
        held = context.ToolContext(None, tool_name="bare", tool_call_id="1", tool_arguments=text)
        return await made.on_invoke_tool(held, text)

    return made.params_json_schema, call


STACKS = [_langchain, _fastmcp, _pydantic_ai, _openai_agents]


@pytest.mark.parametrize("stack", STACKS, ids=lambda each: each.__name__.strip("_"))
def test_A08_a_frameworks_schema_of_the_decorated_function_is_that_of_the_bare_one(stack: Any) -> None:
    assert json.dumps(stack(decorated)[0], default=str) == json.dumps(stack(bare)[0], default=str)


@pytest.mark.parametrize("stack", STACKS, ids=lambda each: each.__name__.strip("_"))
def test_a_framework_gets_the_plain_result_and_the_span_the_verdict(stack: Any, exported: Any) -> None:
    _, call = stack(decorated)

    async def main() -> list[Any]:
        return [await call(city="Pune", days=1), await call(city="Atlantis")]

    fine, failed = asyncio.run(main())
    assert fine == {"city": "Pune", "days": 1, "unit": "c"}
    assert failed == {"error": "no coordinates"}
    ours = [span for span in exported.tools() if span.scope == "acrux_otel"]
    assert [span.outcome for span in ours] == ["ok", "error"]
    assert ours[1].attributes["errorCode"] == "location_not_found"
