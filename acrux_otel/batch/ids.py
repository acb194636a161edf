# SPDX-License-Identifier: Apache-2.0
"""One answer for each call id, which is what every provider asks for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from acrux_otel.verdict import ToolCallResult

__all__ = ["answered_once"]


def answered_once(results: Iterable[ToolCallResult[Any]]) -> list[ToolCallResult[Any]]:
    """The results, without the later ones of an id that was answered before.

    Raises:
        ValueError: there are none, or one has no id.
        TypeError: something else is among them.
    """
    found: dict[str, ToolCallResult[Any]] = {}
    for each in results:
        if not isinstance(each, ToolCallResult):
            raise TypeError(f"results holds {each!r:.80}; expected what run_tool_calls returned")
        if each.id is None:
            raise ValueError(
                f"the result of {each.name!r} has no call id; give its ToolCall(id=...) the model's id"
            )
        found.setdefault(each.id, each)
    if not found:
        raise ValueError("there are no results; a message of none would be refused")
    return list(found.values())
