# SPDX-License-Identifier: Apache-2.0
"""Filter -> Jaeger's query API, the one its web page uses.

Jaeger finds runs by exact tags of one span of one service. It is asked for what it can tell apart, never for
less than the filter means, and each run that it answers is judged here on all of its spans.
"""

from __future__ import annotations

import dataclasses
import json
import re
import time
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Any, Final

from acrux_otel import attributes as names
from acrux_otel.query.matching import matches
from acrux_otel.query.target import DEFAULT_WINDOW, Answer, Server, window_note
from acrux_otel.query.terms import ATTRIBUTE, Filter, Term
from acrux_otel.query.trace import Event, Span, Trace

__all__ = ["Jaeger"]

_PAGE: Final = 200  # runs in one answer
_REQUESTS: Final = 200  # for one search
_SHORTEST: Final = 1_000_000  # nanoseconds: a window is not cut below this
# A span may begin after its run did; what `until:` says is the run's beginning.
_LONGEST_RUN: Final = 24 * 3_600_000_000_000
_TAGS: Final = {
    "error_type": names.ERROR_TYPE,
    "error_code": names.ERROR_CODE,
    "tool": names.TOOL_NAME,
    "outcome": names.OUTCOME,
}
# Numbers with a point may be written in more ways than one.
_EXACT: Final = re.compile(r"[0-9.eE+-]*[.eE][0-9.eE+-]*").fullmatch
_JAEGERS_OWN: Final = ("otel.", "span.kind", "w3c.tracestate", "internal.span.format")
_STATUSES: Final = {"ERROR": "error", "OK": "ok"}


