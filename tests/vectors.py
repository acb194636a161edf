# SPDX-License-Identifier: Apache-2.0
"""The shared verdict vectors, with the real object that each case's shorthand stands for.

`CASES` holds every case of ``vectors/verdicts.json``; a case without a builder here, or a builder without
a case, is an error at import. Exceptions are those of the real packages.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import socket
import ssl
import sys
import urllib.error
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import aiohttp
import anthropic
import httpx
import httpx2
import openai
import pydantic
import requests

try:
    from mcp.shared.exceptions import MCPError
    from mcp_types import CallToolResult, TextContent

    def _mcp_error(code: int, message: str) -> Exception:
        return MCPError(code, message)
except ImportError:  # mcp 1.x, which an old OpenTelemetry API brings
    from mcp.shared.exceptions import McpError
    from mcp.types import CallToolResult, ErrorData, TextContent

    def _mcp_error(code: int, message: str) -> Exception:
        return McpError(ErrorData(code=code, message=message))


from acrux_otel.verdict import ToolResult

if sys.version_info < (3, 11):
    from exceptiongroup import ExceptionGroup

__all__ = ["CASES", "Case", "NeedsApproval", "by_id"]

PATH: Final = Path(__file__).parent / "vectors" / "verdicts.json"


class NeedsApproval(Exception):
    """To be listed in ``control_flow=``."""


class UnknownCity(Exception):
    """An exception of the tool's own."""


@dataclasses.dataclass(frozen=True)
class Case:
    """One vector. ``build()`` makes a new object: the exception to raise, or the value to return."""

    id: str
    where: str
    expect: dict[str, Any]
    build: Callable[[], Any]
    raises: bool
    note: str = ""

    def __str__(self) -> str:
        return self.id


def _linked(exc: BaseException, cause: BaseException | None) -> BaseException:
    try:
        raise exc from cause
    except BaseException as raised:
        return raised


def _while_handling(first: BaseException, then: BaseException) -> BaseException:
    try:
        try:
            raise first
        except BaseException:
            raise then  # noqa: B904  # without `from`: the point of the case
    except BaseException as raised:
        return raised


def _httpx(status: int) -> BaseException:
    request = httpx.Request("GET", "http://service.invalid/")
    try:
        httpx.Response(status, request=request).raise_for_status()
    except httpx.HTTPStatusError as raised:
        return raised
    raise AssertionError(status)


def _requests(status: int) -> BaseException:
    response = requests.Response()
    response.status_code = status
    return requests.HTTPError(response=response)


def _aiohttp(status: int) -> BaseException:
    from multidict import CIMultiDict, CIMultiDictProxy
    from yarl import URL

    info = aiohttp.RequestInfo(URL("http://service.invalid/"), "GET", CIMultiDictProxy(CIMultiDict()))
    return aiohttp.ClientResponseError(info, (), status=status)


def _provider_response(status: int) -> httpx2.Response:
    return httpx2.Response(status, request=httpx2.Request("POST", "http://provider.invalid/v1"))


def _openai_limit(body: object) -> BaseException:
    return openai.RateLimitError("slow down", response=_provider_response(429), body=body)


def _json_error() -> BaseException:
    return json.JSONDecodeError("Expecting value", "", 0)


def _validation_error() -> BaseException:
    try:
        pydantic.TypeAdapter(int).validate_python("x")
    except pydantic.ValidationError as raised:
        return raised
    raise AssertionError


def _missing_argument() -> BaseException:
    import inspect

    try:
        inspect.signature(lambda city: city).bind()
    except TypeError as raised:
        return raised
    raise AssertionError


def _duck() -> BaseException:
    class E(Exception):
        status_code = 429

    return E("slow down")


def _no_http_status() -> BaseException:
    class E(Exception):
        status = 128

    return E("exited")


def _mcp_result() -> CallToolResult:
    text = TextContent(type="text", text="no such row")
    failed = "is_error" if "is_error" in CallToolResult.model_fields else "isError"
    return CallToolResult(**{failed: True}, content=[text])


