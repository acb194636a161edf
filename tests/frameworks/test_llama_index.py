# SPDX-License-Identifier: Apache-2.0
"""LlamaIndex: a tool that waits for a person, a tool that is called by hand."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("llama_index.core")

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.tools import FunctionTool, calling
from llama_index.core.tools.calling import call_tool
from llama_index.core.workflow import Context, HumanResponseEvent, InputRequiredEvent

from tests.conftest import Exported
from tests.frameworks.rigs.llama_index import Scripted


@pytest.fixture(autouse=True)
def watched(everywhere: Exported, instrument: Any) -> None:
    instrument("acrux_llama_index")


async def test_a04_a_tool_that_waits_for_a_person_is_no_failure(everywhere: Exported) -> None:
    """A04: the wait is an interruption, where the framework runs the tool again, and nothing is red."""

    async def pay(ctx: Context, amount: int) -> str:
        """Pay."""
        answer = await ctx.wait_for_event(
            HumanResponseEvent, waiter_event=InputRequiredEvent(prefix="may I?")
        )
        return str(answer.response)

    pay.__annotations__.update(ctx=Context, amount=int)
    selection = ToolSelection(tool_id="call-7", tool_name="pay", tool_kwargs={"amount": 3})
    model = Scripted(asks=[selection], heard=[])
    agent = FunctionAgent(tools=[FunctionTool.from_defaults(async_fn=pay)], llm=model, streaming=False)
    handler = agent.run(user_msg="pay")
    async for event in handler.stream_events():
        if isinstance(event, InputRequiredEvent):
            handler.ctx.send_event(HumanResponseEvent(response="yes"))
    await handler
    outcomes = [each.outcome for each in everywhere if each.outcome is not None]
    assert outcomes[-1] == "ok"
    assert set(outcomes) <= {"interrupted", "ok"}
    assert {each.status for each in everywhere if each.outcome is not None} == {"UNSET"}


@pytest.mark.parametrize("imported", ["before", "after"])
async def test_a26_a_tool_that_is_called_by_hand_is_a_call(imported: str, everywhere: Exported) -> None:
    """A26: `call_tool` swallows what a tool raised; it may have been imported before instrument()."""
    ran: list[str] = []

    def forecast(city: str) -> str:
        ran.append(city)
        raise ConnectionRefusedError("nobody listens")

    call = call_tool if imported == "before" else calling.call_tool
    assert call(FunctionTool.from_defaults(fn=forecast), {"city": "Rome"}).is_error
    codes = [each.attributes["errorCode"] for each in everywhere if each.outcome is not None]
    # An older version runs it twice, which only the whole function can tell to be one request.
    assert codes == ["connection_refused"] * (len(ran) if imported == "before" else 1)
