# SPDX-License-Identifier: Apache-2.0
"""Adds a batch of spans to the store, in one transaction. What is sent again replaces what was there."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans

from acrux_otel.local.connecting import Connections
from acrux_otel.local.rows import RunSum, SpanRow, rows_of
from acrux_otel.local.wire import Rejected

__all__ = ["Ingest"]

T = TypeVar("T")
_CHUNK: Final = 500  # values in one IN (...)
_SOURCES: Final = 4096  # kept in memory
_LISTED: Final = 50  # tools, tags and services on a run's line
_NAME: Final = 300  # characters of a run's name
_SPAN: Final = f"INSERT OR IGNORE INTO acrux_spans VALUES ({', '.join('?' * 16)})"
_RUN: Final = f"INSERT OR REPLACE INTO acrux_runs VALUES ({', '.join('?' * 16)})"
_SUMS: Final = "start, end, name, rank, named_at, spans, errors, failed, warned, cost, tools, tags, services"


class Ingest:
    """Takes batches, one at a time."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._sources: dict[bytes, tuple[int, str]] = {}
        self._services: dict[int, str] = {}

    def add(self, request: ExportTraceServiceRequest, rejected: Rejected) -> int:
        """Keep the spans of a request; on return they outlive the end of this process.

        Returns:
            How many spans were kept.

        Raises:
            StoreError: nothing was kept.
        """
        if len(self._sources) >= _SOURCES:
            self.forget()
        try:
            with self._connections.transaction() as connection:
                rows = rows_of(request, lambda sender: self._source(connection, sender), rejected)
                if rows:
                    _Batch(connection, list(rows.values()), self._services).write()
                return len(rows)
        except BaseException:
            self.forget()  # ids of sources that were rolled back
            raise

    def _source(self, connection: sqlite3.Connection, sender: ResourceSpans) -> int:
        body = sender.SerializeToString(deterministic=True)
        known = self._sources.get(body)
        if known is None:
            told = (pair.value for pair in sender.resource.attributes if pair.key == "service.name")
            service = next((value.string_value for value in told), "")
            connection.execute(
                "INSERT OR IGNORE INTO acrux_sources (service, body) VALUES (?, ?)", (service, body)
            )
            found = connection.execute("SELECT id FROM acrux_sources WHERE body = ?", (body,)).fetchone()
            known = self._sources[body] = (found[0], service)
            self._services[found[0]] = service
        return known[0]

    def forget(self) -> None:
        """Look the sources up again: some that were known may be gone."""
        self._sources.clear()
        self._services.clear()


