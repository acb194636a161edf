# SPDX-License-Identifier: Apache-2.0
"""CrewAI: what its agents answer without running a tool, and a ReAct agent's attempts."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("crewai")

from acrux_otel import ToolResult
from acrux_otel.testing import record_calls
from tests.conftest import Exported
from tests.frameworks.rigs.crewai import Scripted, ask, natively, react, tool_of


@pytest.fixture(autouse=True)
def watched(everywhere: Exported, instrument: Any) -> None:
    instrument("acrux_crewai")


def verdicts(spans: Exported) -> list[tuple[Any, ...]]:
    return [
        (
            each.attributes["gen_ai.tool.name"],
            each.attributes.get("errorType"),
            each.attributes.get("errorCode"),
        )
        for each in spans
        if each.outcome is not None
    ]


def model_of(native: bool, *requests: tuple[str, str]) -> Scripted:
    script = [(natively if native else react)(*request) for request in requests]
    return Scripted(model="scripted/1", native=native, script=script)


@pytest.mark.parametrize("native", [True, False], ids=["native", "react"])
@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (("nope", '{"city": "Rome"}'), ("nope", "schema_mismatch", "unknown_tool")),
        (("forecast", "{oops"), ("forecast", "schema_mismatch", "malformed_arguments")),
    ],
)
async def test_what_no_tool_can_be_run_for_is_a_call_of_its_own(
    native: bool, asked: tuple[str, str], expected: tuple[str, ...], everywhere: Exported
) -> None:
    """A name that no tool has, arguments that are no JSON: one verdict, the tool is not entered."""
    ran: list[str] = []
    with record_calls() as calls:
        await ask(model_of(native, asked), tool_of(ran.append))
    assert verdicts(everywhere) == [expected]
    assert [each.id for each in calls] == ["call-7" if native else None]
    assert ran == []


async def test_a_react_agents_attempts_are_one_call(everywhere: Exported) -> None:
    """It runs a raising tool again by itself; the model asked once."""
    ran: list[str] = []

    def forecast(city: str) -> str:
        ran.append(city)
        raise ConnectionRefusedError("nobody listens")

    with record_calls() as calls:
        await ask(model_of(False, ("forecast", '{"city": "Rome"}')), tool_of(forecast))
    assert verdicts(everywhere) == [("forecast", "transport", "connection_refused")]
    (span,) = [each for each in everywhere if each.outcome is not None]
    assert len(ran) > 1
    assert span.attributes["acrux.tool.attempts"] == calls.last.attempts == len(ran)
    assert [name for name, _ in span.events] == ["exception"]


@pytest.mark.parametrize("decorated", [False, True])
async def test_an_attempt_that_works_makes_the_call_good(decorated: bool, everywhere: Exported) -> None:
    """What earlier attempts said is void, also where it was declared from inside."""
    import acrux_otel

    ran: list[str] = []

    def forecast(city: str) -> Any:
        ran.append(city)
        if len(ran) < 3:
            acrux_otel.record_error("no_station", "no station nearby")
            raise LookupError("nowhere")
        return ToolResult.warn("stale", "from the cache", result="rain")

    function = acrux_otel.tool(forecast) if decorated else forecast
    with record_calls() as calls:
        told = await ask(model_of(False, ("forecast", '{"city": "Rome"}')), tool_of(function))
    assert "rain" in told and "ToolResult" not in told
    (span,) = [each for each in everywhere if each.outcome is not None]
    assert (span.outcome, span.status, span.attributes["errorCode"]) == ("warning", "UNSET", "stale")
    assert (span.attributes["acrux.tool.attempts"], len(calls)) == (3, 1)
    assert span.events == []


@pytest.mark.parametrize("native", [True, False], ids=["native", "react"])
async def test_a_tool_whose_uses_are_spent_is_not_executed(native: bool, everywhere: Exported) -> None:
    """The agent is told so; the tool has not failed."""
    requests = [("forecast", f'{{"city": "{city}"}}') for city in ("Rome", "Oslo")]
    await ask(model_of(native, *requests), tool_of(lambda city: city, max_usage_count=1))
    spans = [each for each in everywhere if each.outcome is not None]
    assert [each.outcome for each in spans] == ["ok", "not_executed"]
    assert "usage limit" in spans[1].attributes["acrux.tool.not_executed_reason"]


async def test_a_tool_that_calls_a_tool_keeps_a_span_each(everywhere: Exported) -> None:
    """Only the request of the model has its id."""
    inner = tool_of(lambda city: f"rain in {city}")

    def plan(city: str) -> str:
        return str(inner.run(city=city))

    outer = tool_of(plan)
    outer.name = "plan"
    with record_calls() as calls:
        await ask(model_of(True, ("plan", '{"city": "Rome"}')), outer)
    assert [(each.name, each.id) for each in calls] == [("forecast", None), ("plan", "call-7")]
    spans = {each.attributes["gen_ai.tool.name"]: each for each in everywhere if each.outcome is not None}
    assert spans["forecast"].parent_id == spans["plan"].span_id
