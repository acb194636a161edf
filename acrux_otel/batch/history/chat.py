# SPDX-License-Identifier: Apache-2.0
"""OpenAI's Chat Completions: an assistant's ``tool_calls`` are followed by one ``tool`` message for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from acrux_otel.batch.calls import field
from acrux_otel.batch.history.problem import CANCELLED, HistoryProblem

__all__ = ["complete", "problems"]


def complete(messages: list[Any]) -> list[Any]:
    """`complete_history`, for this API."""
    made: list[Any] = []
    place = 0
    while place < len(messages):
        message = messages[place]
        made.append(message)
        place += 1
        asked = _ids(message)
        if not asked:
            continue
        answers = _answers(messages, place)
        place += len(answers)
        made.extend(_with_answers(answers, asked))
    return made


def _ids(message: Any) -> list[Any]:
    calls = field(message, "tool_calls")
    if field(message, "role") != "assistant" or not isinstance(calls, (list, tuple)):
        return []
    return list(dict.fromkeys(field(call, "id") for call in calls))


def _answers(messages: Sequence[Any], place: int) -> list[Any]:
    """The ``tool`` messages that stand from ``place`` on."""
    end = place
    while end < len(messages) and field(messages[end], "role") == "tool":
        end += 1
    return list(messages[place:end])


def _with_answers(answers: list[Any], asked: Sequence[Any]) -> list[Any]:
    at = 0
    for call_id in asked:
        places = [place for place, answer in enumerate(answers) if field(answer, "tool_call_id") == call_id]
        if places:
            at = max(at, places[-1] + 1)
        else:
            answers.insert(at, {"role": "tool", "tool_call_id": call_id, "content": CANCELLED})
            at += 1
    return answers


def problems(messages: list[Any]) -> list[HistoryProblem]:
    """`validate_history`, for this API."""
    found: list[HistoryProblem] = []
    open_ids: list[Any] = []
    for place, message in enumerate(messages):
        if field(message, "role") == "tool":
            call_id = field(message, "tool_call_id")
            if call_id not in open_ids:
                found.append(
                    HistoryProblem(
                        f"messages.[{place}].role",
                        "Invalid parameter: messages with role 'tool' must be a response to a preceeding "
                        "message with 'tool_calls'.",
                        call_id,
                    )
                )
            continue
        open_ids = _ids(message)
        answered = {field(answer, "tool_call_id") for answer in _answers(messages, place + 1)}
        missing = [call_id for call_id in open_ids if call_id not in answered]
        if missing:
            found.append(
                HistoryProblem(
                    f"messages.[{place}]",
                    "An assistant message with 'tool_calls' must be followed by tool messages responding to "
                    "each 'tool_call_id'. The following tool_call_ids did not have response messages: "
                    f"{', '.join(map(str, missing))}",
                    missing[0],
                )
            )
    return found
