# SPDX-License-Identifier: Apache-2.0
"""A crew of one agent with a model that says what a test wrote down, natively or as a ReAct text."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from collections.abc import Callable
from typing import Any, ClassVar

os.environ.setdefault("CREWAI_DISABLE_TELEMETRY", "true")
os.environ.setdefault("CREWAI_TRACING_ENABLED", "false")
os.environ.setdefault("XDG_DATA_HOME", tempfile.mkdtemp(prefix="crewai-"))

from crewai import Agent, Crew, Task
from crewai.llms.base_llm import BaseLLM
from crewai.tools.base_tool import Tool
from crewai.tools.tool_failure import ToolFailure
from pydantic import BaseModel

from tests.frameworks.rig import NOT_THERE, Rig, declared

__all__ = ["RIG", "Arguments", "Scripted", "ask", "natively", "react", "tool_of"]


class Arguments(BaseModel):
    """What ``forecast`` takes."""

    city: str


class Scripted(BaseLLM):
    """Says what it was given, then that it is done; keeps the messages that it was sent last."""

    native: bool = True
    script: list[Any] = []  # noqa: RUF012  # pydantic copies it
    heard: list[Any] = []  # noqa: RUF012
    done: ClassVar[str] = "Thought: I know.\nFinal Answer: fine"

    def supports_function_calling(self) -> bool:
        return self.native

    def supports_stop_words(self) -> bool:
        return True

    def get_context_window_size(self) -> int:
        return 100_000

    def call(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        self.heard = list(messages) if isinstance(messages, list) else [{"content": messages}]
        return self.script.pop(0) if self.script else self.done

    async def acall(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        return self.call(messages)


def natively(name: str, arguments: str, call_id: str = "call-7") -> Any:
    """A request as a model's API has it."""
    return [{"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}]


def react(name: str, arguments: str) -> str:
    """A request in a model's text."""
    return f"Thought: let me see\nAction: {name}\nAction Input: {arguments}\n"


def tool_of(function: Callable[..., Any], **options: Any) -> Tool:
    return Tool(
        name="forecast", description="Tell the weather.", func=function, args_schema=Arguments, **options
    )


async def ask(model: Scripted, *tools: Any) -> str:
    """Run the crew where no event loop is; returns all that the model was told."""
    agent = Agent(role="seer", goal="to know", backstory="-", llm=model, tools=list(tools), verbose=False)
    task = Task(description="how is it?", expected_output="an answer", agent=agent)
    await asyncio.to_thread(Crew(agents=[agent], tasks=[task], verbose=False).kickoff)
    return "\n".join(str(each.get("content")) for each in model.heard)


class _CrewAI(Rig):
    name = "acrux_crewai"

    def soft(self, kind: str) -> Callable[..., Any]:
        def forecast(city: str) -> Any:
            return ToolFailure(message=f"no station in {city}", code="no_station")

        async def aforecast(city: str) -> Any:
            return forecast(city)

        return forecast if kind == "sync" else aforecast

    async def turn(self, function: Callable[..., Any], name: str, arguments: dict[str, Any]) -> str:
        model = Scripted(model="scripted/1", script=[natively(name, json.dumps(arguments))])
        return await ask(model, tool_of(function))


# There is no time limit.
RIG = _CrewAI(timeout=NOT_THERE, soft=declared("no_station"))
