# SPDX-License-Identifier: Apache-2.0
"""The batch runner: every tool call of a model's turn answered exactly once, in the provider's form."""

from __future__ import annotations

from typing import Final

from acrux_otel.batch.calls import ToolCall
from acrux_otel.batch.entry import arun_tool_calls, run_tool_calls
from acrux_otel.batch.for_anthropic import to_anthropic
from acrux_otel.batch.for_openai import to_openai_chat, to_openai_responses
from acrux_otel.batch.history import HistoryProblem, complete_history, validate_history
from acrux_otel.batch.results import BatchResult
from acrux_otel.batch.session import ToolSession

__all__ = [
    "INDEPENDENT_CALLS_HINT",
    "BatchResult",
    "HistoryProblem",
    "ToolCall",
    "ToolSession",
    "arun_tool_calls",
    "complete_history",
    "run_tool_calls",
    "to_anthropic",
    "to_openai_chat",
    "to_openai_responses",
    "validate_history",
]

# For a system prompt. It makes dependent calls in one turn rarer, and no more than that.
INDEPENDENT_CALLS_HINT: Final = "Only batch tool calls that are independent of each other."
