# SPDX-License-Identifier: Apache-2.0
"""The Claude Agent SDK: tools of in-process servers, and those that the CLI runs, as its messages tell."""

from __future__ import annotations

import dataclasses
import functools
import json
import sys
from collections import OrderedDict
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, Final

from acrux_otel import Outcome, ToolDefinition, Verdict
from acrux_otel.seam import Call, classify_arguments, current_call, mcp_failure, unknown_tool
from acrux_otel_instrumentation.calls import Framework, changed, given, tolerant
from acrux_otel_instrumentation.definitions import FrameworkDefinition, annotations_from
from acrux_otel_instrumentation.instrumentor import FrameworkInstrumentor
from acrux_otel_instrumentation.patching import Hook

__all__ = ["ClaudeAgentSDKInstrumentor"]

_instruments = ("claude-agent-sdk >= 0.2.180, < 0.3",)
_framework = Framework("claude_agent_sdk")


# ---- tools in this process -------------------------------------------------------------------------------

_KEPT: Final = 1000  # calls whose answer never came
_own_tools: set[str] = set()
_asked: OrderedDict[str, tuple[str, Any]] = OrderedDict()  # what a message asked of them, by the call's id


def _id_of(name: str, arguments: Any) -> str | None:
    """The id under which the model asked for this, if its message has been read by now."""
    for id, asked in list(_asked.items()):
        if asked == (name, arguments):
            _asked.pop(id, None)
            return id
    return None


def _build_tool_server(original: Any) -> Any:
    def watching(*args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        watched = _watched(given(args, kwargs, 2, "tools"), given(args, kwargs, 3, "run_tool"))
        return changed(args, kwargs, 3, "run_tool", watched)

    return tolerant(watching)(original)


def _watched(wire_tools: Any, run_tool: Any) -> Any:
    cells = dict(zip(run_tool.__code__.co_freevars, run_tool.__closure__ or (), strict=False))
    known = cells["tools_by_name"].cell_contents
    listed = {tool.name: tool for tool in wire_tools}
    _own_tools.update(known)
    for name, tool in list(known.items()):
        known[name] = dataclasses.replace(tool, handler=_shaped(tool.handler))

    def opening(name: str, arguments: Any) -> Call:
        tool, id = listed.get(name), _id_of(name, arguments)
        if tool is None:
            unknown = _framework.definitions.named(name)
            return _framework.open(unknown, call_id=id, arguments=arguments, catalogued=False)
        function = getattr(known[name].handler, "__wrapped__", None)
        definition = _framework.definitions.of(tool, name, lambda: _described(tool, function))
        return _framework.open(definition, call_id=id, arguments=arguments, function=function)

    return _framework.observed(opening, lambda call, result: mcp_failure(result))(run_tool)


def _described(tool: Any, function: Any) -> ToolDefinition:
    parameters = getattr(tool, "input_schema", None) or tool.inputSchema
    return FrameworkDefinition(
        tool.name,
        description=tool.description,
        parameters=lambda: parameters,
        function=function,
        annotations=annotations_from(getattr(tool, "annotations", None)),
    )


def _shaped(handler: Any) -> Any:
    """The handler, a declared result of it in the form that the SDK takes."""

    @functools.wraps(handler)
    async def shaped(arguments: Any) -> Any:
        result = await handler(arguments)
        call = current_call()
        if call is None:
            return result
        result = call.unwrapped(result)
        declared = call.recorded
        if declared is None or (isinstance(result, dict) and "content" in result):
            return result
        failed = declared.outcome is Outcome.ERROR
        text = declared.detail if failed else json.dumps(result, default=str)
        return {"content": [{"type": "text", "text": text or ""}], "is_error": failed}

    return shaped


def _see_error_result(*args: Any, **kwargs: Any) -> None:
    """Called where the runner has caught an exception, or has no such tool."""
    call, exc = current_call(), sys.exc_info()[1]
    if call is None:
        return
    if exc is None:
        call.executed = False
        call.declare(unknown_tool(call.site.name))
    elif type(exc).__module__.startswith("jsonschema"):
        call.executed = False
        call.swallowed(exc, classify_arguments(exc))
    else:
        call.swallowed(exc)


# ---- tools of the CLI ------------------------------------------------------------------------------------

_pending: OrderedDict[str, tuple[Call, str | None]] = OrderedDict()  # with the session


def _parse_message(original: Any) -> Any:
    @functools.wraps(original)
    def parse_message(*args: Any, **kwargs: Any) -> Any:
        message = original(*args, **kwargs)
        if _framework.on:
            try:
                _see_message(message)
            except Exception:  # a message of another shape
                pass
        return message

    return parse_message


def _see_message(message: Any) -> None:
    session = getattr(message, "session_id", None)
    if type(message).__name__ == "ResultMessage":
        for id, (_, asked_in) in list(_pending.items()):
            if asked_in == session:
                _end_unanswered(id)  # the turn was interrupted
        return
    content = getattr(message, "content", None)
    for block in content if isinstance(content, list) else ():
        kind = type(block).__name__
        if kind == "ToolUseBlock":
            _see_use(block, session)
        elif kind == "ToolResultBlock":
            _see_result(block)


def _see_use(block: Any, session: str | None) -> None:
    own = block.name.rpartition("__")[2]
    if own in _own_tools:
        _asked[block.id] = own, block.input
        if len(_asked) > _KEPT:
            _asked.popitem(last=False)
        return
    definition = _framework.definitions.named(block.name)
    call = _framework.open(definition, call_id=block.id, arguments=block.input, catalogued=False)
    call.leave()
    _pending[block.id] = call, session
    if len(_pending) > _KEPT:
        _end_unanswered(next(iter(_pending)))


def _see_result(block: Any) -> None:
    _asked.pop(block.tool_use_id, None)
    call, _ = _pending.pop(block.tool_use_id, (None, None))
    if call is None:
        return
    call.enter()
    said = mcp_failure(SimpleNamespace(is_error=block.is_error, content=block.content))
    if said is not None:
        call.declare(said)
    call.ok(block.content)


def _end_unanswered(id: str) -> None:
    call, _ = _pending.pop(id)
    call.enter()
    call.declared(Verdict(Outcome.CANCELLED))


class ClaudeAgentSDKInstrumentor(FrameworkInstrumentor):
    """Tool calls of the Claude Agent SDK."""

    framework = _framework
    instruments = _instruments

    def hooks(self) -> Iterable[Hook]:
        yield from _HOOKS


_PARSER = "claude_agent_sdk._internal.message_parser"
_HOOKS = (
    Hook("claude_agent_sdk", "build_tool_server", _build_tool_server),
    Hook("claude_agent_sdk", "_tool_error_result", tolerant(_see_error_result)),
    Hook(_PARSER, "parse_message", _parse_message),
    Hook("claude_agent_sdk._internal.client", "parse_message", _parse_message, optional=True),
    Hook("claude_agent_sdk.client", "parse_message", _parse_message, optional=True),
)
