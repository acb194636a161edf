# SPDX-License-Identifier: Apache-2.0
"""A catalog in a database: the same rules on SQLite and on PostgreSQL."""

from __future__ import annotations

import dataclasses
import os
import sqlite3
import traceback
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from acrux_otel.catalog import (
    AnswerUnreadable,
    CatalogUnreachable,
    Change,
    Definition,
    InvalidTool,
    MovesBack,
    NameTaken,
    NotFound,
    Ref,
    SqlCatalog,
    SyncResult,
)
from acrux_otel.catalog.sql import migrations

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = Definition("get_weather", CITY, "The weather of a city.")


def with_(**changes: Any) -> Definition:
    return dataclasses.replace(WEATHER, **changes)


def numbers(catalog: SqlCatalog, name: str = "get_weather") -> dict[str, int]:
    return dict(catalog.tool(name).aliases)


# -- syncing --------------------------------------------------------------------------------------------


def test_a_first_sync_commits_and_creates_production_and_staging(catalog: SqlCatalog) -> None:
    result = catalog.sync(WEATHER)
    assert (result.version_number, result.committed, result.alias, result.change) == (
        1,
        True,
        "production",
        None,
    )
    assert numbers(catalog) == {"production": 1, "staging": 1}


def test_a_first_sync_to_another_alias_creates_that_one_too(catalog: SqlCatalog) -> None:
    catalog.sync(WEATHER, alias="canary")
    assert numbers(catalog) == {"production": 1, "canary": 1, "staging": 1}


@pytest.mark.parametrize(
    "again",
    [
        WEATHER,
        with_(parameters={"required": ["city"], "properties": CITY["properties"], "type": "object"}),
        with_(description=None),
    ],
    ids=["the same", "keys in another order", "no description"],
)
def test_an_unchanged_sync_commits_nothing(catalog: SqlCatalog, again: Definition) -> None:
    first = catalog.sync(WEATHER)
    result = catalog.sync(again, changelog="not a reason for a version")
    assert (result.version_number, result.committed, result.change) == (1, False, Change.NONE)
    assert (result.tool_id, result.version_id) == (first.tool_id, first.version_id)
    assert catalog.versions(first.tool_id).total == 1


@pytest.mark.parametrize(
    ("changed", "change"),
    [
        (with_(description=""), Change.DESCRIPTION),
        (
            with_(parameters={**CITY, "properties": {"city": {"type": "string", "title": "C"}}}),
            Change.DESCRIPTION,
        ),
        (with_(parameters={**CITY, "required": []}), Change.COMPATIBLE),
        (with_(parameters={**CITY, "properties": {"city": {"type": "integer"}}}), Change.BREAKING),
        (with_(executor={"type": "http", "url": "https://example.com"}), Change.COMPATIBLE),
        (with_(result={"type": "object"}), Change.COMPATIBLE),
        (with_(result={"type": "object"}, severity="error"), Change.COMPATIBLE),
        (with_(annotations={"read_only": True}), Change.COMPATIBLE),
    ],
    ids=["description", "title", "wider", "narrower", "executor", "result", "severity", "annotations"],
)
def test_a_change_of_any_part_makes_a_version_that_says_its_kind(
    catalog: SqlCatalog, changed: Definition, change: Change
) -> None:
    catalog.sync(WEATHER)
    result = catalog.sync(changed)
    assert (result.version_number, result.committed, result.change) == (2, True, change)
    kept = catalog.version(result.tool_id, 2)
    assert (kept.change, kept.definition) == (change, changed)


def test_the_order_of_an_array_counts(catalog: SqlCatalog) -> None:
    catalog.sync(with_(parameters={"type": "object", "properties": {"u": {"enum": ["c", "f"]}}}))
    result = catalog.sync(with_(parameters={"type": "object", "properties": {"u": {"enum": ["f", "c"]}}}))
    assert (result.committed, result.change) == (True, Change.DESCRIPTION)


