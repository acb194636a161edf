# SPDX-License-Identifier: Apache-2.0
"""OpenAI's Agents SDK.

A function tool is invoked in one place, whichever loop asks; what it raised is seen where the SDK makes a
sentence for the model of it, and a time limit where its exception is made. A name that no tool has ends the
run, or is answered, where the model's response is taken apart.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from acrux_otel import ErrorType, Outcome, ToolAnnotations, ToolDefinition, Verdict
from acrux_otel.seam import Call, classify_arguments, current_call, malformed_arguments, unknown_tool
from acrux_otel_instrumentation.calls import Framework, passed_through, swallowing, tolerant
from acrux_otel_instrumentation.definitions import FrameworkDefinition, annotations_from
from acrux_otel_instrumentation.instrumentor import FrameworkInstrumentor
from acrux_otel_instrumentation.patching import Hook

__all__ = ["OpenAIAgentsInstrumentor"]

_instruments = ("openai-agents >= 0.12, < 1",)
_framework = Framework("openai_agents")


def _open(*, function_tool: Any, context: Any, arguments: Any, **kwargs: Any) -> Call:
    return _framework.open(
        _framework.definitions.of(function_tool, function_tool.name, lambda: _described(function_tool)),
        call_id=getattr(context, "tool_call_id", None),
        arguments=lambda: _decoded(arguments),
        function=_function_of(function_tool),
    )


def _open_older(**kwargs: Any) -> Call | None:
    if hasattr(sys.modules.get("agents.tool"), "_invoke_function_tool_with_metadata"):
        return None  # it calls the newer one
    return _open(**kwargs)


def _decoded(arguments: Any) -> Mapping[str, Any]:
    try:
        decoded = json.loads(arguments or "{}")
    except (TypeError, ValueError):
        decoded = None
    return decoded if isinstance(decoded, dict) else {"input": arguments}


def _function_of(tool: Any) -> Any:
    function = getattr(tool, "__wrapped__", None)
    if function is not None:
        return function
    invoke = getattr(tool, "on_invoke_tool", None)
    invoke = getattr(invoke, "_invoke_tool_impl", invoke)
    names = getattr(getattr(invoke, "__code__", None), "co_freevars", ())
    cells = dict(zip(names, getattr(invoke, "__closure__", None) or (), strict=False))
    return cells["the_func"].cell_contents if "the_func" in cells else None


def _described(tool: Any) -> ToolDefinition:
    parameters, result = tool.params_json_schema, getattr(tool, "output_json_schema", None)
    return FrameworkDefinition(
        tool.name,
        description=tool.description,
        parameters=lambda: parameters,
        result=lambda: result,
        function=_function_of(tool),
        annotations=_annotations(tool),
    )


def _annotations(tool: Any) -> ToolAnnotations | None:
    hints = getattr(tool, "_mcp_annotations", None)
    return annotations_from(hints) if hints is not None else None


def _meaning(exc: BaseException) -> Verdict | None:
    """The SDK's own exception for arguments, which may have lost its cause for the sake of privacy."""
    if type(exc).__name__ != "ModelBehaviorError":
        return None
    if passed_through(exc, "_parse_function_tool_json_input", "invoke_mcp_tool"):
        return malformed_arguments(str(exc))
    return classify_arguments(exc)


def _failed(call: Call, exc: BaseException) -> Verdict | None:
    return _meaning(exc)


def _see_timeout(error: Any, *args: Any, **kwargs: Any) -> None:
    call = current_call()
    if call is None:
        return
    seconds = kwargs.get("timeout_seconds", args[1] if len(args) > 1 else None)
    detail = f"no answer after {seconds} s"
    call.swallowed(error, Verdict(Outcome.ERROR, ErrorType.TRANSPORT, "timeout", detail))


# ---- results ---------------------------------------------------------------------------------------------


def _validate_output(original: Any) -> Any:
    @functools.wraps(original)
    def _validate_function_tool_output(*args: Any, **kwargs: Any) -> Any:
        call = current_call()
        if call is None or "output" not in kwargs:
            return original(*args, **kwargs)
        output = kwargs["output"] = call.unwrapped(kwargs["output"])
        declared = call.recorded
        if declared is not None and declared.outcome is Outcome.ERROR and kwargs.get("output_type_adapter"):
            try:
                return original(*args, **kwargs)
            except Exception:
                return output  # see `_with_metadata`
        return original(*args, **kwargs)

    return _validate_function_tool_output


