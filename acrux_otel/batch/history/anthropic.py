# SPDX-License-Identifier: Apache-2.0
"""Anthropic's Messages: each ``tool_use`` has one ``tool_result``, first in the next user message."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from acrux_otel.batch.calls import field
from acrux_otel.batch.history.problem import CANCELLED, HistoryProblem

__all__ = ["complete", "problems"]

_Block = Any
_Group = tuple[list[int], list[int]]  # places of assistant messages, and of the user messages behind them


def complete(messages: list[Any]) -> list[Any]:
    """`complete_history`, for this API."""
    made: list[Any] = []
    for asking, answering in _groups(messages):
        made.extend(messages[place] for place in asking)
        uses = [block for place in asking for block in _blocks(messages[place], "tool_use")]
        answered = {
            field(block, "tool_use_id")
            for place in answering
            for block in _blocks(messages[place], "tool_result")
        }
        answers = [messages[place] for place in answering]
        if asking and any(field(use, "id") not in answered for use in uses):
            first = answers[0] if answers else {"role": "user", "content": []}
            answers[:1] = [_with_results(first, uses, answered)]
        made.extend(answers)
    return made


def _groups(messages: Sequence[Any]) -> Iterator[_Group]:
    """Runs of assistant messages with the run of user messages behind each: the API joins such runs."""
    asking: list[int] = []
    answering: list[int] = []
    for place, message in enumerate(messages):
        if field(message, "role") == "assistant":
            if answering:
                yield asking, answering
                asking, answering = [], []
            asking.append(place)
        else:
            answering.append(place)
    if asking or answering:
        yield asking, answering


def _blocks(message: Any, kind: str) -> list[_Block]:
    content = field(message, "content")
    if not isinstance(content, (list, tuple)):
        return []
    return [block for block in content if field(block, "type") == kind]


def _with_results(message: Any, uses: Sequence[_Block], answered: set[Any]) -> dict[str, Any]:
    content = field(message, "content")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}] if content else []
    blocks = list(content or ())
    at = 0
    seen = set(answered)
    for use in uses:
        call_id = field(use, "id")
        if call_id not in seen:
            blocks.insert(at, _cancelled(use))
            seen.add(call_id)
            at += 1
            continue
        places = [place for place, block in enumerate(blocks) if field(block, "tool_use_id") == call_id]
        at = max([at, *(place + 1 for place in places)])
    kept = message if isinstance(message, Mapping) else {"role": "user"}
    return {**kept, "content": blocks}


def _cancelled(use: _Block) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": field(use, "id"), "content": CANCELLED, "is_error": True}
    toolset = field(use, "toolset_name")
    return {**block, "toolset_name": toolset} if toolset else block


def problems(messages: list[Any]) -> list[HistoryProblem]:
    """`validate_history`, for this API."""
    found = list(_misplaced(messages))
    for asking, answering in _groups(messages):
        found += _unanswered(messages, asking, answering)
        found += _answers(messages, asking, answering)
    return found


def _misplaced(messages: Sequence[Any]) -> Iterator[HistoryProblem]:
    seen: set[Any] = set()
    for place, message in enumerate(messages):
        role = field(message, "role")
        content = field(message, "content")
        for at, block in enumerate(content if isinstance(content, (list, tuple)) else ()):
            kind, where = field(block, "type"), f"messages.{place}.content.{at}"
            if kind == "tool_use":
                call_id = field(block, "id")
                if role != "assistant":
                    yield HistoryProblem(
                        where, "`tool_use` blocks can only be in `assistant` messages", call_id
                    )
                elif call_id in seen:
                    yield HistoryProblem(where, "`tool_use` ids must be unique", call_id)
                seen.add(call_id)
            elif kind == "tool_result" and role != "user":
                yield HistoryProblem(
                    where, "`tool_result` blocks can only be in `user` messages", field(block, "tool_use_id")
                )
            elif kind == "text" and not field(block, "text"):
                yield HistoryProblem(where, "text content blocks must be non-empty")


def _unanswered(
    messages: Sequence[Any], asking: Sequence[int], answering: Sequence[int]
) -> Iterator[HistoryProblem]:
    leading: set[Any] = set()
    for block in (block for place in answering for block in _all_blocks(messages[place])):
        if field(block, "type") != "tool_result":
            break  # what stands behind it does not count
        leading.add(field(block, "tool_use_id"))
    for place in asking:
        missing = [
            field(use, "id")
            for use in _blocks(messages[place], "tool_use")
            if field(use, "id") not in leading
        ]
        if missing:
            yield HistoryProblem(
                f"messages.{place}",
                "`tool_use` ids were found without `tool_result` blocks immediately after: "
                f"{', '.join(map(str, missing))}. Each `tool_use` block must have a corresponding "
                "`tool_result` block in the next message.",
                missing[0],
            )


def _all_blocks(message: Any) -> Sequence[_Block]:
    content = field(message, "content")
    if isinstance(content, (list, tuple)):
        return content
    return [{"type": "text", "text": content}] if content else []


def _answers(
    messages: Sequence[Any], asking: Sequence[int], answering: Sequence[int]
) -> Iterator[HistoryProblem]:
    uses = {field(use, "id"): use for place in asking for use in _blocks(messages[place], "tool_use")}
    seen: set[Any] = set()
    for place in answering:
        for at, block in enumerate(_all_blocks(messages[place])):
            if field(block, "type") != "tool_result":
                continue
            call_id, where = field(block, "tool_use_id"), f"messages.{place}.content.{at}"
            if call_id not in uses:
                yield HistoryProblem(
                    where,
                    f"unexpected `tool_use_id` found in `tool_result` blocks: {call_id}. Each `tool_result` "
                    "block must have a corresponding `tool_use` block in the previous message.",
                    call_id,
                )
                continue
            if call_id in seen:
                yield HistoryProblem(
                    where,
                    "each tool_use must have a single result. Found multiple `tool_result` blocks with id: "
                    f"{call_id}",
                    call_id,
                )
            seen.add(call_id)
            yield from _content(where, block, uses[call_id], call_id)


def _content(where: str, block: _Block, use: _Block, call_id: Any) -> Iterator[HistoryProblem]:
    content = field(block, "content")
    if field(block, "is_error"):
        if not content:
            yield HistoryProblem(
                f"{where}.tool_result", "content cannot be empty if `is_error` is true", call_id
            )
        elif not isinstance(content, str) and any(field(part, "type") != "text" for part in content):
            yield HistoryProblem(
                f"{where}.tool_result", "all content must be type 'text' if 'is_error' is true", call_id
            )
    wanted, given = field(use, "toolset_name") or None, field(block, "toolset_name") or None
    if wanted != given:
        yield HistoryProblem(
            f"{where}.tool_result",
            f"toolset_name is {given!r}; it must repeat the tool_use's, {wanted!r}",
            call_id,
        )
