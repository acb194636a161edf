# SPDX-License-Identifier: Apache-2.0
"""LangChain tools and LangGraph's ToolNode.

`BaseTool.run` and `.arun` are the call. What they swallow is seen in the functions that make an answer of it,
what they return where it is formatted. A name that no tool has is seen in ToolNode.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Iterable
from typing import Any

from acrux_otel import ToolDefinition, Verdict
from acrux_otel.seam import Call, classify_arguments, current_call, unknown_tool
from acrux_otel_instrumentation.calls import (
    Framework,
    binding_error,
    given,
    passed_through,
    swallowing,
    unwrapping,
)
from acrux_otel_instrumentation.definitions import FrameworkDefinition, while_alive
from acrux_otel_instrumentation.instrumentor import FrameworkInstrumentor
from acrux_otel_instrumentation.patching import Hook

__all__ = ["LangChainInstrumentor"]

_instruments = ("langchain-core >= 0.3.60, < 2",)
_framework = Framework("langchain", layered=False)


def _open(tool: Any, tool_input: Any, *args: Any, tool_call_id: str | None = None, **kwargs: Any) -> Call:
    function = _function_of(tool)
    return _framework.open(
        _framework.definitions.of(tool, tool.name, lambda: _described(tool)),
        call_id=tool_call_id,
        function=function,
        arguments=lambda: _arguments(tool, tool_input),
    )


def _arguments(tool: Any, tool_input: Any) -> dict[str, Any]:
    """What the model asked for, without what the framework injects."""
    if not isinstance(tool_input, dict):
        return {"input": tool_input}
    keep = getattr(tool, "_filter_injected_args", None)
    if keep is not None:
        return dict(keep(tool_input))
    shown = tool.tool_call_schema
    if isinstance(shown, dict):
        return tool_input
    return {name: value for name, value in tool_input.items() if name in shown.model_fields}


def _function_of(tool: Any) -> Any:
    return getattr(tool, "func", None) or getattr(tool, "coroutine", None)


def _described(tool: Any) -> ToolDefinition:
    def parameters(tool: Any) -> dict[str, Any]:
        schema = tool.tool_call_schema
        if isinstance(schema, dict):
            return schema
        made = schema.model_json_schema() if hasattr(schema, "model_json_schema") else schema.schema()
        return dict(made)

    return FrameworkDefinition(
        tool.name,
        description=tool.description,
        parameters=while_alive(tool, parameters),
        function=_function_of(tool),
    )


def _failed(call: Call, exc: BaseException) -> Verdict | None:
    return _of_arguments(exc) or binding_error(exc, call.site.function, call.arguments())


def _of_arguments(exc: BaseException) -> Verdict | None:
    """A validation error counts as the arguments' only where they are parsed: a body may raise one too."""
    if passed_through(exc, "_parse_input", "_to_args_and_kwargs"):
        return classify_arguments(exc)
    return None


def _run_structured(original: Any) -> Any:
    """Gives a declared error the shape that ``content_and_artifact`` asks for."""

    def shaped(args: tuple[Any, ...], result: Any) -> Any:
        call, tool = current_call(), args[0] if args else None
        if call is None or getattr(tool, "response_format", "") != "content_and_artifact":
            return result
        result = call.unwrapped(result)
        if call.recorded is not None and not (isinstance(result, tuple) and len(result) == 2):
            return result, None
        return result

    # The framework reads the signature to decide what to pass.
    if inspect.iscoroutinefunction(original):

        async def _arun(*args: Any, **kwargs: Any) -> Any:
            return shaped(args, await original(*args, **kwargs))

        return _read_easily(functools.wraps(original)(_arun))

    def _run(*args: Any, **kwargs: Any) -> Any:
        return shaped(args, original(*args, **kwargs))

    return _read_easily(functools.wraps(original)(_run))


def _read_easily(wrapper: Any) -> Any:
    """Spares the framework the work of resolving the signature again, which it does at every call."""
    try:
        hints = typing.get_type_hints(wrapper.__wrapped__, include_extras=True)
        wrapper.__signature__ = inspect.signature(wrapper.__wrapped__)
        wrapper.__annotations__ = hints
    except Exception:  # a name that is there for type checkers only
        pass
    return wrapper


def _validate_tool_call(original: Any) -> Any:
    @functools.wraps(original)
    def _validate_tool_call(*args: Any, **kwargs: Any) -> Any:
        message = original(*args, **kwargs)
        call = given(args, kwargs, 1, "call")
        if message is not None and isinstance(call, dict):
            name = str(call.get("name"))
            _framework.record(name, unknown_tool(name), call_id=call.get("id"), arguments=call.get("args"))
        return message

    return _validate_tool_call


class LangChainInstrumentor(FrameworkInstrumentor):
    """Tool calls of LangChain and LangGraph."""

    framework = _framework
    instruments = _instruments

    def hooks(self) -> Iterable[Hook]:
        yield from _HOOKS


_BASE = "langchain_core.tools.base"
_HOOKS = (
    Hook(_BASE, "BaseTool.run", _framework.observed(_open, None, _failed)),
    Hook(_BASE, "BaseTool.arun", _framework.observed(_open, None, _failed)),
    Hook(_BASE, "_handle_validation_error", swallowing(0, _of_arguments)),
    Hook(_BASE, "_handle_tool_error", swallowing(0)),
    Hook(_BASE, "_format_output", unwrapping(0)),
    Hook("langchain_core.tools.structured", "StructuredTool._run", _run_structured, optional=True),
    Hook("langchain_core.tools.structured", "StructuredTool._arun", _run_structured, optional=True),
    Hook("langgraph.prebuilt.tool_node", "ToolNode._validate_tool_call", _validate_tool_call),
)
