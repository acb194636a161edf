# SPDX-License-Identifier: Apache-2.0
"""Strands Agents: the generator that runs one tool, inside the framework's own span.

The framework closes that span with OK where the result looks like a success; the seam holds it at the
verdict.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Iterable
from types import SimpleNamespace
from typing import Any

from acrux_otel import Outcome, ToolDefinition, Verdict
from acrux_otel.seam import Call, classify_arguments, mcp_failure, unknown_tool
from acrux_otel_instrumentation.calls import Framework, given, passed_through, unwrapping
from acrux_otel_instrumentation.definitions import FrameworkDefinition
from acrux_otel_instrumentation.instrumentor import FrameworkInstrumentor
from acrux_otel_instrumentation.patching import Hook

__all__ = ["StrandsInstrumentor"]

_instruments = ("strands-agents >= 1.62, < 2",)
_framework = Framework("strands", scopes=("strands.",))
_INTERRUPTED = Verdict(Outcome.INTERRUPTED)
_LAST = ("ToolResultEvent", "ToolInterruptEvent")


def _open(context: Any) -> Call:
    use, tool = context.tool_use, context.tool
    known: dict[str, Any] = {"call_id": use.get("toolUseId"), "arguments": use.get("input")}
    name = use["name"]
    if tool is None:
        return _framework.open(_framework.definitions.named(name), catalogued=False, **known)
    definition = _framework.definitions.of(tool, name, lambda: _described(tool, name))
    return _framework.open(definition, function=getattr(tool, "_tool_func", None), **known)


def _described(tool: Any, name: str) -> ToolDefinition:
    known = tool.tool_spec
    return FrameworkDefinition(
        name,
        description=known.get("description"),
        parameters=lambda: known.get("inputSchema", {}).get("json"),
        result=lambda: (known.get("outputSchema") or {}).get("json"),
        function=getattr(tool, "_tool_func", None),
    )


def _run_tool(original: Any) -> Any:
    @functools.wraps(original)
    async def run_tool(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        context = given(args, kwargs, 0, "context")
        call = _begin(context)
        events = original(*args, **kwargs)
        if call is None:
            async for event in events:
                yield event
            return
        working = True
        try:
            # Current while the tool works, not while its events are looked at.
            async for event in events:
                if working and type(event).__name__ in _LAST:
                    # Whoever gets the last event may never come back for more.
                    working = False
                    call.ok(_seen(call, context, event))
                elif working:
                    call.leave()
                try:
                    yield event
                finally:
                    if working:
                        call.enter()
        except BaseException as exc:
            if working:
                call.raised(exc)
            raise
        finally:
            await events.aclose()
        if working:
            call.ok(None)

    return run_tool


def _begin(context: Any) -> Call | None:
    try:
        return _open(context) if _framework.on else None
    except Exception:
        return None


def _seen(call: Call, context: Any, event: Any) -> Any:
    """What the last event says of the call; returns the result, if it is one."""
    try:
        if type(event).__name__ == "ToolInterruptEvent":
            call.declare(_INTERRUPTED)
            return None
        result, exc = event.tool_result, event.exception
        if context.tool is None:
            call.executed = False
            call.declare(unknown_tool(call.site.name))
        elif isinstance(exc, BaseException):
            refused = passed_through(exc, "validate_input")
            call.swallowed(exc, classify_arguments(exc) if refused else None)
        elif result.get("status") == "error":
            said = mcp_failure(SimpleNamespace(is_error=True, content=result.get("content")))
            if said is not None:
                call.declare(said)
        return result
    except Exception:  # an event of another shape
        return None


class StrandsInstrumentor(FrameworkInstrumentor):
    """Tool calls of Strands Agents."""

    framework = _framework
    instruments = _instruments

    def hooks(self) -> Iterable[Hook]:
        yield from _HOOKS


_HOOKS = (
    Hook("strands.tools.executors._executor", "_run_tool", _run_tool),
    Hook("strands.tools.decorator", "DecoratedFunctionTool._wrap_tool_result", unwrapping(2)),
)
