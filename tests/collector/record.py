# SPDX-License-Identifier: Apache-2.0
"""Record what real instrumentations write for the shared vectors: recorded/{name}.json, OTLP, ids replaced.

Run it in an environment of its own, offline; nothing of this project is in it:

    uv run --no-project --with langchain-core,httpx,pydantic,opentelemetry-sdk,opentelemetry-util-genai \\
        --with openinference-instrumentation-langchain,opentelemetry-instrumentation-langchain,mcp,fastmcp \\
        --with opentelemetry-exporter-otlp-proto-common python tests/collector/record.py
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import re
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final, NoReturn

import fastmcp
import httpx
import mcp
import pydantic
from google.protobuf.json_format import MessageToDict
from langchain_core.tools import StructuredTool
from mcp.server import MCPServer
from mcp.shared.exceptions import MCPError
from mcp.shared.memory import create_client_server_memory_streams
from mcp.types import CallToolResult, TextContent
from openinference.instrumentation.langchain import LangChainInstrumentor as OpenInference
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.instrumentation.langchain import LangchainInstrumentor as Traceloop
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.util.genai.handler import TelemetryHandler

TARGET: Final = Path(__file__).with_name("recorded")
BACK: Final = Path(__file__).parents[2]


def answered(status: int) -> httpx.HTTPStatusError:
    request = httpx.Request("GET", "https://api.example.com/x")
    return httpx.HTTPStatusError(
        str(status), request=request, response=httpx.Response(status, request=request)
    )


def raising(make: Callable[[], BaseException]) -> Callable[[], NoReturn]:
    def body() -> NoReturn:
        raise make()

    return body


class Typed(pydantic.BaseModel):
    number: int


BODIES: Final[dict[str, Callable[[], Any]]] = {
    "plain-value": lambda: {"temp": 18},
    "none": lambda: None,
    "silent-error-dict": lambda: {"error": "no coordinates"},
    "text-says-error": lambda: "Error: 3 lines mention ERROR",
    "value-error": raising(lambda: ValueError("bad")),
    "key-error": raising(lambda: KeyError("missing")),
    "file-not-found": raising(lambda: FileNotFoundError(2, "No such file", "x.txt")),
    "permission": raising(lambda: PermissionError(13, "denied")),
    "timeout-builtin": raising(TimeoutError),
    "timeout-asyncio": raising(asyncio.TimeoutError),
    "refused": raising(lambda: ConnectionRefusedError(111, "refused")),
    "reset": raising(lambda: ConnectionResetError(104, "reset")),
    "dns": raising(lambda: socket.gaierror(-2, "Name or service not known")),
    "tls": raising(lambda: ssl.SSLCertVerificationError("certificate verify failed")),
    "httpx-connect": raising(lambda: httpx.ConnectError("no route")),
    "httpx-read-timeout": raising(lambda: httpx.ReadTimeout("slow")),
    "httpx-404": raising(lambda: answered(404)),
    "httpx-503": raising(lambda: answered(503)),
    "digits-in-prose": raising(lambda: RuntimeError("processed 503 records")),
    "json-decode": lambda: json.loads("{"),
    "unicode": lambda: b"\xff".decode(),
    "pydantic-in-body": lambda: Typed(number="x"),  # type: ignore[arg-type]
    "type-error-in-body": lambda: len(5),  # type: ignore[arg-type]
}


def refusing(code: int) -> Callable[[], NoReturn]:
    return raising(lambda: MCPError(code, "refused"))


# What MCP has of its own; of what a body raised it tells no more than that it failed.
MCP_BODIES: Final[dict[str, Callable[[], Any]]] = {
    **{name: BODIES[name] for name in ("plain-value", "none", "silent-error-dict", "text-says-error")},
    **{name: BODIES[name] for name in ("value-error", "refused", "httpx-503", "timeout-builtin")},
    "mcp-is-error": lambda: CallToolResult(content=[TextContent(type="text", text="no")], is_error=True),
    "mcp-invalid-params": refusing(-32602),
    "mcp-internal": refusing(-32603),
}


def langchain(_: TracerProvider) -> None:
    for vector, body in BODIES.items():
        tool = StructuredTool.from_function(func=body, name=vector, description="A tool.")
        try:
            tool.invoke({})
        except Exception as error:
            print(f"{vector}: {type(error).__name__}", file=sys.stderr)


def genai(provider: TracerProvider) -> None:
    handler = TelemetryHandler(tracer_provider=provider)
    for vector, body in BODIES.items():
        try:
            with handler.tool(vector):
                body()
        except Exception as error:
            print(f"{vector}: {type(error).__name__}", file=sys.stderr)


async def call_each(client: Any) -> None:
    async with client:
        for vector in (*MCP_BODIES, "unknown-tool"):
            try:
                await client.call_tool(vector, {})
            except Exception as error:
                print(f"{vector}: {type(error).__name__}", file=sys.stderr)


def typed(body: Callable[[], Any], name: str) -> Callable[[], Any]:
    """The body under a name of its own, without a promise of what it returns."""

    def tool() -> Any:
        return body()

    tool.__name__ = name
    return tool


def mcp_sdk(_: TracerProvider) -> None:
    """The official package: a client and a server with the protocol between them."""
    server = MCPServer("recorded")
    for vector, body in MCP_BODIES.items():
        server.add_tool(typed(body, vector), name=vector, description="A tool.")
    low = server._lowlevel_server

    @contextlib.asynccontextmanager
    async def transport() -> AsyncIterator[Any]:
        async with create_client_server_memory_streams() as (ours, theirs):
            serving = asyncio.create_task(low.run(*theirs, low.create_initialization_options()))
            try:
                yield ours
            finally:
                serving.cancel()

    asyncio.run(call_each(mcp.Client(transport())))


def fast_mcp(_: TracerProvider) -> None:
    server: Any = fastmcp.FastMCP("recorded")
    for vector, body in MCP_BODIES.items():
        server.tool(typed(body, vector), name=vector, description="A tool.")
    asyncio.run(call_each(fastmcp.Client(server)))


EXPORTER: Final = InMemorySpanExporter()
PROVIDER: Final = TracerProvider(resource=Resource({"service.name": "recorded"}))
PROVIDER.add_span_processor(SimpleSpanProcessor(EXPORTER))


def record(name: str, run: Callable[[TracerProvider], None], instrumentor: Any = None) -> None:
    EXPORTER.clear()
    if instrumentor is not None:
        instrumentor.instrument(tracer_provider=PROVIDER)
    try:
        run(PROVIDER)
    finally:
        if instrumentor is not None:
            instrumentor.uninstrument()
    calls = [
        span
        for span in EXPORTER.get_finished_spans()
        if (span.attributes or {}).get("mcp.method.name", "tools/call") == "tools/call"
    ]
    request = MessageToDict(encode_spans(calls), use_integers_for_enums=True)
    replaced = json.dumps(replace(request), indent=1)
    (TARGET / f"{name}.json").write_text(replaced + "\n", encoding="utf-8")


def times(span: dict[str, Any]) -> list[str]:
    return [
        span["startTimeUnixNano"],
        span["endTimeUnixNano"],
        *(event["timeUnixNano"] for event in span.get("events", ())),
    ]


def replace(request: dict[str, Any]) -> dict[str, Any]:
    """Ids in order, times in order from a fixed start, stacks without the recording machine's paths."""
    ids: dict[str, str] = {"": ""}
    spans = [span for r in request["resourceSpans"] for s in r["scopeSpans"] for span in s["spans"]]
    moments = sorted({moment for span in spans for moment in times(span)}, key=int)
    when = {moment: str(1_790_000_000_000_000_000 + rank * 1_000_000) for rank, moment in enumerate(moments)}
    for resource in request["resourceSpans"]:
        resource["resource"]["attributes"] = [
            item for item in resource["resource"]["attributes"] if item["key"] == "service.name"
        ]
    for span in spans:
        span.pop("flags", None)
        for key, width in (("traceId", 32), ("spanId", 16), ("parentSpanId", 16)):
            if key in span:
                span[key] = ids.setdefault(span[key], f"{len(ids):0{width}x}")
        for key in ("startTimeUnixNano", "endTimeUnixNano"):
            span[key] = when[span[key]]
        for item in span.get("attributes", ()):
            if item["key"].endswith("session.id"):
                item["value"] = {"stringValue": "s-1"}
        for event in span.get("events", ()):
            event["timeUnixNano"] = when[event["timeUnixNano"]]
            for item in event.get("attributes", ()):
                if item["key"] == "exception.stacktrace":
                    item["value"] = {"stringValue": "Traceback (most recent call last): …"}
    text = json.dumps(request)
    text = re.sub(r'File \\"[^"]*/([^/"]+)\\"', r'File \\"\1\\"', text)
    text = text.replace(str(BACK), ".").replace(os.path.expanduser("~"), "~")
    return json.loads(text)  # type: ignore[no-any-return]


if __name__ == "__main__":
    TARGET.mkdir(exist_ok=True)
    logging.disable(logging.CRITICAL)
    record("openinference", langchain, OpenInference())
    record("traceloop", langchain, Traceloop())
    record("genai", genai)
    trace.set_tracer_provider(PROVIDER)  # both have tracers of the global one
    record("mcp", mcp_sdk)
    record("fastmcp", fast_mcp)