def test_a_sync_without_a_description_keeps_the_live_one_in_the_new_version(catalog: SqlCatalog) -> None:
    catalog.sync(WEATHER)
    result = catalog.sync(with_(description=None, parameters={"type": "object"}))
    assert catalog.version(result.tool_id, 2).description == WEATHER.description


def test_only_the_named_alias_moves(catalog: SqlCatalog) -> None:
    catalog.sync(WEATHER)
    catalog.sync(with_(description="B"), alias="staging")
    assert numbers(catalog) == {"production": 1, "staging": 2}


def test_a_sync_to_a_new_alias_always_commits(catalog: SqlCatalog) -> None:
    catalog.sync(WEATHER)
    result = catalog.sync(WEATHER, alias="canary")
    assert (result.committed, result.version_number, result.change) == (True, 2, Change.NONE)


def test_going_back_makes_a_new_version(catalog: SqlCatalog) -> None:
    for definition in (WEATHER, with_(description="B"), WEATHER):
        result = catalog.sync(definition)
    assert (result.committed, result.version_number) == (True, 3)


def test_a_version_edited_by_hand_is_named_when_it_is_replaced(catalog: SqlCatalog) -> None:
    first = catalog.sync(WEATHER)
    catalog.commit(first.tool_id, with_(description="by hand"), source="dashboard")
    catalog.promote(first.tool_id, "production", 2)
    result = catalog.sync(with_(description="from code"))
    assert (result.version_number, result.superseded_source) == (3, "dashboard")
    assert catalog.sync(with_(description="from code, again")).superseded_source is None


def test_an_automatic_sync_does_not_move_an_alias_back(catalog: SqlCatalog) -> None:
    """A pod of the old release that restarts during a rolling deployment must not undo the new one."""
    old = catalog.sync(WEATHER)
    catalog.sync(with_(description="B"))
    with pytest.raises(MovesBack, match="acrux-otel catalog promote get_weather:1 production") as caught:
        catalog.sync(WEATHER, automatic=True)
    assert (caught.value.version_number, caught.value.version_id) == (1, old.version_id)
    assert numbers(catalog)["production"] == 2
    assert catalog.versions(old.tool_id).total == 2


@pytest.mark.parametrize("explicit", [True, False])
def test_going_forward_is_allowed_to_an_automatic_sync(catalog: SqlCatalog, explicit: bool) -> None:
    first = catalog.sync(WEATHER)
    catalog.sync(with_(description="B"), automatic=not explicit)
    catalog.promote(first.tool_id, "production", 1)
    assert catalog.sync(with_(description="B"), automatic=True).version_number == 3


def test_a_deleted_name_starts_again_with_another_id(catalog: SqlCatalog) -> None:
    first = catalog.sync(WEATHER)
    catalog.delete(first.tool_id)
    with pytest.raises(NotFound):
        catalog.tool("get_weather")
    with pytest.raises(NotFound):
        catalog.versions(first.tool_id)
    again = catalog.sync(WEATHER)
    assert (again.version_number, again.committed) == (1, True)
    assert again.tool_id != first.tool_id


@pytest.mark.parametrize(
    ("definition", "told"),
    [
        (with_(name="get weather!"), r"refuses ' ', '!'; .*try name='get_weather'"),
        (with_(name="x" * 65), "at most 64 characters, not 65"),
        (with_(name=""), "no empty name"),
        (with_(name="météo"), "refuses 'é'"),
        (with_(description="x" * 2001), "has 2,001 characters; a catalog takes 2,000"),
        (with_(description="a\0b"), "NUL"),
        (with_(parameters={"title": "\ud800"}), "half a surrogate"),
        (with_(parameters={"title": "x" * 200_000}), "a catalog takes 102,400"),
        (with_(parameters={"default": float("nan")}), "not JSON"),
        (with_(severity="loud"), "expected 'warn' or 'error'"),
    ],
)
def test_what_no_catalog_takes_is_refused_in_one_line(
    sqlite_catalog: SqlCatalog, definition: Definition, told: str
) -> None:
    with pytest.raises(InvalidTool, match=told) as caught:
        sqlite_catalog.sync(definition)
    assert "\n" not in str(caught.value)
    assert sqlite_catalog.tools().total == 0


