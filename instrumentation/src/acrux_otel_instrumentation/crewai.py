# SPDX-License-Identifier: Apache-2.0
"""CrewAI tools, run by themselves or as an agent's structured tools.

What an agent asks for natively is seen where one such request is served: its id, and names that no tool has.
A request in the text of a ReAct agent is served by `ToolUsage`, which runs a tool that raises again: that is
one call, with its attempts.
"""

from __future__ import annotations

import contextvars
import dataclasses
import functools
import inspect
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from acrux_otel import Outcome, ToolDefinition, Verdict
from acrux_otel.seam import Call, classify_arguments, current_call, malformed_arguments, unknown_tool
from acrux_otel_instrumentation.calls import Framework, binding_error, passed_through, tolerant
from acrux_otel_instrumentation.definitions import FrameworkDefinition
from acrux_otel_instrumentation.instrumentor import FrameworkInstrumentor
from acrux_otel_instrumentation.patching import Hook

__all__ = ["CrewAIInstrumentor"]

_instruments = ("crewai >= 1.15.10, < 2",)
_framework = Framework("crewai")


@dataclasses.dataclass
class _Request:
    """One request of the model that is being served.

    Attributes:
        id: of the call, where the model gave one.
        runs: how often the tool was run for it.
        call: of a ReAct agent's request, once the tool was run.
        usage: what serves that request.
        result: of the last run.
        missing: no tool has the name.
        failure: the framework's word on why it ran no tool.
    """

    id: str | None = None
    runs: int = 0
    call: Call | None = None
    usage: Any = None
    result: Any = None
    missing: bool = False
    failure: Any = None


_request: contextvars.ContextVar[_Request | None] = contextvars.ContextVar("acrux_otel.crewai", default=None)


@contextmanager
def _being_served(request: _Request) -> Iterator[None]:
    token = _request.set(request)
    try:
        yield
    finally:
        _request.reset(token)


def _open_run(tool: Any, /, *args: Any, **kwargs: Any) -> Call:
    return _open(tool, kwargs if not args else {"input": args[0]})


def _open_invoke(tool: Any, input: Any, *args: Any, **kwargs: Any) -> Call:
    return _open(tool, input if isinstance(input, dict) else {"input": input})


def _open(tool: Any, arguments: dict[str, Any]) -> Call:
    definition = _framework.definitions.of(tool, tool.name, lambda: _described(tool))
    known: dict[str, Any] = {"arguments": arguments, "function": _function_of(tool)}
    request = _request.get()
    if request is None or (request.runs and request.usage is None):
        return _framework.open(definition, **known)
    request.runs += 1
    if request.usage is None:
        return _framework.open(definition, call_id=request.id, **known)
    if request.call is None:
        request.call = _framework.open(definition, **known)
    elif request.call.site.name != definition.name or current_call() is not request.call:
        request.runs -= 1  # what the tool itself calls
        return _framework.open(definition, **known)
    else:
        request.call.retried(request.runs)
    attempt = _framework.open(definition, within=request.call, **known)
    attempt.attempts = request.runs
    return attempt


def _ended(call: Call, result: Any) -> None:
    request = _request.get()
    if request is not None and request.call is not None:
        request.result = result


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
    def claim_usage(*args: Any, **kwargs: Any) -> Any:
        refused = original(*args, **kwargs)
        call = current_call()
        if refused and call is not None:
            call.executed = False
            call.declare(Verdict(Outcome.NOT_EXECUTED, detail=str(refused)))
        return refused

    return claim_usage


# ---- what agents ask for ---------------------------------------------------------------------------------


def _serve_native(original: Any) -> Any:
    """One request that the model made natively: an object, or its parts by name."""

    @functools.wraps(original)
    def serve(*args: Any, **kwargs: Any) -> Any:
        asked = _asked(args, kwargs) if _framework.on else None
        if asked is None:
            return original(*args, **kwargs)
        id, name, arguments = asked
        request = _Request(str(id))
        try:
            with _being_served(request):
                return original(*args, **kwargs)
        finally:
            if not request.runs:
                available = kwargs.get("available_functions")
                request.missing = available is not None and name not in available
                _record_unserved(request, name, arguments)

    return serve


def _asked(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, str, Any] | None:
    if "func_name" in kwargs:
        return kwargs.get("call_id"), kwargs["func_name"], kwargs.get("func_args")
    try:
        asked = kwargs["tool_call"] if "tool_call" in kwargs else args[-1]
        told = sys.modules["crewai.utilities.agent_utils"].extract_tool_call_info(asked)
    except Exception:  # a request of another shape
        return None
    return tuple(told) if told else None


def _see_failure(failure: Any, *args: Any, **kwargs: Any) -> None:
    """Called with each failure that an agent is told of."""
    request = _request.get()
    if request is not None:
        request.failure = failure
    elif _reason(failure) == "unknown_tool":  # outside of what serves a request
        _record_unserved(_Request(failure=failure), kwargs["tool_name"], kwargs.get("tool_args"))


def _reason(failure: Any) -> str:
    return str(getattr(getattr(failure, "reason", None), "value", ""))


