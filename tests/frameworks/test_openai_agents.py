# SPDX-License-Identifier: Apache-2.0
"""The OpenAI Agents SDK: what it hides from the model, and from its own traces."""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
from typing import Any

import pytest

pytest.importorskip("agents.run_internal.tool_execution")

import agents.tool
from agents import Agent, RunConfig, RunContextWrapper, Runner, function_tool
from agents.mcp import MCPServerStdio
from pydantic import BaseModel

from acrux_otel import ToolResult
from acrux_otel.seam import observe, unobserve
from acrux_otel.testing import record_calls
from tests.conftest import Exported
from tests.frameworks.rigs.openai_agents import Scripted, asking, told


@pytest.fixture(autouse=True)
def watched(everywhere: Exported, instrument: Any) -> None:
    instrument("acrux_openai_agents")


async def run(tool: Any, *calls: tuple[str, str, str], **config: Any) -> dict[str, str]:
    model = Scripted(asking(*calls))
    await Runner.run(Agent(name="agent", model=model, tools=[tool]), "?", run_config=RunConfig(**config))
    return told(model)


def verdicts(spans: Exported) -> dict[str, tuple[Any, ...]]:
    return {
        each.attributes["gen_ai.tool.call.id"]: (
            each.outcome,
            each.attributes.get("errorType"),
            each.attributes.get("errorCode"),
        )
        for each in spans
        if each.outcome is not None
    }


@function_tool
async def forecast(city: str) -> str:
    """Tell the weather."""
    if city == "Nowhere":
        raise ConnectionRefusedError("nobody listens")
    return city


