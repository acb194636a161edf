# SPDX-License-Identifier: Apache-2.0
"""AutoGen tools and workbenches.

`BaseTool.run_json` opens the framework's own span around validation and body; the verdict is written there.
A sync function runs in a thread that AutoGen starts without the caller's context: it gets a copy.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import copy
import functools
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any

from acrux_otel import ToolDefinition, Verdict
from acrux_otel.seam import Call, classify_arguments, current_call, unknown_tool
from acrux_otel_instrumentation.calls import Framework, body_entered, given
from acrux_otel_instrumentation.definitions import FrameworkDefinition, while_alive
from acrux_otel_instrumentation.instrumentor import FrameworkInstrumentor
from acrux_otel_instrumentation.patching import Hook

__all__ = ["AutogenInstrumentor"]

_instruments = ("autogen-core >= 0.7, < 1",)
_framework = Framework("autogen", scopes=("autogen-core",))
# The tool and the arguments of the call that is about to open its span, and what its body returned.
_asked: contextvars.ContextVar[tuple[Any, Any] | None] = contextvars.ContextVar(
    "acrux_otel.autogen", default=None
)
_results: dict[int, Any] = {}


def _run_json(original: Any) -> Any:
    @functools.wraps(original)
    async def run_json(*args: Any, **kwargs: Any) -> Any:
        token = _asked.set((args[0] if args else None, given(args, kwargs, 1, "args")))
        try:
            return await original(*args, **kwargs)
        finally:
            _asked.reset(token)

    return run_json


def _trace_tool_span(original: Any) -> Any:
    @functools.wraps(original)
    @contextlib.contextmanager
    def trace_tool_span(*args: Any, **kwargs: Any) -> Iterator[Any]:
        with original(*args, **kwargs) as span:
            name = given(args, kwargs, 0, "tool_name")
            call = _open(name, kwargs.get("tool_call_id")) if _framework.on else None
            if call is None:
                yield span
                return
            try:
                yield span
            except BaseException as exc:
                _results.pop(id(call), None)
                call.raised(exc, _meaning(call, exc))
                raise
            call.ok(_results.pop(id(call), None))

    return trace_tool_span


def _open(name: str, call_id: str | None) -> Call | None:
    try:
        asked = _asked.get()
        if asked is None or asked[0].name != name:
            return _framework.open(_framework.definitions.named(name), call_id=call_id, catalogued=False)
        tool, args = asked
        _asked.set(None)
        return _framework.open(
            _framework.definitions.of(tool, name, lambda: _described(tool, name)),
            call_id=call_id,
            arguments=dict(args),
            function=getattr(tool, "_func", None),
        )
    except Exception:
        return None


def _described(tool: Any, name: str) -> ToolDefinition:
    return FrameworkDefinition(
        name,
        description=tool.description,
        parameters=while_alive(tool, lambda alive: alive.schema.get("parameters")),
        function=getattr(tool, "_func", None),
    )


def _meaning(call: Call, exc: BaseException) -> Verdict | None:
    if type(exc).__name__ == "ValidationError" and not body_entered(exc, call.site.function):
        return classify_arguments(exc)
    return None


def _run_function(original: Any) -> Any:
    @functools.wraps(original)
    async def run(*args: Any, **kwargs: Any) -> Any:
        call = current_call()
        if call is None or not args:
            return await original(*args, **kwargs)
        result = call.unwrapped(await original(_in_context(args[0]), *args[1:], **kwargs))
        _results[id(call)] = result
        return result

    return run


def _in_context(tool: Any) -> Any:
    """The tool, its sync function bound to the context of the caller."""
    function = getattr(tool, "_func", None)
    if function is None or asyncio.iscoroutinefunction(function):
        return tool
    bound = copy.copy(tool)
    bound._func = functools.partial(contextvars.copy_context().run, function)
    return bound


def _call_tool(original: Any) -> Any:
    @functools.wraps(original)
    async def call_tool(*args: Any, **kwargs: Any) -> Any:
        result = await original(*args, **kwargs)
        if _framework.on and getattr(result, "is_error", False):
            _see_unknown(*args, **kwargs)
        return result

    return call_tool


def _run_json_stream(original: Any) -> Any:
    """The tool's call is current while the tool works, not while its results are looked at."""

    @functools.wraps(original)
    async def run_json_stream(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        if not _framework.on:
            async for item in original(*args, **kwargs):
                yield item
            return
        outside = current_call()
        _asked.set((args[0] if args else None, given(args, kwargs, 1, "args")))
        items = original(*args, **kwargs)
        try:
            async for item in items:
                call = current_call()
                working = call is not None and call is not outside
                if call is not None and working:
                    _results[id(call)] = item
                    call.leave()
                try:
                    yield item
                finally:
                    if call is not None and working:
                        call.enter()
        finally:
            _asked.set(None)
            await items.aclose()

    return run_json_stream


def _call_tool_stream(original: Any) -> Any:
    @functools.wraps(original)
    async def call_tool_stream(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        items = original(*args, **kwargs)
        try:
            async for item in items:
                if _framework.on and getattr(item, "is_error", False):
                    _see_unknown(*args, **kwargs)
                yield item
        finally:
            await items.aclose()

    return call_tool_stream


def _see_unknown(
    workbench: Any,
    name: str,
    arguments: Any = None,
    cancellation_token: Any = None,
    call_id: str | None = None,
    *args: Any,
    **kwargs: Any,
) -> None:
    if not _has(workbench, name):
        _framework.record(name, unknown_tool(name), call_id=call_id, arguments=dict(arguments or {}))


def _has(workbench: Any, name: str) -> bool:
    try:
        original = workbench._override_name_to_original.get(name, name)
        return any(tool.name == original for tool in workbench._tools)
    except Exception:  # a workbench of another shape
        return True


class AutogenInstrumentor(FrameworkInstrumentor):
    """Tool calls of AutoGen."""

    framework = _framework
    instruments = _instruments

    def hooks(self) -> Iterable[Hook]:
        yield from _HOOKS


_WORKBENCH = "autogen_core.tools._static_workbench"
_HOOKS = (
    Hook("autogen_core.tools._base", "BaseTool.run_json", _run_json),
    Hook("autogen_core.tools._base", "trace_tool_span", _trace_tool_span),
    Hook("autogen_core.tools._function_tool", "FunctionTool.run", _run_function),
    Hook("autogen_core.tools._base", "BaseStreamTool.run_json_stream", _run_json_stream, optional=True),
    Hook(_WORKBENCH, "StaticWorkbench.call_tool", _call_tool),
    Hook(_WORKBENCH, "StaticStreamWorkbench.call_tool_stream", _call_tool_stream, optional=True),
)
