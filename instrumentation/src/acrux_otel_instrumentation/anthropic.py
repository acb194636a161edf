# SPDX-License-Identifier: Apache-2.0
"""Anthropic's tool runners and toolsets.

`_run_tool` and a toolset's `tool_result` know the model's id and run inside the SDK's own span; a tool's
`call` still has the exception. Calls that a runner answers by itself are seen in its answer.
"""

from __future__ import annotations

import contextvars
import functools
import inspect
import json
import sys
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

from acrux_otel import Outcome, ToolDefinition, Verdict
from acrux_otel.seam import Call, classify_arguments, current_call, mcp_failure, unknown_tool
from acrux_otel_instrumentation.calls import Framework, body_entered, declared_error, swallowing
from acrux_otel_instrumentation.definitions import FrameworkDefinition
from acrux_otel_instrumentation.instrumentor import FrameworkInstrumentor
from acrux_otel_instrumentation.patching import Hook

__all__ = ["AnthropicInstrumentor"]

_instruments = ("anthropic >= 1.10, < 3",)
_framework = Framework("anthropic", scopes=("com.anthropic.sdk.python",))


def _definition_of(tool: Any, name: str) -> ToolDefinition:
    def described() -> ToolDefinition:
        known = tool.to_dict()
        return FrameworkDefinition(
            name,
            description=known.get("description"),
            parameters=lambda: known.get("input_schema"),
            function=getattr(tool, "func", None),
        )

    return _framework.definitions.of(tool, name, described)


def _arguments(given: Any) -> dict[str, Any]:
    return given if isinstance(given, dict) else {"input": given}


# ---- the runners -----------------------------------------------------------------------------------------

_turn: contextvars.ContextVar[set[str] | None] = contextvars.ContextVar("acrux_otel.anthropic", default=None)


def _seen(call_id: str) -> None:
    turn = _turn.get()
    if turn is not None:
        turn.add(call_id)


def _open_run(runner: Any, tool: Any, tool_use: Any) -> Call:
    _seen(tool_use.id)
    return _framework.open(
        _definition_of(tool, tool_use.name),
        call_id=tool_use.id,
        arguments=_arguments(tool_use.input),
        function=getattr(tool, "func", None),
    )


def _open_member(toolset: Any, tool_use: Any) -> Call:
    _seen(tool_use.id)
    definition = _framework.definitions.named(tool_use.name)
    return _framework.open(
        definition, call_id=tool_use.id, arguments=_arguments(tool_use.input), catalogued=False
    )


def _answered(call: Call, answer: Any) -> Verdict | None:
    return mcp_failure(SimpleNamespace(is_error=answer.get("is_error"), content=answer.get("content")))


def _generate(original: Any) -> Any:
    """Looks in the answers of a turn for calls that no tool ran."""
    if inspect.iscoroutinefunction(original):

        @functools.wraps(original)
        async def agenerate(*args: Any, **kwargs: Any) -> Any:
            token = _turn.set(_eager(args))
            try:
                message = await original(*args, **kwargs)
                missed = _missed(message)
                if missed:
                    try:
                        _record_missed(missed, await args[0]._get_last_assistant_message_content())
                    except Exception:  # a runner of another shape
                        pass
                return message
            finally:
                _turn.reset(token)

        return agenerate

    @functools.wraps(original)
    def generate(*args: Any, **kwargs: Any) -> Any:
        token = _turn.set(_eager(args))
        try:
            message = original(*args, **kwargs)
            missed = _missed(message)
            if missed:
                try:
                    _record_missed(missed, args[0]._get_last_assistant_message_content())
                except Exception:  # a runner of another shape
                    pass
            return message
        finally:
            _turn.reset(token)

    return generate


def _eager(args: tuple[Any, ...]) -> set[str]:
    """The calls that ran while the model was still speaking."""
    try:
        return set(args[0]._eager_tool_calls.results)
    except Exception:  # older runners have none
        return set()


def _missed(message: Any) -> dict[str, Any]:
    try:
        seen = _turn.get() or set()
        if not _framework.on or message is None:
            return {}
        return {
            answer["tool_use_id"]: answer
            for answer in message["content"]
            if answer.get("is_error") and answer["tool_use_id"] not in seen
        }
    except Exception:  # an answer of another shape
        return {}


