# SPDX-License-Identifier: Apache-2.0
"""Microsoft's Agent Framework: pauses, ends of a run, tools whose uses are spent."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("agent_framework")

from agent_framework import Agent, FunctionTool
from agent_framework.exceptions import UserInputRequiredException

from acrux_otel.testing import record_calls
from tests.conftest import Exported
from tests.frameworks.rigs.agent_framework import Scripted


@pytest.fixture(autouse=True)
def watched(everywhere: Exported, instrument: Any) -> None:
    instrument("acrux_agent_framework")


def verdicts(spans: Exported) -> list[tuple[Any, ...]]:
    return [
        tuple(each.attributes.get(name) for name in ("acrux.tool.outcome", "errorType", "errorCode"))
        for each in spans
        if each.outcome is not None
    ]


def tool_of(function: Any, **options: Any) -> FunctionTool:
    return FunctionTool(name="forecast", description="Tell the weather.", func=function, **options)


async def test_an_unknown_tool_that_ends_the_run_is_recorded(everywhere: Exported) -> None:
    """Where the agent is told to end at a name that no tool has, the call has its verdict all the same."""
    model = Scripted("nope", {"city": "Rome"})
    model.function_invocation_configuration["terminate_on_unknown_calls"] = True
    with record_calls() as calls, pytest.raises(KeyError, match="nope"):
        await Agent(client=model, tools=[tool_of(lambda city: city)]).run("?")
    assert verdicts(everywhere) == [("error", "schema_mismatch", "unknown_tool")]
    assert [(each.name, each.id) for each in calls] == [("nope", "call-7")]


async def test_a04_a_tool_that_needs_the_user_is_interrupted(everywhere: Exported) -> None:
    """A04: what asks the user to go on is no failure."""

    def forecast(city: str) -> str:
        raise UserInputRequiredException([])

    await Agent(client=Scripted("forecast", {"city": "Rome"}), tools=[tool_of(forecast)]).run("?")
    assert verdicts(everywhere) == [("interrupted", None, None)]


async def test_a04_a_tool_that_waits_for_approval_has_not_run(everywhere: Exported) -> None:
    """A04: the framework asks a person first; there is no call yet, and nothing red."""
    tool = tool_of(lambda city: city, approval_mode="always_require")
    await Agent(client=Scripted("forecast", {"city": "Rome"}), tools=[tool]).run("?")
    assert verdicts(everywhere) == []


async def test_a_tool_whose_uses_are_spent_is_not_executed(everywhere: Exported) -> None:
    """The framework's own limit is no failure of the tool."""
    tool = tool_of(lambda city: city, max_invocations=1)
    for _ in range(2):
        await Agent(client=Scripted("forecast", {"city": "Rome"}), tools=[tool]).run("?")
    assert [each[0] for each in verdicts(everywhere)] == ["ok", "not_executed"]
