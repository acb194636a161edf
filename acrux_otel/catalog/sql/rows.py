# SPDX-License-Identifier: Apache-2.0
"""A SQL catalog's statements, and rows as values."""

from __future__ import annotations

import dataclasses
import json
import uuid
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any, Final

from sqlalchemy import Connection, Row, Select, and_, bindparam, case, func, insert, select, update
from sqlalchemy.dialects import postgresql

from acrux_otel.catalog.checks import check_page
from acrux_otel.catalog.comparison import compare
from acrux_otel.catalog.errors import AnswerUnreadable, NotFound
from acrux_otel.catalog.model import (
    PRODUCTION,
    Alias,
    Change,
    Definition,
    Event,
    Ref,
    Resolved,
    SyncResult,
    ToolEntry,
    Version,
)
from acrux_otel.catalog.sql.tables import ALIASES, EVENTS, TOOLS, VERSIONS
from acrux_otel.definition.fingerprint import canonical

__all__ = [
    "IS_LIVE",
    "NEW_TOOL",
    "add_aliases",
    "add_event",
    "add_version",
    "alias_of_row",
    "aliases_of",
    "completed",
    "definition_of_row",
    "event_of_row",
    "find_tool",
    "latest_version",
    "live_version",
    "name_of_tool",
    "new_id",
    "now",
    "numbered_version",
    "paged",
    "point_alias",
    "referenced_version",
    "resolved_row",
    "tool_entries",
    "tool_entry",
    "unchanged_result",
    "version_of_row",
]

IS_LIVE: Final = TOOLS.c.deleted_at.is_(None)
_LARGEST: Final = 2**31 - 1

# -- statements: made once, because making one costs more than running it ---------------------------------

_IS_NAMED: Final = and_(TOOLS.c.name == bindparam("name"), IS_LIVE)
_FIND: Final = select(TOOLS.c.id).where(_IS_NAMED)
_FIND_LOCKED: Final = _FIND.with_for_update()
# SQLite lets one transaction write at a time, so what was not found is still not there.
NEW_TOOL: Final = {
    "postgresql": postgresql.insert(TOOLS).on_conflict_do_nothing().returning(TOOLS.c.id),
    "sqlite": insert(TOOLS),
}
_LIVE_VERSION: Final = (
    select(VERSIONS)
    .select_from(
        TOOLS.join(ALIASES, ALIASES.c.tool_id == TOOLS.c.id).join(
            VERSIONS, VERSIONS.c.id == ALIASES.c.version_id
        )
    )
    .where(_IS_NAMED, ALIASES.c.alias == bindparam("alias"))
)
_NUMBERED_VERSION: Final = (
    select(VERSIONS)
    .select_from(TOOLS.join(VERSIONS, VERSIONS.c.tool_id == TOOLS.c.id))
    .where(_IS_NAMED, VERSIONS.c.number == bindparam("number"))
)
_LATEST_VERSION: Final = (
    select(VERSIONS)
    .where(VERSIONS.c.tool_id == bindparam("tool_id"))
    .order_by(VERSIONS.c.number.desc())
    .limit(1)
)
_NEW_VERSION: Final = insert(VERSIONS)
_NEW_ALIAS: Final = insert(ALIASES)
_MOVE_ALIAS: Final = (
    update(ALIASES)
    .where(ALIASES.c.tool_id == bindparam("of_tool"), ALIASES.c.alias == bindparam("of_alias"))
    .values(version_id=bindparam("version_id"), updated_at=bindparam("updated_at"))
)
_NEW_EVENT: Final = insert(EVENTS)

# -- rows -----------------------------------------------------------------------------------------------


def find_tool(connection: Connection, name: str, *, lock: bool = False) -> str | None:
    return connection.scalar(_FIND_LOCKED if lock else _FIND, {"name": name})


def name_of_tool(connection: Connection, tool_id: str, *, lock: bool = False) -> str:
    query = select(TOOLS.c.name).where(TOOLS.c.id == tool_id, IS_LIVE)
    name = connection.scalar(query.with_for_update() if lock else query)
    if name is None:
        raise NotFound(f"the catalog has no tool {tool_id[:80]!r}", code="TOOL_NOT_FOUND")
    return str(name)


