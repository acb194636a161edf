# SPDX-License-Identifier: Apache-2.0
"""The tables of the local store, step by step. A released step never changes; a new one goes at the end.

`acrux_spans` is narrow, so that a search reads little; `acrux_bodies` holds each span as it came.
"""

from __future__ import annotations

import sqlite3
from typing import Final

__all__ = ["STEPS", "StoreError", "migrate"]

_TABLE: Final = "acrux_local_schema"

STEPS: Final = (
    (
        # start, end, received: nanoseconds since 1970. errors: spans whose status is ERROR. failed and
        # warned: calls by outcome. rank and named_at: which span gave the run its name.
        """CREATE TABLE acrux_runs (
            id INTEGER PRIMARY KEY, trace_id BLOB NOT NULL UNIQUE, start INTEGER NOT NULL,
            end INTEGER NOT NULL, received INTEGER NOT NULL, name TEXT NOT NULL, rank INTEGER NOT NULL,
            named_at INTEGER NOT NULL, spans INTEGER NOT NULL, errors INTEGER NOT NULL,
            failed INTEGER NOT NULL, warned INTEGER NOT NULL, cost REAL,
            tools TEXT NOT NULL, tags TEXT NOT NULL, services TEXT NOT NULL)""",
        "CREATE INDEX acrux_runs_start ON acrux_runs (start DESC, id DESC)",
        "CREATE INDEX acrux_runs_failed ON acrux_runs (start DESC, id DESC) WHERE errors > 0",
        "CREATE INDEX acrux_runs_received ON acrux_runs (received)",
        # body: a ResourceSpans message with the resource and, in one ScopeSpans, the scope.
        """CREATE TABLE acrux_sources (
            id INTEGER PRIMARY KEY, service TEXT NOT NULL, body BLOB NOT NULL UNIQUE)""",
        """CREATE TABLE acrux_spans (
            id INTEGER PRIMARY KEY, run INTEGER NOT NULL, span_id BLOB NOT NULL, start INTEGER NOT NULL,
            duration INTEGER NOT NULL, source INTEGER NOT NULL, root INTEGER NOT NULL,
            error INTEGER NOT NULL, warned INTEGER NOT NULL, tool TEXT, outcome TEXT, error_type TEXT,
            error_code TEXT, attempts INTEGER, cost REAL, name TEXT NOT NULL)""",
        "CREATE UNIQUE INDEX acrux_spans_id ON acrux_spans (run, span_id)",
        # Each holds all that a search by its first column reads. The last but one is for those by two.
        """CREATE INDEX acrux_spans_code ON acrux_spans (error_code, run, start)
            WHERE error_code IS NOT NULL""",
        "CREATE INDEX acrux_spans_type ON acrux_spans (error_type, run) WHERE error_type IS NOT NULL",
        "CREATE INDEX acrux_spans_warned ON acrux_spans (run) WHERE warned = 1",
        "CREATE INDEX acrux_spans_outcome ON acrux_spans (outcome, run) WHERE outcome IS NOT NULL",
        "CREATE INDEX acrux_spans_attempts ON acrux_spans (attempts, run) WHERE attempts IS NOT NULL",
        """CREATE INDEX acrux_spans_tool ON acrux_spans (tool, outcome, error_type, error_code, run)
            WHERE tool IS NOT NULL""",
        """CREATE INDEX acrux_spans_calls
            ON acrux_spans (start, tool, duration, outcome, error, warned, error_code)
            WHERE tool IS NOT NULL""",
        "CREATE INDEX acrux_spans_duration ON acrux_spans (duration, run)",
        "CREATE TABLE acrux_bodies (id INTEGER PRIMARY KEY, body BLOB NOT NULL)",
        """CREATE TABLE acrux_tags (
            tag TEXT NOT NULL, run INTEGER NOT NULL, PRIMARY KEY (tag, run)) WITHOUT ROWID""",
        "CREATE INDEX acrux_tags_run ON acrux_tags (run)",
        """CREATE TABLE acrux_services (
            service TEXT NOT NULL, run INTEGER NOT NULL, PRIMARY KEY (service, run)) WITHOUT ROWID""",
        "CREATE INDEX acrux_services_run ON acrux_services (run)",
        "CREATE TABLE acrux_retention (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID",
    ),
)


class StoreError(Exception):
    """A store that cannot be used; one line says which and why."""


def migrate(connection: sqlite3.Connection, path: str) -> None:
    """Do the steps that the file lacks, each whole or not at all; processes that meet here take turns.

    Raises:
        StoreError: the file was made by a newer version of the package.
    """
    if _done(connection, path) == len(STEPS):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        done = _done(connection, path)
        connection.execute(f"CREATE TABLE IF NOT EXISTS {_TABLE} (step INTEGER PRIMARY KEY)")
        for number, step in enumerate(STEPS[done:], done + 1):
            for statement in step:
                connection.execute(statement)
            connection.execute(f"INSERT INTO {_TABLE} VALUES (?)", (number,))
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _done(connection: sqlite3.Connection, path: str) -> int:
    there = connection.execute("SELECT 1 FROM sqlite_master WHERE type='table' AND name=?", (_TABLE,))
    if there.fetchone() is None:
        return 0
    done = int(connection.execute(f"SELECT coalesce(max(step), 0) FROM {_TABLE}").fetchone()[0])
    if done > len(STEPS):
        raise StoreError(
            f"{path} was made by a newer acrux-otel (schema {done}, this one knows {len(STEPS)}); "
            "upgrade acrux-otel, or name another file"
        )
    return done