def _with_metadata(original: Any) -> Any:
    """Unwraps a result, and keeps a declared error from being held against the declared output type."""

    @functools.wraps(original)
    async def invoke(*args: Any, **kwargs: Any) -> Any:
        result = await original(*args, **kwargs)
        call = current_call()
        if call is None or not dataclasses.is_dataclass(result) or not hasattr(result, "output"):
            return result
        changes: dict[str, Any] = {}
        output = call.unwrapped(result.output)
        if output is not result.output:
            changes["output"] = output
        declared = call.recorded
        if declared is not None and declared.outcome is Outcome.ERROR:
            schema = getattr(kwargs.get("function_tool"), "output_json_schema", None)
            if schema is not None:
                changes["is_sdk_generated_error"] = True
        try:
            return dataclasses.replace(result, **changes) if changes else result  # type: ignore[type-var]
        except TypeError:  # it has no such fields
            return result

    return _framework.observed(_open, None, _failed)(invoke)


# ---- names that no tool has ------------------------------------------------------------------------------


def _process_response(original: Any) -> Any:
    @functools.wraps(original)
    def process_model_response(*args: Any, **kwargs: Any) -> Any:
        try:
            return original(*args, **kwargs)
        except Exception as exc:
            if _framework.on and type(exc).__name__ == "ModelBehaviorError":
                _record_unknown(**kwargs)
            raise

    return process_model_response


def _record_unknown(*, response: Any = None, all_tools: Any = (), handoffs: Any = (), **kwargs: Any) -> None:
    try:
        known = {getattr(tool, "name", None) for tool in all_tools}
        known |= {getattr(handoff, "tool_name", None) for handoff in handoffs}
        missing = [
            each
            for each in response.output
            if getattr(each, "type", None) == "function_call" and each.name not in known
        ]
    except Exception:  # a response of another shape
        return
    for each in missing:
        _record_missing(each)


def _record_missing(call: Any) -> None:
    _framework.record(
        call.name,
        unknown_tool(call.name),
        call_id=call.call_id,
        arguments=lambda: _decoded(call.arguments),
    )


def _see_not_found(**kwargs: Any) -> None:
    for each in kwargs.get("calls") or ():
        _record_missing(each.tool_call)


class OpenAIAgentsInstrumentor(FrameworkInstrumentor):
    """Tool calls of the OpenAI Agents SDK."""

    framework = _framework
    instruments = _instruments

    def hooks(self) -> Iterable[Hook]:
        yield from _HOOKS


_TOOL, _EXECUTION = "agents.tool", "agents.run_internal.tool_execution"
_RESOLUTION, _LOOP = "agents.run_internal.turn_resolution", "agents.run_internal.run_loop"
_older = _framework.observed(_open_older, None, _failed)
_swallow = swallowing("error", _meaning)
_HOOKS = (
    Hook(_TOOL, "_invoke_function_tool_with_metadata", _with_metadata, optional=True),
    Hook(_EXECUTION, "_invoke_function_tool_with_metadata", _with_metadata, optional=True),
    Hook(_TOOL, "invoke_function_tool", _older),
    Hook(_EXECUTION, "invoke_function_tool", _older, optional=True),
    Hook("agents.realtime.session", "invoke_function_tool", _older, optional=True),
    Hook(_TOOL, "maybe_invoke_function_tool_failure_error_function", _swallow),
    Hook(_EXECUTION, "maybe_invoke_function_tool_failure_error_function", _swallow),
    Hook(_TOOL, "_validate_function_tool_output", _validate_output, optional=True),
    Hook("agents.exceptions", "ToolTimeoutError.__init__", tolerant(_see_timeout)),
    Hook(_RESOLUTION, "process_model_response", _process_response),
    Hook(_LOOP, "process_model_response", _process_response, optional=True),
    Hook(_RESOLUTION, "_build_tool_not_found_output_items", tolerant(_see_not_found), optional=True),
)
