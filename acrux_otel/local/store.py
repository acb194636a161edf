# SPDX-License-Identifier: Apache-2.0
"""The local store: takes spans, answers filters, tells what it has. One SQLite file, safe across threads."""

from __future__ import annotations

import dataclasses
import json
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from acrux_otel.local.connecting import Connections, default_path
from acrux_otel.local.ingest import Ingest
from acrux_otel.local.reading import span_of
from acrux_otel.local.retention import Dropped, Limits, Retention
from acrux_otel.local.rows import LARGEST
from acrux_otel.local.wire import Rejected
from acrux_otel.query.sql import condition
from acrux_otel.query.target import DEFAULT_WINDOW, Answer, window_note
from acrux_otel.query.terms import Filter
from acrux_otel.query.trace import RunLine, Trace

__all__ = ["Code", "Page", "Store", "ToolUse"]

_SEARCH: Final = 10.0  # seconds after which a search is ended
_LINE: Final = (
    "r.trace_id, r.name, r.errors, r.start, r.end, r.tools, r.failed, r.warned, r.spans, r.cost, r.tags, "
    "r.services, r.id"
)
_ORDER: Final = "ORDER BY start DESC, id DESC"
_SELECT: Final = (
    f"SELECT {_LINE} FROM {{runs}} WHERE {{where}} AND (r.start, r.id) < (?, ?) "
    "ORDER BY r.start DESC, r.id DESC LIMIT ?"
)
_NEWEST: Final = 3000  # runs


@dataclasses.dataclass(frozen=True)
class Page:
    """Some of the runs that meet a filter, newest first.

    Attributes:
        after: pass it on to get the following ones; None where there are none.
        notes: what a reader must know.
    """

    runs: list[RunLine]
    after: tuple[int, int] | None
    notes: list[str]


@dataclasses.dataclass(frozen=True)
class Code:
    """A code that was seen: with which errorType, how often, first and last, in nanoseconds since 1970."""

    code: str
    error_type: str
    count: int
    first: int
    last: int
    tools: int


@dataclasses.dataclass(frozen=True)
class ToolUse:
    """What is known of a tool's calls; durations in nanoseconds, codes with their counts."""

    name: str
    calls: int
    failed: int
    warned: int
    not_executed: int
    p50: int
    p95: int
    codes: tuple[tuple[str, int], ...]
    last: int


class _Calls:
    """The calls of one tool."""

    def __init__(self) -> None:
        self.durations: list[int] = []
        self.failed = self.warned = self.not_executed = self.last = 0
        self.codes: Counter[str] = Counter()

    def add(
        self, duration: int, outcome: str | None, error: int, warned: int, code: str | None, start: int
    ) -> None:
        self.last = max(self.last, start)
        if outcome == "not_executed":
            self.not_executed += 1
            return
        self.durations.append(duration)
        self.failed += bool(error or outcome == "error")
        self.warned += warned
        if code is not None:
            self.codes[code] += 1

    def use(self, name: str) -> ToolUse:
        taken = sorted(self.durations)
        p50, p95 = _percentile(taken, 50), _percentile(taken, 95)
        codes = tuple(self.codes.most_common(5))
        return ToolUse(
            name, len(taken), self.failed, self.warned, self.not_executed, p50, p95, codes, self.last
        )


