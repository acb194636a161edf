# SPDX-License-Identifier: Apache-2.0
"""Spans from the lines of OTLP JSON that a collector's file exporter writes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Span", "read_spans"]


@dataclass(frozen=True, slots=True)
class Span:
    """One span, its attributes as plain values; `status` is UNSET, OK or ERROR, `description` its text."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    kind: int
    status: str
    description: str
    attributes: dict[str, Any]
    events: list[tuple[str, dict[str, Any]]]
    resource: dict[str, Any]
    scope: str


def read_spans(path: Path) -> list[Span]:
    """Every span of the file in its order; a last line that is still being written is left out."""
    if not path.exists():
        return []
    lines = path.read_bytes().split(b"\n")[:-1]
    return [span for line in lines if line for span in _spans(json.loads(line))]


def _spans(batch: dict[str, Any]) -> Iterator[Span]:
    for per_resource in batch.get("resourceSpans", ()):
        resource = _attributes(per_resource.get("resource", {}))
        for per_scope in per_resource.get("scopeSpans", ()):
            for span in per_scope.get("spans", ()):
                status = span.get("status", {})
                yield Span(
                    name=span.get("name", ""),
                    trace_id=span["traceId"],
                    span_id=span["spanId"],
                    parent_id=span.get("parentSpanId", ""),
                    kind=span.get("kind", 0),
                    status=("UNSET", "OK", "ERROR")[status.get("code", 0)],
                    description=status.get("message", ""),
                    attributes=_attributes(span),
                    events=[(event["name"], _attributes(event)) for event in span.get("events", ())],
                    resource=resource,
                    scope=per_scope.get("scope", {}).get("name", ""),
                )


def _attributes(holder: dict[str, Any]) -> dict[str, Any]:
    return {item["key"]: _value(item.get("value", {})) for item in holder.get("attributes", ())}


def _value(tagged: dict[str, Any]) -> Any:
    for kind, value in tagged.items():
        if kind == "intValue":
            return int(value)
        if kind == "arrayValue":
            return [_value(item) for item in value.get("values", ())]
        if kind == "kvlistValue":
            return {item["key"]: _value(item["value"]) for item in value.get("values", ())}
        return value
    return None
