# SPDX-License-Identifier: Apache-2.0
"""`sync()`: decorated tools into a catalog, when somebody says so."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import acrux_otel as acrux
from acrux_otel.catalog import (
    Catalog,
    CatalogError,
    CatalogUnreachable,
    Change,
    DashboardSuperseded,
    Definition,
    InvalidTool,
    NotATool,
    NotFound,
    Ref,
    Resolved,
    SqlCatalog,
    SyncResult,
    open_catalog,
)
from acrux_otel.settings import settings

from .conftest import Served, Stub


@acrux.tool(changelog="first")
def get_weather(city: str, days: int = 1) -> dict[str, Any]:
    """The weather of a city."""
    return {}


@acrux.tool(alias="staging", annotations=acrux.ToolAnnotations(read_only=True))
def get_time(zone: str) -> str:
    return ""


@acrux.tool(sync=False)
def followed(x: int) -> Any:
    return x


class Desk:
    @acrux.tool
    def lookup(self, name: str) -> str:
        return name

    @acrux.tool
    @staticmethod
    def count(of: list[str]) -> int:
        return len(of)


def plain() -> None: ...


def version_of(tool: Any) -> str | None:
    found: str | None = tool.__acrux_tool__.site.version_id
    return found


@pytest.fixture(autouse=True)
def _unstamped() -> Any:
    yield
    for tool in (get_weather, get_time, followed, Desk.lookup, Desk.count):
        site = tool.__acrux_tool__.site  # type: ignore[attr-defined]
        site.version_id, site.enforced, site.severity = None, None, "warn"


# -- what it does ---------------------------------------------------------------------------------------


def test_each_tool_is_written_once_in_the_order_given(sqlite_catalog: SqlCatalog) -> None:
    tools = [get_weather, get_time, Desk.lookup, Desk().lookup, Desk.count, get_weather]
    results = acrux.sync(tools, catalog=sqlite_catalog)
    assert [each.name for each in results] == ["get_weather", "get_time", "lookup", "count"]
    assert all(each.committed and each.version_number == 1 for each in results)
    again = acrux.sync(tools, catalog=sqlite_catalog)
    assert [(each.committed, each.change) for each in again] == [(False, Change.NONE)] * 4


def test_what_is_kept_is_what_the_model_sees(sqlite_catalog: SqlCatalog) -> None:
    result = acrux.sync(get_weather, catalog=sqlite_catalog)[0]
    kept = sqlite_catalog.version(result.tool_id, 1)
    definition = acrux.definition_of(get_weather)
    assert kept.definition == Definition(
        "get_weather",
        definition.parameters,
        "The weather of a city.",
        {"type": "client"},
        definition.result,
    )
    assert (kept.source, kept.changelog) == ("code", "first")
    lookup = acrux.sync(Desk.lookup, catalog=sqlite_catalog)[0]
    parameters = sqlite_catalog.version(lookup.tool_id, 1).definition
    assert parameters is not None and list(parameters.parameters["properties"]) == ["name"]


def test_a_given_schema_is_sent_with_its_required_sorted(sqlite_catalog: SqlCatalog) -> None:
    """Somebody who lists parameters in another order has not changed the contract."""

    def tool_with(required: list[str]) -> Any:
        inner = {"type": "object", "properties": {"b": {}, "a": {}}, "required": required}
        schema = {"type": "object", "properties": {"x": inner, "y": {}}, "required": ["y", "x"]}

        def given(**arguments: Any) -> None: ...

        return acrux.tool(name="given", parameters=schema)(given)

    assert acrux.sync(tool_with(["b", "a"]), catalog=sqlite_catalog)[0].committed
    assert not acrux.sync(tool_with(["a", "b"]), catalog=sqlite_catalog)[0].committed


def test_a_tools_spans_name_the_version_from_then_on(sqlite_catalog: SqlCatalog, exported: Any) -> None:
    get_weather("Pune")
    result = acrux.sync(get_weather, catalog=sqlite_catalog)[0]
    get_weather("Pune")
    assert [each.attributes.get("toolVersionId") for each in exported.tools()] == [None, result.version_id]


def test_alias_and_changelog_of_the_call_win_over_the_tools_own(sqlite_catalog: SqlCatalog) -> None:
    acrux.sync([get_weather, get_time], catalog=sqlite_catalog)
    results = acrux.sync([get_weather, get_time], catalog=sqlite_catalog, alias="canary", changelog="tried")
    assert [each.alias for each in results] == ["canary", "canary"]
    assert [sqlite_catalog.version(each.tool_id, 2).changelog for each in results] == ["tried", "tried"]
    assert acrux.sync(get_time, catalog=sqlite_catalog)[0].alias == "staging"


def test_a_tool_that_is_only_followed_writes_nothing_and_checks_results(
    sqlite_catalog: SqlCatalog, exported: Any
) -> None:
    """`@tool(sync=False)`: the catalog's version, its result schema and severity are applied."""
    schema = {
        "type": "object",
        "required": ["answer"],
        "properties": {"n": {"type": "integer", "nullable": True}},
    }
    first = sqlite_catalog.sync(Definition("followed", {"type": "object"}, result=schema, severity="error"))
    result = acrux.sync(followed, catalog=sqlite_catalog)[0]
    assert (result.committed, result.version_id) == (False, first.version_id)
    assert sqlite_catalog.versions(first.tool_id).total == 1
    followed({"answer": 1, "n": None})
    followed({})
    good, bad = exported.tools()
    assert (good.outcome, good.attributes["toolVersionId"]) == ("ok", first.version_id)
    assert (bad.outcome, bad.status) == ("error", "ERROR")
    assert (bad.attributes["errorType"], bad.attributes["errorCode"]) == ("schema_mismatch", "invalid_result")


