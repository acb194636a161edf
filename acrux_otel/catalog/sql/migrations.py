# SPDX-License-Identifier: Apache-2.0
"""The SQL catalog's schema, step by step. A released step never changes; a new one goes at the end."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, inspect

from acrux_otel.catalog.errors import CatalogUnreachable

__all__ = ["STEPS", "migrate", "pending"]

_TABLE: Final = "acrux_catalog_schema"
_LOCK: Final = 0x61637278  # of PostgreSQL's advisory locks; any number that is ours

# One statement a line of a step; ``{serial}`` is the dialect's own counting key.
_FIRST: Final = (
    """CREATE TABLE acrux_tools (
        id TEXT PRIMARY KEY, name TEXT NOT NULL, description TEXT,
        created_by TEXT NOT NULL, created_at TEXT NOT NULL, deleted_at TEXT)""",
    "CREATE UNIQUE INDEX acrux_tools_name ON acrux_tools (name) WHERE deleted_at IS NULL",
    """CREATE TABLE acrux_tool_versions (
        id TEXT PRIMARY KEY, tool_id TEXT NOT NULL REFERENCES acrux_tools (id), number INTEGER NOT NULL,
        source TEXT NOT NULL, description TEXT, changelog TEXT, change TEXT,
        parameters TEXT NOT NULL, executor TEXT NOT NULL, result TEXT, severity TEXT,
        annotations TEXT NOT NULL, fingerprint TEXT NOT NULL,
        created_by TEXT NOT NULL, created_at TEXT NOT NULL, UNIQUE (tool_id, number))""",
    """CREATE TABLE acrux_tool_aliases (
        id TEXT PRIMARY KEY, tool_id TEXT NOT NULL REFERENCES acrux_tools (id), alias TEXT NOT NULL,
        version_id TEXT NOT NULL REFERENCES acrux_tool_versions (id), updated_at TEXT NOT NULL,
        UNIQUE (tool_id, alias))""",
    """CREATE TABLE acrux_tool_events (
        id {serial}, tool_id TEXT NOT NULL REFERENCES acrux_tools (id), at TEXT NOT NULL, by TEXT NOT NULL,
        action TEXT NOT NULL, version INTEGER, alias TEXT, previous INTEGER)""",
    "CREATE INDEX acrux_tool_events_tool ON acrux_tool_events (tool_id, id)",
)
_IMMUTABLE_SQLITE: Final = tuple(
    f"""CREATE TRIGGER acrux_tool_versions_{what} BEFORE {what} ON acrux_tool_versions
    BEGIN SELECT RAISE(ABORT, 'a version of a tool never changes'); END"""
    for what in ("UPDATE", "DELETE")
)
_IMMUTABLE_POSTGRESQL: Final = (
    """CREATE FUNCTION acrux_tool_versions_immutable() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'a version of a tool never changes'; END $$""",
    """CREATE TRIGGER acrux_tool_versions_immutable BEFORE UPDATE OR DELETE ON acrux_tool_versions
    FOR EACH ROW EXECUTE FUNCTION acrux_tool_versions_immutable()""",
)
_KEYS: Final = (
    """CREATE TABLE acrux_catalog_keys (
        name TEXT PRIMARY KEY, hash TEXT NOT NULL UNIQUE, role TEXT NOT NULL,
        created_at TEXT NOT NULL, revoked_at TEXT)""",
)
STEPS: Final = {
    "sqlite": ((*_FIRST, *_IMMUTABLE_SQLITE), _KEYS),
    "postgresql": ((*_FIRST, *_IMMUTABLE_POSTGRESQL), _KEYS),
}
_SERIAL: Final = {
    "sqlite": "INTEGER PRIMARY KEY AUTOINCREMENT",
    "postgresql": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
}


def pending(connection: Connection) -> bool:
    """Whether the database lacks a step.

    Raises:
        CatalogUnreachable: it has a step that this version of the package does not know.
    """
    return _done(connection) < len(STEPS[connection.dialect.name])


def migrate(connection: Connection) -> None:
    """Do what is missing, in the transaction of ``connection``; processes that meet here take turns.

    Raises:
        CatalogUnreachable: the database was made by a newer version of the package.
    """
    dialect = connection.dialect.name
    if dialect == "postgresql":
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
    done = _done(connection)
    for number, step in enumerate(STEPS[dialect][done:], done + 1):
        if number == 1:
            connection.exec_driver_sql(f"CREATE TABLE {_TABLE} (step INTEGER PRIMARY KEY)")
        for statement in step:
            connection.exec_driver_sql(statement.replace("{serial}", _SERIAL[dialect]))
        connection.exec_driver_sql(f"INSERT INTO {_TABLE} (step) VALUES ({number})")


def _done(connection: Connection) -> int:
    if not inspect(connection).has_table(_TABLE):
        return 0
    done = int(connection.exec_driver_sql(f"SELECT max(step) FROM {_TABLE}").scalar() or 0)
    known = len(STEPS[connection.dialect.name])
    if done > known:
        raise CatalogUnreachable(
            f"the catalog was made by a newer acrux-otel (schema {done}, this one knows {known}); "
            "upgrade acrux-otel"
        )
    return done
