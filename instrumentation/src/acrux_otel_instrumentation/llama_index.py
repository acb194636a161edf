# SPDX-License-Identifier: Apache-2.0
"""LlamaIndex tools, called by workflow agents or by `call_tool` functions.

Both swallow what a tool raised and keep it on the `ToolOutput`. The step of a workflow agent knows the call's
id, and the names that no tool has.
"""

from __future__ import annotations

import contextvars
import dataclasses
import functools
import weakref
from collections.abc import Iterable
from typing import Any

from acrux_otel import ToolDefinition, Verdict
from acrux_otel.seam import Call, current_call, declared_by_result, unknown_tool
from acrux_otel_instrumentation.calls import Framework, binding_error, given, unwrapping
from acrux_otel_instrumentation.definitions import FrameworkDefinition
from acrux_otel_instrumentation.instrumentor import FrameworkInstrumentor
from acrux_otel_instrumentation.patching import Hook

__all__ = ["LlamaIndexInstrumentor"]

_instruments = ("llama-index-core >= 0.14.22, < 1",)
_framework = Framework("llama_index")


@dataclasses.dataclass
class _Step:
    """One step of an agent that runs a tool."""

    id: str | None
    opened: bool = False


_step: contextvars.ContextVar[_Step | None] = contextvars.ContextVar("acrux_otel.llama_index", default=None)


def _open_in_agent(agent: Any, context: Any, tool: Any, tool_input: Any) -> Call:
    step = _step.get()
    if step is not None:
        step.opened = True
    return _open(tool, tool_input, None if step is None else step.id)


def _open(tool: Any, arguments: Any, call_id: str | None = None, within: Call | None = None) -> Call:
    name = _name(tool)
    return _framework.open(
        _framework.definitions.of(tool, name, lambda: _described(tool, name)),
        call_id=call_id,
        arguments=arguments,
        function=_function_of(tool),
        within=within,
    )


def _open_itself(tool: Any, /, *args: Any, **kwargs: Any) -> Call:
    context = getattr(tool, "ctx_param_name", None)
    arguments = {name: value for name, value in kwargs.items() if name != context}
    outer = current_call()
    # `call_tool` may run a tool again that did not take its one argument by position.
    again = outer is not None and outer in _asked and outer.awaits is None and outer.site.name == _name(tool)
    if outer is None or not again:
        return _open(tool, arguments if not args else {"input": args[0]})
    runs = outer.attempts + 1
    outer.retried(runs)
    attempt = _open(tool, arguments, within=outer)
    attempt.attempts = runs
    return attempt


def _open_asked(tool: Any, arguments: Any) -> Call:
    call = _open(tool, arguments)
    _asked.add(call)
    return call


_asked: weakref.WeakSet[Call] = weakref.WeakSet()


def _name(tool: Any) -> str:
    return str(tool.metadata.get_name())


def _function_of(tool: Any) -> Any:
    return getattr(tool, "real_fn", None) or getattr(tool, "fn", None)


def _described(tool: Any, name: str) -> ToolDefinition:
    return FrameworkDefinition(
        name,
        description=tool.metadata.description,
        parameters=tool.metadata.get_parameters_dict,
        function=_function_of(tool),
    )


def _ended(call: Call, output: Any) -> Verdict | None:
    exc = getattr(output, "exception", None)
    if isinstance(exc, BaseException):
        call.swallowed(exc, binding_error(exc, call.site.function, call.arguments()))
        return None
    raw = getattr(output, "raw_output", None)
    plain = call.unwrapped(raw)
    if plain is not raw:
        output.raw_output = plain
    # An output that the tool made itself is put into another one, which does not say that it failed.
    return declared_by_result(output) or declared_by_result(plain)


def _failed(call: Call, exc: BaseException) -> Verdict | None:
    return binding_error(exc, call.site.function, call.arguments())


def _call_tool_step(original: Any) -> Any:
    @functools.wraps(original)
    async def call_tool(*args: Any, **kwargs: Any) -> Any:
        asked = given(args, kwargs, 2, "ev")
        step = _Step(getattr(asked, "tool_id", None))
        token = _step.set(step)
        try:
            result = await original(*args, **kwargs)
            if not step.opened:
                _see_unknown(asked, result)
            return result
        finally:
            _step.reset(token)

    return call_tool


def _see_unknown(event: Any, result: Any) -> None:
    output = getattr(result, "tool_output", None)
    if getattr(output, "is_error", False) and getattr(event, "tool_name", None):
        _framework.record(
            event.tool_name,
            unknown_tool(event.tool_name),
            call_id=event.tool_id,
            arguments=event.tool_kwargs,
        )


class LlamaIndexInstrumentor(FrameworkInstrumentor):
    """Tool calls of LlamaIndex."""

    framework = _framework
    instruments = _instruments

    def hooks(self) -> Iterable[Hook]:
        yield from _HOOKS


_AGENT, _WORKFLOW = "llama_index.core.agent.workflow.base_agent", "llama_index.core.agent.workflow"
_CALLING = "llama_index.core.tools.calling"
_FUNCTION_TOOL = "llama_index.core.tools.function_tool"
_in_agent, _by_function = (
    _framework.observed(_open_in_agent, _ended),
    _framework.observed(_open_asked, _ended),
)
_HOOKS = (
    Hook(_AGENT, "BaseWorkflowAgent._call_tool", _in_agent),
    Hook(_AGENT, "BaseWorkflowAgent.call_tool", _call_tool_step),
    Hook(f"{_WORKFLOW}.multi_agent_workflow", "AgentWorkflow._call_tool", _in_agent),
    Hook(f"{_WORKFLOW}.multi_agent_workflow", "AgentWorkflow.call_tool", _call_tool_step),
    Hook(_CALLING, "call_tool", _by_function),
    Hook(_CALLING, "acall_tool", _by_function),
    # Who imported `call_tool` earlier has the unwatched one; a tool's own method is looked up at each call.
    Hook(_FUNCTION_TOOL, "FunctionTool.call", _framework.observed(_open_itself, _ended, _failed)),
    Hook(_FUNCTION_TOOL, "FunctionTool.acall", _framework.observed(_open_itself, _ended, _failed)),
    Hook(_FUNCTION_TOOL, "FunctionTool._parse_tool_output", unwrapping(1)),
)
