# SPDX-License-Identifier: Apache-2.0
"""The Messages API, as far as tool calls go.

https://platform.claude.com/docs/en/agents-and-tools/tool-use/handle-tool-calls
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

from providers.server import Refused

__all__ = ["AnthropicApi"]

Block = dict[str, Any]
Message = dict[str, Any]

_STATE_ONLY = {"new_tab", "list_tabs", "switch_tab", "close_tab"}


class AnthropicApi:
    """Answers each request with the next turn of its script.

    Args:
        turns: content blocks, a list for each turn.
    """

    def __init__(self, turns: Iterable[list[Block]]) -> None:
        self._turns = iter(turns)
        self._ids = itertools.count(1)
        self.requests: list[dict[str, Any]] = []

    def answer(self, path: str, request: dict[str, Any]) -> dict[str, Any]:
        """The model's next message.

        Raises:
            Refused: the conversation breaks a rule.
        """
        self.requests.append(request)
        if path != "/v1/messages":
            raise _refused(f"there is no {path} here")
        check(request["messages"])
        content = next(self._turns)
        calls = any(block["type"] == "tool_use" for block in content)
        return {
            "id": f"msg_{next(self._ids)}",
            "type": "message",
            "role": "assistant",
            "model": request["model"],
            "content": content,
            "stop_reason": "tool_use" if calls else "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }


def _refused(message: str) -> Refused:
    error = {"type": "invalid_request_error", "message": message}
    return Refused(message, {"type": "error", "error": error, "request_id": "req_stub"})


def check(messages: list[Message]) -> None:
    """See that every tool call is answered as the API wants it.

    Raises:
        Refused: it is not.
    """
    open_calls: dict[str, Block] = {}
    used: set[str] = set()
    at = -1
    for role, place, blocks in _joined(messages):
        if role == "user":
            _check_answers(place, blocks, open_calls, at)
            open_calls = {}
            continue
        if open_calls:
            raise _missing(at, open_calls)
        at = place
        for index, block in enumerate(blocks):
            if block["type"] == "tool_use":
                if block["id"] in used:
                    raise _refused(f"messages.{place}.content.{index}: `tool_use` ids must be unique")
                used.add(block["id"])
                open_calls[block["id"]] = block
    if open_calls:
        raise _missing(at, open_calls)


def _joined(messages: list[Message]) -> Iterable[tuple[str, int, list[Block]]]:
    """Messages of one role that follow each other are one message."""
    numbered = enumerate(messages)
    for role, group in itertools.groupby(numbered, key=lambda pair: pair[1]["role"]):
        blocks: list[Block] = []
        place = -1
        for index, message in group:
            place = index if place < 0 else place
            content = message["content"]
            blocks += [{"type": "text", "text": content}] if isinstance(content, str) else content
        yield role, place, blocks


def _missing(place: int, calls: Iterable[str]) -> Refused:
    return _refused(
        f"messages.{place}: `tool_use` ids were found without `tool_result` blocks immediately after: "
        f"{', '.join(calls)}. Each `tool_use` block must have a corresponding `tool_result` block in the "
        "next message."
    )


def _check_answers(place: int, blocks: list[Block], calls: dict[str, Block], at: int) -> None:
    leading = list(itertools.takewhile(lambda block: block["type"] == "tool_result", blocks))
    answered = [block["tool_use_id"] for block in leading]
    missing = [call for call in calls if call not in answered]
    if missing:
        raise _missing(at, missing)
    for index, block in enumerate(blocks):
        where = f"messages.{place}.content.{index}"
        if block["type"] == "text" and not block["text"]:
            raise _refused("messages: text content blocks must be non-empty")
        if block["type"] != "tool_result":
            continue
        call = block["tool_use_id"]
        if call not in calls:
            raise _refused(
                f"{where}: unexpected `tool_use_id` found in `tool_result` blocks: {call}. Each "
                "`tool_result` block must have a corresponding `tool_use` block in the previous message."
            )
        if answered.count(call) > 1:
            raise _refused(
                f"{where}: each tool_use must have a single result. Found multiple `tool_result` blocks with "
                f"id: {call}"
            )
        _check_content(f"{where}.tool_result", block, calls[call])


def _check_content(where: str, block: Block, call: Block) -> None:
    content = block.get("content", "")
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    kinds = [part["type"] for part in parts]
    is_error = bool(block.get("is_error"))
    if is_error and not content:
        raise _refused(f"{where}: content cannot be empty if `is_error` is true")
    if is_error and set(kinds) != {"text"}:
        raise _refused(f"{where}: all content must be type 'text' if 'is_error' is true")
    if not isinstance(content, str) and any(part["type"] == "text" and not part["text"] for part in parts):
        raise _refused("messages: text content blocks must be non-empty")
    toolset = call.get("toolset_name")
    if block.get("toolset_name") != toolset:
        raise _refused(f"{where}.toolset_name: must match the `toolset_name` of the `tool_use` block")
    states = [part for part in parts if part["type"] == "browser_state"]
    if toolset is None:
        if states:
            raise _refused(f"{where}: `browser_state` is only allowed for the browser toolset")
        return
    allowed = {"text", "image"} | ({"browser_state"} if toolset == "browser" else set())
    if set(kinds) - allowed:
        raise _refused(f"{where}.content: only {', '.join(sorted(allowed))} are allowed for {toolset}")
    if len(states) > 1:
        raise _refused(f"{where}.content: at most one `browser_state`")
    if states and states[0]["tabs"] and sum(tab.get("active") is True for tab in states[0]["tabs"]) != 1:
        raise _refused(f"{where}.content: exactly one tab must be active")
    if toolset == "browser" and call["name"] in _STATE_ONLY and not is_error and kinds != ["browser_state"]:
        raise _refused(f"{where}.content: {call['name']} must be answered by exactly one `browser_state`")
