# SPDX-License-Identifier: Apache-2.0
"""Microsoft's Agent Framework.

The function of a tool runs inside the framework's own span; the framework answers other calls before there
is one.
"""

from __future__ import annotations

import contextvars
import functools
import sys
from collections.abc import Iterable
from typing import Any

from acrux_otel import Outcome, ToolDefinition, Verdict
from acrux_otel.seam import Call, classify_arguments, unknown_tool
from acrux_otel_instrumentation.calls import Framework, body_entered, given, tolerant
from acrux_otel_instrumentation.definitions import FrameworkDefinition, while_alive
from acrux_otel_instrumentation.instrumentor import FrameworkInstrumentor
from acrux_otel_instrumentation.patching import Hook

__all__ = ["AgentFrameworkInstrumentor"]

_instruments = ("agent-framework-core >= 1.20, < 2",)
_framework = Framework("agent_framework", scopes=("agent_framework",))
_call_id: contextvars.ContextVar[str | None] = contextvars.ContextVar(
    "acrux_otel.agent_framework", default=None
)


def _invoke(original: Any) -> Any:
    @functools.wraps(original)
    async def invoke(*args: Any, **kwargs: Any) -> Any:
        token = _call_id.set(kwargs.get("tool_call_id"))
        try:
            return await original(*args, **kwargs)
        finally:
            _call_id.reset(token)

    return invoke


def _open(tool: Any, call_kwargs: Any) -> Call:
    hidden = getattr(tool, "_context_parameter_name", None)
    call_id = _call_id.get()
    _call_id.set(None)
    return _framework.open(
        _framework.definitions.of(tool, tool.name, lambda: _described(tool)),
        call_id=call_id,
        arguments={name: value for name, value in call_kwargs.items() if name != hidden},
        function=_function_of(tool),
    )


def _function_of(tool: Any) -> Any:
    function = getattr(tool, "func", None)
    return getattr(function, "func", function)


def _described(tool: Any) -> ToolDefinition:
    return FrameworkDefinition(
        tool.name,
        description=tool.description,
        parameters=while_alive(tool, lambda alive: alive.parameters()),
        function=_function_of(tool),
    )


def _see_refused(function_call: Any, exception: BaseException, *args: Any, **kwargs: Any) -> None:
    _framework.record(
        function_call.name,
        classify_arguments(exception),
        call_id=function_call.call_id,
        arguments=function_call.parse_arguments() or {},
    )


def _see_invocation(function_call_content: Any, *args: Any, tool_map: Any = None, **kwargs: Any) -> None:
    function_call = function_call_content
    if function_call.type == "function_call" and function_call.name not in (tool_map or {}):
        _framework.record(
            function_call.name,
            unknown_tool(function_call.name),
            call_id=function_call.call_id,
            arguments=function_call.parse_arguments() or {},
        )


def _failed(call: Call, exc: BaseException) -> Verdict | None:
    if type(exc).__name__ == "ToolException" and body_entered(exc, call.site.function) is False:
        call.executed = False  # its uses are spent
        return Verdict(Outcome.NOT_EXECUTED, detail=str(exc))
    return None


def _try_groups(original: Any) -> Any:
    """An agent may end where the model asks for a tool that is not there, before any call of that turn."""

    @functools.wraps(original)
    async def _try_execute_function_call_groups(*args: Any, **kwargs: Any) -> Any:
        try:
            return await original(*args, **kwargs)
        except Exception as exc:
            if _framework.on and type(exc).__name__ == "_UnknownFunctionCallError":
                _record_unknown(given(args, kwargs, 1, "function_calls"), given(args, kwargs, 2, "tools"))
            raise

    return _try_execute_function_call_groups


def _record_unknown(function_calls: Any, tools: Any) -> None:
    try:
        known = sys.modules[_TOOLS]._get_tool_map(tools)
        for call in function_calls:
            _see_invocation(call, tool_map=known)
    except Exception:  # a turn of another shape
        pass


class AgentFrameworkInstrumentor(FrameworkInstrumentor):
    """Tool calls of Microsoft's Agent Framework."""

    framework = _framework
    instruments = _instruments

    def hooks(self) -> Iterable[Hook]:
        yield from _HOOKS


_TOOLS = "agent_framework._tools"
_HOOKS = (
    Hook(_TOOLS, "FunctionTool.invoke", _invoke),
    Hook(_TOOLS, "FunctionTool._invoke_function", _framework.observed(_open, None, _failed)),
    Hook(_TOOLS, "_function_argument_validation_error_result", tolerant(_see_refused)),
    Hook(_TOOLS, "_auto_invoke_function", tolerant(_see_invocation)),
    Hook(_TOOLS, "_try_execute_function_call_groups", _try_groups, optional=True),
)
