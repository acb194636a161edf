# SPDX-License-Identifier: Apache-2.0
"""Haystack tools: `Tool.invoke` and `.invoke_async` are the call. An agent knows ids and unknown names."""

from __future__ import annotations

import contextvars
from collections.abc import Iterable
from typing import Any

from acrux_otel import ToolDefinition, Verdict
from acrux_otel.seam import Call, classify_arguments, unknown_tool
from acrux_otel_instrumentation.calls import Framework, binding_error, body_entered, tolerant
from acrux_otel_instrumentation.definitions import FrameworkDefinition
from acrux_otel_instrumentation.instrumentor import FrameworkInstrumentor
from acrux_otel_instrumentation.patching import Hook

__all__ = ["HaystackInstrumentor"]

_instruments = ("haystack-ai >= 2.20, < 4",)
_framework = Framework("haystack")
_asked: contextvars.ContextVar[Any] = contextvars.ContextVar("acrux_otel.haystack", default=None)


def _open(tool: Any, /, **kwargs: Any) -> Call:
    asked = _asked.get()
    if asked is not None and asked.tool_name != tool.name:
        asked = None
    return _framework.open(
        _definition_of(tool),
        call_id=getattr(asked, "id", None),
        arguments=dict(asked.arguments) if asked is not None else kwargs,
        function=_function_of(tool),
    )


def _function_of(tool: Any) -> Any:
    return getattr(tool, "function", None) or getattr(tool, "async_function", None)


def _definition_of(tool: Any) -> ToolDefinition:
    def described() -> ToolDefinition:
        parameters = tool.parameters
        return FrameworkDefinition(
            tool.name,
            description=tool.description,
            parameters=lambda: parameters,
            function=_function_of(tool),
        )

    return _framework.definitions.of(tool, tool.name, described)


def _failed(call: Call, exc: BaseException) -> Verdict | BaseException | None:
    cause = exc.__cause__ if type(exc).__name__ == "ToolInvocationError" else exc
    if cause is None:
        return None
    function = call.site.function
    if type(cause).__name__ == "ValidationError" and body_entered(cause, function) is False:
        return classify_arguments(cause)
    return binding_error(cause, function, call.arguments()) or cause


def _see_asked(tool: Any, tool_call: Any, *args: Any, **kwargs: Any) -> None:
    _asked.set(tool_call)


def _see_calls(messages: Any, tools: Any, *args: Any, raise_on_failure: bool = True, **kwargs: Any) -> None:
    for call in (call for message in messages for call in message.tool_calls if call.tool_name not in tools):
        name = call.tool_name
        _framework.record(name, unknown_tool(name), call_id=call.id, arguments=call.arguments)
        if raise_on_failure:
            return


def _see_unknown(error: Any, tool_name: str, *args: Any, **kwargs: Any) -> None:
    _framework.record(tool_name, unknown_tool(tool_name))


class HaystackInstrumentor(FrameworkInstrumentor):
    """Tool calls of Haystack."""

    framework = _framework
    instruments = _instruments

    def hooks(self) -> Iterable[Hook]:
        yield from _HOOKS


_call = _framework.observed(_open, None, _failed)
_AGENTS, _INVOKER = "haystack.components.agents.tool_calling", "haystack.components.tools.tool_invoker"
_HOOKS = (
    Hook("haystack.tools.tool", "Tool.invoke", _call),
    Hook("haystack.tools.tool", "Tool.invoke_async", _call, optional=True),
    Hook(_AGENTS, "_create_tool_span", tolerant(_see_asked), optional=True),
    Hook(_AGENTS, "_resolve_tool_calls", tolerant(_see_calls), optional=True),
    Hook(_INVOKER, "ToolNotFoundException.__init__", tolerant(_see_unknown), optional=True),
)
