# SPDX-License-Identifier: Apache-2.0
"""Pydantic AI: deferrals, retries that are used up, the framework's own span."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pydantic_ai")

from pydantic_ai import Agent, ModelRetry, RunContext, Tool
from pydantic_ai.exceptions import ApprovalRequired, UnexpectedModelBehavior
from pydantic_ai.models.test import TestModel
from pydantic_ai.tools import DeferredToolRequests

import acrux_otel as acrux
from acrux_otel import ToolResult
from acrux_otel.seam import observe, unobserve
from acrux_otel.testing import record_calls
from tests.conftest import Exported
from tests.frameworks.rigs.pydantic_ai import RIG, agent_that_calls


@pytest.fixture(autouse=True)
def watched(everywhere: Exported, instrument: Any) -> None:
    instrument("acrux_pydantic_ai")


def verdicts(spans: Exported) -> list[tuple[Any, ...]]:
    return [
        (each.outcome, each.attributes.get("errorType"), each.attributes.get("errorCode"))
        for each in spans
        if each.outcome is not None
    ]


async def test_a04_a_tool_that_asks_for_approval_is_interrupted(everywhere: Exported) -> None:
    """A04: ApprovalRequired pauses the run: not red, and the run's output asks for it."""

    def pay(amount: int) -> str:
        raise ApprovalRequired

    agent = agent_that_calls(
        "pay", {"amount": 3}, Tool(pay), seen=[], output_type=[str, DeferredToolRequests]
    )
    result = await agent.run("pay")
    assert isinstance(result.output, DeferredToolRequests)
    span = everywhere.only
    assert (span.outcome, span.status, span.events) == ("interrupted", "UNSET", [])


@pytest.mark.parametrize("own", [False, True], ids=["without its span", "with its span"])
@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("ok", ("ok", None, None)),
        ("declared", ("error", "tool_declared", "location_not_found")),
        ("raise", ("error", "tool_declared", "lookup_error")),
        ("soft", ("error", "tool_declared", "model_retry")),
        ("mismatch", ("error", "schema_mismatch", "invalid_arguments")),
        ("unknown", ("error", "schema_mismatch", "unknown_tool")),
    ],
)
async def test_the_frameworks_own_span_is_enriched(
    own: bool, case: str, expected: tuple[Any, ...], everywhere: Exported
) -> None:
    """Where the framework instruments its agent, its own tool span carries the verdict, and stays ERROR."""
    Agent.instrument_all(own)
    try:
        with record_calls() as calls:
            await RIG.run("async", case)
    finally:
        Agent.instrument_all(False)
    assert verdicts(everywhere) == [expected]
    assert len(calls) == 1
    (span,) = [each for each in everywhere if each.outcome is not None]
    refused = case in ("unknown", "mismatch")  # has no span of the framework, or not in every version
    if own and not refused:
        assert span.scope == "pydantic-ai", [each.name for each in everywhere]
    assert span.status == ("ERROR" if expected[0] == "error" else "UNSET")
    assert bool(span.description) == (expected[0] == "error")
    assert len([name for name, _ in span.events if name == "exception"]) <= 1


async def test_retries_that_are_used_up_are_a_call_each(everywhere: Exported) -> None:
    """Each refused call has its verdict, the last one too, which ends the run."""
    agent = Agent(TestModel(), retries=2)

    @agent.tool_plain
    def forecast(city: str) -> str:
        raise ModelRetry("no station")

    with pytest.raises(UnexpectedModelBehavior):
        await agent.run("how is it?")
    assert verdicts(everywhere) == [("error", "tool_declared", "model_retry")] * 3


async def test_arguments_refused_until_the_end_are_a_call_each(everywhere: Exported) -> None:
    """The refusal that ends the run is recorded as well."""

    def forecast(city: str) -> str:
        return city

    agent = agent_that_calls("forecast", {"town": 1}, Tool(forecast, max_retries=0), seen=[])
    with pytest.raises(UnexpectedModelBehavior):
        await agent.run("how is it?")
    assert verdicts(everywhere) == [("error", "schema_mismatch", "invalid_arguments")]


