# SPDX-License-Identifier: Apache-2.0
"""A LlamaIndex function agent on a model of the test's own."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, ChatResponse
from llama_index.core.llms import LLMMetadata
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.tools import FunctionTool, ToolOutput

from tests.frameworks.rig import NOT_THERE, Rig

__all__ = ["RIG", "Scripted"]


class Scripted(FunctionCallingLLM):  # type: ignore[misc]
    """Asks for one tool call, and then ends."""

    asks: list[Any]
    heard: list[Any] = []  # noqa: RUF012

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(is_function_calling_model=True)

    def _prepare_chat_with_tools(
        self, tools: Any, user_msg: Any = None, chat_history: Any = None, **kw: Any
    ) -> Any:
        return {"messages": chat_history or []}

    async def achat_with_tools(self, tools: Any, **kwargs: Any) -> Any:
        self.heard.append(kwargs.get("chat_history") or [])
        return ChatResponse(message=ChatMessage(role="assistant", content="done"))

    async def astream_chat_with_tools(self, tools: Any, **kwargs: Any) -> Any:
        answer = await self.achat_with_tools(tools, **kwargs)

        async def stream() -> Any:
            yield answer

        return stream()

    def get_tool_calls_from_response(self, response: Any, *args: Any, **kwargs: Any) -> list[ToolSelection]:
        return [self.asks.pop(0)] if self.asks else []

    def chat(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    achat = stream_chat = astream_chat = complete = acomplete = stream_complete = astream_complete = chat


class _LlamaIndex(Rig):
    name = "acrux_llama_index"

    def soft(self, kind: str) -> Callable[..., Any]:
        def forecast(city: str) -> ToolOutput:
            return ToolOutput(
                content=f"no station in {city}",
                tool_name="forecast",
                raw_input={},
                raw_output=None,
                is_error=True,
            )

        async def aforecast(city: str) -> ToolOutput:
            return forecast(city)

        return forecast if kind == "sync" else aforecast

    async def turn(self, function: Callable[..., Any], name: str, arguments: dict[str, Any]) -> str:
        is_async = inspect.iscoroutinefunction(function)
        tool = FunctionTool.from_defaults(
            **{"async_fn" if is_async else "fn": function}, name="forecast", description="Tell the weather."
        )
        selection = ToolSelection(tool_id="call-7", tool_name=name, tool_kwargs=arguments)
        model = Scripted(asks=[selection], heard=[])
        agent = FunctionAgent(tools=[tool], llm=model, streaming=False)
        await agent.run(user_msg="how is it?")
        return "\n".join(str(message.content) for message in model.heard[-1] if message.role == "tool")


# There is no time limit.
RIG = _LlamaIndex(timeout=NOT_THERE)
