# SPDX-License-Identifier: Apache-2.0
"""Stored protobuf messages -> plain spans, and the searches in them that have no index."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1 import trace_pb2

from acrux_otel.query.matching import has_attribute, has_text
from acrux_otel.query.trace import Event, Span

__all__ = ["FUNCTIONS", "span_of"]

_STATUSES: Final = {1: "ok", 2: "error"}


def span_of(body: bytes, source: bytes) -> Span:
    """A stored span, with the resource and scope that sent it."""
    span = trace_pb2.Span.FromString(body)
    resource, scope = _source(source)
    return Span(
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        name=span.name,
        start=span.start_time_unix_nano,
        end=span.end_time_unix_nano,
        status=_STATUSES.get(span.status.code, "unset"),
        message=span.status.message,
        attributes=_attributes(span.attributes),
        resource=resource,
        events=[
            Event(event.name, event.time_unix_nano, _attributes(event.attributes)) for event in span.events
        ],
        kind=span.kind,
        scope=scope,
    )


@functools.lru_cache(256)
def _source(body: bytes) -> tuple[Mapping[str, Any], str]:
    if not body:
        return {}, ""
    sender = trace_pb2.ResourceSpans.FromString(body)
    scope = sender.scope_spans[0].scope.name if sender.scope_spans else ""
    return _attributes(sender.resource.attributes), scope


def _attributes(pairs: Iterable[KeyValue]) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(each) for each in value.array_value.values]
    if kind == "kvlist_value":
        return _attributes(value.kvlist_value.values)
    return getattr(value, kind) if kind else None


def _of_source(body: bytes) -> Span:
    resource, _ = _source(body)
    return Span("", "", "", "", 0, 0, "unset", "", {}, resource)


# Texts are UTF-8 in a protobuf message as anywhere, so most messages are settled without decoding them.


def _span_has_text(body: bytes, wanted: str) -> bool:
    return wanted in body.decode("utf-8", "replace").lower() and has_text(span_of(body, b""), wanted)


def _source_has_text(body: bytes, wanted: str) -> bool:
    return has_text(_of_source(body), wanted)


def _span_has_attribute(body: bytes, key: str, value: str) -> bool:
    return key.encode("utf-8", "replace") in body and has_attribute(span_of(body, b""), key, value)


def _source_has_attribute(body: bytes, key: str, value: str) -> bool:
    return has_attribute(_of_source(body), key, value)


# For SQL, by name and number of arguments.
FUNCTIONS: Final[dict[str, tuple[int, Callable[..., bool]]]] = {
    "span_has_text": (2, _span_has_text),
    "source_has_text": (2, _source_has_text),
    "span_has_attribute": (3, _span_has_attribute),
    "source_has_attribute": (3, _source_has_attribute),
}
