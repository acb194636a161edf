# SPDX-License-Identifier: Apache-2.0
"""Conversations that were interrupted: what an API would refuse in them, and what mends it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any

from acrux_otel.batch.calls import field
from acrux_otel.batch.history.problem import HistoryProblem

__all__ = ["HistoryProblem", "complete_history", "validate_history"]


def complete_history(messages: Iterable[Any]) -> list[Any]:
    """The conversation with an answer for every tool call, so that it can go on.

    Each call without a result gets one that says that it was not executed, in its place; nothing else is
    changed, a conversation that is complete comes back equal, and ``messages`` itself is left alone.

    Args:
        messages: Anthropic's or OpenAI's ``messages``, or the ``input`` items of OpenAI's Responses API; told
            by their shape.

    Returns:
        A new list; untouched messages are the same objects.

    Raises:
        TypeError: not a list of messages.
    """
    given = _listed(messages)
    form = _form(given)
    return given if form is None else form.complete(given)


def validate_history(messages: Iterable[Any]) -> list[HistoryProblem]:
    """What the API would refuse about the tool calls of a conversation, and why; empty where nothing.

    Args:
        messages: as for `complete_history`, the whole conversation: with ``previous_response_id`` a part
            of it lies at the provider, and outputs without their call are no mistake.

    Raises:
        TypeError: not a list of messages.
    """
    given = _listed(messages)
    form = _form(given)
    return [] if form is None else form.problems(given)


def _listed(messages: Any) -> list[Any]:
    if isinstance(messages, (str, bytes, dict)) or not isinstance(messages, Iterable):
        raise TypeError(f"messages is a {type(messages).__name__}; expected the list of a conversation")
    return list(messages)


def _form(messages: Sequence[Any]) -> ModuleType | None:
    """Which provider's messages these are; None where no tool is called in them."""
    from acrux_otel.batch.history import anthropic, chat, responses

    for message in messages:
        if field(message, "type") in (*responses.CALLS, *responses.OUTPUTS):
            return responses
        if field(message, "role") == "tool" or isinstance(field(message, "tool_calls"), (list, tuple)):
            return chat
        content = field(message, "content")
        if isinstance(content, (list, tuple)) and any(
            field(block, "type") in ("tool_use", "tool_result") for block in content
        ):
            return anthropic
    return None