def live_version(connection: Connection, name: str, alias: str) -> Row[Any] | None:
    """The version that an alias of a tool points at."""
    return connection.execute(_LIVE_VERSION, {"name": name, "alias": alias}).one_or_none()


def referenced_version(connection: Connection, ref: Ref) -> Row[Any] | None:
    if ref.version is None:
        return live_version(connection, ref.name, ref.alias or PRODUCTION)
    if not 0 < ref.version <= _LARGEST:
        return None
    return connection.execute(_NUMBERED_VERSION, {"name": ref.name, "number": ref.version}).one_or_none()


def latest_version(connection: Connection, tool_id: str) -> Row[Any] | None:
    return connection.execute(_LATEST_VERSION, {"tool_id": tool_id}).one_or_none()


def numbered_version(connection: Connection, tool_id: str, name: str, number: int) -> Row[Any]:
    row = None
    if 0 < number <= _LARGEST:
        row = connection.execute(
            select(VERSIONS).where(VERSIONS.c.tool_id == tool_id, VERSIONS.c.number == number)
        ).one_or_none()
    if row is None:
        raise NotFound(f"tool {name!r} has no version {number}", code="VERSION_NOT_FOUND")
    return row


def add_version(
    connection: Connection,
    tool_id: str,
    number: int,
    made: Definition,
    before: Definition | None,
    source: str,
    changelog: str | None,
    by: str,
) -> Version:
    row = {
        "id": new_id(),
        "tool_id": tool_id,
        "number": number,
        "source": source,
        "description": made.description,
        "changelog": changelog,
        "change": None if before is None else compare(before, made).value,
        "parameters": canonical(made.parameters),
        "executor": canonical(made.executor),
        "result": None if made.result is None else canonical(made.result),
        "severity": made.severity,
        "annotations": canonical(made.annotations),
        "fingerprint": made.fingerprint,
        "created_by": by,
        "created_at": now(),
    }
    connection.execute(_NEW_VERSION, row)
    return version_of_row(_Attributes(row))


def point_alias(connection: Connection, tool_id: str, alias: str, version_id: str) -> None:
    moved = connection.execute(
        _MOVE_ALIAS,
        {"of_tool": tool_id, "of_alias": alias, "version_id": version_id, "updated_at": now()},
    )
    if not moved.rowcount:
        add_aliases(connection, tool_id, (alias,), version_id)


def add_aliases(connection: Connection, tool_id: str, aliases: Collection[str], version_id: str) -> None:
    shared = {"tool_id": tool_id, "version_id": version_id, "updated_at": now()}
    connection.execute(_NEW_ALIAS, [{"id": new_id(), "alias": alias, **shared} for alias in sorted(aliases)])


def add_event(
    connection: Connection,
    tool_id: str,
    by: str,
    action: str,
    *,
    version: int | None = None,
    alias: str | None = None,
    previous: int | None = None,
) -> None:
    what = {"version": version, "alias": alias, "previous": previous}
    connection.execute(_NEW_EVENT, {"tool_id": tool_id, "at": now(), "by": by, "action": action, **what})


# -- values ---------------------------------------------------------------------------------------------


class _Attributes:
    def __init__(self, values: Mapping[str, Any]) -> None:
        self.__dict__.update(values)


def unchanged_result(
    definition: Definition, live: Row[Any], alias: str, keep: Collection[str]
) -> SyncResult | None:
    made = completed(definition, definition_of_row(live, definition.name), keep)
    if made.fingerprint != live.fingerprint:
        return None
    return SyncResult(definition.name, live.tool_id, live.number, False, alias, None, live.id, Change.NONE)


def completed(definition: Definition, live: Definition, keep: Collection[str]) -> Definition:
    made = definition.keeping(live)
    if "result" in keep:
        made = dataclasses.replace(made, result=live.result, severity=live.severity)
    return dataclasses.replace(made, annotations=live.annotations) if "annotations" in keep else made


