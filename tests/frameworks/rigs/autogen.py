# SPDX-License-Identifier: Apache-2.0
"""An AutoGen workbench with one function tool."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autogen_core.tools import FunctionTool, StaticWorkbench

from tests.frameworks.rig import NOT_THERE, Rig

__all__ = ["RIG"]


class _Autogen(Rig):
    name = "acrux_autogen"
    own_span = "execute_tool forecast"

    async def turn(self, function: Callable[..., Any], name: str, arguments: dict[str, Any]) -> str:
        bench = StaticWorkbench([FunctionTool(function, description="Tell the weather.", name="forecast")])
        result = await bench.call_tool(name, arguments, call_id="call-7")
        return result.to_text()


# There is no time limit, and a function has no way to fail other than to raise.
RIG = _Autogen(timeout=NOT_THERE, soft=NOT_THERE)
