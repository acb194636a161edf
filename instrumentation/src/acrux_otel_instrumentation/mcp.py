# SPDX-License-Identifier: Apache-2.0
"""MCP, client and server, SDK 1.x and 2.x.

The client sees `ClientSession.call_tool`. A server built from functions (`FastMCP`, `MCPServer`) is seen
where its exceptions still are, in `ToolManager.call_tool`; a low-level server where its handler is called.
Client and server in one process see the same call: the server's word goes to the client's span.
"""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

from opentelemetry.trace import SpanKind

from acrux_otel import Outcome, ToolDefinition, Verdict
from acrux_otel.seam import Call, classify_arguments, current_call, invalid_result, mcp_failure, unknown_tool
from acrux_otel_instrumentation.calls import (
    Framework,
    body_entered,
    changed,
    declared_error,
    given,
    passed_through,
    tolerant,
)
from acrux_otel_instrumentation.definitions import FrameworkDefinition, annotations_from
from acrux_otel_instrumentation.instrumentor import FrameworkInstrumentor, installed_version
from acrux_otel_instrumentation.patching import Hook

__all__ = ["MCPInstrumentor", "client_beside", "described_by_mcp", "same_call"]

_instruments = ("mcp >= 1.20, < 3",)
_framework = Framework("mcp", scopes=("mcp-python-sdk", "fastmcp"), layered=False)
_INTERRUPTED = Verdict(Outcome.INTERRUPTED)


def described_by_mcp(tool: Any) -> ToolDefinition:
    """The definition of a tool as the protocol lists it, in either spelling."""
    # The newer spelling first: FastMCP 4 warns of the older one.
    if hasattr(tool, "input_schema"):
        parameters, result = tool.input_schema, getattr(tool, "output_schema", None)
    else:
        parameters, result = tool.inputSchema, getattr(tool, "outputSchema", None)
    return FrameworkDefinition(
        tool.name,
        description=tool.description,
        parameters=lambda: parameters,
        result=lambda: result,
        annotations=annotations_from(getattr(tool, "annotations", None)),
    )


# ---- the client ------------------------------------------------------------------------------------------

# Where frameworks make a function for each tool of a server.
_ADAPTERS = (
    *(
        "agent_framework.",
        "agents.",
        "anthropic.",
        "autogen_ext.",
        "claude_agent_sdk.",
        "crewai.",
        "crewai_tools.",
    ),
    *("fastmcp.", "google.adk.", "haystack_integrations.", "langchain_mcp_adapters.", "llama_index.", "mcp."),
    *("mcpadapt.", "pydantic_ai.", "smolagents.", "strands."),
)
_listed: weakref.WeakKeyDictionary[Any, dict[str, Any]] = weakref.WeakKeyDictionary()
_in_flight: dict[tuple[int, str], Call] = {}  # 1.x, by the stream and the id that the request goes out under


def same_call(name: str) -> Call | None:
    """The call in progress that a client's call of tool ``name`` is, perhaps prefixed by its framework."""
    outer = current_call()
    if outer is None or outer.awaits is None or not _passes_on(outer.site.function):
        return None
    return outer if outer.site.name == name or outer.site.name.endswith(_tails(name)) else None


def _passes_on(function: Any) -> bool:
    """Whether a tool's function may do no more than call a client; one that somebody wrote does more."""
    return function is None or str(getattr(function, "__module__", "")).startswith(_ADAPTERS)


def _open_client(
    session: Any, name: str, arguments: dict[str, Any] | None = None, *args: Any, **kwargs: Any
) -> Call:
    tool = _listed.get(session, {}).get(name)
    known: dict[str, Any] = {"arguments": arguments, "within": same_call(name), "span": _client_span(name)}
    if tool is not None:
        call = _framework.open(
            _framework.definitions.of(tool, name, lambda: described_by_mcp(tool)), catalogued=False, **known
        )
    else:
        call = _framework.open(_framework.definitions.named(name), catalogued=False, **known)
    request_id = getattr(session, "_request_id", None)
    if request_id is not None:  # 1.x, whose streams do not carry the caller's context to a server beside it
        _in_flight[_stream(session, "_write_stream"), str(request_id)] = call
    return call


def _client_span(name: str) -> Any:
    """The client's own span; the span of a server that asks another one is of another call."""
    span = _framework.own_span(name)
    return None if getattr(span, "kind", None) is SpanKind.SERVER else span


def _landed(call: Call) -> None:
    for key in [key for key, each in _in_flight.items() if each is call]:
        del _in_flight[key]


def _client_ended(call: Call, result: Any) -> Verdict | None:
    _landed(call)
    if type(result).__name__ == "InputRequiredResult":
        return _INTERRUPTED
    return mcp_failure(result)


