# SPDX-License-Identifier: Apache-2.0
"""An SDK with the real OTLP encoder behind it: an in-memory exporter alone hides encoder faults."""

from __future__ import annotations

import dataclasses
import os
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

import acrux_otel.tool  # noqa: F401
import acrux_otel.verdict as verdict_module
from acrux_otel.settings import settings

tool_module = sys.modules["acrux_otel.tool"]  # the package's `tool` is the decorator
STATUSES = {0: "UNSET", 1: "OK", 2: "ERROR"}


@dataclasses.dataclass(frozen=True)
class ExportedSpan:
    """A span as it was on the wire."""

    name: str
    span_id: str
    parent_id: str
    trace_id: str
    kind: int
    status: str
    description: str
    attributes: dict[str, Any]
    events: list[tuple[str, dict[str, Any]]]
    scope: str

    @property
    def outcome(self) -> Any:
        return self.attributes.get("acrux.tool.outcome")

    def everything(self) -> str:
        """All text that left the process with this span."""
        return repr(dataclasses.astuple(self))


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(each) for each in value.array_value.values]
    if kind == "kvlist_value":
        return {each.key: _value(each.value) for each in value.kvlist_value.values}
    return getattr(value, kind) if kind else None


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def decode(data: bytes) -> list[ExportedSpan]:
    request = ExportTraceServiceRequest.FromString(data)
    return [
        ExportedSpan(
            span.name,
            span.span_id.hex(),
            span.parent_span_id.hex(),
            span.trace_id.hex(),
            span.kind,
            STATUSES[span.status.code],
            span.status.message,
            _attributes(span.attributes),
            [(event.name, _attributes(event.attributes)) for event in span.events],
            scope.scope.name,
        )
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


class Exported(SpanExporter, list[ExportedSpan]):
    """Encodes each batch as OTLP does, decodes it again and keeps it."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.extend(decode(encode_spans(spans).SerializeToString()))
        return SpanExportResult.SUCCESS

    def tools(self) -> list[ExportedSpan]:
        return [each for each in self if each.name.startswith("execute_tool ")]

    @property
    def only(self) -> ExportedSpan:
        tools = self.tools()
        assert len(tools) == 1, [each.name for each in self]
        return tools[0]


@pytest.fixture(autouse=True)
def _fresh_process_state() -> Iterator[None]:
    """Settings and what was warned of once are the process's; each test begins with neither."""
    kept, tools = dict(settings.__dict__), dict(tool_module._tools)
    verdict_module._warned.clear()
    tool_module._tools.clear()
    yield
    tool_module._tools.update(tools)
    settings.__dict__.clear()
    settings.__dict__.update(kept)


@pytest.fixture
def exported() -> Iterator[Exported]:
    """The spans that leave the process, as the wire has them."""
    sink = Exported()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(sink))
    settings.tracer_provider = provider
    yield sink
    provider.shutdown()


@pytest.fixture
def tracer(exported: Exported) -> Any:
    """A tracer of the same provider, for the spans of the caller."""
    assert settings.tracer_provider is not None
    return settings.tracer_provider.get_tracer("caller")


@pytest.fixture
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable from outside says anything to the SDK or to us."""
    for name in list(os.environ):
        if name.startswith(("OTEL_", "ACRUX")):
            monkeypatch.delenv(name)


@pytest.fixture
def clean_outlets(clean_environment: None) -> Iterator[None]:
    """Nothing that a test queued for sending outlives it."""
    from acrux_otel.export import exit as exiting

    before = list(exiting._outlets)
    yield
    for outlet in exiting._outlets[:]:
        if outlet not in before:
            exiting._outlets.remove(outlet)
            outlet.end_by(time.monotonic())
            outlet.ended_by(time.monotonic() + 1)