@pytest.mark.parametrize("alias", ["", "x" * 65, "a\nb", " a"])
def test_an_alias_is_1_to_64_printable_characters(sqlite_catalog: SqlCatalog, alias: str) -> None:
    with pytest.raises(InvalidTool, match="1-64 printable"):
        sqlite_catalog.sync(WEATHER, alias=alias)


@pytest.mark.parametrize("alias", ["1", "007", "٣"])
def test_an_alias_that_reads_as_a_version_is_refused(sqlite_catalog: SqlCatalog, alias: str) -> None:
    tool_id = sqlite_catalog.sync(WEATHER).tool_id
    for write in (
        lambda: sqlite_catalog.sync(WEATHER, alias=alias),
        lambda: sqlite_catalog.promote(tool_id, alias, 1),
    ):
        with pytest.raises(InvalidTool, match=f"alias '{alias}' looks like a version"):
            write()
    assert [each.alias for each in sqlite_catalog.aliases(tool_id)] == ["production", "staging"]


# -- looking --------------------------------------------------------------------------------------------


def test_references_resolve_in_their_order_or_not_at_all(catalog: SqlCatalog) -> None:
    catalog.sync(WEATHER)
    catalog.sync(with_(description="B"), alias="staging")
    refs = [Ref("get_weather", "staging"), Ref("get_weather"), Ref("get_weather", version=1)]
    assert [each.version_number for each in catalog.resolve(refs)] == [2, 1, 1]
    missing = [Ref("nope"), Ref("get_weather", "nope"), Ref("get_weather", version=9)]
    with pytest.raises(NotFound) as caught:
        catalog.resolve([Ref("get_weather"), *missing])
    assert list(caught.value.refs) == missing


def test_resolving_gives_a_result_schema_only_where_results_are_checked(catalog: SqlCatalog) -> None:
    """One that was derived from an annotation describes, and fails nobody."""
    catalog.sync(with_(result={"type": "object"}))
    catalog.sync(with_(name="checked", result={"type": "object"}, severity="error"))
    described, checked = catalog.resolve([Ref("get_weather"), Ref("checked")])
    assert described.definition.result is None
    assert (checked.definition.result, checked.definition.severity) == ({"type": "object"}, "error")


def test_tools_are_searched_by_a_part_of_their_name_and_paged_newest_first(catalog: SqlCatalog) -> None:
    for name in ("a_one", "B_two", "a%_three", "b_four"):
        if name.isidentifier():
            catalog.sync(with_(name=name))
    assert [each.name for each in catalog.tools()] == ["b_four", "B_two", "a_one"]
    assert [each.name for each in catalog.tools("B_")] == ["b_four", "B_two"]
    assert [each.name for each in catalog.tools("%")] == []
    page = catalog.tools(page=2, limit=2)
    assert ([each.name for each in page], page.total) == (["a_one"], 3)


@pytest.mark.parametrize(
    ("page", "limit", "told"),
    [
        (0, 20, "page is 0; expected a whole number from 1 to 1,000,000"),
        (10**30, 20, "page is"),
        (1, 101, "limit"),
    ],
)
def test_a_page_that_there_cannot_be_is_refused(
    sqlite_catalog: SqlCatalog, page: int, limit: int, told: str
) -> None:
    tool_id = sqlite_catalog.sync(WEATHER).tool_id
    for ask in (
        lambda: sqlite_catalog.tools(None, page, limit),
        lambda: sqlite_catalog.versions(tool_id, page, limit),
        lambda: sqlite_catalog.history(tool_id, page, limit),
    ):
        with pytest.raises(ValueError, match=told):
            ask()


def test_a_history_says_who_did_what_when(catalog: SqlCatalog) -> None:
    first = catalog.sync(WEATHER, changelog="first")
    catalog.sync(with_(parameters={"type": "object"}), by="grace")
    catalog.promote(first.tool_id, "production", 1, by="linus")
    told = [
        (each.action, each.by, each.version, each.previous, each.alias, each.change, each.changelog)
        for each in catalog.history(first.tool_id)
    ]
    assert told == [
        ("promote", "linus", 1, 2, "production", None, None),
        ("commit", "grace", 2, 1, "production", Change.BREAKING, None),
        ("commit", "ada", 1, None, "production", None, "first"),
    ]
    times = [each.at for each in catalog.history(first.tool_id)]
    assert times == sorted(times, reverse=True)
    assert all(each.endswith("Z") for each in times)


