# SPDX-License-Identifier: Apache-2.0
"""Drops the runs that the store has no room or time for, the longest unheard of first."""

from __future__ import annotations

import dataclasses
import sqlite3
import time
from typing import Final

from acrux_otel.local.connecting import Connections

__all__ = ["Dropped", "Limits", "Retention"]

_CHUNK: Final = 200  # runs in one transaction, so that senders wait only shortly
_DAY: Final = 86_400_000_000_000


@dataclasses.dataclass(frozen=True)
class Limits:
    """What the store keeps.

    Attributes:
        age: nanoseconds since the last span of a run came.
        size: bytes of the file that are in use.
    """

    age: int = 14 * _DAY
    size: int = 2 * 1024**3


@dataclasses.dataclass(frozen=True)
class Dropped:
    """What was let go so far: runs, spans, and when last, in nanoseconds since 1970."""

    runs: int = 0
    spans: int = 0
    at: int = 0


class Retention:
    """Applies limits to a store."""

    def __init__(self, connections: Connections, limits: Limits) -> None:
        self._connections = connections
        self.limits = limits

    def apply(self) -> int:
        """Drop what is over the limits.

        Returns:
            How many runs were dropped.

        Raises:
            StoreError: the file cannot be written.
        """
        dropped = 0
        oldest = time.time_ns() - self.limits.age
        while count := self._drop("WHERE received < ?", oldest):
            dropped += count
        while self.used() > self.limits.size and (count := self._drop("WHERE ?", 1)):
            dropped += count
        if dropped:
            with self._connections.transaction() as connection:
                connection.execute(
                    "DELETE FROM acrux_sources WHERE id NOT IN (SELECT source FROM acrux_spans)"
                )
        return dropped

    def used(self) -> int:
        """Bytes of the file that hold something."""
        with self._connections.reading() as connection:
            pages, free, size = (
                connection.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("page_count", "freelist_count", "page_size")
            )
        return int((pages - free) * size)

    def dropped(self) -> Dropped:
        """What was dropped since the file was made."""
        with self._connections.reading() as connection:
            return Dropped(**dict(connection.execute("SELECT name, value FROM acrux_retention")))

    def _drop(self, which: str, parameter: int) -> int:
        with self._connections.transaction() as connection:
            found = connection.execute(
                f"SELECT id, spans FROM acrux_runs {which} ORDER BY received LIMIT {_CHUNK}", (parameter,)
            ).fetchall()
            runs = [(run,) for run, _ in found]
            for statement in (
                "DELETE FROM acrux_bodies WHERE id IN (SELECT id FROM acrux_spans WHERE run = ?)",
                "DELETE FROM acrux_spans WHERE run = ?",
                "DELETE FROM acrux_tags WHERE run = ?",
                "DELETE FROM acrux_services WHERE run = ?",
                "DELETE FROM acrux_runs WHERE id = ?",
            ):
                connection.executemany(statement, runs)
            if found:
                _count(connection, "runs", len(found))
                _count(connection, "spans", sum(spans for _, spans in found))
                connection.execute(
                    "INSERT OR REPLACE INTO acrux_retention VALUES ('at', ?)", (time.time_ns(),)
                )
        return len(found)


def _count(connection: sqlite3.Connection, name: str, more: int) -> None:
    connection.execute("INSERT OR IGNORE INTO acrux_retention VALUES (?, 0)", (name,))
    connection.execute("UPDATE acrux_retention SET value = value + ? WHERE name = ?", (more, name))
