# SPDX-License-Identifier: Apache-2.0
"""OpenAI's Responses: each function call among the items has its output behind it."""

from __future__ import annotations

from typing import Any, Final

from acrux_otel.batch.calls import field
from acrux_otel.batch.history.problem import CANCELLED, HistoryProblem

__all__ = ["CALLS", "OUTPUTS", "complete", "problems"]

CALLS: Final = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
}
OUTPUTS: Final = frozenset(CALLS.values())


def complete(items: list[Any]) -> list[Any]:
    """`complete_history`, for this API."""
    answered = {field(item, "call_id") for item in items if field(item, "type") in OUTPUTS}
    made: list[Any] = []
    missing: list[dict[str, Any]] = []
    for item in items:
        kind = field(item, "type")
        # One response's items stand together, its reasoning among them.
        if kind not in CALLS and kind not in OUTPUTS and kind != "reasoning":
            made += missing
            missing = []
        made.append(item)
        call_id = field(item, "call_id")
        if kind in CALLS and call_id not in answered:
            missing.append({"type": CALLS[kind], "call_id": call_id, "output": CANCELLED})
            answered.add(call_id)
    return made + missing


def problems(items: list[Any]) -> list[HistoryProblem]:
    """`validate_history`, for this API."""
    found: list[HistoryProblem] = []
    asked: set[Any] = set()
    answered = {field(item, "call_id") for item in items if field(item, "type") in OUTPUTS}
    for place, item in enumerate(items):
        kind, call_id = field(item, "type"), field(item, "call_id")
        if kind in CALLS:
            asked.add(call_id)
            if call_id not in answered:
                found.append(
                    HistoryProblem(
                        f"input[{place}]", f"No tool output found for function call {call_id}.", call_id
                    )
                )
        elif kind in OUTPUTS and call_id not in asked:
            found.append(
                HistoryProblem(
                    f"input[{place}]",
                    f"No tool call found for function call output with call_id {call_id}.",
                    call_id,
                )
            )
    return found
