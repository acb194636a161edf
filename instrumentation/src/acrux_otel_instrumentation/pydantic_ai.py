# SPDX-License-Identifier: Apache-2.0
"""Pydantic AI.

`ToolManager._raw_execute` runs a tool inside the framework's own span, where there is one. A call that never
gets there, because its arguments or its name are wrong or because it is deferred, ends in
`ToolManager.execute_tool_call` or, once its retries are used up, in `.validate_tool_call`.
"""

from __future__ import annotations

import contextvars
import functools
from collections.abc import Iterable
from typing import Any

from acrux_otel import Outcome, ToolDefinition, Verdict, classify
from acrux_otel.seam import Call, classify_arguments, unknown_tool
from acrux_otel_instrumentation.calls import Framework, given, tolerant
from acrux_otel_instrumentation.definitions import FrameworkDefinition
from acrux_otel_instrumentation.instrumentor import FrameworkInstrumentor
from acrux_otel_instrumentation.patching import Hook

__all__ = ["PydanticAIInstrumentor"]

_instruments = ("pydantic-ai-slim >= 1.80, < 3",)
_framework = Framework("pydantic_ai", scopes=("pydantic-ai",), layered=False)
_INTERRUPTED = Verdict(Outcome.INTERRUPTED)
_answers = ("ToolRetryError", "ToolFailedError", "UnexpectedModelBehavior")  # each made of its cause


def _open(manager: Any, validated: Any, *args: Any, **kwargs: Any) -> Call | None:
    _Seen.of(validated.call)
    if validated.tool.tool_def.kind == "output":
        return None
    tool, name = validated.tool, validated.call.tool_name
    return _framework.open(
        _definition_of(tool, name),
        call_id=validated.call.tool_call_id,
        arguments=validated.validated_args,
        function=_function_of(tool),
    )


def _schema_of(tool: Any) -> Any:
    """The framework's description of the tool's function, which lives as long as the tool does."""
    for _ in range(16):
        inner = getattr(tool, "source_tool", None)  # of a combination of toolsets
        if inner is None:
            break
        tool = inner
    return getattr(getattr(tool, "call_func", None), "__self__", None)


def _function_of(tool: Any) -> Any:
    return getattr(_schema_of(tool), "function", None)


def _definition_of(tool: Any, name: str) -> ToolDefinition:
    owner = _schema_of(tool) or tool.toolset

    def described() -> ToolDefinition:
        known = tool.tool_def
        return FrameworkDefinition(
            name,
            description=known.description,
            parameters=lambda: known.parameters_json_schema,
            result=lambda: getattr(known, "return_schema", None),
            function=_function_of(tool),
        )

    return _framework.definitions.of(owner, name, described)


def _failed(call: Call, exc: BaseException) -> Verdict | BaseException | None:
    reason = exc.__cause__ if type(exc).__name__ in _answers else exc
    if (
        reason is not None
        and type(reason).__name__ == "ModelRetry"
        and isinstance(reason.__context__, TimeoutError)
    ):
        trace = reason.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        if trace is not None and trace.tb_frame.f_globals.get("__name__", "").startswith("pydantic_ai."):
            # The framework's own limit, told to the model as a retry.
            return classify(reason.__context__)._replace(detail=str(reason))
    return reason


# ---- calls that are not run ------------------------------------------------------------------------------


class _Seen:
    """The calls in progress that have their verdict already, by the part of the model's message."""

    _parts: dict[int, Any] = {}  # noqa: RUF012  # a part has no other identity, and few are in progress

    @classmethod
    def of(cls, part: Any) -> None:
        if len(cls._parts) > 10_000:
            cls._parts.clear()
        cls._parts[id(part)] = part

    @classmethod
    def forget(cls, part: Any) -> bool:
        return cls._parts.pop(id(part), None) is not None


