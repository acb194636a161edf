# SPDX-License-Identifier: Apache-2.0
"""Strands Agents: the OK trap, streams and interrupts."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("strands.tools.executors._executor")

from strands import ToolContext, tool

from acrux_otel import ToolResult
from acrux_otel.seam import current_call
from tests.conftest import Exported
from tests.frameworks.rigs.strands import Scripted, agent_with


@pytest.fixture(autouse=True)
def watched(everywhere: Exported, instrument: Any) -> None:
    instrument("acrux_strands")


async def test_the_ok_of_the_framework_does_not_hide_a_declared_error(everywhere: Exported) -> None:
    """The framework sees a success and sets OK; the exported span is ERROR."""

    @tool
    def forecast(city: str) -> str:
        """Tell the weather."""
        return ToolResult.error("location_not_found", "no such city")

    await agent_with(Scripted("forecast", {"city": "Atlantis"}), forecast).invoke_async("?")
    (span,) = [each for each in everywhere if each.outcome is not None]
    assert (span.status, span.description) == ("ERROR", "no such city")
    assert span.attributes["gen_ai.tool.status"] == "success"
    assert span.events[-1][0] != "exception"


async def test_a04_an_interrupt_is_no_failure(everywhere: Exported) -> None:
    """A04: a tool that asks a person is interrupted, not red."""

    @tool(context=True)
    def pay(amount: int, tool_context: ToolContext) -> str:
        """Pay."""
        return str(tool_context.interrupt("approve", reason="may I?"))

    result = await agent_with(Scripted("pay", {"amount": 3}), pay).invoke_async("pay")
    assert result.stop_reason == "interrupt"
    (span,) = [each for each in everywhere if each.outcome is not None]
    assert span.outcome == "interrupted"
    assert span.status != "ERROR"


async def test_a_stream_is_current_while_it_works_and_not_between(everywhere: Exported) -> None:
    """Whoever looks at the events of a tool is outside of its call."""
    inside: list[Any] = []

    @tool
    async def forecast(city: str) -> Any:
        """Tell the weather."""
        inside.append(current_call())
        yield "looking"
        inside.append(current_call())
        yield {"city": city}

    agent = agent_with(Scripted("forecast", {"city": "Rome"}), forecast)
    outside = [current_call() async for _ in agent.stream_async("?")]
    assert set(outside) == {None}
    assert len(inside) == 2 and None not in inside
    (span,) = [each for each in everywhere if each.outcome is not None]
    assert span.outcome == "ok"