def test_a_result_schema_that_only_describes_fails_nobody(sqlite_catalog: SqlCatalog, exported: Any) -> None:
    sqlite_catalog.sync(Definition("followed", {"type": "object"}, result={"type": "string"}))
    acrux.sync(followed, catalog=sqlite_catalog)
    followed(7)
    assert exported.only.outcome == "ok"


def test_a_result_schema_that_is_none_checks_nothing_and_warns(
    sqlite_catalog: SqlCatalog, exported: Any, caplog: pytest.LogCaptureFixture
) -> None:
    broken = Definition("followed", {"type": "object"}, result={"type": "strange"}, severity="error")
    sqlite_catalog.sync(broken)
    acrux.sync(followed, catalog=sqlite_catalog)
    followed(7)
    assert exported.only.outcome == "ok"
    assert "result schema of tool 'followed' cannot be used" in caplog.text


def test_following_a_tool_that_is_not_there_is_an_error(sqlite_catalog: SqlCatalog) -> None:
    with pytest.raises(NotFound, match="no followed@production"):
        acrux.sync(followed, catalog=sqlite_catalog)


async def test_async_sync_leaves_the_loop_free(sqlite_catalog: SqlCatalog) -> None:
    thread = threading.get_ident()

    class Slow:
        label, whole = "slow", True

        def __init__(self) -> None:
            self.threads: set[int] = set()

        def sync(self, definition: Definition, **options: Any) -> SyncResult:
            self.threads.add(threading.get_ident())
            return sqlite_catalog.sync(definition, **options)

        def resolve(self, refs: Sequence[Ref]) -> list[Resolved]:
            return sqlite_catalog.resolve(refs)

        def close(self) -> None: ...

    slow = Slow()
    assert isinstance(slow, Catalog)
    results = await asyncio.gather(
        acrux.async_sync([get_weather], catalog=slow), acrux.async_sync([get_time], catalog=slow)
    )
    assert [[each.name for each in some] for some in results] == [["get_weather"], ["get_time"]]
    assert thread not in slow.threads
    with pytest.raises(NotATool):
        await acrux.async_sync([plain], catalog=slow)


