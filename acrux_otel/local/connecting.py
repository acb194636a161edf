# SPDX-License-Identifier: Apache-2.0
"""Connections to the store's SQLite file.

sqlite3 itself and not SQLAlchemy: a batch is a handful of `executemany` calls, and what SQLAlchemy adds to
each row would be a third of the time of taking a span.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from acrux_otel.local.reading import FUNCTIONS
from acrux_otel.local.schema import StoreError, migrate

__all__ = ["Connections", "default_path"]

_PATIENCE: Final = 30.0  # seconds for which another process's lock is waited for
_CHECKED_EVERY: Final = 20_000  # SQLite's own steps between two looks at the clock
_PRAGMAS: Final = (
    f"busy_timeout={int(_PATIENCE * 1000)}",
    "synchronous=NORMAL",  # with write-ahead logging, what is committed outlives the process
    "temp_store=MEMORY",
    "cache_size=-32768",
    "mmap_size=1073741824",
    "wal_autocheckpoint=4000",
)


def default_path() -> Path:
    """The embedded file, which the catalog shares: ``.acrux/acrux.db``, or below ``ACRUX_OTEL_HOME``."""
    return Path(os.environ.get("ACRUX_OTEL_HOME") or ".acrux") / "acrux.db"


class Connections:
    """One connection that writes, and one for each thread that reads.

    Args:
        path: the file.
        create: make it where it is missing.

    Raises:
        StoreError: it is missing, no SQLite file, or of a newer version.
    """

    def __init__(self, path: Path, create: bool) -> None:
        self.path = path
        if not create and not path.exists():
            raise StoreError(f"there is no store at {path}; acrux-otel up makes it")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"the folder of {path} cannot be made: {error.strerror}") from None
        self._own = threading.local()
        self._all: list[sqlite3.Connection] = []
        self._lock = threading.Lock()
        self.writing = self._opened()
        with self.translated():
            migrate(self.writing, str(path))

    @contextmanager
    def reading(self, seconds: float | None = None) -> Iterator[sqlite3.Connection]:
        """This thread's connection; a statement that runs longer than ``seconds`` is ended.

        Raises:
            StoreError: the file cannot be read, or the time is up.
        """
        connection: sqlite3.Connection | None = getattr(self._own, "connection", None)
        if connection is None:
            connection = self._own.connection = self._opened()
        end = None if seconds is None else time.monotonic() + seconds
        connection.set_progress_handler(
            None if end is None else lambda: time.monotonic() > end, _CHECKED_EVERY
        )
        with self.translated(seconds):
            yield connection

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """The writing connection in a transaction, all of it or nothing; one thread at a time.

        Raises:
            StoreError: the file cannot be written.
        """
        with self._lock, self.translated():
            self.writing.execute("BEGIN IMMEDIATE")
            try:
                yield self.writing
                self.writing.execute("COMMIT")
            except BaseException:
                if self.writing.in_transaction:
                    self.writing.execute("ROLLBACK")
                raise

    @contextmanager
    def translated(self, seconds: float | None = None) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            if "interrupted" in str(error) and seconds is not None:
                raise StoreError(
                    f"the search took longer than {seconds:g} s and was ended; narrow it, as with since:1h"
                ) from None
            raise StoreError(f"{self.path}: {error}") from None
        except sqlite3.DatabaseError as error:
            raise StoreError(f"{self.path}: {error}") from None

    def close(self) -> None:
        """Close all of them."""
        with self._lock:
            for connection in self._all:
                connection.close()
            self._all.clear()

    def _opened(self) -> sqlite3.Connection:
        try:
            connection = sqlite3.connect(
                self.path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False
            )
        except sqlite3.Error as error:
            raise StoreError(f"{self.path}: {error}") from None
        with self.translated():
            for pragma in _PRAGMAS:
                connection.execute(f"PRAGMA {pragma}")
            _write_ahead(connection)
        for name, (arguments, function) in FUNCTIONS.items():
            connection.create_function(name, arguments, function, deterministic=True)
        self._all.append(connection)
        return connection


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Readers and a writer do not wait for each other. SQLite's own wait does not cover this switch."""
    deadline = time.monotonic() + _PATIENCE
    while connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
