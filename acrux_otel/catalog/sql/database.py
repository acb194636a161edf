# SPDX-License-Identifier: Apache-2.0
"""One database of a catalog, SQLite or PostgreSQL: opened on first use, migrated by itself, fork-safe."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import URL, make_url

from acrux_otel.catalog.errors import CatalogError, CatalogUnreachable
from acrux_otel.catalog.sql.migrations import migrate, pending

__all__ = ["Database", "sqlite_url"]

_PATIENCE: Final = 30.0  # seconds for which a locked SQLite file is waited for
_WRITES: Final = "acrux_writes"
_DRIVERS: Final = {"sqlite": "pysqlite", "postgresql": "psycopg"}


class Database:
    """Transactions on one database.

    Args:
        url: a SQLAlchemy URL of SQLite (a file) or PostgreSQL.

    Raises:
        ValueError: a URL that cannot be used; one line says why.
    """

    def __init__(self, url: str | URL) -> None:
        self._url = _checked(url)
        # A query may hold a password as well.
        self.label = self._url.set(query={}).render_as_string(hide_password=True)
        self.dialect = self._url.get_backend_name()
        self._lock = threading.Lock()
        self._engine: sa.Engine | None = None
        self._pid = 0

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """A transaction that only reads.

        Raises:
            CatalogUnreachable: the database does not answer.
        """
        with self._translated(), self._ready().begin() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[sa.Connection]:
        """A transaction that writes; those of other processes on a SQLite file wait for it.

        Raises:
            CatalogUnreachable: the database does not answer, or stays locked.
        """
        engine = self._ready()
        with self._translated(), engine.execution_options(**{_WRITES: True}).begin() as connection:
            yield connection

    def close(self) -> None:
        """Give the connections back."""
        with self._lock:
            engine, self._engine = self._engine, None
            if engine is not None:
                engine.dispose(close=self._pid == os.getpid())

    def _ready(self) -> sa.Engine:
        engine = self._engine
        if engine is not None and self._pid == os.getpid():
            return engine
        with self._lock, self._translated():
            if self._engine is not None and self._pid != os.getpid():
                self._engine.dispose(close=False)  # the connections are the parent process's
                self._engine = None
            if self._engine is None:
                made = _engine(self._url)
                with made.connect() as connection:
                    missing = pending(connection)
                if missing:
                    with made.execution_options(**{_WRITES: True}).begin() as connection:
                        migrate(connection)
                self._engine, self._pid = made, os.getpid()
            return self._engine

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sa.exc.DBAPIError as error:
            # Without the statement and its parameters, which are the user's.
            told = " ".join(str(error.orig).split())[:300]
            raise CatalogUnreachable(f"catalog {self.label}: {told}") from error
        except sa.exc.SQLAlchemyError as error:
            raise CatalogUnreachable(f"catalog {self.label}: {type(error).__name__}") from error


def sqlite_url(path: Path) -> URL:
    """The URL of a SQLite file, whatever characters its path has."""
    return URL.create("sqlite", database=str(path))


def _checked(text: str | URL) -> URL:
    """The URL with its driver. No message shows what may be a password.

    Raises:
        ValueError: it cannot be used.
    """
    try:
        url = make_url(text)
    except (sa.exc.ArgumentError, ValueError):
        raise ValueError(
            "the catalog's URL cannot be read; expected sqlite:///path/to/file.db, "
            "postgresql://user@host/database, http(s)://host/api/v1 or acruxcore"
        ) from None
    backend, _, driver = url.drivername.partition("+")
    backend = "postgresql" if backend == "postgres" else backend
    if backend not in _DRIVERS:
        raise ValueError(f"the catalog's URL names {backend!r}; expected sqlite or postgresql")
    if driver not in ("", _DRIVERS[backend]):
        raise ValueError(f"the catalog's URL names the driver {driver!r}; leave it out: {backend}://…")
    if backend == "sqlite":
        _check_sqlite(url)
    elif "@" in (url.host or ""):
        raise ValueError("the catalog's URL has an @ in its user or password; write it as %40")
    return url.set(drivername=f"{backend}+{_DRIVERS[backend]}" if backend == "postgresql" else backend)


def _check_sqlite(url: URL) -> None:
    if url.database in (None, "", ":memory:"):
        raise ValueError("the catalog sqlite:// keeps nothing; name a file, as in sqlite:///path/to/file.db")
    if url.host or url.username or url.password:
        raise ValueError("the catalog's URL needs three slashes before a file: sqlite:///path/to/file.db")
    if url.query:
        raise ValueError("the catalog's URL has a query, which a SQLite file does not take; leave it out")


def _engine(url: URL) -> sa.Engine:
    if url.get_backend_name() == "sqlite":
        return _sqlite(url)
    try:
        return sa.create_engine(
            url, pool_pre_ping=True, hide_parameters=True, connect_args={"connect_timeout": 10}
        )
    except ImportError as missing:
        raise CatalogError(
            f"a catalog on PostgreSQL needs {missing.name}; "
            "install it with: pip install 'acrux-otel[postgres]'"
        ) from None


def _sqlite(url: URL) -> sa.Engine:
    folder = Path(str(url.database)).expanduser().parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CatalogUnreachable(
            f"catalog {url.database}: its folder cannot be made ({error.strerror})"
        ) from None
    url = url.set(database=str(Path(str(url.database)).expanduser()))
    options = {"timeout": _PATIENCE, "check_same_thread": False}
    engine = sa.create_engine(url, hide_parameters=True, connect_args=options)

    @event.listens_for(engine, "connect")
    def _prepare(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # or the driver would begin transactions by rules of its own
        for pragma in (f"busy_timeout={int(_PATIENCE * 1000)}", "foreign_keys=ON", "synchronous=NORMAL"):
            connection.execute(f"PRAGMA {pragma}")
        _write_ahead(connection)

    @event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        # A reader that turns writer can only fail where another has written since it began.
        writes = connection.get_execution_options().get(_WRITES)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _write_ahead(connection: Any) -> None:
    """Readers and a writer do not wait for each other. SQLite's own wait does not cover this switch."""
    import sqlite3

    deadline = monotonic() + _PATIENCE
    while connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or monotonic() > deadline:
                raise
            sleep(0.01)
