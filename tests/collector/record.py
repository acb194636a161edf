# SPDX-License-Identifier: Apache-2.0
"""Record what real instrumentations write for the shared vectors: recorded/{name}.json, OTLP, ids replaced.

Run it in an environment of its own, offline; nothing of this project is in it:

    uv run --no-project --with langchain-core,httpx,pydantic,opentelemetry-sdk,opentelemetry-util-genai \\
        --with openinference-instrumentation-langchain,opentelemetry-instrumentation-langchain \\
        --with opentelemetry-exporter-otlp-proto-common python tests/collector/record.py
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import ssl
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NoReturn

import httpx
import pydantic
from google.protobuf.json_format import MessageToDict
from langchain_core.tools import StructuredTool
from openinference.instrumentation.langchain import LangChainInstrumentor as OpenInference
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


def record(name: str, run: Callable[[TracerProvider], None], instrumentor: Any = None) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(resource=Resource({"service.name": "recorded"}))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    if instrumentor is not None:
        instrumentor.instrument(tracer_provider=provider)
    try:
        run(provider)
    finally:
        if instrumentor is not None:
            instrumentor.uninstrument()
    request = MessageToDict(encode_spans(exporter.get_finished_spans()), use_integers_for_enums=True)
    replaced = json.dumps(replace(request), indent=1)
    (TARGET / f"{name}.json").write_text(replaced + "\n", encoding="utf-8")


def replace(request: dict[str, Any]) -> dict[str, Any]:
    """Ids in order, times from a fixed start, stacks without the recording machine's paths."""
    ids: dict[str, str] = {"": ""}
    start = 1_790_000_000_000_000_000
    count = 0
    for resource in request["resourceSpans"]:
        resource["resource"]["attributes"] = [
            item for item in resource["resource"]["attributes"] if item["key"] == "service.name"
        ]
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                count += 1
                span.pop("flags", None)
                for key, width in (("traceId", 32), ("spanId", 16), ("parentSpanId", 16)):
                    if key in span:
                        span[key] = ids.setdefault(span[key], f"{len(ids):0{width}x}")
                begun = start + count * 1_000_000
                span["startTimeUnixNano"], span["endTimeUnixNano"] = str(begun), str(begun + 500_000)
                for event in span.get("events", ()):
                    event["timeUnixNano"] = str(begun + 400_000)
                    for item in event.get("attributes", ()):
                        if item["key"] == "exception.stacktrace":
                            item["value"] = {"stringValue": "Traceback (most recent call last): …"}
    text = json.dumps(request)
    text = re.sub(r'File \\"[^"]*/([^/"]+)\\"', r'File \\"\1\\"', text)
    text = text.replace(str(BACK), ".").replace(os.path.expanduser("~"), "~")
    return json.loads(text)  # type: ignore[no-any-return]


if __name__ == "__main__":
    TARGET.mkdir(exist_ok=True)
    record("openinference", langchain, OpenInference())
    record("traceloop", langchain, Traceloop())
    record("genai", genai)