@dataclasses.dataclass(frozen=True)
class _Question:
    """What one request asks; times in nanoseconds since 1970."""

    service: str
    tags: Mapping[str, str]
    start: int
    end: int

    def path(self) -> str:
        query = {
            "service": self.service,
            "start": str(self.start // 1000),
            "end": str(-(-self.end // 1000)),
            "limit": str(_PAGE),
        }
        if self.tags:
            query["tags"] = json.dumps(self.tags, ensure_ascii=False)
        return f"/api/traces?{urllib.parse.urlencode(query)}"

    def halves(self) -> tuple[_Question, _Question]:
        """The earlier and the later half."""
        middle = (self.start + self.end) // 2
        return dataclasses.replace(self, end=middle), dataclasses.replace(self, start=middle)


class Jaeger:
    """A Jaeger to search.

    Args:
        url: of its query service, such as ``http://127.0.0.1:16686``.

    Raises:
        TargetError: ``url`` cannot be used.
    """

    def __init__(self, url: str) -> None:
        self._server = Server("Jaeger", url)
        self._seen: dict[str, Trace] = {}

    def queries(self, filter: Filter) -> list[str]:
        """The URLs that `find` begins with; `{service}` stands for each service that Jaeger knows."""
        if filter.trace_id is not None:
            return [f"{self._server.url}/api/traces/{filter.trace_id}"]
        service = _service(filter) or "{service}"
        path = _question(filter, service).path().replace("%7Bservice%7D", "{service}")
        return [self._server.url + path]

    def find(self, filter: Filter, limit: int) -> Answer:
        """The newest runs that Jaeger has."""
        if filter.trace_id is not None:
            trace = self.trace(filter.trace_id)
            return Answer([trace.line()] if trace is not None and matches(filter, trace) else [])
        notes = [] if filter.since is not None else [window_note("Jaeger wants a window")]
        one = _service(filter)
        services = [one] if one is not None else self._services()
        search = _Search(self._server, filter, limit)
        for service in services:
            search.ask(_question(filter, service))
        self._seen.update(search.found)
        notes += search.notes
        newest = sorted(search.found.values(), key=lambda trace: trace.start, reverse=True)
        return Answer([trace.line() for trace in newest[:limit]], notes)

    def trace(self, trace_id: str) -> Trace | None:
        if trace_id not in self._seen:
            answer = self._server.get(f"/api/traces/{trace_id}") or {}
            for trace in _traces(answer):
                self._seen[trace.trace_id] = trace
        return self._seen.get(trace_id)

    def _services(self) -> list[str]:
        return sorted((self._server.get("/api/services") or {}).get("data") or [])


class _Search:
    """Reads windows from the newest to the oldest, halving those that hold more than one answer may."""

    def __init__(self, server: Server, filter: Filter, limit: int) -> None:
        self._server, self._filter, self._limit = server, filter, limit
        self._left = _REQUESTS
        self.found: dict[str, Trace] = {}
        self.notes: list[str] = []

    def ask(self, question: _Question) -> None:
        """Add the newest runs of one service, at least as many as the limit if there are."""
        matched: set[str] = set()
        windows = [question]
        while windows and len(matched) < self._limit:
            if not self._left:
                self.notes.append(
                    f"Jaeger has more than {_REQUESTS} answers full of runs in this window; "
                    "older ones were not looked at: narrow it with since: and until:"
                )
                return
            self._left -= 1
            window = windows.pop()
            traces = list(_traces(self._server.get(window.path()) or {}))
            if len(traces) >= _PAGE and window.end - window.start > _SHORTEST:
                windows += window.halves()
                continue
            for trace in traces:
                if matches(self._filter, trace):
                    matched.add(trace.trace_id)
                    self.found[trace.trace_id] = trace


def _service(filter: Filter) -> str | None:
    """The one service to ask: where nothing else must be found, which may be on a span of another one."""
    named = [term.text for term in filter.on_run if term.key == "service" and not term.negated]
    return named[0] if named and not _tags(filter) else None


def _question(filter: Filter, service: str) -> _Question:
    now = time.time_ns()
    start = filter.since if filter.since is not None else now - DEFAULT_WINDOW
    end = now + 60_000_000_000 if filter.until is None else min(filter.until + _LONGEST_RUN, now)
    return _Question(service, _tags(filter), start, max(start, end))


def _tags(filter: Filter) -> dict[str, str]:
    """Tags that one span of every run has that meets the filter."""
    tags: dict[str, str] = {}
    for term in filter.on_span:
        tags.update(_tag(term))
    if tags:
        return tags
    for term in filter.on_run:
        if not term.negated and (tags := _tag(term)):
            return tags
    return {}


def _tag(term: Term) -> dict[str, str]:
    if term.key in _TAGS:
        return {_TAGS[term.key]: term.text}
    if term.key == "warning":
        return {names.OUTCOME: "warning"}
    if term.key == "attempts" and term.operator == "=":
        return {names.ATTEMPTS: str(term.value)}
    if term.key == "status" and (term.value == "error") != term.negated:
        return {"error": "true"}
    if term.key == "tag":
        return {names.TAG_PREFIX + term.text: "true"}
    if term.key == ATTRIBUTE and not _EXACT(term.text) and term.text[:1] not in ("[", "{"):
        return {term.name: term.text}
    return {}


def _traces(answer: Mapping[str, Any]) -> Iterator[Trace]:
    for data in answer.get("data") or ():
        resources = {
            key: {"service.name": process.get("serviceName", ""), **_attributes(process.get("tags"))}
            for key, process in (data.get("processes") or {}).items()
        }
        spans = [_span(each, resources.get(each.get("processID"), {})) for each in data.get("spans") or ()]
        if spans:
            yield Trace(spans[0].trace_id, sorted(spans, key=lambda span: span.start))


def _span(data: Mapping[str, Any], resource: Mapping[str, Any]) -> Span:
    tags = _attributes(data.get("tags"))
    start = int(data["startTime"]) * 1000
    status = _STATUSES.get(
        tags.get("otel.status_code", ""), "error" if tags.get("error") is True else "unset"
    )
    parent = next(
        (each["spanID"] for each in data.get("references") or () if each.get("refType") == "CHILD_OF"), ""
    )
    return Span(
        trace_id=data["traceID"].rjust(32, "0"),
        span_id=data["spanID"],
        parent_id=parent,
        name=data["operationName"],
        start=start,
        end=start + int(data["duration"]) * 1000,
        status=status,
        message=str(tags.get("otel.status_description", "")),
        attributes={
            key: value
            for key, value in tags.items()
            if not key.startswith(_JAEGERS_OWN) and not (key == "error" and status == "error")
        },
        resource=resource,
        events=[_event(log) for log in data.get("logs") or ()],
        scope=str(tags.get("otel.scope.name", "")),
    )


def _event(log: Mapping[str, Any]) -> Event:
    fields = _attributes(log.get("fields"))
    return Event(str(fields.pop("event", "")), int(log["timestamp"]) * 1000, fields)


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair["key"]: pair["value"] for pair in pairs or ()}
