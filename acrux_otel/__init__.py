# SPDX-License-Identifier: Apache-2.0
"""acrux-otel: every tool call of an LLM agent tells the truth, in OpenTelemetry.

The public face; each name is loaded from its module at first use, so that importing this costs nothing.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING

from acrux_otel._version import VERSION as __version__

if TYPE_CHECKING:
    from acrux_otel.batch import (
        INDEPENDENT_CALLS_HINT,
        BatchResult,
        HistoryProblem,
        ToolCall,
        ToolSession,
        arun_tool_calls,
        complete_history,
        run_tool_calls,
        to_anthropic,
        to_openai_chat,
        to_openai_responses,
        validate_history,
    )
    from acrux_otel.catalog import SyncResult, async_sync, sync
    from acrux_otel.classify import classify, register_classifier
    from acrux_otel.definition import ToolAnnotations, ToolDefinition, definition_of
    from acrux_otel.export import configure, flush
    from acrux_otel.export.flushing import flushing
    from acrux_otel.guard import (
        CircuitBreaker,
        Guard,
        Retry,
        RunBudget,
        ToolFailureGuard,
        ToolFailureLimits,
        ToolUnavailable,
        record_cost,
    )
    from acrux_otel.http_tool import http_tool
    from acrux_otel.run import Run, RunSummary, run
    from acrux_otel.seam import record_error, record_warning
    from acrux_otel.tool import tool
    from acrux_otel.verdict import ErrorType, Outcome, ToolCallResult, ToolResult, Verdict

__all__ = [
    "INDEPENDENT_CALLS_HINT",
    "BatchResult",
    "CircuitBreaker",
    "ErrorType",
    "Guard",
    "HistoryProblem",
    "Outcome",
    "Retry",
    "Run",
    "RunBudget",
    "RunSummary",
    "SyncResult",
    "ToolAnnotations",
    "ToolCall",
    "ToolCallResult",
    "ToolDefinition",
    "ToolFailureGuard",
    "ToolFailureLimits",
    "ToolResult",
    "ToolSession",
    "ToolUnavailable",
    "Verdict",
    "__version__",
    "arun_tool_calls",
    "async_sync",
    "classify",
    "complete_history",
    "configure",
    "definition_of",
    "flush",
    "flushing",
    "http_tool",
    "record_cost",
    "record_error",
    "record_warning",
    "register_classifier",
    "run",
    "run_tool_calls",
    "sync",
    "to_anthropic",
    "to_openai_chat",
    "to_openai_responses",
    "tool",
    "validate_history",
]

_MODULES = {
    "batch": (
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
    ),
    "catalog": ("SyncResult", "async_sync", "sync"),
    "classify": ("classify", "register_classifier"),
    "definition": ("ToolAnnotations", "ToolDefinition", "definition_of"),
    "export": ("configure", "flush", "flushing"),
    "guard": (
        "CircuitBreaker",
        "Guard",
        "Retry",
        "RunBudget",
        "ToolFailureGuard",
        "ToolFailureLimits",
        "ToolUnavailable",
        "record_cost",
    ),
    "http_tool": ("http_tool",),
    "run": ("Run", "RunSummary", "run"),
    "seam": ("record_error", "record_warning"),
    "tool": ("tool",),
    "verdict": ("ErrorType", "Outcome", "ToolCallResult", "ToolResult", "Verdict"),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    module = _HOMES.get(name)
    if module is None:
        raise AttributeError(f"module 'acrux_otel' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"acrux_otel.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


class _Face(ModuleType):
    """Keeps `tool`, `http_tool`, `run`, `classify` the functions when modules of those names are imported."""

    def __setattr__(self, name: str, value: object) -> None:
        if isinstance(value, ModuleType) and _HOMES.get(name) == name:
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Face