def definition_of_row(row: Any, name: str) -> Definition:
    """A version's definition.

    Raises:
        AnswerUnreadable: somebody else has written into the row.
    """
    kept = {part: _object(getattr(row, part)) for part in ("parameters", "executor", "annotations", "result")}
    if any(kept[part] is None for part in kept if part != "result" or row.result is not None):
        raise AnswerUnreadable(
            f"tool {name!r}: version {row.number} cannot be read from the database; "
            "something other than acrux-otel has changed it"
        )
    return Definition(name, description=row.description, severity=row.severity, **kept)


def _object(text: Any) -> Any:
    try:
        found = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _change(told: Any) -> Change | None:
    try:
        return Change(told)
    except ValueError:  # no change, or somebody else's word
        return None


def resolved_row(row: Row[Any], name: str) -> Resolved:
    whole = definition_of_row(row, name)
    shown = whole if whole.severity is not None else dataclasses.replace(whole, result=None)
    return Resolved(name, row.tool_id, row.number, shown, row.id, row.fingerprint)


def version_of_row(row: Any) -> Version:
    return Version(
        row.id,
        row.tool_id,
        row.number,
        row.source,
        row.created_by,
        row.created_at,
        row.description,
        row.changelog,
        _change(row.change),
    )


def event_of_row(row: Row[Any]) -> Event:
    change, changelog = _change(row.change), row.changelog
    return Event(
        row.at, row.by, row.action, row.version, row.alias, row.previous, row.source, change, changelog
    )


def aliases_of(tool_ids: Sequence[str]) -> Select[Any]:
    joined = ALIASES.join(VERSIONS, VERSIONS.c.id == ALIASES.c.version_id)
    first = case((ALIASES.c.alias == PRODUCTION, 0), else_=1)
    return (
        select(ALIASES, VERSIONS.c.number, VERSIONS.c.executor, VERSIONS.c.description)
        .select_from(joined)
        .where(ALIASES.c.tool_id.in_(tool_ids))
        .order_by(first, ALIASES.c.alias)
    )


def alias_of_row(row: Row[Any]) -> Alias:
    return Alias(row.id, row.alias, row.version_id, row.number, row.updated_at)


def tool_entry(connection: Connection, wanted: Any, asked: str) -> ToolEntry:
    row = connection.execute(select(TOOLS).where(wanted, IS_LIVE)).one_or_none()
    if row is None:
        raise NotFound(f"the catalog has no tool {asked[:80]!r}", code="TOOL_NOT_FOUND")
    return tool_entries(connection, [row])[0]


def tool_entries(connection: Connection, rows: Sequence[Row[Any]]) -> list[ToolEntry]:
    ids = [row.id for row in rows]
    counts = {
        row.tool_id: row
        for row in connection.execute(
            select(
                VERSIONS.c.tool_id, func.count().label("count"), func.max(VERSIONS.c.number).label("latest")
            )
            .where(VERSIONS.c.tool_id.in_(ids))
            .group_by(VERSIONS.c.tool_id)
        ).all()
    }
    pointing: dict[str, list[Row[Any]]] = {}
    for alias in connection.execute(aliases_of(ids)).all():
        pointing.setdefault(alias.tool_id, []).append(alias)
    entries = []
    for row in rows:
        aliases = pointing.get(row.id, [])
        live = next((each for each in aliases if each.alias == PRODUCTION), None)
        description = row.description
        if description is None and live is not None:
            description = live.description
        counted = counts.get(row.id)
        entries.append(
            ToolEntry(
                row.id,
                row.name,
                description,
                row.created_by,
                row.created_at,
                0 if counted is None else counted._mapping["count"],
                None if counted is None else counted.latest,
                None if live is None else (_object(live.executor) or {}).get("type"),
                {each.alias: each.number for each in aliases},
            )
        )
    return entries


def paged(query: Select[Any], page: int, limit: int) -> Select[Any]:
    check_page(page, limit)
    return query.limit(limit).offset((page - 1) * limit)


def new_id() -> str:
    return str(uuid.uuid4())


def now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