# -- changing by hand -----------------------------------------------------------------------------------


def test_promoting_moves_or_makes_an_alias(catalog: SqlCatalog) -> None:
    first = catalog.sync(WEATHER)
    catalog.sync(with_(description="B"))
    moved = catalog.promote(first.tool_id, "production", 1)
    made = catalog.promote(first.tool_id, "canary/1", 2)
    assert (moved.version_number, moved.version_id, made.version_number) == (1, first.version_id, 2)
    assert numbers(catalog) == {"production": 1, "canary/1": 2, "staging": 1}
    with pytest.raises(NotFound, match="has no version 3"):
        catalog.promote(first.tool_id, "production", 3)


def test_a_tool_made_by_hand_has_no_version_until_one_is_committed(catalog: SqlCatalog) -> None:
    tool = catalog.create("shell", "by hand")
    assert (tool.version_count, tool.latest_version, dict(tool.aliases)) == (0, None, {})
    with pytest.raises(NotFound):
        catalog.resolve([Ref("shell")])
    version, aliases = catalog.commit(tool.id, WEATHER)
    assert (version.number, version.source, [each.alias for each in aliases]) == (
        1,
        "api",
        ["production", "staging"],
    )
    assert catalog.commit(tool.id, with_(description="B"))[1] == []
    assert numbers(catalog, "shell") == {"production": 1, "staging": 1}
    with pytest.raises(NameTaken):
        catalog.create("shell")


def test_a_tool_is_renamed_and_described(catalog: SqlCatalog) -> None:
    catalog.sync(with_(name="taken"))
    first = catalog.sync(WEATHER)
    assert catalog.change(first.tool_id, description="shown").description == "shown"
    assert catalog.change(first.tool_id, name="forecast").name == "forecast"
    assert catalog.change(first.tool_id, description=None).description == WEATHER.description
    with pytest.raises(NameTaken):
        catalog.change(first.tool_id, name="taken")
    assert catalog.resolve([Ref("forecast")])[0].tool_id == first.tool_id


# -- the database ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement", ["UPDATE acrux_tool_versions SET description = 'x'", "DELETE FROM acrux_tool_versions"]
)
def test_a_version_never_changes_not_even_by_sql(catalog: SqlCatalog, statement: str) -> None:
    catalog.sync(WEATHER)
    engine = sa.create_engine(catalog.database._url)
    with (
        pytest.raises(sa.exc.DBAPIError, match="a version of a tool never changes"),
        engine.begin() as connection,
    ):
        connection.exec_driver_sql(statement)
    engine.dispose()


def test_an_older_database_is_migrated_by_itself(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as older:
        older.setattr(migrations, "STEPS", {name: steps[:1] for name, steps in migrations.STEPS.items()})
        before = SqlCatalog(database_url)
        result: SyncResult = before.sync(WEATHER)
        before.close()
    after = SqlCatalog(database_url)
    assert after.resolve([Ref("get_weather")])[0].version_id == result.version_id
    with after.database.read() as connection:
        assert sa.inspect(connection).has_table("acrux_catalog_keys")
    after.close()


def test_a_newer_database_is_refused_in_one_line(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    SqlCatalog(database_url).sync(WEATHER)
    monkeypatch.setattr(migrations, "STEPS", {name: steps[:1] for name, steps in migrations.STEPS.items()})
    with pytest.raises(CatalogUnreachable, match=r"schema 2, this one knows 1.*upgrade acrux-otel"):
        SqlCatalog(database_url).tools()


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("sqlite://", "keeps nothing; name a file"),
        ("mysql://root@localhost/x", "names 'mysql'; expected sqlite or postgresql"),
        ("not a url", "cannot be read"),
        ("sqlite://folder/file.db", "needs three slashes"),
        ("sqlite:///file.db?timeout=1", "has a query"),
        ("sqlite+aiosqlite:///file.db", "names the driver 'aiosqlite'; leave it out: sqlite://…"),
        (
            "postgresql+asyncpg://ada:geheim@host/x",
            "names the driver 'asyncpg'; leave it out: postgresql://…",
        ),
        ("postgresql://ada:geheim@host:port/x", "cannot be read"),
        ("postgresql://ada:ge@heim@host/x", "an @ in its user or password; write it as %40"),
    ],
)
def test_a_url_that_cannot_be_a_catalog_is_refused_without_its_password(url: str, told: str) -> None:
    with pytest.raises(ValueError, match=told) as caught:
        SqlCatalog(url)
    assert "heim" not in str(caught.value)


