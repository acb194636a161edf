# SPDX-License-Identifier: Apache-2.0
"""A Haystack agent on a chat generator of the test's own."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from haystack import component
from haystack.components.agents import Agent
from haystack.dataclasses import ChatMessage, ToolCall
from haystack.tools import Tool

from tests.frameworks.rig import NOT_THERE, Rig

__all__ = ["RIG", "Scripted"]

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


@component
class Scripted:
    """Asks for one tool call, and then ends."""

    def __init__(self, name: str, arguments: dict[str, Any]) -> None:
        self.turns = [
            ChatMessage.from_assistant(tool_calls=[ToolCall(name, arguments, id="call-7")]),
            ChatMessage.from_assistant("done"),
        ]
        self.heard: list[Any] = []

    @component.output_types(replies=list[ChatMessage])
    def run(self, messages: list[ChatMessage], tools: Any = None, **kwargs: Any) -> dict[str, Any]:
        self.heard.append(messages)
        return {"replies": [self.turns.pop(0)]}

    @component.output_types(replies=list[ChatMessage])
    async def run_async(
        self, messages: list[ChatMessage], tools: Any = None, **kwargs: Any
    ) -> dict[str, Any]:
        return self.run(messages)


class _Haystack(Rig):
    name = "acrux_haystack"
    kinds = ("sync", "async") if hasattr(Tool, "invoke_async") else ("sync",)
    call_id = "call-7" if hasattr(Tool, "invoke_async") else None

    async def turn(self, function: Callable[..., Any], name: str, arguments: dict[str, Any]) -> str:
        is_async = inspect.iscoroutinefunction(function)
        model = Scripted(name, arguments)
        tool = Tool(
            name="forecast",
            description="Tell the weather of a city.",
            parameters=PARAMETERS,
            **({"function": None, "async_function": function} if is_async else {"function": function}),
        )
        agent = Agent(chat_generator=model, tools=[tool], raise_on_tool_invocation_failure=False)
        messages = [ChatMessage.from_user("how is it?")]
        await agent.run_async(messages=messages) if is_async else agent.run(messages=messages)
        return "\n".join(
            str(result.result) for message in model.heard[-1] for result in message.tool_call_results
        )


# There is no time limit, and no way to fail other than to raise.
RIG = _Haystack(timeout=NOT_THERE, soft=NOT_THERE)
