# SPDX-License-Identifier: Apache-2.0
"""Jaeger's query API, as its web page uses it."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

__all__ = ["JaegerAPI", "JaegerSpan", "JaegerTrace"]


@dataclass(frozen=True, slots=True)
class JaegerSpan:
    """One span as Jaeger shows it: a status of ERROR is the tag `error`."""

    name: str
    span_id: str
    service: str
    tags: dict[str, Any]
    logs: list[dict[str, Any]]
    warnings: list[str]


@dataclass(frozen=True, slots=True)
class JaegerTrace:
    trace_id: str
    spans: list[JaegerSpan]

    def tagged(self, **tags: Any) -> list[JaegerSpan]:
        """The spans that carry all these tags with these values."""
        return [span for span in self.spans if tags.items() <= span.tags.items()]


class JaegerAPI:
    """Queries, each of which may poll until there is something to see.

    Args:
        endpoint: URL of Jaeger's query service.
    """

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        # A proxy from the environment has no business on loopback.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def services(self) -> list[str]:
        """Names of the services that have sent spans."""
        return sorted(self._get("/api/services") or [])

    def trace(self, trace_id: str, *, spans: int = 1, timeout: float = 10.0) -> JaegerTrace:
        """The trace, as soon as at least so many of its spans are there.

        Raises:
            TimeoutError: fewer came within `timeout` seconds.
        """
        deadline = time.monotonic() + timeout
        while True:
            traces = _traces(self._get(f"/api/traces/{trace_id}"))
            here = len(traces[0].spans) if traces else 0
            if here >= spans:
                return traces[0]
            if time.monotonic() > deadline:
                raise TimeoutError(f"{here} of {spans} spans of trace {trace_id} in {timeout} s")
            time.sleep(0.05)

    def find(
        self,
        service: str,
        *,
        tags: Mapping[str, str] | None = None,
        operation: str | None = None,
        since: datetime | None = None,
        count: int = 1,
        timeout: float = 10.0,
        limit: int = 100,
    ) -> list[JaegerTrace]:
        """The traces in which one span has all the tags, polling until there are at least `count`.

        Args:
            service: exact name; Jaeger wants one.
            tags: exact values as text: `"true"`, `"503"`.
            operation: exact span name.
            since: earliest start of a span; an hour ago by default.
            count: how many traces to wait for; 0 takes what is there.
            timeout: seconds to wait.
            limit: at most so many traces.

        Returns:
            What Jaeger found after at most `timeout` seconds: perhaps fewer than `count`.
        """
        now = datetime.now(timezone.utc)
        query = {
            "service": service,
            "start": _microseconds(since or now - timedelta(hours=1)),
            "limit": limit,
            **({"tags": json.dumps(dict(tags))} if tags else {}),
            **({"operation": operation} if operation else {}),
        }
        deadline = time.monotonic() + timeout
        while True:
            query["end"] = _microseconds(datetime.now(timezone.utc) + timedelta(minutes=1))
            traces = _traces(self._get(f"/api/traces?{urllib.parse.urlencode(query)}"))
            if len(traces) >= count or time.monotonic() > deadline:
                return traces
            time.sleep(0.05)

    def _get(self, path: str) -> Any:
        """The `data` of an answer; None where there is none of it."""
        try:
            with self._opener.open(self._endpoint + path, timeout=10) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise RuntimeError(f"Jaeger answered {error.code} to {path}: {error.read()[:500]!r}") from error


def _microseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1_000_000)


def _traces(data: Any) -> list[JaegerTrace]:
    return [
        JaegerTrace(
            trace["traceID"],
            [
                JaegerSpan(
                    name=span["operationName"],
                    span_id=span["spanID"],
                    service=trace["processes"][span["processID"]]["serviceName"],
                    tags=_tags(span["tags"]),
                    logs=[_tags(log["fields"]) for log in span["logs"]],
                    warnings=span["warnings"] or [],
                )
                for span in trace["spans"]
            ],
        )
        for trace in data or ()
    ]


def _tags(pairs: list[dict[str, Any]]) -> dict[str, Any]:
    return {pair["key"]: pair["value"] for pair in pairs}
