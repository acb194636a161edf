# SPDX-License-Identifier: Apache-2.0
"""A Strands agent on a model of the test's own."""

from __future__ import annotations

import inspect
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from strands import Agent, tool
from strands.models import Model

from tests.frameworks.rig import NOT_THERE, Rig

__all__ = ["RIG", "Scripted", "agent_with"]


class Scripted(Model):
    """Asks for one tool call, and then ends."""

    def __init__(self, name: str, arguments: dict[str, Any]) -> None:
        self.asks: list[Any] = [(name, arguments)]
        self.heard: list[Any] = []

    def update_config(self, **config: Any) -> None:
        pass

    def get_config(self) -> Any:
        return {"model_id": "scripted"}

    async def structured_output(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        raise NotImplementedError
        yield

    async def stream(self, messages: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        self.heard.append(messages)
        yield {"messageStart": {"role": "assistant"}}
        if self.asks:
            name, arguments = self.asks.pop(0)
            yield {"contentBlockStart": {"start": {"toolUse": {"name": name, "toolUseId": "call-7"}}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(arguments)}}}}
            yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": "tool_use"}}
        else:
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": "done"}}}
            yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": "end_turn"}}


def agent_with(model: Scripted, *tools: Any) -> Agent:
    """An agent that prints nothing."""
    return Agent(model=model, tools=list(tools), callback_handler=None)


class _Strands(Rig):
    name = "acrux_strands"
    own_span = "execute_tool forecast"

    def soft(self, kind: str) -> Callable[..., Any]:
        def forecast(city: str) -> dict:
            """Tell the weather of a city."""
            return {"status": "error", "content": [{"text": f"no station in {city}"}]}

        async def aforecast(city: str) -> dict:
            """Tell the weather of a city."""
            return forecast(city)

        return forecast if kind == "sync" else aforecast

    async def turn(self, function: Callable[..., Any], name: str, arguments: dict[str, Any]) -> str:
        model = Scripted(name, arguments)
        agent = agent_with(model, tool(name="forecast", description="Tell the weather.")(function))
        if inspect.iscoroutinefunction(function):
            await agent.invoke_async("how is it?")
        else:
            agent("how is it?")
        results = [
            block["toolResult"]
            for message in agent.messages
            for block in message["content"]
            if "toolResult" in block
        ]
        return json.dumps(results)


# There is no time limit.
RIG = _Strands(timeout=NOT_THERE)