class _Batch:
    def __init__(
        self, connection: sqlite3.Connection, rows: Sequence[SpanRow], services: dict[int, str]
    ) -> None:
        self._connection, self._rows, self._services = connection, rows, services
        self._runs: dict[bytes, int] = {}

    def write(self) -> None:
        sums = self._sums()
        first = 1 + (self._connection.execute("SELECT max(id) FROM acrux_spans").fetchone()[0] or 0)
        numbered = list(enumerate(self._rows, first))
        added = self._connection.executemany(_SPAN, map(self._span, numbered)).rowcount
        again: set[int] = set()
        if added != len(numbered):
            again = self._replace(numbered)
        self._connection.executemany(
            "INSERT INTO acrux_bodies VALUES (?, ?)", ((number, row.body) for number, row in numbered)
        )
        self._write_sums(sums, again)

    def _sums(self) -> dict[bytes, RunSum]:
        """Each run's sum with what was there; gives every run its id."""
        traces = list(dict.fromkeys(row.trace_id for row in self._rows))
        sums: dict[bytes, RunSum] = {}
        for chunk in _chunks(traces):
            query = f"SELECT id, trace_id, {_SUMS} FROM acrux_runs WHERE trace_id IN ({_marks(chunk)})"
            for number, trace_id, *columns in self._connection.execute(query, chunk):
                self._runs[trace_id] = number
                sums[trace_id] = _read(columns)
        following = 1 + (self._connection.execute("SELECT max(id) FROM acrux_runs").fetchone()[0] or 0)
        for trace_id in traces:
            if trace_id not in self._runs:
                self._runs[trace_id] = following
                sums[trace_id] = RunSum()
                following += 1
        for row in self._rows:
            sums[row.trace_id].add(row, self._services[row.source])
        return sums

    def _span(self, numbered: tuple[int, SpanRow]) -> tuple[Any, ...]:
        number, row = numbered
        return (
            number,
            self._runs[row.trace_id],
            row.span_id,
            row.start,
            row.duration,
            row.source,
            row.root,
            row.error,
            row.warned,
            row.tool,
            row.outcome,
            row.error_type,
            row.error_code,
            row.attempts,
            row.cost,
            row.name[:_NAME],
        )

    def _replace(self, numbered: Iterable[tuple[int, SpanRow]]) -> set[int]:
        """Put the rows that were there already in place of the old ones; returns their runs."""
        runs: set[int] = set()
        for number, row in numbered:
            run = self._runs[row.trace_id]
            (old,) = self._connection.execute(
                "SELECT id FROM acrux_spans WHERE run = ? AND span_id = ?", (run, row.span_id)
            ).fetchone()
            if old != number:
                runs.add(run)
                self._connection.execute("DELETE FROM acrux_bodies WHERE id = ?", (old,))
                self._connection.execute("DELETE FROM acrux_spans WHERE id = ?", (old,))
                self._connection.execute(_SPAN, self._span((number, row)))
        return runs

    def _write_sums(self, sums: dict[bytes, RunSum], again: set[int]) -> None:
        now = time.time_ns()
        rows, tags, services = [], [], []
        for trace_id, total in sums.items():
            run = self._runs[trace_id]
            if run in again:
                self._count_again(run, total)
            rows.append((run, trace_id, now, total))
            tags += [(tag, run) for tag in total.tags]
            services += [(service, run) for service in total.services]
        self._connection.executemany(_RUN, (_run(*row) for row in rows))
        self._connection.executemany("INSERT OR IGNORE INTO acrux_tags VALUES (?, ?)", tags)
        self._connection.executemany("INSERT OR IGNORE INTO acrux_services VALUES (?, ?)", services)

    def _count_again(self, run: int, total: RunSum) -> None:
        """Take the sums from the spans: adding would count the replaced ones twice."""
        total.start, total.end, total.spans, total.errors, total.failed, total.warned, total.cost = (
            self._connection.execute(
                """SELECT min(start), max(start + duration), count(*), sum(error),
                sum(tool IS NOT NULL AND (error OR outcome IS 'error')), sum(warned), sum(cost)
                FROM acrux_spans WHERE run = ?""",
                (run,),
            ).fetchone()
        )
        root, total.named_at, total.name = self._connection.execute(
            "SELECT root, start, name FROM acrux_spans WHERE run = ? ORDER BY root DESC, start LIMIT 1",
            (run,),
        ).fetchone()
        total.rank = 0 if root else 1


def _run(run: int, trace_id: bytes, now: int, total: RunSum) -> tuple[Any, ...]:
    return (
        run,
        trace_id,
        total.start,
        total.end,
        now,
        total.name[:_NAME],
        total.rank,
        total.named_at,
        total.spans,
        total.errors,
        total.failed,
        total.warned,
        total.cost,
        _listed(total.tools),
        _listed(total.tags),
        _listed(total.services),
    )


def _read(columns: Sequence[Any]) -> RunSum:
    *plain, tools, tags, services = columns
    lists = (dict.fromkeys(json.loads(text)) for text in (tools, tags, services))
    return RunSum(*plain, *lists)


def _listed(values: Iterable[str]) -> str:
    return json.dumps([value[:_NAME] for value in list(values)[:_LISTED]], ensure_ascii=False)


def _chunks(values: Sequence[T]) -> Iterator[Sequence[T]]:
    for at in range(0, len(values), _CHUNK):
        yield values[at : at + _CHUNK]


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))
