# SPDX-License-Identifier: Apache-2.0
"""Spans as they came -> the rows that a batch adds. Runs once for each span: it is written for speed."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable
from typing import Any, Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, Span

from acrux_otel import attributes as names
from acrux_otel.local.wire import Rejected
from acrux_otel.query.trace import COSTS

__all__ = ["LARGEST", "RunSum", "SpanRow", "rows_of"]

LARGEST: Final = 2**63 - 1  # SQLite's integers; OTLP's times go to 2**64
_ERROR: Final = 2
_COSTS: Final = frozenset(COSTS)
_WANTED: Final = frozenset(
    (
        names.TOOL_NAME,
        names.OUTCOME,
        names.ERROR_TYPE,
        names.ERROR_CODE,
        names.WARNING_TYPE,
        names.ATTEMPTS,
        names.AGENT_NAME,
        *COSTS,
    )
)
_PREFIX: Final = names.TAG_PREFIX


@dataclasses.dataclass(slots=True)
class SpanRow:
    """One span, narrow, and its body."""

    trace_id: bytes
    span_id: bytes
    start: int
    duration: int
    source: int
    root: bool
    error: bool
    warned: bool
    tool: str | None
    outcome: str | None
    error_type: str | None
    error_code: str | None
    attempts: int | None
    cost: float | None
    name: str
    body: bytes
    tags: list[str]

    @property
    def failed(self) -> bool:
        return self.tool is not None and (self.error or self.outcome == "error")


@dataclasses.dataclass(slots=True)
class RunSum:
    """What the spans of one run add up to."""

    start: int = LARGEST
    end: int = 0
    name: str = ""
    rank: int = 2
    named_at: int = LARGEST
    spans: int = 0
    errors: int = 0
    failed: int = 0
    warned: int = 0
    cost: float | None = None
    tools: dict[str, None] = dataclasses.field(default_factory=dict)
    tags: dict[str, None] = dataclasses.field(default_factory=dict)
    services: dict[str, None] = dataclasses.field(default_factory=dict)

    def add(self, row: SpanRow, service: str) -> None:
        """Count one span."""
        start, end = row.start, row.start + row.duration
        if start < self.start:
            self.start = start
        if end > self.end:
            self.end = end
        rank = 0 if row.root else 1
        if (rank, start) < (self.rank, self.named_at):
            self.rank, self.named_at, self.name = rank, start, row.name
        self.spans += 1
        if row.error:
            self.errors += 1
        if row.warned:
            self.warned += 1
        if row.tool is not None:
            self.tools[row.tool] = None
            if row.failed:
                self.failed += 1
        if row.cost is not None:
            self.cost = (self.cost or 0.0) + row.cost
        for tag in row.tags:
            self.tags[tag] = None
        if service:
            self.services[service] = None


def rows_of(
    request: ExportTraceServiceRequest, source: Callable[[ResourceSpans], int], rejected: Rejected
) -> dict[tuple[bytes, bytes], SpanRow]:
    """The rows by trace and span id; of two spans with the same ids the later one counts.

    Args:
        request: what was sent.
        source: gives the id of a resource and scope.
        rejected: where spans without valid ids are counted.
    """
    rows: dict[tuple[bytes, bytes], SpanRow] = {}
    for resource in request.resource_spans:
        for scope in resource.scope_spans:
            if not scope.spans:
                continue
            sender = ResourceSpans(resource=resource.resource)
            sender.scope_spans.add().scope.CopyFrom(scope.scope)
            _add(rows, scope.spans, source(sender), rejected)
    return rows


def _add(
    rows: dict[tuple[bytes, bytes], SpanRow], spans: Iterable[Span], source: int, rejected: Rejected
) -> None:
    for span in spans:
        trace_id, span_id = span.trace_id, span.span_id
        if len(trace_id) != 16 or len(span_id) != 8 or not any(trace_id) or not any(span_id):
            rejected.add("a trace id has 16 bytes and a span id 8, and not all are zero")
            continue
        rows[trace_id, span_id] = _row(span, trace_id, span_id, source)


def _row(span: Span, trace_id: bytes, span_id: bytes, source: int) -> SpanRow:
    found: dict[str, Any] = {}
    tags: list[str] = []
    for pair in span.attributes:
        key = pair.key
        if key in _WANTED:
            found[key] = pair.value
        elif key.startswith(_PREFIX) and pair.value.bool_value:
            tags.append(key[len(_PREFIX) :])
    start = min(span.start_time_unix_nano, LARGEST)
    outcome = _text(found, names.OUTCOME)
    return SpanRow(
        trace_id,
        span_id,
        start,
        min(max(0, span.end_time_unix_nano - start), LARGEST - start),
        source,
        not span.parent_span_id,
        span.status.code == _ERROR,
        outcome == "warning" or _text(found, names.WARNING_TYPE) is not None,
        _text(found, names.TOOL_NAME),
        outcome,
        _text(found, names.ERROR_TYPE),
        _text(found, names.ERROR_CODE),
        _whole(found.get(names.ATTEMPTS)),
        _cost(found) if not _COSTS.isdisjoint(found) else None,
        _text(found, names.AGENT_NAME) or span.name,
        span.SerializeToString(),
        tags,
    )


def _text(found: dict[str, Any], key: str) -> str | None:
    value = found.get(key)
    return value.string_value or None if value is not None else None


def _whole(value: Any) -> int | None:
    return value.int_value if value is not None and value.HasField("int_value") else None


def _cost(found: dict[str, Any]) -> float | None:
    for key in COSTS:
        value = found.get(key)
        if value is not None:
            kind = value.WhichOneof("value")
            number = getattr(value, kind) if kind in ("int_value", "double_value") else None
            if number is not None and math.isfinite(number) and abs(number) < 1e15:
                return float(number)
    return None
