# SPDX-License-Identifier: Apache-2.0
"""A smolagents agent that calls tools, its model a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from smolagents import Tool, ToolCallingAgent
from smolagents.models import (
    ChatMessage,
    ChatMessageToolCall,
    ChatMessageToolCallFunction,
    MessageRole,
    Model,
)

from tests.frameworks.rig import NOT_THERE, Rig

__all__ = ["RIG", "Scripted", "agent_with", "tool_of"]


def tool_of(function: Callable[..., Any]) -> Any:
    """A tool named ``forecast`` that runs ``function``."""

    class Forecast(Tool):  # type: ignore[misc]
        name = "forecast"
        description = "Tell the weather of a city."
        inputs = {"city": {"type": "string", "description": "its name"}}  # noqa: RUF012
        output_type = "object"

        def forward(self, city):  # type: ignore[no-untyped-def]
            return function(city)

    made = Forecast()
    made.forward = function  # a decorated one stays one
    return made


class Scripted(Model):  # type: ignore[misc]
    """Asks for one tool call, and then for the end."""

    def __init__(self, name: str, arguments: Any) -> None:
        super().__init__(model_id="scripted")
        self.turns = [(name, arguments, "call-7"), ("final_answer", {"answer": "done"}, "call-8")]
        self.heard: list[Any] = []

    def generate(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        self.heard.append(messages)
        name, arguments, id = self.turns.pop(0)
        function = ChatMessageToolCallFunction(name=name, arguments=arguments)
        call = ChatMessageToolCall(id=id, type="function", function=function)
        return ChatMessage(role=MessageRole.ASSISTANT, content="", tool_calls=[call])


def agent_with(model: Any, *tools: Any) -> Any:
    """An agent that says nothing on the terminal."""
    return ToolCallingAgent(tools=list(tools), model=model, verbosity_level=-1, max_steps=3)


class _Smolagents(Rig):
    name = "acrux_smolagents"
    kinds = ("sync",)
    call_id = None

    async def turn(self, function: Callable[..., Any], name: str, arguments: dict[str, Any]) -> str:
        model = Scripted(name, arguments)
        agent_with(model, tool_of(function)).run("how is it?")
        return "\n".join(str(part) for message in model.heard[-1][2:] for part in message.content)


# There is no time limit, and no way to fail other than to raise.
RIG = _Smolagents(timeout=NOT_THERE, soft=NOT_THERE)
