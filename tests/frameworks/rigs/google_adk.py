# SPDX-License-Identifier: Apache-2.0
"""An ADK agent on a model of the test's own."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools import FunctionTool
from google.genai import types

from tests.frameworks.rig import NOT_THERE, Rig, declared

__all__ = ["RIG", "Scripted", "run_with"]


class Scripted(BaseLlm):  # type: ignore[misc]
    """Asks for one tool call, and then ends."""

    asks: list[Any]
    heard: list[Any]

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncIterator[Any]:
        self.heard.append(llm_request.contents)
        part = types.Part(function_call=self.asks.pop(0)) if self.asks else types.Part.from_text(text="done")
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


async def run_with(tool: Any, name: str, arguments: dict[str, Any]) -> tuple[Scripted, list[Any]]:
    """One question to an agent that has ``tool``; returns its model and the events."""
    model = Scripted(
        model="scripted", asks=[types.FunctionCall(id="call-7", name=name, args=arguments)], heard=[]
    )
    runner = InMemoryRunner(agent=LlmAgent(name="agent", model=model, tools=[tool]), app_name="app")
    session = await runner.session_service.create_session(app_name="app", user_id="me")
    question = types.Content(role="user", parts=[types.Part.from_text(text="how is it?")])
    events = [
        event async for event in runner.run_async(user_id="me", session_id=session.id, new_message=question)
    ]
    return model, events


class _GoogleADK(Rig):
    name = "acrux_google_adk"
    own_span = "execute_tool forecast"

    def soft(self, kind: str) -> Callable[..., Any]:
        def forecast(city: str) -> dict:
            """Tell the weather of a city."""
            return {"error": f"no station in {city}"}

        async def aforecast(city: str) -> dict:
            """Tell the weather of a city."""
            return forecast(city)

        return forecast if kind == "sync" else aforecast

    async def turn(self, function: Callable[..., Any], name: str, arguments: dict[str, Any]) -> str:
        tool = FunctionTool(function)
        tool.name = "forecast"
        model, _ = await run_with(tool, name, arguments)
        return json.dumps(
            [
                part.function_response.response
                for content in model.heard[-1]
                for part in content.parts
                if part.function_response
            ]
        )


# A true top-level error is the framework's own word for a failure. There is no time limit.
RIG = _GoogleADK(timeout=NOT_THERE, error_dict=declared("tool_error"))
