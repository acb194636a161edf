# SPDX-License-Identifier: Apache-2.0
"""A catalog in a database: the embedded default, and what the catalog server serves."""

from __future__ import annotations

import dataclasses
import getpass
from collections.abc import Collection, Sequence
from typing import Any, Final

from sqlalchemy import Connection, Row, and_, func, select, update
from sqlalchemy.engine import URL

from acrux_otel.catalog.checks import REFS_LIMIT, check_alias, check_definition, check_name, check_text
from acrux_otel.catalog.errors import InvalidTool, MovesBack, NameTaken, NotFound
from acrux_otel.catalog.model import (
    FIRST_ALIASES,
    PRODUCTION,
    Alias,
    Definition,
    Event,
    Page,
    Ref,
    Resolved,
    SyncResult,
    ToolEntry,
    Version,
)
from acrux_otel.catalog.sql.database import Database
from acrux_otel.catalog.sql.rows import (
    IS_LIVE,
    NEW_TOOL,
    add_aliases,
    add_event,
    add_version,
    alias_of_row,
    aliases_of,
    completed,
    definition_of_row,
    event_of_row,
    find_tool,
    latest_version,
    live_version,
    name_of_tool,
    new_id,
    now,
    numbered_version,
    paged,
    point_alias,
    referenced_version,
    resolved_row,
    tool_entries,
    tool_entry,
    unchanged_result,
    version_of_row,
)
from acrux_otel.catalog.sql.tables import ALIASES, EVENTS, TOOLS, VERSIONS

__all__ = ["SqlCatalog"]

_UNSAID: Final[Any] = object()
_SOURCES: Final = ("code", "dashboard", "api")


