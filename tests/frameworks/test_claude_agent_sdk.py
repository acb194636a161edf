# SPDX-License-Identifier: Apache-2.0
"""The Claude Agent SDK: tools that the CLI runs are known by the messages that it sends."""

from __future__ import annotations

from typing import Any

import acrux_otel_instrumentation as instrumentations
import pytest

pytest.importorskip("claude_agent_sdk")

from claude_agent_sdk._internal import message_parser
from opentelemetry import trace

from acrux_otel import ToolResult
from acrux_otel.seam import current_call
from acrux_otel.testing import record_calls
from tests.conftest import Exported
from tests.frameworks.rigs.claude_agent_sdk import server_with
from tests.frameworks.rigs.mcp import connected, raw_call, text_of


@pytest.fixture(autouse=True)
def watched(everywhere: Exported, instrument: Any) -> None:
    instrument("acrux_claude_agent_sdk", "acrux_mcp")


def asks(id: str, name: str, **arguments: Any) -> dict[str, Any]:
    block = {"type": "tool_use", "id": id, "name": name, "input": arguments or {"command": "ls"}}
    return {"type": "assistant", "message": {"role": "assistant", "model": "m", "content": [block]}}


def answers(id: str, text: str, is_error: bool) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": id, "content": text, "is_error": is_error}
    return {"type": "user", "message": {"role": "user", "content": [block]}}


def test_a_tool_of_the_cli_is_a_call_from_its_request_to_its_answer(everywhere: Exported) -> None:
    """Request and answer are messages; the call lasts from one to the other and hangs below the run."""
    with trace.get_tracer("agent").start_as_current_span("agent") as agent, record_calls() as calls:
        message_parser.parse_message(asks("a", "Bash"))
        message_parser.parse_message(asks("b", "Read"))
        assert current_call() is None
        assert trace.get_current_span() is agent
        message_parser.parse_message(answers("b", "fine", False))
        message_parser.parse_message(answers("a", "no such file", True))
        assert trace.get_current_span() is agent
    bash, read = (
        next(each for each in everywhere if each.name == f"execute_tool {name}") for name in ("Bash", "Read")
    )
    assert (read.outcome, read.attributes["gen_ai.tool.call.id"]) == ("ok", "b")
    assert (bash.outcome, bash.status, bash.description) == ("error", "ERROR", "no such file")
    assert {bash.parent_id, read.parent_id} == {format(agent.get_span_context().span_id, "016x")}
    assert [each.id for each in calls] == ["b", "a"]


def test_a_call_of_the_cli_that_is_never_answered_ends_with_its_turn(everywhere: Exported) -> None:
    """A turn that was interrupted leaves no open call behind, and touches no other session's."""
    for id, session in (("a", "one"), ("b", "two")):
        message_parser.parse_message({**asks(id, "Bash"), "session_id": session})
    message_parser.parse_message(
        {
            "type": "result",
            "subtype": "success",
            "duration_ms": 1,
            "duration_api_ms": 1,
            "is_error": False,
            "num_turns": 1,
            "session_id": "one",
        }
    )
    assert [(each.outcome, each.status) for each in everywhere] == [("cancelled", "UNSET")]
    message_parser.parse_message(answers("b", "fine", False))
    assert [each.outcome for each in everywhere] == ["cancelled", "ok"]
    assert current_call() is None


async def test_a_tool_of_this_process_is_not_counted_by_its_message_again(everywhere: Exported) -> None:
    """The CLI tells of in-process tools too, under a prefix; the call is where they run, and has its id."""

    async def forecast(arguments: dict[str, Any]) -> Any:
        return ToolResult.error("location_not_found", "no such city")

    server = server_with(forecast)
    with record_calls() as calls:
        message_parser.parse_message(asks("a", "mcp__weather__forecast", city="Rome"))
        message_parser.parse_message(asks("b", "mcp__weather__forecast", city="Atlantis"))
        async with connected(server) as client:
            result = await client.call_tool("forecast", {"city": "Atlantis"})
            await client.call_tool("forecast", {"city": "Oslo"})
        message_parser.parse_message(answers("b", "no such city", True))
    assert text_of(result) == "no such city"
    assert [(each.name, each.verdict.code, each.id) for each in calls] == [
        ("forecast", "location_not_found", "b"),
        ("forecast", "location_not_found", None),
    ]


@pytest.mark.parametrize("instrumented", ["before", "after"])
async def test_a26_a_server_that_was_made_before_instrument_is_recorded(
    instrumented: str, everywhere: Exported, instrument: Any
) -> None:
    """A26: whenever its server was made, a tool that raised has its verdict, and is counted once."""

    async def forecast(arguments: dict[str, Any]) -> Any:
        raise ConnectionRefusedError("nobody listens")

    if instrumented == "after":
        instrumentations.uninstrument("acrux_claude_agent_sdk", "acrux_mcp")
    server = server_with(forecast)
    if instrumented == "after":
        instrument("acrux_claude_agent_sdk", "acrux_mcp")
    async with connected(server) as client:
        with record_calls() as calls:
            await raw_call(client, "forecast", {"city": "Rome"})
            await raw_call(client, "nope", {})
    assert [(each.name, each.verdict.code) for each in calls] == [
        ("forecast", "connection_refused"),
        ("nope", "unknown_tool"),
    ]
