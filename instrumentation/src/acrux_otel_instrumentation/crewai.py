# SPDX-License-Identifier: Apache-2.0
"""CrewAI tools, run by themselves or as an agent's structured tools. CrewAI passes no call id to a tool."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

from acrux_otel import Outcome, ToolDefinition, Verdict
from acrux_otel.seam import Call, classify_arguments, current_call
from acrux_otel_instrumentation.calls import Framework, binding_error, passed_through
from acrux_otel_instrumentation.definitions import FrameworkDefinition
from acrux_otel_instrumentation.instrumentor import FrameworkInstrumentor
from acrux_otel_instrumentation.patching import Hook

__all__ = ["CrewAIInstrumentor"]

_instruments = ("crewai >= 1.15.10, < 2",)
_framework = Framework("crewai")


def _open_run(tool: Any, /, *args: Any, **kwargs: Any) -> Call:
    return _open(tool, kwargs if not args else {"input": args[0]})


def _open_invoke(tool: Any, input: Any, *args: Any, **kwargs: Any) -> Call:
    return _open(tool, input if isinstance(input, dict) else {"input": input})


def _open(tool: Any, arguments: dict[str, Any]) -> Call:
    return _framework.open(
        _framework.definitions.of(tool, tool.name, lambda: _described(tool)),
        arguments=arguments,
        function=_function_of(tool),
    )


def _function_of(tool: Any) -> Any:
    function = getattr(tool, "func", None)
    # A structured tool runs the method of the tool that it was made of.
    return getattr(getattr(function, "__self__", None), "func", function)


def _described(tool: Any) -> ToolDefinition:
    schema = tool.args_schema
    return FrameworkDefinition(
        tool.name,
        description=tool.description,
        parameters=lambda: schema.model_json_schema() if schema is not None else None,
        function=_function_of(tool),
    )


def _failed(call: Call, exc: BaseException) -> Verdict | None:
    if passed_through(exc, "_validate_kwargs", "_parse_args"):
        return classify_arguments(exc.__cause__ or exc)
    if type(exc).__name__ == "ToolUsageLimitExceededError":
        return Verdict(Outcome.NOT_EXECUTED, detail=str(exc))
    return binding_error(exc, call.site.function, call.arguments())


def _claim_usage(original: Any) -> Any:
    @functools.wraps(original)
    def claim_usage(self: Any, *args: Any, **kwargs: Any) -> Any:
        refused = original(self, *args, **kwargs)
        call = current_call()
        if refused and call is not None:
            call.executed = False
            call.declare(Verdict(Outcome.NOT_EXECUTED, detail=str(refused)))
        return refused

    return claim_usage


class CrewAIInstrumentor(FrameworkInstrumentor):
    """Tool calls of CrewAI."""

    framework = _framework
    instruments = _instruments

    def hooks(self) -> Iterable[Hook]:
        yield from _HOOKS


_BASE, _STRUCTURED = "crewai.tools.base_tool", "crewai.tools.structured_tool"
_run, _invoke = (
    _framework.observed(_open_run, None, _failed),
    _framework.observed(_open_invoke, None, _failed),
)
_HOOKS = (
    Hook(_BASE, "BaseTool.run", _run),
    Hook(_BASE, "BaseTool.arun", _run, optional=True),
    Hook(_BASE, "Tool.run", _run),
    Hook(_BASE, "Tool.arun", _run, optional=True),
    Hook(_BASE, "BaseTool._claim_usage", _claim_usage, optional=True),
    Hook(_STRUCTURED, "CrewStructuredTool.invoke", _invoke),
    Hook(_STRUCTURED, "CrewStructuredTool.ainvoke", _invoke),
)
