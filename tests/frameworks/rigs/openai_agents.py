# SPDX-License-Identifier: Apache-2.0
"""The OpenAI Agents SDK on a model of the test's own."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable
from typing import Any

from agents import Agent, Model, ModelResponse, Runner, Usage, function_tool, set_tracing_disabled
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from tests.frameworks.rig import NOT_THERE, Rig
from tests.frameworks.tools import limit

__all__ = ["RIG", "Scripted", "asking", "told"]

set_tracing_disabled(os.environ.get("OPENAI_AGENTS_DISABLE_TRACING") != "0")


def asking(*calls: tuple[str, str, str]) -> list[Any]:
    """What a model says that asks for calls: (id, name, argument text)."""
    return [
        ResponseFunctionToolCall(type="function_call", call_id=id, name=name, arguments=arguments)
        for id, name, arguments in calls
    ]


class Scripted(Model):
    """Says one thing after the other; the last one ends the run."""

    def __init__(self, *turns: list[Any]) -> None:
        text = ResponseOutputText(type="output_text", text="done", annotations=[])
        message = ResponseOutputMessage(
            id="m", type="message", role="assistant", status="completed", content=[text]
        )
        self.turns = [*turns, [message]]
        self.heard: list[Any] = []

    async def get_response(self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any) -> Any:
        self.heard.append(input)
        return ModelResponse(output=self.turns.pop(0), usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


def told(model: Scripted) -> dict[str, str]:
    """What the model was told, by call id."""
    return {
        each["call_id"]: str(each["output"])
        for each in model.heard[-1]
        if isinstance(each, dict) and each.get("type") == "function_call_output"
    }


class _OpenAIAgents(Rig):
    name = "acrux_openai_agents"

    async def turn(self, function: Callable[..., Any], name: str, arguments: dict[str, Any]) -> str:
        made = function_tool(function, name_override="forecast")
        if hasattr(made, "timeout_seconds") and _is_async(function):  # only those can be stopped
            made.timeout_seconds = limit(arguments)
        model = Scripted(asking(("call-7", name, json.dumps(arguments))))
        agent = Agent(name="agent", model=model, tools=[made])
        await Runner.run(agent, "how is it?")
        return told(model)["call-7"]


def _is_async(function: Any) -> bool:
    import inspect

    return inspect.iscoroutinefunction(function)


class _Timed(_OpenAIAgents):
    def expects(self, case: str, kind: str) -> Any:
        return NOT_THERE if (case, kind) == ("timeout", "sync") else super().expects(case, kind)


# The SDK has no way for a tool to say that it failed, other than to raise.
RIG = _Timed(soft=NOT_THERE)