def _client_failed(call: Call, exc: BaseException) -> Verdict | None:
    _landed(call)
    if isinstance(exc, RuntimeError) and passed_through(exc, "validate_tool_result", "_validate_tool_result"):
        return invalid_result(str(exc), "error")
    # A server beside us knows better than its protocol error tells.
    return call.recorded if call.recorded is not None and call.recorded.outcome is Outcome.ERROR else None


def _remember_listed(original: Any) -> Any:
    @functools.wraps(original)
    async def list_tools(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = await original(self, *args, **kwargs)
        try:
            _listed.setdefault(self, {}).update((tool.name, tool) for tool in result.tools)
        except Exception:  # a session without weak references, a result of another shape
            pass
        return result

    return list_tools


# ---- a server made of functions --------------------------------------------------------------------------


def _open_tool(
    manager: Any, name: str, arguments: dict[str, Any], context: Any = None, *args: Any, **kwargs: Any
) -> Call:
    tool = manager.get_tool(name)
    known: dict[str, Any] = {"arguments": arguments, "within": client_beside(name, arguments, context)}
    if tool is None:
        return _framework.open(_framework.definitions.named(name), catalogued=False, **known)
    return _framework.open(
        _framework.definitions.of(tool, name, lambda: _described(tool)), function=tool.fn, **known
    )


def client_beside(name: str, arguments: Any, context: Any) -> Call | None:
    """The call of a 1.x client in this process that this request came from, perhaps under a prefix.

    Args:
        context: of the request; has its ``request_id`` and its session.
    """
    if not _in_flight:
        return None
    try:
        session = getattr(context, "_session", None) or context.session
        call = _in_flight.get((_stream(session, "_read_stream"), str(context.request_id)))
    except Exception:  # no request in progress
        return None
    if call is None or call.awaits is None or (call.arguments() or {}) != (arguments or {}):
        return None
    asked = call.site.name
    return call if asked == name or asked.endswith(_tails(name)) else None


def _stream(session: Any, end: str) -> int:
    """What both ends of a stream in memory have in common."""
    return id(getattr(getattr(session, end, None), "_state", session))


def _tails(name: str) -> tuple[str, ...]:
    return tuple(f"{mark}{name}" for mark in "_-./:")


def _described(tool: Any) -> ToolDefinition:
    parameters, result = tool.parameters, getattr(tool, "output_schema", None)
    return FrameworkDefinition(
        tool.name,
        description=tool.description,
        parameters=lambda: parameters,
        result=lambda: result,
        function=tool.fn,
        annotations=annotations_from(getattr(tool, "annotations", None)),
    )


def _tool_failed(call: Call, exc: BaseException) -> Verdict | BaseException | None:
    if not call.site.catalogued and call.site.function is None:
        return unknown_tool(call.site.name)
    cause = exc.__cause__
    if cause is None:
        return None
    if type(cause).__name__ == "ValidationError" and _is_of_arguments(cause, call.site.function):
        return classify_arguments(cause)
    return cause


def _is_of_arguments(exc: BaseException, function: Any) -> bool:
    """Whether a ValidationError came before the tool's body: 2.x has a step of its own for it."""
    if passed_through(exc, "convert_result"):
        return False
    if passed_through(exc, "validate_arguments"):
        return True
    return body_entered(exc, function) is False


def _convert_result(original: Any) -> Any:
    @functools.wraps(original)
    def convert_result(*args: Any, **kwargs: Any) -> Any:
        call = current_call()
        if call is None:
            return original(*args, **kwargs)
        args, kwargs = changed(args, kwargs, 1, "result", call.unwrapped(given(args, kwargs, 1, "result")))
        declared = call.recorded
        if declared is None or declared.outcome is not Outcome.ERROR:
            return original(*args, **kwargs)
        try:
            return original(*args, **kwargs)
        except Exception:
            # What says that the tool failed is not what its result type promises.
            raise declared_error(_tool_error(), call) from None

    return convert_result


def _tool_error() -> Any:
    for name in ("mcp.server.mcpserver.exceptions", "mcp.server.fastmcp.exceptions"):
        if name in sys.modules:
            return sys.modules[name].ToolError
    return RuntimeError


# ---- a low-level server, 2.x -----------------------------------------------------------------------------


def _compose(original: Any) -> Any:
    def watching(runner: Any, inner: Any) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        entry = runner.server.get_request_handler("tools/call")
        if not _framework.on or entry is None or _is_frameworks_own(entry.handler):
            return None
        return (runner, _framework.observed(_open_request, _request_ended)(inner)), {}

    return tolerant(watching)(original)


def _open_request(context: Any) -> Call | None:
    if context.method != "tools/call":
        return None
    return _open_low_level(context.params.get("name"), context.params.get("arguments"), context)


def _open_low_level(name: Any, arguments: Any, context: Any) -> Call:
    known: dict[str, Any] = {"arguments": arguments, "within": client_beside(str(name), arguments, context)}
    return _framework.open(_framework.definitions.named(str(name)), catalogued=False, **known)


def _request_ended(call: Call, result: Any) -> Verdict | None:
    if isinstance(result, Mapping):
        result = SimpleNamespace(isError=result.get("isError"), content=result.get("content"))
    return mcp_failure(result)


def _is_frameworks_own(handler: Any) -> bool:
    """Whether the tools behind ``handler`` are functions, which are seen further inside."""
    inner = _cell(handler, "func")
    if inner is not None:
        handler = inner
    module = getattr(handler, "__module__", None) or ""
    if module.startswith("claude_agent_sdk."):
        # A server that was made before instrument() is seen here or nowhere.
        return hasattr(_cell(handler, "run_tool"), "__wrapped__")
    return module.partition(".")[0] == "fastmcp" or module.startswith(
        ("mcp.server.mcpserver", "mcp.server.fastmcp", "mcp.server.extension")
    )


def _cell(function: Any, name: str) -> Any:
    names = getattr(getattr(function, "__code__", None), "co_freevars", ())
    cell = dict(zip(names, getattr(function, "__closure__", None) or (), strict=False)).get(name)
    return cell.cell_contents if cell is not None else None


# ---- a low-level server, 1.x -----------------------------------------------------------------------------


def _open_handled(server: Any, message: Any, request: Any, *args: Any, **kwargs: Any) -> Call | None:
    if type(request).__name__ != "CallToolRequest":
        return None
    handler = server.request_handlers.get(type(request))
    if handler is None or _is_frameworks_own(handler):
        return None
    call = _open_low_level(request.params.name, request.params.arguments, message)
    _handled.add(call)
    return call


_handled: weakref.WeakSet[Call] = weakref.WeakSet()


def _handled_call() -> Call | None:
    call = current_call()
    return call if call is not None and call in _handled else None


def _see_response(responder: Any, response: Any) -> None:
    """What the server answers: a result, or a JSON-RPC error."""
    call = _handled_call()
    if call is None:
        return
    if type(response).__name__ == "ErrorData":
        call.swallowed(sys.modules["mcp.shared.exceptions"].McpError(response))
        return
    verdict = mcp_failure(getattr(response, "root", response))
    if verdict is not None:
        call.declare(verdict)


def _see_error_result(server: Any, *args: Any, **kwargs: Any) -> None:
    """Called where the handler has caught an exception, which is the one being handled."""
    call, exc = _handled_call(), sys.exc_info()[1]
    if call is None or exc is None:
        return
    if type(exc).__name__ == "ValidationError" and type(exc).__module__.startswith("jsonschema"):
        call.swallowed(exc, classify_arguments(exc))
    else:
        call.swallowed(exc)


class MCPInstrumentor(FrameworkInstrumentor):
    """Tool calls of MCP clients and servers."""

    framework = _framework
    instruments = _instruments

    def hooks(self) -> Iterable[Hook]:
        yield _CLIENT
        yield _LISTING
        version = installed_version("mcp") or ""
        yield from _V1 if version.startswith("1.") else _V2


_CLIENT = Hook(
    "mcp.client.session",
    "ClientSession.call_tool",
    _framework.observed(_open_client, _client_ended, _client_failed),
)
_LISTING = Hook("mcp.client.session", "ClientSession.list_tools", _remember_listed)
_tool_hook = _framework.observed(_open_tool, None, _tool_failed)
_V2 = (
    Hook("mcp.server.mcpserver.tools.tool_manager", "ToolManager.call_tool", _tool_hook),
    Hook("mcp.server.mcpserver.utilities.func_metadata", "FuncMetadata.convert_result", _convert_result),
    Hook("mcp.server.runner", "ServerRunner._compose_server_middleware", _compose),
)
_V1 = (
    Hook("mcp.server.fastmcp.tools.tool_manager", "ToolManager.call_tool", _tool_hook),
    Hook("mcp.server.fastmcp.utilities.func_metadata", "FuncMetadata.convert_result", _convert_result, True),
    Hook("mcp.server.lowlevel.server", "Server._handle_request", _framework.observed(_open_handled)),
    Hook("mcp.server.lowlevel.server", "Server._make_error_result", tolerant(_see_error_result), True),
    Hook("mcp.shared.session", "RequestResponder.respond", tolerant(_see_response)),
)