def test_a_file_that_is_no_database_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_text("hello, I am a text file, and long enough to have a header" * 20)
    with pytest.raises(CatalogUnreachable, match="not a database") as caught:
        SqlCatalog(f"sqlite:///{tmp_path}/x.db").tools()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "written",
    ["parameters = '{'", "parameters = '[1]'", "annotations = 'null'", "executor = x'ff'", "result = '7'"],
)
def test_a_version_that_others_wrote_into_is_one_clear_error(
    sqlite_catalog: SqlCatalog, tmp_path: Path, written: str
) -> None:
    """The tool is named, and the others are listed and synced as ever."""
    first = sqlite_catalog.sync(WEATHER)
    sqlite_catalog.sync(with_(name="other"))
    with sqlite3.connect(tmp_path / "catalog.db") as raw:
        raw.execute("DROP TRIGGER acrux_tool_versions_UPDATE")
        raw.execute(
            f"UPDATE acrux_tool_versions SET {written}, change = 'odd' WHERE id = '{first.version_id}'"
        )
    for ask in (
        lambda: sqlite_catalog.sync(WEATHER),
        lambda: sqlite_catalog.resolve([Ref("get_weather")]),
        lambda: sqlite_catalog.version(first.tool_id, 1),
    ):
        with pytest.raises(
            AnswerUnreadable, match=r"tool 'get_weather': version 1 cannot be read .*changed it"
        ):
            ask()
    assert [each.name for each in sqlite_catalog.tools()] == ["other", "get_weather"]
    assert [each.change for each in sqlite_catalog.versions(first.tool_id)] == [None]
    assert [each.change for each in sqlite_catalog.history(first.tool_id)] == [None]
    assert not sqlite_catalog.sync(with_(name="other")).committed


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ada:geheim@127.0.0.1:9/x",
        "postgres://ada@127.0.0.1:9/x?password=geheim",
        "postgresql+psycopg://ada@127.0.0.1:9/x?password=geheim&no_such_option=1",
    ],
)
def test_a_server_that_is_down_is_one_clear_error_without_the_password(url: str) -> None:
    catalog = SqlCatalog(url)
    with pytest.raises(CatalogUnreachable) as caught:
        catalog.tools()
    assert "geheim" not in f"{caught.value}{catalog.label}"
    assert "\n" not in str(caught.value)


def test_a_statement_that_fails_does_not_show_its_parameters(
    sqlite_catalog: SqlCatalog, tmp_path: Path
) -> None:
    sqlite_catalog.sync(WEATHER)
    with sqlite3.connect(tmp_path / "catalog.db") as raw:
        raw.execute("DROP TABLE acrux_tool_events")
    changed = with_(description="very private")
    with pytest.raises(CatalogUnreachable) as caught:
        sqlite_catalog.sync(changed)
    assert "very private" not in "".join(traceback.format_exception(caught.value))
    assert sqlite_catalog.resolve([Ref("get_weather")])[0].version_number == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_uses_connections_of_its_own(catalog: SqlCatalog) -> None:
    first = catalog.sync(WEATHER)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if catalog.sync(with_(description="child")).version_number == 2 else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert catalog.sync(WEATHER).version_number == 3
    assert catalog.versions(first.tool_id).total == 3
