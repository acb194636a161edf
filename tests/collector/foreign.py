# SPDX-License-Identifier: Apache-2.0
"""Spans as other instrumentations write them, for the shared vectors of which such a span carries enough."""

from __future__ import annotations

import json
import os
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

__all__ = [
    "ERROR",
    "OK",
    "SOURCES",
    "TOLD",
    "UNSET",
    "Foreign",
    "answered",
    "expected",
    "otlp",
    "post",
    "raised",
]

SOURCES: Final[dict[str, dict[str, Any]]] = {
    "openinference": {"openinference.span.kind": "TOOL", "tool.name": "search"},
    "traceloop": {"traceloop.span.kind": "tool", "traceloop.entity.name": "search"},
    "genai": {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search"},
    "mcp": {"mcp.method.name": "tools/call", "gen_ai.tool.name": "search"},
}

VECTORS: Final = Path(__file__).parents[1] / "vectors" / "verdicts.json"
CASES: Final = {case["id"]: case for case in json.loads(VECTORS.read_text("utf-8"))["cases"]}

UNSET, OK, ERROR = 0, 1, 2


@dataclass(frozen=True)
class Foreign:
    """How an instrumentation writes the end of one call; an attribute that is None is left out."""

    attributes: dict[str, Any] = field(default_factory=dict)
    status: int = UNSET
    description: str = ""
    exception: str | None = None
    message: str = "m"
    escaped: str = ""


def raised(class_name: str, **attributes: Any) -> Foreign:
    return Foreign(attributes, ERROR, exception=class_name)


def answered(class_name: str, status: int) -> Foreign:
    return raised(class_name, **{"http.response.status_code": status})


_BY_CLASS: Final = {
    "value-error": "ValueError",
    "key-error": "KeyError",
    "file-not-found": "FileNotFoundError",
    "permission": "PermissionError",
    "timeout-builtin": "TimeoutError",
    "timeout-asyncio": "asyncio.exceptions.TimeoutError",
    "refused": "ConnectionRefusedError",
    "reset": "ConnectionResetError",
    "dns": "socket.gaierror",
    "tls": "ssl.SSLCertVerificationError",
    "httpx-connect": "httpx.ConnectError",
    "httpx-read-timeout": "httpx.ReadTimeout",
    "digits-in-prose": "RuntimeError",
    "port-in-prose": "OSError",
    "json-decode": "json.decoder.JSONDecodeError",
    "unicode": "UnicodeDecodeError",
    "pydantic-in-body": "pydantic_core._pydantic_core.ValidationError",
    "type-error-in-body": "TypeError",
    "openai-rate-limit": "openai.RateLimitError",
    "openai-connection": "openai.APIConnectionError",
    "cancelled": "asyncio.exceptions.CancelledError",
    "keyboard-interrupt": "KeyboardInterrupt",
    "generator-closed": "GeneratorExit",
    "status-that-is-no-http": "shop.E",
    "own-exception-from-key-error": "shop.UnknownCity",
    "context-is-not-cause": "ValueError",
}
_HTTPX: Final = (400, 401, 403, 404, 408, 409, 422, 425, 429, 500, 501, 502, 503, 504, 529)

TOLD: Final[dict[str, Foreign]] = {
    **{
        name: Foreign()
        for name in ("plain-value", "none", "silent-error-dict", "error-null", "text-says-error")
    },
    **{name: raised(class_name) for name, class_name in _BY_CLASS.items()},
    **{f"httpx-{status}": answered("httpx.HTTPStatusError", status) for status in _HTTPX},
    "requests-503": answered("requests.exceptions.HTTPError", 503),
    "urllib-404": answered("urllib.error.HTTPError", 404),
    "aiohttp-500": answered("aiohttp.client_exceptions.ClientResponseError", 500),
    "duck-status": answered("shop.E", 429),
    "anthropic-overloaded": answered("anthropic.APIStatusError", 529),
    "mcp-closed": Foreign({"error.type": "-32000"}),
    "mcp-invalid-params": Foreign({"error.type": "-32602"}),
    "mcp-internal": Foreign({"error.type": "-32603"}),
    "mcp-is-error": Foreign({"error.type": "tool_error"}),
    "empty-message": Foreign(status=ERROR, exception="ValueError", message=""),
    "body-set-error": Foreign(status=ERROR, description="set by the body"),
}


def expected(vector: str) -> dict[str, Any]:
    """What the shared vector says, under the attribute names."""
    case = CASES[vector]["expect"]
    names = {"outcome": "acrux.tool.outcome", "retryable": "acrux.tool.retryable"}
    kept = ("outcome", "errorType", "errorCode", "retryable", "http.response.status_code")
    return {names.get(key, key): case[key] for key in kept if key in case}


def otlp(
    spans: dict[str, tuple[str, Foreign]], service: str = "foreign", **resource_attributes: Any
) -> dict[str, Any]:
    """An OTLP request: span name -> (source, how the call ended); each span is a trace of its own."""
    now = time.time_ns()
    encoded = []
    for number, (name, (source, foreign)) in enumerate(spans.items(), start=1):
        events = []
        if foreign.exception is not None:
            said = {"exception.type": foreign.exception, "exception.message": foreign.message}
            if foreign.escaped:
                said["exception.escaped"] = foreign.escaped
            events = [{"name": "exception", "timeUnixNano": str(now), "attributes": _attributes(said)}]
        encoded.append(
            {
                "traceId": os.urandom(16).hex(),  # by chance, as samplers count on
                "spanId": f"{number:016x}",
                "name": name,
                "kind": 1,
                "startTimeUnixNano": str(now),
                "endTimeUnixNano": str(now + 1_000_000),
                "attributes": _attributes({**SOURCES[source], **foreign.attributes}),
                "events": events,
                "status": {"code": foreign.status, "message": foreign.description},
            }
        )
    named = {key.replace("_", "."): value for key, value in resource_attributes.items()}
    resource = {"attributes": _attributes({"service.name": service, **named})}
    scope = {"scope": {"name": "foreign"}, "spans": encoded}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]}


def post(endpoint: str, request: dict[str, Any]) -> None:
    """Send an OTLP request as JSON.

    Args:
        endpoint: base URL of an OTLP/HTTP receiver.
    """
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    body = json.dumps(request).encode()
    headers = {"Content-Type": "application/json"}
    with opener.open(urllib.request.Request(f"{endpoint}/v1/traces", body, headers), timeout=10):
        pass


def _attributes(values: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in values.items() if value is not None]


def _value(value: Any) -> dict[str, Any]:  # the kinds that instrumentations write
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    return {"stringValue": str(value)}
