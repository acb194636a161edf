# SPDX-License-Identifier: Apache-2.0
"""Grafana Tempo's search API, asked in TraceQL; each run that it answers is judged on all of its spans.

https://grafana.com/docs/tempo/latest/api_docs/
"""

from __future__ import annotations

import base64
import binascii
import re
import time
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Any, Final

from acrux_otel.query.matching import matches
from acrux_otel.query.target import DEFAULT_WINDOW, Answer, Server, window_note
from acrux_otel.query.terms import Filter
from acrux_otel.query.trace import Event, Span, Trace
from acrux_otel.query.traceql import traceql

__all__ = ["Tempo"]

_LONGEST_RUN: Final = 24 * 3600  # seconds; a span may begin after its run did
_HEXADECIMAL: Final = re.compile(r"[0-9a-f]+").fullmatch
_STATUSES: Final = {1: "ok", 2: "error", "STATUS_CODE_OK": "ok", "STATUS_CODE_ERROR": "error"}


class Tempo:
    """A Tempo to search.

    Args:
        url: of its API, such as ``http://127.0.0.1:3200``.

    Raises:
        TargetError: ``url`` cannot be used.
    """

    def __init__(self, url: str) -> None:
        self._server = Server("Tempo", url)

    def queries(self, filter: Filter) -> list[str]:
        """The TraceQL, and the window that goes beside it."""
        start, end = _window(filter)
        return [traceql(filter), f"start={start} end={end}"]

    def find(self, filter: Filter, limit: int) -> Answer:
        """The newest runs that Tempo's search gives."""
        query = traceql(filter)
        notes = [] if filter.since is not None else [window_note("Tempo wants a window")]
        if filter.trace_id is not None:
            one = self.trace(filter.trace_id)
            return Answer([one.line()] if one is not None and matches(filter, one) else [])
        start, end = _window(filter)
        asked = urllib.parse.urlencode({"q": query, "limit": limit, "start": start, "end": end})
        found = (self._server.get(f"/api/search?{asked}") or {}).get("traces") or []
        if len(found) >= limit:
            notes.append(f"Tempo stopped at {limit} runs; there may be more, and newer ones: raise --limit")
        traces = [trace for each in found if (trace := self.trace(each["traceID"])) is not None]
        newest = sorted(
            (trace for trace in traces if matches(filter, trace)), key=lambda trace: trace.start, reverse=True
        )
        return Answer([trace.line() for trace in newest], notes)

    def trace(self, trace_id: str) -> Trace | None:
        answer = self._server.get(f"/api/v2/traces/{trace_id}")
        spans = sorted(_spans((answer or {}).get("trace") or {}), key=lambda span: span.start)
        return Trace(trace_id.rjust(32, "0"), spans) if spans else None


def _window(filter: Filter) -> tuple[int, int]:
    """The first and the last second to search."""
    now = time.time_ns()
    start = filter.since if filter.since is not None else now - DEFAULT_WINDOW
    second = 1_000_000_000
    end = now if filter.until is None else min(now, filter.until + _LONGEST_RUN * second)
    return start // second, end // second + 1


def _spans(trace: Mapping[str, Any]) -> Iterator[Span]:
    for resource in trace.get("resourceSpans") or trace.get("batches") or ():
        sender = _attributes((resource.get("resource") or {}).get("attributes"))
        for scope in resource.get("scopeSpans") or ():
            for span in scope.get("spans") or ():
                yield _span(span, sender, (scope.get("scope") or {}).get("name", ""))


def _span(data: Mapping[str, Any], resource: Mapping[str, Any], scope: str) -> Span:
    status = data.get("status") or {}
    return Span(
        trace_id=_identity(data["traceId"], 32),
        span_id=_identity(data["spanId"], 16),
        parent_id=_identity(data.get("parentSpanId") or "", 16),
        name=data.get("name", ""),
        start=int(data.get("startTimeUnixNano") or 0),
        end=int(data.get("endTimeUnixNano") or 0),
        status=_STATUSES.get(status.get("code", 0), "unset"),
        message=status.get("message", ""),
        attributes=_attributes(data.get("attributes")),
        resource=resource,
        events=[
            Event(
                event.get("name", ""),
                int(event.get("timeUnixNano") or 0),
                _attributes(event.get("attributes")),
            )
            for event in data.get("events") or ()
        ],
        scope=scope,
    )


def _identity(text: str, digits: int) -> str:
    """An id in hexadecimal digits; Tempo's JSON has base64, OTLP's has hexadecimal digits."""
    if not text or (len(text) == digits and _HEXADECIMAL(text)):
        return text
    try:
        return base64.b64decode(text).hex()
    except (binascii.Error, ValueError):
        return text


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair["key"]: _value(pair.get("value") or {}) for pair in pairs or ()}


def _value(value: Mapping[str, Any]) -> Any:
    for key, read in _READ.items():
        if key in value:
            return read(value[key])
    return None


_READ: Final[dict[str, Any]] = {
    "stringValue": str,
    "boolValue": bool,
    "intValue": int,
    "doubleValue": float,
    "bytesValue": base64.b64decode,
    "arrayValue": lambda given: [_value(each) for each in given.get("values") or ()],
    "kvlistValue": lambda given: _attributes(given.get("values")),
}