class SqlCatalog:
    """A catalog in SQLite (a file) or PostgreSQL.

    Safe across threads, processes and forks: ten processes that sync one name at once make one version.

    Args:
        url: a SQLAlchemy URL.
        by: who is named in the history; the user of this process by default.

    Raises:
        ValueError: a URL that cannot be used.
    """

    whole = True

    def __init__(self, url: str | URL, *, by: str | None = None) -> None:
        self.database = Database(url)
        self.label = self.database.label
        self._by = by or _user()

    # -- what syncing needs ---------------------------------------------------------------------------

    def sync(
        self,
        definition: Definition,
        *,
        alias: str = PRODUCTION,
        changelog: str | None = None,
        automatic: bool = False,
        source: str = "code",
        keep: Collection[str] = (),
        by: str | None = None,
    ) -> SyncResult:
        """Make ``alias`` point at this definition; a new version only where it differs from the live one.

        Args:
            definition: without a description the live one is kept.
            alias: the only one that moves; a tool's first version gets production and staging too.
            changelog: what changed, for people.
            automatic: refuse to go back to what an older version already had.
            source: ``code``, ``dashboard`` or ``api``.
            keep: parts to take from the live version, ``result`` or ``annotations``.
            by: who does it.

        Raises:
            InvalidTool: a definition or alias that cannot be kept.
            MovesBack: see ``automatic``.
            CatalogUnreachable: the database does not answer.
        """
        check_definition(definition, changelog)
        check_alias(alias)
        _check_source(source)
        with self.database.read() as connection:
            live = live_version(connection, definition.name, alias)
        if live is not None:
            result = unchanged_result(definition, live, alias, keep)
            if result is not None:
                return result
        with self.database.write() as connection:
            return self._commit_synced(
                connection, definition, alias, changelog, automatic, source, keep, by or self._by
            )

    def _commit_synced(
        self,
        connection: Connection,
        definition: Definition,
        alias: str,
        changelog: str | None,
        automatic: bool,
        source: str,
        keep: Collection[str],
        by: str,
    ) -> SyncResult:
        tool_id, is_new = self._claim(connection, definition.name, by)
        live = latest = None
        if not is_new:
            live = live_version(connection, definition.name, alias)
            latest = latest_version(connection, tool_id)
        if live is not None:
            unchanged = unchanged_result(definition, live, alias, keep)  # another process was faster
            if unchanged is not None:
                return unchanged
        base = live
        if base is None and latest is not None:
            base = live_version(connection, definition.name, PRODUCTION) or latest
        before = None if base is None else definition_of_row(base, definition.name)
        made = definition if before is None else completed(definition, before, keep)
        if automatic and live is not None:
            _refuse_to_move_back(connection, made, live, alias)
        number = 1 if latest is None else latest.number + 1
        version = add_version(connection, tool_id, number, made, before, source, changelog, by)
        if number == 1:
            add_aliases(connection, tool_id, {alias, *FIRST_ALIASES}, version.id)
        else:
            point_alias(connection, tool_id, alias, version.id)
        previous = None if live is None else live.number
        add_event(connection, tool_id, by, "commit", version=number, alias=alias, previous=previous)
        return SyncResult(
            definition.name,
            tool_id,
            number,
            True,
            alias,
            "dashboard" if live is not None and live.source == "dashboard" else None,
            version.id,
            version.change,
        )

    def resolve(self, refs: Sequence[Ref]) -> list[Resolved]:
        """What references point at, in their order.

        Raises:
            NotFound: some point at nothing; it names them all.
        """
        if len(refs) > REFS_LIMIT:
            raise InvalidTool(f"{len(refs)} references were asked for; expected at most {REFS_LIMIT}")
        with self.database.read() as connection:
            rows = [referenced_version(connection, ref) for ref in refs]
        missing = [ref for ref, row in zip(refs, rows, strict=True) if row is None]
        if missing:
            raise NotFound(
                f"the catalog has no {', '.join(map(str, missing))}", missing, code="TOOL_REF_NOT_FOUND"
            )
        return [resolved_row(row, ref.name) for ref, row in zip(refs, rows, strict=True) if row is not None]

    def close(self) -> None:
        """Give the connections back."""
        self.database.close()

    # -- what people ask ------------------------------------------------------------------------------

    def tools(self, search: str | None = None, page: int = 1, limit: int = 20) -> Page[ToolEntry]:
        """The tools whose name contains ``search``, newest first."""
        wanted = (
            IS_LIVE
            if not search
            else and_(IS_LIVE, func.lower(TOOLS.c.name).contains(search.lower(), autoescape=True))
        )
        query = select(TOOLS).where(wanted).order_by(TOOLS.c.created_at.desc(), TOOLS.c.id)
        with self.database.read() as connection:
            total = connection.scalar(select(func.count()).select_from(TOOLS).where(wanted)) or 0
            rows = connection.execute(paged(query, page, limit)).all()
            entries = tool_entries(connection, rows)
        return Page(entries, total, page, limit)

    def tool(self, name: str) -> ToolEntry:
        """One tool by its name.

        Raises:
            NotFound: there is none.
        """
        with self.database.read() as connection:
            return tool_entry(connection, TOOLS.c.name == name, name)

    def tool_by_id(self, tool_id: str) -> ToolEntry:
        """One tool by its id.

        Raises:
            NotFound: there is none.
        """
        with self.database.read() as connection:
            return tool_entry(connection, TOOLS.c.id == tool_id, tool_id)

    def versions(self, tool_id: str, page: int = 1, limit: int = 20) -> Page[Version]:
        """A tool's versions without their definitions, newest first.

        Raises:
            NotFound: there is no such tool.
        """
        query = select(VERSIONS).where(VERSIONS.c.tool_id == tool_id).order_by(VERSIONS.c.number.desc())
        with self.database.read() as connection:
            name_of_tool(connection, tool_id)
            total = connection.scalar(
                select(func.count()).select_from(VERSIONS).where(VERSIONS.c.tool_id == tool_id)
            )
            rows = connection.execute(paged(query, page, limit)).all()
        return Page([version_of_row(row) for row in rows], total or 0, page, limit)

    def version(self, tool_id: str, number: int) -> Version:
        """One version with its definition.

        Raises:
            NotFound: there is no such tool or version.
        """
        with self.database.read() as connection:
            name = name_of_tool(connection, tool_id)
            row = numbered_version(connection, tool_id, name, number)
        return dataclasses.replace(version_of_row(row), definition=definition_of_row(row, name))

    def aliases(self, tool_id: str) -> list[Alias]:
        """Where a tool's aliases point, production first.

        Raises:
            NotFound: there is no such tool.
        """
        with self.database.read() as connection:
            name_of_tool(connection, tool_id)
            return [alias_of_row(row) for row in connection.execute(aliases_of([tool_id])).all()]

    def history(self, tool_id: str, page: int = 1, limit: int = 50) -> Page[Event]:
        """What happened to a tool, newest first.

        Raises:
            NotFound: there is no such tool.
        """
        of_tool = EVENTS.c.tool_id == tool_id
        same = and_(VERSIONS.c.tool_id == EVENTS.c.tool_id, VERSIONS.c.number == EVENTS.c.version)
        query = (
            select(EVENTS, VERSIONS.c.source, VERSIONS.c.change, VERSIONS.c.changelog)
            .select_from(EVENTS.outerjoin(VERSIONS, and_(same, EVENTS.c.action == "commit")))
            .where(of_tool)
            .order_by(EVENTS.c.id.desc())
        )
        with self.database.read() as connection:
            name_of_tool(connection, tool_id)
            total = connection.scalar(select(func.count()).select_from(EVENTS).where(of_tool)) or 0
            rows = connection.execute(paged(query, page, limit)).all()
        return Page([event_of_row(row) for row in rows], total, page, limit)

    # -- what people change ---------------------------------------------------------------------------

    def promote(self, tool_id: str, alias: str, number: int, *, by: str | None = None) -> Alias:
        """Make an alias, new or not, point at a version.

        Raises:
            NotFound: there is no such tool or version.
            InvalidTool: an alias that cannot be used.
        """
        check_alias(alias)
        with self.database.write() as connection:
            name = name_of_tool(connection, tool_id, lock=True)
            row = numbered_version(connection, tool_id, name, number)
            previous = live_version(connection, name, alias)
            point_alias(connection, tool_id, alias, row.id)
            add_event(
                connection,
                tool_id,
                by or self._by,
                "promote",
                version=number,
                alias=alias,
                previous=None if previous is None else previous.number,
            )
            moved = connection.execute(aliases_of([tool_id]).where(ALIASES.c.alias == alias)).one()
        return alias_of_row(moved)

    def create(self, name: str, description: str | None = None, *, by: str | None = None) -> ToolEntry:
        """A tool that has no version yet.

        Raises:
            NameTaken: there is one of that name.
            InvalidTool: a name or text that cannot be used.
        """
        check_name(name)
        check_text(description, "the description")
        with self.database.write() as connection:
            tool_id, is_new = self._claim(connection, name, by or self._by)
            if not is_new:
                raise NameTaken(f"there is a tool {name!r} already")
            connection.execute(update(TOOLS).where(TOOLS.c.id == tool_id).values(description=description))
            return tool_entry(connection, TOOLS.c.id == tool_id, tool_id)

    def change(
        self,
        tool_id: str,
        *,
        name: str | None = None,
        description: Any = _UNSAID,
        by: str | None = None,
    ) -> ToolEntry:
        """Rename a tool, or give it a text of its own (None: that of its production version).

        Raises:
            NotFound: there is no such tool.
            NameTaken: there is another of that name.
            InvalidTool: a name or text that cannot be used.
        """
        values: dict[str, Any] = {}
        if name is not None:
            values["name"] = check_name(name)
        if description is not _UNSAID:
            check_text(description, "the description")
            values["description"] = description
        with self.database.write() as connection:
            old = name_of_tool(connection, tool_id, lock=True)
            if name is not None and name != old:
                if find_tool(connection, name) is not None:
                    raise NameTaken(f"there is a tool {name!r} already")
                add_event(connection, tool_id, by or self._by, "rename")
            if values:
                connection.execute(update(TOOLS).where(TOOLS.c.id == tool_id).values(**values))
            return tool_entry(connection, TOOLS.c.id == tool_id, tool_id)

    def delete(self, tool_id: str, *, by: str | None = None) -> None:
        """Take a tool out of the catalog; its versions stay in the database, its name is free again.

        Raises:
            NotFound: there is no such tool.
        """
        with self.database.write() as connection:
            name_of_tool(connection, tool_id, lock=True)
            add_event(connection, tool_id, by or self._by, "delete")
            connection.execute(update(TOOLS).where(TOOLS.c.id == tool_id).values(deleted_at=now()))

    def commit(
        self,
        tool_id: str,
        definition: Definition,
        *,
        changelog: str | None = None,
        source: str = "api",
        by: str | None = None,
    ) -> tuple[Version, list[Alias]]:
        """Add a version by hand; only a first one moves aliases, which are returned with it.

        Raises:
            NotFound: there is no such tool.
            InvalidTool: a definition that cannot be kept.
        """
        _check_source(source)
        with self.database.write() as connection:
            name = name_of_tool(connection, tool_id, lock=True)
            definition = dataclasses.replace(definition, name=name)
            check_definition(definition, changelog)
            base = latest_version(connection, tool_id)
            before = None if base is None else definition_of_row(base, name)
            number = 1 if base is None else base.number + 1
            version = add_version(
                connection, tool_id, number, definition, before, source, changelog, by or self._by
            )
            aliases = []
            if number == 1:
                add_aliases(connection, tool_id, FIRST_ALIASES, version.id)
                aliases = [alias_of_row(row) for row in connection.execute(aliases_of([tool_id])).all()]
            add_event(connection, tool_id, by or self._by, "commit", version=version.number)
        return dataclasses.replace(version, definition=definition), aliases

    def _claim(self, connection: Connection, name: str, by: str) -> tuple[str, bool]:
        """The id of the tool of that name, and whether it is new; nobody else writes the tool meanwhile."""
        while True:
            found = find_tool(connection, name, lock=True)
            if found is not None:
                return found, False
            made = {"id": new_id(), "name": name, "created_by": by, "created_at": now()}
            added = connection.execute(NEW_TOOL[self.database.dialect], made)
            if not added.returns_rows or added.first() is not None:
                return made["id"], True


def _refuse_to_move_back(connection: Connection, made: Definition, live: Row[Any], alias: str) -> None:
    query = select(VERSIONS.c.id, VERSIONS.c.number).where(
        VERSIONS.c.tool_id == live.tool_id,
        VERSIONS.c.fingerprint == made.fingerprint,
        VERSIONS.c.number < live.number,
    )
    older = connection.execute(query.order_by(VERSIONS.c.number.desc()).limit(1)).one_or_none()
    if older is not None:
        raise MovesBack(
            f"tool {made.name!r}: version {older.number} had this definition already and {alias!r} has moved "
            f"on to {live.number}; an automatic sync does not move it back; if you want that, run: "
            f"acrux-otel catalog promote {made.name}:{older.number} {alias}",
            live.tool_id,
            older.number,
            older.id,
        )


def _check_source(source: str) -> None:
    if source not in _SOURCES:
        raise InvalidTool(f"the source {source!r:.80} is unknown; expected {', '.join(_SOURCES)}")


def _user() -> str:
    try:
        return getpass.getuser()
    except Exception:  # a container may have no name for its user
        return "unknown"
