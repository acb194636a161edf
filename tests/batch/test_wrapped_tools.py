# SPDX-License-Identifier: Apache-2.0
"""A decorator that stands on a tool is run, whatever it copied from the tool below it."""

from __future__ import annotations

import asyncio
import functools
from typing import Any

import acrux_otel as acrux


def needs_login(function: Any) -> Any:
    @functools.wraps(function)
    def check(*args: Any, **kwargs: Any) -> Any:
        raise PermissionError("log in first")

    return check


def passes(function: Any) -> Any:
    @functools.wraps(function)
    def through(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return through


def made_sync(function: Any) -> Any:
    @functools.wraps(function)
    def run(*args: Any) -> Any:
        return asyncio.run(function(*args))

    return run


@needs_login
@acrux.tool
def secret() -> str:
    return "secret"


@passes
@acrux.tool(name="book", annotations=acrux.ToolAnnotations(destructive=True))
def booking() -> dict[str, Any]:
    return acrux.ToolResult.error("sold_out", "no seat is left")


@made_sync
async def number() -> int:
    return 3


def test_an_access_check_above_a_tool_holds_in_a_batch(exported: Any) -> None:
    [answer] = acrux.run_tool_calls([acrux.ToolCall("1", "secret", {})], [secret])
    assert (answer.value, answer.verdict.code) == ("log in first", "permission_error")
    assert "secret" not in str(acrux.to_anthropic([answer])["content"][0]["content"])


def test_a_wrapped_tool_is_one_call_under_its_own_contract(exported: Any) -> None:
    [answer] = acrux.run_tool_calls([acrux.ToolCall("1", "book", {})], [booking])
    assert answer.verdict.code == "sold_out"
    assert exported.only.attributes["gen_ai.tool.call.id"] == "1"
    assert exported.only.attributes["errorCode"] == "sold_out"


def test_a_wrapper_runs_as_the_kind_that_it_is() -> None:
    [answer] = acrux.run_tool_calls([acrux.ToolCall("1", "number", {})], {"number": number})
    assert answer.value == 3
    assert acrux.Guard()(number)() == 3
