# SPDX-License-Identifier: Apache-2.0
"""An agent of Microsoft's Agent Framework on a chat client of the test's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    FunctionTool,
    Message,
)

from tests.frameworks.rig import NOT_THERE, Rig

__all__ = ["RIG", "Scripted"]


class Scripted(FunctionInvocationLayer, BaseChatClient):  # type: ignore[misc]
    """Asks for one tool call, and then ends."""

    def __init__(self, name: str, arguments: dict[str, Any]) -> None:
        super().__init__()
        self.asks: list[Any] = [(name, arguments)]
        self.heard: list[Any] = []

    def _inner_get_response(
        self, *, messages: Any, stream: bool = False, options: Any = None, **kw: Any
    ) -> Any:
        async def answer() -> Any:
            self.heard.append(list(messages))
            if self.asks:
                name, arguments = self.asks.pop(0)
                content = Content.from_function_call("call-7", name, arguments=arguments)
            else:
                content = Content.from_text("done")
            return ChatResponse(messages=[Message("assistant", [content])])

        return answer()


class _AgentFramework(Rig):
    name = "acrux_agent_framework"
    own_span = "execute_tool forecast"

    async def turn(self, function: Callable[..., Any], name: str, arguments: dict[str, Any]) -> str:
        tool = FunctionTool(name="forecast", description="Tell the weather.", func=function)
        model = Scripted(name, arguments)
        await Agent(client=model, tools=[tool]).run("how is it?")
        return "\n".join(
            str(content.result)
            for message in model.heard[-1]
            for content in message.contents
            if content.type == "function_result"
        )


# There is no time limit, and no way to fail other than to raise.
RIG = _AgentFramework(timeout=NOT_THERE, soft=NOT_THERE)
