# SPDX-License-Identifier: Apache-2.0
"""Export requests made by hand, so that ids and times are the test's."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList
from opentelemetry.proto.trace.v1.trace_pb2 import Span

__all__ = ["MS", "SECOND", "Run", "attributes", "request", "tool"]

MS = 1_000_000
SECOND = 1_000_000_000


def any_value(value: Any) -> AnyValue:
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=value)
    if isinstance(value, float):
        return AnyValue(double_value=value)
    if isinstance(value, str):
        return AnyValue(string_value=value)
    if isinstance(value, Mapping):
        return AnyValue(kvlist_value=KeyValueList(values=attributes(value)))
    if value is None:
        return AnyValue()
    return AnyValue(array_value=ArrayValue(values=[any_value(each) for each in value]))


def attributes(given: Mapping[str, Any]) -> list[KeyValue]:
    return [KeyValue(key=key, value=any_value(value)) for key, value in given.items()]


class Run:
    """One run: a root span and what hangs below it. Times are milliseconds after its beginning."""

    def __init__(
        self, name: str = "agent", *, ago: float = 60, tags: Sequence[str] = (), trace_id: str | None = None
    ) -> None:
        self.trace_id = trace_id or secrets.token_hex(16)
        self.start = time.time_ns() - int(ago * SECOND)
        self.spans: list[Span] = []
        given = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": name}
        self.root = self.span(
            f"invoke_agent {name}", 0, 100, {**given, **{f"acrux.tag.{tag}": True for tag in tags}}
        )

    def span(
        self,
        name: str,
        at: float = 10,
        took: float = 10,
        given: Mapping[str, Any] | None = None,
        *,
        error: str | None = None,
        parent: Span | None = None,
        span_id: str | None = None,
        events: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> Span:
        """Add a span below the root, or the root itself."""
        above = parent or (self.spans[0] if self.spans else None)
        start = self.start + int(at * MS)
        made = Span(
            trace_id=bytes.fromhex(self.trace_id),
            span_id=bytes.fromhex(span_id or secrets.token_hex(8)),
            parent_span_id=above.span_id if above is not None else b"",
            name=name,
            kind=Span.SPAN_KIND_INTERNAL,
            start_time_unix_nano=start,
            end_time_unix_nano=start + int(took * MS),
            attributes=attributes(given or {}),
        )
        if error is not None:
            made.status.code, made.status.message = 2, error
        for event, told in (events or {}).items():
            made.events.add(name=event, time_unix_nano=start, attributes=attributes(told))
        self.spans.append(made)
        return made

    def call(
        self, name: str, outcome: str = "ok", code: str = "", kind: str = "tool_declared", **more: Any
    ) -> Span:
        """Add a tool's span with a verdict."""
        return self.span(
            *tool(name, outcome, code, kind, **more),
            error=more.get("detail", code) if outcome == "error" else None,
        )


def tool(
    name: str,
    outcome: str = "ok",
    code: str = "",
    kind: str = "tool_declared",
    *,
    took: float = 10,
    detail: str = "",
    given: Mapping[str, Any] | None = None,
) -> tuple[str, float, float, dict[str, Any]]:
    told: dict[str, Any] = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        "executorType": "client",
        "acrux.tool.outcome": outcome,
    }
    if outcome in ("error", "warning"):
        told |= {"errorType": kind, "errorCode": code, "errorDetail": detail or f"about {code}"}
    if outcome == "error":
        told |= {"error.type": kind}
    if outcome == "warning":
        told |= {"warning.type": code, "warning.message": detail or f"about {code}"}
    return f"execute_tool {name}", 10, took, {**told, **(given or {})}


def request(
    *runs: Run, service: str = "shop", resource: Mapping[str, Any] | None = None
) -> ExportTraceServiceRequest:
    """All spans of some runs, sent by one service."""
    made = ExportTraceServiceRequest()
    group = made.resource_spans.add()
    group.resource.attributes.extend(attributes({"service.name": service, **(resource or {})}))
    scope = group.scope_spans.add()
    scope.scope.name = "by-hand"
    for run in runs:
        scope.spans.extend(run.spans)
    return made