_RAISED: Final[dict[str, Callable[[], BaseException]]] = {
    "value-error": lambda: ValueError("bad"),
    "key-error": lambda: KeyError("missing"),
    "file-not-found": lambda: FileNotFoundError(2, "No such file", "x.txt"),
    "permission": lambda: PermissionError(13, "denied"),
    "timeout-builtin": lambda: TimeoutError(),
    "timeout-asyncio": lambda: asyncio.TimeoutError(),  # another class before 3.11
    "refused": lambda: ConnectionRefusedError(111, "refused"),
    "reset": lambda: ConnectionResetError(104, "reset"),
    "dns": lambda: socket.gaierror(-2, "Name or service not known"),
    "tls": lambda: ssl.SSLCertVerificationError("bad cert"),
    "httpx-connect": lambda: httpx.ConnectError("x"),
    "httpx-read-timeout": lambda: httpx.ReadTimeout("x"),
    "httpx-400": lambda: _httpx(400),
    "httpx-401": lambda: _httpx(401),
    "httpx-403": lambda: _httpx(403),
    "httpx-404": lambda: _httpx(404),
    "httpx-408": lambda: _httpx(408),
    "httpx-409": lambda: _httpx(409),
    "httpx-422": lambda: _httpx(422),
    "httpx-425": lambda: _httpx(425),
    "httpx-429": lambda: _httpx(429),
    "httpx-500": lambda: _httpx(500),
    "httpx-501": lambda: _httpx(501),
    "httpx-502": lambda: _httpx(502),
    "httpx-503": lambda: _httpx(503),
    "httpx-504": lambda: _httpx(504),
    "httpx-529": lambda: _httpx(529),
    "requests-503": lambda: _requests(503),
    "urllib-404": lambda: urllib.error.HTTPError("http://x", 404, "Not Found", {}, None),  # type: ignore[arg-type]
    "aiohttp-500": lambda: _aiohttp(500),
    "duck-status": _duck,
    "digits-in-prose": lambda: RuntimeError("used 402913 tokens"),
    "port-in-prose": lambda: OSError("connection refused on port 5000"),
    "cause-chain": lambda: _linked(RuntimeError("wrapped"), _httpx(503)),
    "group": lambda: ExceptionGroup("g", [_httpx(503)]),  # type: ignore[list-item]
    "json-decode": _json_error,
    "unicode": lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
    "pydantic-in-body": _validation_error,
    "pydantic-arguments": _validation_error,
    "missing-argument": _missing_argument,
    "type-error-in-body": lambda: TypeError("object of type 'int' has no len()"),
    "malformed-json-arguments": _json_error,
    "openai-rate-limit": lambda: _openai_limit(None),
    "openai-quota": lambda: _openai_limit({"code": "insufficient_quota"}),
    "anthropic-overloaded": lambda: anthropic.APIStatusError(
        "overloaded", response=_provider_response(529), body=None
    ),
    "openai-connection": lambda: openai.APIConnectionError(
        request=httpx2.Request("POST", "http://provider.invalid/v1")
    ),
    "mcp-closed": lambda: _mcp_error(-32000, "Connection closed"),
    "mcp-invalid-params": lambda: _mcp_error(-32602, "Invalid params"),
    "mcp-internal": lambda: _mcp_error(-32603, "Internal error"),
    "cancelled": lambda: asyncio.CancelledError(),
    "keyboard-interrupt": lambda: KeyboardInterrupt(),
    "control-flow": lambda: NeedsApproval(),
    "empty-message": lambda: ValueError(),
    "status-that-is-no-http": _no_http_status,
    "own-exception-from-key-error": lambda: _linked(UnknownCity("x"), KeyError("y")),
    "context-is-not-cause": lambda: _while_handling(httpx.ConnectError("x"), ValueError("x")),
}

_RETURNED: Final[dict[str, Callable[[], Any]]] = {
    "plain-value": lambda: {"temp": 18},
    "none": lambda: None,
    "silent-error-dict": lambda: {"error": "no coordinates"},
    "error-null": lambda: {"rows": [], "error": None},
    "text-says-error": lambda: "Error: 3 lines mention ERROR",
    "declared-error": lambda: ToolResult.error("location_not_found", "no coordinates for 'Atlantis Prime'"),
    "declared-warning": lambda: ToolResult.warn("ambiguous_city", "matches India, Pakistan", {"temp": 31}),
    "result-schema-error": lambda: {"c": 1},
    "result-schema-warn": lambda: {"c": 1},
    "declared-outranks-schema": lambda: ToolResult.warn("stale", "6h old", {"c": 1}),
    "mcp-is-error": _mcp_result,
    "body-set-error": lambda: {"x": 1},
    "code-not-a-slug": lambda: ToolResult.error("Rate-Limited!", "slow down"),
    "code-empty": lambda: ToolResult.error("", "slow down"),
    # nothing is raised or returned: the lookup, the guard or the consumer decides
    "unknown-tool": lambda: None,
    "circuit-open": lambda: None,
    "policy-denied": lambda: None,
    "budget-exhausted": lambda: None,
    "generator-closed": lambda: None,
}


def _load() -> list[Case]:
    rows = json.loads(PATH.read_text("utf-8"))["cases"]
    ids = {row["id"] for row in rows}
    built = set(_RAISED) | set(_RETURNED)
    if ids != built:
        raise LookupError(f"no builder for {sorted(ids - built)}, no case for {sorted(built - ids)}")
    return [
        Case(
            id=row["id"],
            where=row["where"],
            expect=row["expect"],
            build=_RAISED.get(row["id"]) or _RETURNED[row["id"]],
            raises=row["id"] in _RAISED,
            note=row.get("note", ""),
        )
        for row in rows
    ]


CASES: Final[list[Case]] = _load()
by_id: Final[dict[str, Case]] = {case.id: case for case in CASES}