@pytest.mark.parametrize("redacted", [False, True])
async def test_arguments_are_judged_also_where_their_error_is_redacted(
    redacted: bool, everywhere: Exported, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Text that is no JSON and arguments that do not validate are told apart, with or without their cause."""
    monkeypatch.setattr(agents.tool._debug, "DONT_LOG_TOOL_DATA", redacted)
    await run(forecast, ("a", "forecast", "{oops"), ("b", "forecast", '{"town": 1}'))
    assert verdicts(everywhere) == {
        "a": ("error", "schema_mismatch", "malformed_arguments"),
        "b": ("error", "schema_mismatch", "invalid_arguments"),
    }


_SERVER = """
try:
    from mcp.server.mcpserver import MCPServer as Server
except ImportError:
    from mcp.server.fastmcp import FastMCP as Server
server = Server("weather")

@server.tool()
def forecast(city: str) -> str:
    return city

server.run("stdio")
"""


@pytest.mark.parametrize("redacted", [False, True])
async def test_arguments_for_a_tool_of_a_server_are_judged_alike(
    redacted: bool, everywhere: Exported, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Text that is no JSON never reaches an MCP server: it is malformed there as for a function."""
    monkeypatch.setattr(agents.tool._debug, "DONT_LOG_TOOL_DATA", redacted)
    model = Scripted(asking(("a", "forecast", "{oops"), ("b", "forecast", '{"city": "Rome"}')))
    process: Any = {"command": sys.executable, "args": ["-c", _SERVER]}
    async with MCPServerStdio(params=process, client_session_timeout_seconds=30) as server:
        await Runner.run(Agent(name="agent", model=model, mcp_servers=[server]), "?")
    assert "Rome" in told(model)["b"]
    assert verdicts(everywhere) == {
        "a": ("error", "schema_mismatch", "malformed_arguments"),
        "b": ("ok", None, None),
    }


async def test_an_exception_behind_a_generic_sentence_is_the_verdict(everywhere: Exported) -> None:
    """The model reads a sentence; the span has the exception's type and one event."""
    await run(forecast, ("a", "forecast", '{"city": "Nowhere"}'))
    assert verdicts(everywhere) == {"a": ("error", "transport", "connection_refused")}
    assert [name for name, _ in everywhere.only.events] == ["exception"]


async def test_an_exception_that_ends_the_run_is_recorded_once(everywhere: Exported) -> None:
    """Without a failure function the exception escapes; the call has one verdict."""

    @function_tool(failure_error_function=None)
    async def strict(city: str) -> str:
        """Tell the weather."""
        raise LookupError("nowhere")

    with pytest.raises(Exception, match="nowhere"):
        await run(strict, ("a", "strict", '{"city": "Rome"}'))
    assert verdicts(everywhere) == {"a": ("error", "tool_declared", "lookup_error")}


@pytest.mark.parametrize("behavior", ["error_as_result", "raise_exception"])
async def test_a_time_limit_is_a_transport_timeout(behavior: str, everywhere: Exported) -> None:
    """Answered or raised, the SDK's time limit is a timeout of the transport."""
    options: Any = {"timeout": 0.05, "timeout_behavior": behavior}

    @function_tool(**options)
    async def slow(city: str) -> str:
        """Tell the weather."""
        await asyncio.sleep(5)
        return city

    if behavior == "raise_exception":
        with pytest.raises(Exception, match="timed out"):
            await run(slow, ("a", "slow", '{"city": "Rome"}'))
    else:
        await run(slow, ("a", "slow", '{"city": "Rome"}'))
    assert verdicts(everywhere) == {"a": ("error", "transport", "timeout")}


async def test_an_unknown_tool_that_the_model_is_told_of(everywhere: Exported) -> None:
    """Where the SDK answers an unknown name instead of ending the run, it is the same verdict."""
    if "tool_not_found_behavior" not in inspect.signature(RunConfig).parameters:
        pytest.skip("this version ends the run")
    answers = await run(
        forecast,
        ("a", "nope", "{}"),
        ("b", "forecast", '{"city": "Rome"}'),
        tool_not_found_behavior="return_error_to_model",
    )
    assert "nope" in answers["a"]
    assert verdicts(everywhere) == {
        "a": ("error", "schema_mismatch", "unknown_tool"),
        "b": ("ok", None, None),
    }


class Weather(BaseModel):
    temp: float


@pytest.mark.parametrize("decorated", [False, True])
async def test_a_declared_error_is_not_held_against_the_output_type(
    decorated: bool, everywhere: Exported
) -> None:
    """A tool whose output is validated hands over its declared error all the same."""
    if "output_json_schema" not in agents.tool.FunctionTool.__dataclass_fields__:
        pytest.skip("this version does not validate outputs")
    import acrux_otel

    def typed(city: str) -> Weather:
        """Tell the weather."""
        return ToolResult.error("location_not_found", "no such city")

    options: Any = {"allowed_callers": ["direct", "programmatic"]}
    made = function_tool(acrux_otel.tool(typed) if decorated else typed, **options)
    answers = await run(made, ("a", "typed", '{"city": "Atlantis"}'))
    assert "no such city" in answers["a"]
    assert verdicts(everywhere) == {"a": ("error", "tool_declared", "location_not_found")}


async def test_a04_a_tool_that_waits_for_approval_has_not_run(everywhere: Exported) -> None:
    """A04: a call that a person has yet to approve is an interruption of the run, not a failed call."""

    @function_tool(needs_approval=True)
    async def pay(amount: int) -> str:
        """Pay."""
        return "paid"

    model = Scripted(asking(("a", "pay", '{"amount": 3}')))
    result = await Runner.run(Agent(name="agent", model=model, tools=[pay]), "pay")
    assert result.interruptions
    assert verdicts(everywhere) == {}
    state = result.to_state()
    state.approve(result.interruptions[0])
    await Runner.run(Agent(name="agent", model=model, tools=[pay]), state)
    assert verdicts(everywhere) == {"a": ("ok", None, None)}


async def test_a11_the_run_context_is_not_the_models(everywhere: Exported) -> None:
    """A11: the context is neither in the definition nor among the arguments."""

    @function_tool
    async def search(ctx: RunContextWrapper[Any], q: str) -> str:
        """Search the shelves."""
        return q

    seen: list[Any] = []
    observe(opened=seen.append)
    try:
        await run(search, ("a", "search", '{"q": "otters"}'))
    finally:
        unobserve(opened=seen.append)
    (made,) = seen
    assert set(made.site.definition.parameters["properties"]) == {"q"}
    assert dict(made.arguments()) == {"q": "otters"}
    assert made.site.definition.description == "Search the shelves."


async def test_an_agent_that_is_a_tool_keeps_its_own_call(everywhere: Exported) -> None:
    """A tool that runs an agent is a call, and the tools of that agent are calls below it."""
    inner_model = Scripted(asking(("inner", "forecast", '{"city": "Nowhere"}')))
    expert = Agent(name="expert", model=inner_model, tools=[forecast])
    tool = expert.as_tool("ask_expert", "Ask the expert.")
    with record_calls() as calls:
        await run(tool, ("outer", "ask_expert", json.dumps({"input": "how is it?"})))
    assert verdicts(everywhere) == {
        "inner": ("error", "transport", "connection_refused"),
        "outer": ("ok", None, None),
    }
    assert [each.id for each in calls] == ["inner", "outer"]
    ids = {each.attributes["gen_ai.tool.call.id"]: each for each in everywhere.tools()}
    assert ids["inner"].parent_id == ids["outer"].span_id


async def test_calls_of_one_turn_run_beside_each_other(everywhere: Exported) -> None:
    """Eight calls at once have eight verdicts."""
    await run(
        forecast,
        *((f"c{n}", "forecast", json.dumps({"city": "Nowhere" if n % 2 else "Rome"})) for n in range(8)),
    )
    assert [each[0] for _, each in sorted(verdicts(everywhere).items())] == ["ok", "error"] * 4
