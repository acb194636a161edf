# SPDX-License-Identifier: Apache-2.0
"""A CrewAI tool as its agents run it: structured, without a model."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from typing import Any

os.environ.setdefault("CREWAI_DISABLE_TELEMETRY", "true")
os.environ.setdefault("OTEL_SDK_DISABLED", "false")

from crewai.tools.base_tool import Tool
from crewai.tools.tool_failure import ToolFailure
from pydantic import BaseModel

from tests.frameworks.rig import NOT_THERE, Rig, declared

__all__ = ["RIG", "Arguments"]


class Arguments(BaseModel):
    """What ``forecast`` takes."""

    city: str


class _CrewAI(Rig):
    name = "acrux_crewai"
    call_id = None

    def soft(self, kind: str) -> Callable[..., Any]:
        def forecast(city: str) -> Any:
            return ToolFailure(message=f"no station in {city}", code="no_station")

        async def aforecast(city: str) -> Any:
            return forecast(city)

        return forecast if kind == "sync" else aforecast

    async def turn(self, function: Callable[..., Any], name: str, arguments: dict[str, Any]) -> str:
        tool = Tool(name="forecast", description="Tell the weather.", func=function, args_schema=Arguments)
        if inspect.iscoroutinefunction(function):
            return str(await tool.arun(**arguments))
        return str(tool.to_structured_tool().invoke(arguments))


# The rig asks a tool, which has a name; there is no time limit.
RIG = _CrewAI(timeout=NOT_THERE, unknown=NOT_THERE, soft=declared("no_station"))