def _refused(exc: BaseException, tool: Any, name: str) -> Verdict:
    """The verdict on a call whose arguments or name did not pass."""
    retry = getattr(getattr(exc, "tool_retry", None), "retry", None)
    reason = exc.__cause__ if type(exc).__name__ in _answers and exc.__cause__ is not None else exc
    kind = type(reason).__name__
    if kind in ("CallDeferred", "ApprovalRequired"):
        return _INTERRUPTED
    if kind == "_ToolUnavailable" or getattr(retry, "cause", None) == "unavailable_tool":
        return Verdict(Outcome.NOT_EXECUTED, detail=str(reason))
    if tool is None:
        return unknown_tool(name)
    if kind in ("ValidationError", "ModelRetry", "ToolFailed", *_answers):
        return classify_arguments(reason)
    return classify(reason)


def _record(part: Any, tool: Any, exc: BaseException) -> None:
    try:
        definition = _definition_of(tool, part.tool_name) if tool is not None else None
        arguments = part.args if isinstance(part.args, dict) else {"input": part.args}
        verdict = _refused(exc, tool, part.tool_name)
    except Exception:  # a call of another shape
        return
    _framework.record(
        part.tool_name, verdict, definition=definition, call_id=part.tool_call_id, arguments=arguments
    )


def _execute_tool_call(original: Any) -> Any:
    @functools.wraps(original)
    async def execute_tool_call(*args: Any, **kwargs: Any) -> Any:
        validated = given(args, kwargs, 1, "validated")
        part = getattr(validated, "call", None)
        try:
            return await original(*args, **kwargs)
        except Exception as exc:
            if not _Seen.forget(part) and _framework.on:
                _record(part, getattr(validated, "tool", None), exc)
            raise
        finally:
            _Seen.forget(part)

    return execute_tool_call


def _validate_tool_call(original: Any) -> Any:
    @functools.wraps(original)
    async def validate_tool_call(*args: Any, **kwargs: Any) -> Any:
        try:
            return await original(*args, **kwargs)
        except Exception as exc:
            part = given(args, kwargs, 1, "call")
            if not _Seen.forget(part) and _framework.on and not kwargs.get("allow_partial"):
                tools = getattr(args[0], "tools", None) or {}
                _record(part, tools.get(getattr(part, "tool_name", None)), exc)
            raise

    return validate_tool_call


# ---- the framework's own span of a call that was not run -------------------------------------------------

_validating: contextvars.ContextVar[Any] = contextvars.ContextVar("acrux_otel.pydantic_ai", default=None)


def _on_tool_validate_error(original: Any) -> Any:
    @functools.wraps(original)
    async def on_tool_validate_error(*args: Any, **kwargs: Any) -> Any:
        token = _validating.set(kwargs.get("call"))
        try:
            return await original(*args, **kwargs)
        finally:
            _validating.reset(token)

    return on_tool_validate_error


def _record_exception(original: Any) -> Any:
    def see(span: Any, exc: BaseException, *args: Any, **kwargs: Any) -> None:
        part = _validating.get()
        if part is not None and _framework.on:
            _framework.record(part.tool_name, classify_arguments(exc), call_id=part.tool_call_id, span=span)
            _Seen.of(part)

    return tolerant(see)(original)


class PydanticAIInstrumentor(FrameworkInstrumentor):
    """Tool calls of Pydantic AI's agents."""

    framework = _framework
    instruments = _instruments

    def hooks(self) -> Iterable[Hook]:
        yield from _HOOKS


_MANAGER, _OWN = "pydantic_ai.tool_manager", "pydantic_ai.capabilities.instrumentation"
_HOOKS = (
    Hook(_MANAGER, "ToolManager._raw_execute", _framework.observed(_open, None, _failed)),
    Hook(_MANAGER, "ToolManager.execute_tool_call", _execute_tool_call),
    Hook(_MANAGER, "ToolManager.validate_tool_call", _validate_tool_call),
    Hook(_OWN, "Instrumentation.on_tool_validate_error", _on_tool_validate_error, optional=True),
    Hook(_OWN, "_record_exception", _record_exception, optional=True),
)
