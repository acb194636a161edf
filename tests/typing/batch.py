# SPDX-License-Identifier: Apache-2.0
"""Type-checked by strict mypy and pyright, and never run: the batch runner and the providers' own types."""

from __future__ import annotations

from anthropic.types import Message, MessageParam
from openai.types.chat import ChatCompletionMessage, ChatCompletionMessageParam
from openai.types.responses import Response, ResponseInputItemParam
from typing_extensions import assert_type

import acrux_otel as acrux


@acrux.tool
def add(a: int, b: int) -> int:
    return a + b


def plain(text: str) -> str:
    return text


def with_anthropic(reply: Message, messages: list[MessageParam]) -> None:
    results = acrux.run_tool_calls(reply.content, [add], order="sequential", timeout=3)
    assert_type(results, list[acrux.BatchResult])
    messages.append(acrux.to_anthropic(results))
    for problem in acrux.validate_history(messages):
        assert_type(problem, acrux.HistoryProblem)


def with_chat(reply: ChatCompletionMessage, messages: list[ChatCompletionMessageParam]) -> None:
    messages += acrux.to_openai_chat(acrux.run_tool_calls(reply, {"add": add, "plain": plain}))
    messages[:] = acrux.complete_history(messages)


async def with_responses(reply: Response, items: list[ResponseInputItemParam]) -> None:
    session = acrux.ToolSession(after={"read": ["write"]})
    results = await acrux.arun_tool_calls(reply, [add], session=session, client_tools={"charge@live": plain})
    items += acrux.to_openai_responses(results)
    assert_type(session.results, list[acrux.BatchResult])


def by_hand() -> None:
    calls = [acrux.ToolCall("1", "add", {"a": 1, "b": 2}), acrux.ToolCall("2", "add", "{}", after=("1",))]
    for result in acrux.run_tool_calls(calls, [add], after={"2": "1"}, inject={str: "x"}):
        assert_type(result.verdict, acrux.Verdict)
        assert_type(result.executed, bool)
        assert_type(result.exception, BaseException | None)
    hint: str = acrux.INDEPENDENT_CALLS_HINT
    print(hint)