async def test_a_retry_that_hides_a_cause_is_judged_by_the_cause(everywhere: Exported) -> None:
    """A ModelRetry raised from a connection error is a transport failure."""

    def forecast(city: str) -> str:
        try:
            raise ConnectionRefusedError("nobody listens")
        except ConnectionRefusedError as error:
            raise ModelRetry("try again") from error

    await agent_that_calls("forecast", {"city": "Rome"}, Tool(forecast), seen=[]).run("how is it?")
    assert verdicts(everywhere) == [("error", "transport", "connection_refused")]


async def test_a11_the_run_context_is_not_the_models(everywhere: Exported) -> None:
    """A11: RunContext is neither in the definition nor among the arguments."""

    def search(ctx: RunContext[str], q: str) -> str:
        """Search the shelves.

        Args:
            q: what for.
        """
        return f"{q} for {ctx.deps}"

    seen: list[Any] = []
    observe(opened=seen.append)
    try:
        await agent_that_calls("search", {"q": "otters"}, Tool(search), seen=[]).run("find", deps="me")
    finally:
        unobserve(opened=seen.append)
    (made,) = seen
    assert set(made.site.definition.parameters["properties"]) == {"q"}
    assert dict(made.arguments()) == {"q": "otters"}
    assert "Search the shelves." in (made.site.definition.description or "")


def test_a_synchronous_run_is_seen_too(everywhere: Exported) -> None:
    """run_sync makes the same one span."""
    seen: list[str] = []

    def forecast(city: str) -> dict:
        return ToolResult.error("location_not_found", "no such city")

    agent_that_calls("forecast", {"city": "Atlantis"}, Tool(forecast), seen=seen).run_sync("how is it?")
    assert "no such city" in seen[0]
    assert verdicts(everywhere) == [("error", "tool_declared", "location_not_found")]


async def test_the_output_tool_is_no_tool_call(everywhere: Exported) -> None:
    """The tool by which a model hands over its answer runs nothing and is not recorded."""

    await Agent(TestModel(), output_type=list[int]).run("count")
    assert verdicts(everywhere) == []


async def test_a_tool_that_calls_another_of_its_name_and_tries_again_is_ok(everywhere: Exported) -> None:
    """A decorated function that is not the framework's tool has a span for each of its calls."""
    tried: list[str] = []

    @acrux.tool(name="search")
    def remote(q: str) -> str:
        tried.append(q)
        if len(tried) == 1:
            raise ConnectionRefusedError("flaky")
        return "hit"

    def search(q: str) -> str:
        try:
            return remote(q)
        except ConnectionError:
            return remote(q)

    seen: list[str] = []
    await agent_that_calls("search", {"q": "otters"}, Tool(search), seen=seen).run("find")
    assert seen == ["hit"]
    assert [each[0] for each in verdicts(everywhere)] == ["error", "ok", "ok"]
    failed, again, outer = everywhere.tools()
    assert failed.parent_id == again.parent_id == outer.span_id


async def test_an_agent_below_a_tool_that_has_a_tool_of_its_name_makes_calls_of_its_own(
    everywhere: Exported,
) -> None:
    """What the inner model has handled is not the outer call's verdict."""

    def rephrased(q: str) -> str:
        raise ModelRetry("rephrase")

    async def ask(q: str) -> str:
        inner = agent_that_calls("ask", {"q": "again"}, Tool(rephrased, name="ask", max_retries=3), seen=[])
        await inner.run(q)
        return "the inner agent managed"

    seen: list[str] = []
    await agent_that_calls("ask", {"q": "otters"}, Tool(ask), seen=seen).run("ask")
    assert seen == ["the inner agent managed"]
    assert verdicts(everywhere)[-1] == ("ok", None, None)
    assert ("error", "tool_declared", "model_retry") in verdicts(everywhere)
