# SPDX-License-Identifier: Apache-2.0
"""Google's Agent Development Kit.

The caller of a tool and `FunctionTool.run_async` run inside the framework's own span. A result whose
top-level ``error`` is true is what the framework itself calls a failure; before the function ran, it is the
framework's own.
"""

from __future__ import annotations

import contextvars
import functools
import weakref
from collections.abc import Iterable
from typing import Any

from opentelemetry.trace import get_current_span

from acrux_otel import ErrorType, Outcome, ToolDefinition, Verdict
from acrux_otel.seam import Call, classify_arguments, current_call, policy_denied, unknown_tool
from acrux_otel_instrumentation.calls import Framework, tolerant
from acrux_otel_instrumentation.definitions import FrameworkDefinition, while_alive
from acrux_otel_instrumentation.instrumentor import FrameworkInstrumentor
from acrux_otel_instrumentation.patching import Hook

__all__ = ["GoogleADKInstrumentor"]

_instruments = ("google-adk >= 2.0, < 3",)
_framework = Framework("google_adk", scopes=("gcp.vertex.agent",))
_INTERRUPTED = Verdict(Outcome.INTERRUPTED)
_entered: weakref.WeakSet[Call] = weakref.WeakSet()


_last: contextvars.ContextVar[Call | None] = contextvars.ContextVar("acrux_otel.google_adk", default=None)


def _open(tool: Any, *, args: Any, tool_context: Any) -> Call:
    call = _framework.open(
        _framework.definitions.of(tool, tool.name, lambda: _described(tool)),
        call_id=getattr(tool_context, "function_call_id", None),
        arguments=args,
        function=getattr(tool, "func", None),
    )
    _last.set(call)
    return call


def _trace_tool_call(original: Any) -> Any:
    """The framework writes what it knows at the end, and of a call that raised it knows no id."""

    @functools.wraps(original)
    def trace_tool_call(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        call = _last.get()
        call = getattr(call, "joined", call)
        if call is not None and call.id is not None and call.span is get_current_span():
            call.identify(call.id)
        return result

    return trace_tool_call


def _described(tool: Any) -> ToolDefinition:
    return FrameworkDefinition(
        tool.name,
        description=tool.description,
        parameters=while_alive(tool, _parameters),
        function=getattr(tool, "func", None),
    )


def _parameters(tool: Any) -> dict[str, Any] | None:
    declared = tool._get_declaration()
    schema = getattr(declared, "parameters_json_schema", None)
    if schema is None and getattr(declared, "parameters", None) is not None:
        schema = declared.parameters.json_schema.model_dump(exclude_none=True, mode="json")
    return schema


def _function_ended(call: Call, result: Any) -> Verdict | None:
    error = result.get("error") if isinstance(result, dict) else None
    if not error:
        return None
    if call in _entered:
        return Verdict(Outcome.ERROR, ErrorType.TOOL_DECLARED, "tool_error", str(error))
    call.executed = False
    context = _contexts.get(call)
    confirmation = getattr(context, "tool_confirmation", None)
    if confirmation is not None and not confirmation.confirmed:
        return policy_denied(str(error))
    if getattr(getattr(context, "actions", None), "requested_tool_confirmations", None):
        return _INTERRUPTED
    return classify_arguments(ValueError(str(error)))


def _ended(call: Call, result: Any) -> Verdict | None:
    error = result.get("error") if isinstance(result, dict) else None
    return Verdict(Outcome.ERROR, ErrorType.TOOL_DECLARED, "tool_error", str(error)) if error else None


_contexts: weakref.WeakKeyDictionary[Call, Any] = weakref.WeakKeyDictionary()


def _open_function(tool: Any, *, args: Any, tool_context: Any) -> Call:
    call = _open(tool, args=args, tool_context=tool_context)
    _contexts[call] = tool_context
    return call


def _invoke_callable(original: Any) -> Any:
    @functools.wraps(original)
    async def invoke(*args: Any, **kwargs: Any) -> Any:
        call = current_call()
        if call is None:
            return await original(*args, **kwargs)
        _entered.add(call)
        return call.unwrapped(await original(*args, **kwargs))

    return invoke


def _get_tool(original: Any) -> Any:
    def see(function_call: Any, tools_dict: Any) -> None:
        if _framework.on and function_call.name not in tools_dict:
            name = str(function_call.name)
            _framework.record(
                name, unknown_tool(name), call_id=function_call.id, arguments=dict(function_call.args or {})
            )

    return tolerant(see)(original)


def _open_called(tool: Any, args: Any, tool_context: Any) -> Call:
    return _open(tool, args=args, tool_context=tool_context)


class GoogleADKInstrumentor(FrameworkInstrumentor):
    """Tool calls of Google's ADK."""

    framework = _framework
    instruments = _instruments

    def hooks(self) -> Iterable[Hook]:
        yield from _HOOKS


_FUNCTION, _CALLER = "google.adk.tools.function_tool", "google.adk.flows.llm_flows.tools._caller"
_FLOWS = "google.adk.flows.llm_flows.functions"
_HOOKS = (
    Hook(_CALLER, "_call_tool_async", _framework.observed(_open_called, _ended), optional=True),
    Hook(_CALLER, "_get_tool", _get_tool, optional=True),
    Hook(_FLOWS, "_get_tool", _get_tool, optional=True),
    Hook(_FUNCTION, "FunctionTool.run_async", _framework.observed(_open_function, _function_ended)),
    Hook(_FUNCTION, "FunctionTool._invoke_callable", _invoke_callable),
    Hook("google.adk.telemetry.tracing", "trace_tool_call", _trace_tool_call, optional=True),
)
