# SPDX-License-Identifier: Apache-2.0
"""Spans and values that some encoder or backend refuses."""

from __future__ import annotations

from typing import Any

from opentelemetry.trace import Link, SpanContext, Status, StatusCode, TraceFlags

import acrux_otel as acrux

__all__ = ["hostile", "poison", "swallow"]


def poison(tracer: Any) -> list[str]:
    """One span for every kind of value that some encoder or backend refuses; their names as they arrive."""
    tracer.start_span("surrogate \ud800 in name").end()
    span = tracer.start_span("surrogate in status")
    span.set_status(Status(StatusCode.ERROR, "bad \udfff text"))
    span.end()
    span = tracer.start_span("surrogate in event")
    span.add_event("bad \ud800 event", {"text": "bad \ud800 text"})
    span.end()
    span = tracer.start_span("surrogate in attribute")
    span.set_attribute("text", "bad \ud800 text")
    span.set_attribute("texts", ["good", "bad \ud800"])
    span.set_attribute("key \ud800", "value")
    span.end()
    context = SpanContext(1, 1, False, TraceFlags(1))
    tracer.start_span("surrogate in link", links=[Link(context, {"text": "bad \ud800"})]).end()
    tracer.start_span("not a number", attributes={"nan": float("nan"), "inf": float("inf")}).end()
    tracer.start_span("large integer", attributes={"int": 2**70, "ints": [1, -(2**70)]}).end()
    tracer.start_span("nul", attributes={"text": "a\0b"}).end()
    tracer.start_span("five megabytes", attributes={"text": "x" * 5_000_000}).end()
    return [
        "surrogate ? in name",
        "surrogate in status",
        "surrogate in event",
        "surrogate in attribute",
        "surrogate in link",
        "not a number",
        "large integer",
        "nul",
        "five megabytes",
    ]


@acrux.tool(capture="full")
def swallow(anything: Any) -> Any:
    """Take anything."""
    return anything


def hostile() -> list[Any]:
    """Arguments and results that are poison."""
    cycle: dict[str, Any] = {}
    cycle["self"] = cycle
    return ["\ud800", float("nan"), 2**70, cycle, "y" * 5_000_000, "a\0b", {"deep": [[[[None]]]]}]
