# SPDX-License-Identifier: Apache-2.0
"""smolagents: the tool calls of a `ToolCallingAgent`, and the tools that the code of a `CodeAgent` calls."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

from acrux_otel import ToolDefinition, Verdict
from acrux_otel.seam import Call, classify_arguments, unknown_tool
from acrux_otel_instrumentation.calls import Framework, binding_error, given, unwrapping
from acrux_otel_instrumentation.definitions import FrameworkDefinition
from acrux_otel_instrumentation.instrumentor import FrameworkInstrumentor
from acrux_otel_instrumentation.patching import Hook

__all__ = ["SmolagentsInstrumentor"]

_instruments = ("smolagents >= 1.20, < 2",)
_framework = Framework("smolagents")


def _open_call(agent: Any, tool_name: str, arguments: Any) -> Call:
    tool = agent.tools.get(tool_name) or agent.managed_agents.get(tool_name)
    given = arguments if isinstance(arguments, dict) else {"input": arguments}
    if tool is None:
        return _framework.open(_framework.definitions.named(tool_name), arguments=given, catalogued=False)
    return _framework.open(_definition_of(tool, tool_name), arguments=given, function=_function_of(tool))


def _open_tool(tool: Any, /, *args: Any, sanitize_inputs_outputs: bool = False, **kwargs: Any) -> Call | None:
    if tool.name == "final_answer":  # how an agent hands over its answer
        return None

    def arguments() -> dict[str, Any]:
        return {**dict(zip(tool.inputs, args, strict=False)), **kwargs}

    return _framework.open(_definition_of(tool, tool.name), arguments=arguments, function=_function_of(tool))


def _function_of(tool: Any) -> Any:
    """The function that `@tool` made a tool of."""
    forward = getattr(tool, "forward", None)
    return getattr(forward, "__wrapped__", forward)


def _definition_of(tool: Any, name: str) -> ToolDefinition:
    def described() -> ToolDefinition:
        inputs, result = tool.inputs, getattr(tool, "output_schema", None)
        return FrameworkDefinition(
            name,
            description=getattr(tool, "description", None),
            parameters=lambda: _parameters(inputs),
            result=lambda: result,
            function=_function_of(tool),
        )

    return _framework.definitions.of(tool, name, described)


def _parameters(inputs: Any) -> dict[str, Any]:
    properties = {
        name: {key: value for key, value in known.items() if key != "nullable"}
        for name, known in inputs.items()
    }
    required = [name for name, known in inputs.items() if not known.get("nullable")]
    return {"type": "object", "properties": properties, "required": sorted(required)}


def _failed(call: Call, exc: BaseException) -> Verdict | BaseException | None:
    kind, cause = type(exc).__name__, exc.__cause__
    if kind == "AgentToolCallError":
        return classify_arguments(cause or exc)
    if kind == "AgentToolExecutionError":
        return cause if cause is not None else unknown_tool(call.site.name)
    return binding_error(exc, call.site.function, call.arguments())


def _execute(original: Any) -> Any:
    """`final_answer` is how an agent hands over its answer, no tool call."""
    watched = _framework.observed(_open_call, None, _failed)(original)

    @functools.wraps(original)
    def execute_tool_call(*args: Any, **kwargs: Any) -> Any:
        final = given(args, kwargs, 1, "tool_name") == "final_answer"
        return (original if final else watched)(*args, **kwargs)

    return execute_tool_call


class SmolagentsInstrumentor(FrameworkInstrumentor):
    """Tool calls of smolagents."""

    framework = _framework
    instruments = _instruments

    def hooks(self) -> Iterable[Hook]:
        yield from _HOOKS


_HOOKS = (
    Hook("smolagents.agents", "ToolCallingAgent.execute_tool_call", _execute),
    Hook("smolagents.tools", "Tool.__call__", _framework.observed(_open_tool, None, _failed)),
    Hook("smolagents.tools", "handle_agent_output_types", unwrapping(0)),
)