def _record_missed(answers: dict[str, Any], content: Any) -> None:
    for block in content or ():
        answer = answers.get(getattr(block, "id", ""))
        if answer is None:
            continue
        said = mcp_failure(SimpleNamespace(is_error=True, content=answer.get("content")))
        text = said.detail if said is not None else None
        verdict = Verdict(Outcome.NOT_EXECUTED, detail=text) if text in _halts() else unknown_tool(block.name)
        _framework.record(block.name, verdict, call_id=block.id, arguments=_arguments(block.input))


def _halts() -> set[str]:
    """How the SDK tells the model that an action was left out; constants of the SDK."""
    module = sys.modules.get("anthropic.lib.tools._toolsets._runnable")
    texts = set(getattr(module, "HALT_TEXT", {}).values())
    return texts | {getattr(module, "NOT_EXECUTED", None) or ""} - {""}


# ---- a tool ----------------------------------------------------------------------------------------------


def _open_tool(tool: Any, given: Any) -> Call:
    return _framework.open(
        _definition_of(tool, tool.name), arguments=_arguments(given), function=getattr(tool, "func", None)
    )


def _tool_failed(call: Call, exc: BaseException) -> Verdict | BaseException | None:
    cause = exc.__cause__
    if type(exc) is ValueError and type(cause).__name__ == "ValidationError" and cause is not None:
        # The SDK says the same of an error that the body raised.
        return cause if body_entered(cause, call.site.function) else classify_arguments(cause)
    return None


def _call_tool(original: Any) -> Any:
    """The tool's call, with a declared result in a form that the API takes: text or blocks."""

    def shaped(result: Any) -> Any:
        call = current_call()
        if call is None:
            return result
        result = call.unwrapped(result)
        if call.recorded is None or result is None or isinstance(result, (str, list, tuple)):
            return result
        if call.recorded.outcome is Outcome.ERROR:
            raise declared_error(sys.modules["anthropic.lib.tools._beta_functions"].ToolError, call)
        return json.dumps(result, default=str)

    if inspect.iscoroutinefunction(original):

        @functools.wraps(original)
        async def acall(*args: Any, **kwargs: Any) -> Any:
            return shaped(await original(*args, **kwargs))

        return _observed_tool(acall)

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        return shaped(original(*args, **kwargs))

    return _observed_tool(call)


_observed_tool = _framework.observed(_open_tool, None, _tool_failed)


class AnthropicInstrumentor(FrameworkInstrumentor):
    """Tool calls that Anthropic's SDK runs."""

    framework = _framework
    instruments = _instruments

    def hooks(self) -> Iterable[Hook]:
        yield from _HOOKS


_RUNNER, _SESSION = "anthropic.lib.tools._beta_runner", "anthropic.lib.tools._beta_session_runner"
_FUNCTIONS, _TOOLSETS = "anthropic.lib.tools._beta_functions", "anthropic.lib.tools._toolsets._runnable"
_run, _member = _framework.observed(_open_run, _answered), _framework.observed(_open_member, _answered)
_HOOKS = (
    Hook(_RUNNER, "BaseSyncToolRunner._run_tool", _run),
    Hook(_RUNNER, "BaseAsyncToolRunner._run_tool", _run),
    Hook(_RUNNER, "BaseSyncToolRunner._generate_tool_call_response", _generate),
    Hook(_RUNNER, "BaseAsyncToolRunner._generate_tool_call_response", _generate),
    Hook(_RUNNER, "tool_error_content", swallowing(0)),
    Hook(_SESSION, "tool_error_content", swallowing(0), optional=True),
    Hook(_FUNCTIONS, "BetaFunctionTool.call", _call_tool),
    Hook(_FUNCTIONS, "BetaAsyncFunctionTool.call", _call_tool),
    Hook(_TOOLSETS, "BetaRunnableToolset.tool_result", _member),
    Hook(_TOOLSETS, "BetaAsyncRunnableToolset.tool_result", _member),
    Hook(_TOOLSETS, "member_error_result", swallowing(1)),
)
