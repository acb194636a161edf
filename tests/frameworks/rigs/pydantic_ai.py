# SPDX-License-Identifier: Apache-2.0
"""A Pydantic AI agent on a model that is a function."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from pydantic_ai import Agent, ModelRetry, Tool
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.toolsets import FunctionToolset

from tests.frameworks.rig import NOT_THERE, Expected, Rig, declared
from tests.frameworks.tools import limit

__all__ = ["RIG", "agent_that_calls", "told"]


def told(messages: list[ModelMessage]) -> str:
    """What the model was told last."""
    return "\n".join(
        part.model_response() if hasattr(part, "model_response") else part.model_response_str()
        for part in messages[-1].parts
        if hasattr(part, "tool_call_id")
    )


def agent_that_calls(name: str, arguments: Any, *tools: Any, seen: list[str], **options: Any) -> Any:
    """An agent whose model asks for one tool call, and then repeats what it was told."""

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if len(messages) == 1:
            return ModelResponse(parts=[ToolCallPart(name, arguments, tool_call_id="call-7")])
        seen.append(told(messages))
        return ModelResponse(parts=[TextPart("done")])

    return Agent(FunctionModel(model), tools=list(tools), **options)


class _PydanticAI(Rig):
    name = "acrux_pydantic_ai"
    # Earlier versions wait for the thread of a synchronous tool, whatever the limit is.
    leaves_threads = "abandon" in inspect.getsource(FunctionToolset.call_tool)

    def expects(self, case: str, kind: str) -> Expected:
        late = case == "timeout" and kind == "sync" and not self.leaves_threads
        return NOT_THERE if late else super().expects(case, kind)

    def soft(self, kind: str) -> Callable[..., Any]:
        if kind == "sync":

            def forecast(city: str) -> str:
                """Tell the weather of a city."""
                raise ModelRetry(f"no station in {city}")
        else:

            async def forecast(city: str) -> str:
                """Tell the weather of a city."""
                raise ModelRetry(f"no station in {city}")

        return forecast

    async def turn(self, function: Callable[..., Any], name: str, arguments: dict[str, Any]) -> str:
        seen: list[str] = []
        tool = Tool(function, name="forecast", takes_ctx=False, timeout=limit(arguments))
        await agent_that_calls(name, arguments, tool, seen=seen).run("how is it?")
        return seen[-1]


RIG = _PydanticAI(soft=declared("model_retry"))
