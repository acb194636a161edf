# SPDX-License-Identifier: Apache-2.0
"""FastMCP servers. Its clients are clients of the MCP SDK, and recorded by that instrumentation.

`Tool._run` is what a server runs, inside its own span and before it masks an exception. A result is seen
where it is converted, a name that no tool has where the server looks it up.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable
from typing import Any

from acrux_otel import ErrorType, Outcome, ToolDefinition, Verdict
from acrux_otel.seam import Call, classify_arguments, current_call, unknown_tool
from acrux_otel_instrumentation.calls import Framework, body_entered, changed, declared_error, given
from acrux_otel_instrumentation.definitions import FrameworkDefinition, annotations_from
from acrux_otel_instrumentation.instrumentor import FrameworkInstrumentor
from acrux_otel_instrumentation.mcp import client_beside, same_call
from acrux_otel_instrumentation.patching import Hook

__all__ = ["FastMCPInstrumentor"]

_instruments = ("fastmcp >= 3.0, < 5",)
_framework = Framework("fastmcp", scopes=("fastmcp",))
_INTERRUPTED = Verdict(Outcome.INTERRUPTED)


def _open(tool: Any, arguments: Any, *args: Any, **kwargs: Any) -> Call:
    function = getattr(tool, "fn", None)
    return _framework.open(
        _framework.definitions.of(tool, tool.name, lambda: _described(tool)),
        arguments=arguments,
        function=function,
        within=same_call(tool.name) or client_beside(tool.name, arguments, _request()),
    )


def _request() -> Any:
    """The request of a 1.x server that is being handled."""
    module = sys.modules.get("mcp.server.lowlevel.server")
    current = getattr(module, "request_ctx", None)
    return current.get(None) if current is not None else None


def _described(tool: Any) -> ToolDefinition:
    parameters, result = tool.parameters, tool.output_schema
    return FrameworkDefinition(
        tool.name,
        description=tool.description,
        parameters=lambda: parameters,
        result=lambda: result,
        function=getattr(tool, "fn", None),
        annotations=annotations_from(tool.annotations),
    )


def _ended(call: Call, result: Any) -> Verdict | None:
    return _INTERRUPTED if type(result).__name__ == "InputRequiredToolResult" else None


def _failed(call: Call, exc: BaseException) -> Verdict | BaseException | None:
    if type(exc).__name__ == "ValidationError":
        if type(exc).__module__.startswith("fastmcp."):
            return classify_arguments(exc.__cause__ or exc)
        return classify_arguments(exc) if body_entered(exc, call.site.function) is False else None
    if isinstance(exc.__context__, TimeoutError) and type(exc).__name__ in ("MCPError", "McpError"):
        trace = exc.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        if trace is not None and trace.tb_frame.f_globals.get("__name__", "").startswith("fastmcp."):
            # FastMCP's own time limit; its code says that the connection was closed.
            return Verdict(Outcome.ERROR, ErrorType.TRANSPORT, "timeout", str(exc))
    return None


def _convert_result(original: Any) -> Any:
    @functools.wraps(original)
    def convert_result(*args: Any, **kwargs: Any) -> Any:
        call = current_call()
        if call is None or not args:
            return original(*args, **kwargs)
        value = call.unwrapped(given(args, kwargs, 1, "raw_value"))
        declared = call.recorded
        if declared is not None and declared.outcome is Outcome.ERROR and not _fits(args[0], value):
            # The client would refuse it: what says that the tool failed is not what its type promises.
            raise declared_error(sys.modules["fastmcp.exceptions"].ToolError, call)
        args, kwargs = changed(args, kwargs, 1, "raw_value", value)
        return original(*args, **kwargs)

    return convert_result


def _fits(tool: Any, value: Any) -> bool:
    schema = getattr(tool, "output_schema", None)
    if schema is None or not isinstance(value, (dict, list, str, int, float, type(None))):
        return True
    try:
        from jsonschema.validators import validator_for

        structured = {"result": value} if schema.get("x-fastmcp-wrap-result") else value
        return bool(validator_for(schema)(schema).is_valid(structured))
    except Exception:  # a schema that cannot be checked
        return True


def _call_tool(original: Any) -> Any:
    @functools.wraps(original)
    async def call_tool(*args: Any, **kwargs: Any) -> Any:
        try:
            return await original(*args, **kwargs)
        except Exception as exc:
            if _framework.on and type(exc).__name__ == "NotFoundError":
                name, arguments = given(args, kwargs, 1, "name"), given(args, kwargs, 2, "arguments")
                _record_unknown(exc, str(name), arguments)
            raise

    return call_tool


def _record_unknown(exc: Any, name: str, arguments: Any) -> None:
    # The server asks itself again behind its middleware, and a mounted one behind it: once is enough.
    if getattr(exc, "__acrux_recorded__", False):
        return
    exc.__acrux_recorded__ = True
    _framework.record(
        name,
        unknown_tool(name),
        arguments=arguments or {},
        within=client_beside(name, arguments, _request()),
    )


class FastMCPInstrumentor(FrameworkInstrumentor):
    """Tool calls that FastMCP servers run."""

    framework = _framework
    instruments = _instruments

    def hooks(self) -> Iterable[Hook]:
        yield from _HOOKS


_run = _framework.observed(_open, _ended, _failed)
_HOOKS = (
    # `base` since 3.1; where there is only `tool`, that is the one.
    Hook("fastmcp.tools.base", "Tool._run", _run, optional=True),
    Hook("fastmcp.tools.base", "Tool.convert_result", _convert_result, optional=True),
    Hook("fastmcp.tools.tool", "Tool._run", _run, optional=True),
    Hook("fastmcp.tools.tool", "Tool.convert_result", _convert_result, optional=True),
    Hook("fastmcp.server.server", "FastMCP.call_tool", _call_tool),
)