def _record_unserved(request: _Request, name: str, arguments: Any) -> None:
    """Say why the framework ran no tool; an answer from its cache is no call."""
    reason, message = _reason(request.failure), str(getattr(request.failure, "message", ""))
    if request.missing or reason == "unknown_tool":
        verdict = unknown_tool(name)
    elif reason == "invalid_input":
        verdict = malformed_arguments(message)
    elif reason == "usage_limit":
        verdict = Verdict(Outcome.NOT_EXECUTED, detail=message)
    else:
        return
    given = arguments if isinstance(arguments, dict) else {"input": arguments}
    _framework.record(name, verdict, call_id=request.id, arguments=given)


def _parse(original: Any) -> Any:
    """A ReAct agent's text: a tool that is there, or not, and its arguments."""

    @functools.wraps(original)
    def parse_tool_calling(*args: Any, **kwargs: Any) -> Any:
        request = _Request()
        with _being_served(request):
            parsed = original(*args, **kwargs)
        if type(parsed).__name__ == "ToolUsageError" and _framework.on:
            try:
                action = args[0].action
                name, given = str(action.tool), {"input": action.tool_input}
                verdict = unknown_tool(name) if request.missing else malformed_arguments(parsed.message)
                _framework.record(name, verdict, arguments=given)
            except Exception:  # a request of another shape
                pass
        return parsed

    return parse_tool_calling


def _select(original: Any) -> Any:
    @functools.wraps(original)
    def _select_tool(*args: Any, **kwargs: Any) -> Any:
        request = _request.get()
        try:
            found = original(*args, **kwargs)
        except Exception:
            if request is not None:
                request.missing = True
            raise
        if request is not None:
            request.missing = False
        return found

    return _select_tool


def _use(original: Any) -> Any:
    """Serves a ReAct agent's request, and calls itself to try again."""

    @contextmanager
    def serving(usage: Any = None, *_: Any, calling: Any = None, **__: Any) -> Iterator[None]:
        outer = _request.get()
        if not _framework.on or (outer is not None and outer.usage is usage):
            yield
            return
        request = _Request(usage=usage)
        with _being_served(request):
            try:
                yield
            except BaseException as exc:
                if request.call is not None:
                    request.call.raised(exc)
                raise
        if request.call is not None:
            request.call.ok(request.result)
            return
        request.failure = getattr(usage, "last_failure", None)
        if _reason(request.failure) == "usage_limit" and calling is not None:
            _record_unserved(request, str(calling.tool_name), calling.arguments)

    if inspect.iscoroutinefunction(original):

        @functools.wraps(original)
        async def ause(*args: Any, **kwargs: Any) -> Any:
            with serving(*args, **kwargs):
                return await original(*args, **kwargs)

        return ause

    @functools.wraps(original)
    def use(*args: Any, **kwargs: Any) -> Any:
        with serving(*args, **kwargs):
            return original(*args, **kwargs)

    return use


class CrewAIInstrumentor(FrameworkInstrumentor):
    """Tool calls of CrewAI."""

    framework = _framework
    instruments = _instruments

    def hooks(self) -> Iterable[Hook]:
        yield from _HOOKS


_BASE, _STRUCTURED = "crewai.tools.base_tool", "crewai.tools.structured_tool"
_run, _invoke = (
    _framework.observed(_open_run, _ended, _failed),
    _framework.observed(_open_invoke, _ended, _failed),
)
_USAGE, _UTILITIES = "crewai.tools.tool_usage", "crewai.utilities"
_EXECUTORS = (
    ("crewai.agents.agent_executor", "AgentExecutor"),
    ("crewai.experimental.agent_executor", "AgentExecutor"),
    ("crewai.agents.crew_agent_executor", "CrewAgentExecutor"),
)
_see = tolerant(_see_failure)
_HOOKS = (
    Hook(_BASE, "BaseTool.run", _run),
    Hook(_BASE, "BaseTool.arun", _run, optional=True),
    Hook(_BASE, "Tool.run", _run),
    Hook(_BASE, "Tool.arun", _run, optional=True),
    Hook(_BASE, "BaseTool._claim_usage", _claim_usage, optional=True),
    Hook(_STRUCTURED, "CrewStructuredTool.invoke", _invoke),
    Hook(_STRUCTURED, "CrewStructuredTool.ainvoke", _invoke),
    Hook(_USAGE, "ToolUsage._use", _use),
    Hook(_USAGE, "ToolUsage._ause", _use),
    Hook(_USAGE, "ToolUsage.parse_tool_calling", _parse),
    Hook(_USAGE, "ToolUsage._select_tool", _select),
    Hook(f"{_UTILITIES}.agent_utils", "execute_single_native_tool_call", _serve_native),
    Hook("crewai.agents.step_executor", "execute_single_native_tool_call", _serve_native, True),
    *(
        Hook(module, f"{executor}._execute_single_native_tool_call", _serve_native, True)
        for module, executor in _EXECUTORS
    ),
    *(Hook(module, "handle_tool_failure", _see, True) for module, _ in _EXECUTORS),
    Hook(f"{_UTILITIES}.agent_utils", "handle_tool_failure", _see, True),
    Hook(f"{_UTILITIES}.tool_utils", "handle_tool_failure", _see, True),
)