def test_the_catalog_on_a_server_is_the_same(served_sqlite: Served) -> None:
    results = acrux.sync([get_weather, get_time], catalog=served_sqlite.client())
    assert [each.change for each in results] == [None, None]
    directly = acrux.sync([get_weather, get_time], catalog=served_sqlite.catalog)
    assert [(each.committed, each.version_id) for each in directly] == [
        (False, each.version_id) for each in results
    ]


# -- which catalog --------------------------------------------------------------------------------------


def test_the_embedded_file_is_the_default(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It says which catalog it used."""
    with caplog.at_level(logging.INFO, "acrux_otel"):
        acrux.sync(get_weather)
    path = tmp_path / "home" / "acrux.db"
    assert path.is_file()
    assert f"catalog sqlite:///{path}: 1 tools, 1 new versions" in caplog.text


def test_without_a_home_the_embedded_file_is_in_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ACRUX_OTEL_HOME")
    monkeypatch.chdir(tmp_path)
    acrux.sync(get_weather)
    assert (tmp_path / ".acrux" / "acrux.db").is_file()


def test_argument_then_configure_then_the_variable_then_acruxcore(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACRUXCORE_BASE_URL", "http://127.0.0.1:7/api/v1/")
    monkeypatch.setenv("ACRUXCORE_API_KEY", "acx_sk_x")
    assert open_catalog().label == "http://127.0.0.1:7/api/v1"
    assert not open_catalog("http://127.0.0.1:7/api/v1").whole
    assert open_catalog("http://127.0.0.1:8/api/v1").whole
    monkeypatch.setenv("ACRUX_OTEL_CATALOG", f"sqlite:///{tmp_path}/variable.db")
    assert open_catalog().label.endswith("variable.db")
    settings.catalog = f"sqlite:///{tmp_path}/configured.db"
    assert open_catalog().label.endswith("configured.db")
    assert open_catalog(f"sqlite:///{tmp_path}/argument.db").label.endswith("argument.db")


@pytest.mark.parametrize(
    ("named", "told"),
    [
        ("nonsense", "catalog is 'nonsense'; expected 'acruxcore', a database .* or a server"),
        ("postgresql:/ada:geheim@host/x", r"catalog cannot be read \(it is not shown\); expected"),
        ("acruxcore", "set ACRUXCORE_BASE_URL"),
        ("mysql://x/y", "expected sqlite or postgresql"),
        (7, "a int; expected"),
        ("https://host/api/v1", "set ACRUX_OTEL_CATALOG_KEY"),
    ],
)
def test_a_name_of_no_catalog_is_one_clear_error(named: Any, told: str) -> None:
    with pytest.raises(ValueError, match=told) as caught:
        acrux.sync(get_weather, catalog=named)
    assert "geheim" not in str(caught.value)


# -- bad input ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [plain, print, 7, None, "get_weather", acrux.tool])
def test_what_is_not_decorated_is_named_before_anything_is_sent(
    sqlite_catalog: SqlCatalog, wrong: Any
) -> None:
    with pytest.raises(NotATool, match=r"is not a tool; decorate it with @acrux.tool"):
        acrux.sync([get_weather, wrong], catalog=sqlite_catalog)
    assert sqlite_catalog.tools().total == 0


def test_two_tools_of_one_name_from_two_places_are_refused(sqlite_catalog: SqlCatalog) -> None:
    @acrux.tool(name="get_weather")
    def other() -> None: ...

    with pytest.raises(InvalidTool, match=r"two tools are named 'get_weather': .*get_weather and .*other"):
        acrux.sync([get_weather, other], catalog=sqlite_catalog)
    assert sqlite_catalog.tools().total == 0


def test_a_name_that_the_catalog_refuses_is_found_before_anything_is_sent(
    sqlite_catalog: SqlCatalog,
) -> None:
    @acrux.tool(name="météo du jour")
    def weather() -> None: ...

    with pytest.raises(InvalidTool, match=r"refuses ' ', 'é'.*try name='m_t_o_du_jour'"):
        acrux.sync([get_weather, weather], catalog=sqlite_catalog)
    assert sqlite_catalog.tools().total == 0


def test_on_conflict_is_warn_or_error(sqlite_catalog: SqlCatalog) -> None:
    with pytest.raises(ValueError, match="expected 'warn' or 'error'"):
        acrux.sync(get_weather, catalog=sqlite_catalog, on_conflict="ignore")


@pytest.mark.parametrize("on_conflict", ["warn", "error"])
def test_replacing_an_edit_by_hand_warns_or_raises(
    sqlite_catalog: SqlCatalog, caplog: pytest.LogCaptureFixture, on_conflict: str
) -> None:
    first = acrux.sync(get_weather, catalog=sqlite_catalog)[0]
    sqlite_catalog.commit(first.tool_id, Definition("x", {}), source="dashboard")
    sqlite_catalog.promote(first.tool_id, "production", 2)
    told = "tool 'get_weather': version 3 from code is now 'production' and replaces one that was edited"
    if on_conflict == "warn":
        acrux.sync([get_weather, get_time], catalog=sqlite_catalog)
        assert told in caplog.text
        return
    with pytest.raises(DashboardSuperseded, match=told) as caught:
        acrux.sync([get_time, get_weather, Desk.count], catalog=sqlite_catalog, on_conflict="error")
    assert [each.name for each in caught.value.synced] == ["get_time", "get_weather"]


def test_a_failure_leaves_earlier_tools_committed_and_reports_them(stub: Stub) -> None:
    stub.answer(200, {"toolId": "t", "versionNumber": 1, "committed": True, "alias": "production"})
    stub.answer(422, {"error": {"code": "X", "message": "no"}})
    from acrux_otel.catalog import AcruxCoreCatalog

    with pytest.raises(CatalogError, match=r"answered 422 \(tool 'get_time'\): no") as caught:
        acrux.sync([get_weather, get_time, Desk.count], catalog=AcruxCoreCatalog(stub.url, "k"))
    assert [each.name for each in caught.value.synced] == ["get_weather"]
    assert len(stub.requests) == 2
    assert (version_of(get_weather), version_of(get_time)) == ("t:1", None)


def test_an_unreachable_catalog_is_one_clear_error() -> None:
    with pytest.raises(CatalogUnreachable, match="cannot be reached"):
        acrux.sync(get_weather, catalog="http://127.0.0.1:9/api/v1")


# -- a default without a canonical form -----------------------------------------------------------------


def _joined(fields: str, **options: Any) -> Any:
    def search(q: str, fields: str = fields) -> None: ...

    return acrux.tool(**options)(search)


@pytest.mark.parametrize("kind", ["sql", "server", "acruxcore"])
def test_a_default_joined_from_a_set_makes_no_version_each_time(
    served_sqlite: Served, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    """Field report A15: it has another order in every process; that is reported once, not versioned."""
    from acrux_otel.catalog import AcruxCoreCatalog

    catalogs: dict[str, Catalog] = {
        "sql": served_sqlite.catalog,
        "server": served_sqlite.client(),
        "acruxcore": AcruxCoreCatalog(served_sqlite.url, served_sqlite.key),
    }
    catalog = catalogs[kind]
    first = acrux.sync(_joined("status,summary,labels"), catalog=catalog)[0]
    for order in ("labels,status,summary", "summary,labels,status"):
        result = acrux.sync(_joined(order), catalog=catalog)[0]
        assert (result.committed, result.version_number, result.version_id) == (False, 1, first.version_id)
    warned = [each.getMessage() for each in caplog.records if "another order" in each.getMessage()]
    assert len(warned) == 1
    assert "tool 'search': the default of 'fields'" in warned[0]
    assert acrux.sync(_joined("status,summary"), catalog=catalog)[0].committed
    assert acrux.sync(_joined("summary,status", description="New."), catalog=catalog)[0].committed