class Store:
    """The store in a file.

    Args:
        path: the file; the embedded one by default.
        create: make it where it is missing.
        limits: what `keep` keeps.

    Raises:
        StoreError: the file cannot be used; one line says why.
    """

    def __init__(
        self, path: Path | None = None, *, create: bool = True, limits: Limits | None = None
    ) -> None:
        self.path = path or default_path()
        self._connections = Connections(self.path, create)
        self._ingest = Ingest(self._connections)
        self._retention = Retention(self._connections, limits or Limits())

    def close(self) -> None:
        """Close the file; everything is in it already."""
        self._connections.close()

    # -- taking ----------------------------------------------------------------------------------------

    def add(self, request: ExportTraceServiceRequest, rejected: Rejected | None = None) -> int:
        """Keep the spans of a request; on return they outlive the end of this process.

        Args:
            rejected: where spans that cannot be kept are counted.

        Returns:
            How many were kept.

        Raises:
            StoreError: nothing was kept.
        """
        return self._ingest.add(request, rejected if rejected is not None else Rejected())

    def keep(self) -> int:
        """Drop what is over the limits; returns how many runs that were."""
        dropped = self._retention.apply()
        if dropped:
            self._ingest.forget()
        return dropped

    @property
    def dropped(self) -> Dropped:
        return self._retention.dropped()

    @property
    def limits(self) -> Limits:
        return self._retention.limits

    def used(self) -> int:
        """Bytes of the file that hold something."""
        return self._retention.used()

    # -- finding ---------------------------------------------------------------------------------------

    def queries(self, filter: Filter) -> list[str]:
        """The condition on `acrux_runs r` that `find` asks for, and its values."""
        since, notes = _bound(filter)
        made = condition(filter, since)
        values = [value.hex() if isinstance(value, bytes) else value for value in made.parameters]
        return [made.where, json.dumps(values, ensure_ascii=False), *notes]

    def find(self, filter: Filter, limit: int) -> Answer:
        """The newest runs."""
        page = self.page(filter, limit)
        return Answer(page.runs, page.notes)

    def page(self, filter: Filter, limit: int, after: tuple[int, int] | None = None) -> Page:
        """Runs that meet a filter, newest first.

        Args:
            limit: how many at most.
            after: of the page before.

        Raises:
            StoreError: the search took too long, or the file cannot be read.
        """
        since, notes = _bound(filter)
        rows: list[Any] = []
        if filter.on_span and filter.trace_id is None:
            # What is common is among the newest runs; only what is rare is worth a search of all spans.
            rows = self._rows(filter, since, limit, after, _NEWEST)
        if len(rows) <= limit:
            rows = self._rows(filter, since, limit, after, None)
        more = (rows[limit - 1][3], rows[limit - 1][-1]) if len(rows) > limit else None
        return Page([_line(row) for row in rows[:limit]], more, notes)

    def _rows(
        self,
        filter: Filter,
        since: int | None,
        limit: int,
        after: tuple[int, int] | None,
        newest: int | None,
    ) -> list[Any]:
        made = condition(filter, since, run_by_run=newest is not None)
        place = (LARGEST, LARGEST) if after is None else after
        runs, parameters = "acrux_runs r", [*made.parameters, *place, limit + 1]
        if newest is not None:
            runs = f"(SELECT * FROM acrux_runs WHERE (start, id) < (?, ?) {_ORDER} LIMIT ?) r"
            parameters = [*place, newest, *parameters]
        return self._read(_SELECT.format(runs=runs, where=made.where), parameters, _SEARCH)

    def trace(self, trace_id: str) -> Trace | None:
        """All spans of one run; None where there is none."""
        try:
            identity = bytes.fromhex(trace_id)
        except ValueError:
            return None
        rows = self._read(
            """SELECT b.body, o.body FROM acrux_runs r JOIN acrux_spans s ON s.run = r.id
            JOIN acrux_bodies b ON b.id = s.id JOIN acrux_sources o ON o.id = s.source
            WHERE r.trace_id = ? ORDER BY s.start, s.id""",
            (identity,),
        )
        return Trace(trace_id, [span_of(*row) for row in rows]) if rows else None

    # -- telling ---------------------------------------------------------------------------------------

    def codes(self, since: int | None = None) -> list[Code]:
        """Every code that was seen, most often first."""
        rows = self._read(
            """SELECT error_code, ifnull(error_type, ''), count(*), min(start), max(start),
            count(DISTINCT tool) FROM acrux_spans WHERE error_code IS NOT NULL AND start >= ?
            GROUP BY 1, 2 ORDER BY 3 DESC, 1""",
            (since or 0,),
        )
        return [Code(*row) for row in rows]

    def tools(self, since: int = 0) -> list[ToolUse]:
        """Every tool that was called since then, most often first. A call that did not run counts as none."""
        calls: dict[str, _Calls] = {}
        for tool, *call in self._read(
            """SELECT tool, duration, outcome, error, warned, error_code, start FROM acrux_spans
            INDEXED BY acrux_spans_calls WHERE tool IS NOT NULL AND start >= ?""",
            (since,),
        ):
            calls.setdefault(tool, _Calls()).add(*call)
        uses = [each.use(name) for name, each in calls.items()]
        return sorted(uses, key=lambda use: (-use.calls, use.name))

    def seen(self, what: str, prefix: str = "", limit: int = 50) -> list[str]:
        """Values of ``error_code``, ``tool``, ``service`` or ``tag`` that begin with ``prefix``, by name."""
        column, table = _SEEN[what]
        rows = self._read(
            f"SELECT DISTINCT {column} FROM {table} WHERE {column} IS NOT NULL AND {column} != '' "
            f"AND substr({column}, 1, ?) = ? ORDER BY 1 LIMIT ?",
            (len(prefix), prefix, limit),
        )
        return [row[0] for row in rows]

    def counts(self) -> tuple[int, int]:
        """How many runs and spans there are."""
        ((runs, spans),) = self._read("SELECT count(*), ifnull(sum(spans), 0) FROM acrux_runs", ())
        return runs, spans

    def _read(self, query: str, parameters: Sequence[Any], seconds: float | None = None) -> list[Any]:
        with self._connections.reading(seconds) as connection:
            return connection.execute(query, parameters).fetchall()


_SEEN: Final = {
    "error_code": ("error_code", "acrux_spans"),
    "tool": ("tool", "acrux_spans"),
    "service": ("service", "acrux_sources"),
    "tag": ("tag", "acrux_tags"),
}


def _bound(filter: Filter) -> tuple[int | None, list[str]]:
    """Free text and attributes have no index: without ``since:`` they are looked for in the last day."""
    if not filter.reads_attributes or filter.since is not None or filter.trace_id is not None:
        return None, []
    return time.time_ns() - DEFAULT_WINDOW, [window_note("free text and tag.KEY read every span")]


def _line(row: Sequence[Any]) -> RunLine:
    trace_id, name, errors, start, end, tools, failed, warned, spans, cost, tags, services, _ = row
    return RunLine(
        trace_id=trace_id.hex(),
        name=name,
        status="error" if errors else "warning" if warned else "ok",
        start=start,
        duration=max(0, end - start),
        tools=tuple(json.loads(tools)),
        failed=failed,
        warned=warned,
        spans=spans,
        cost=cost,
        tags=tuple(json.loads(tags)),
        services=tuple(json.loads(services)),
    )


def _percentile(ordered: Sequence[int], percent: int) -> int:
    """The nearest rank; 0 of nothing."""
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)] if ordered else 0
