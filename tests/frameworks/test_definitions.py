# SPDX-License-Identifier: Apache-2.0
"""Every framework that is installed: its tools reach a real catalog, and spans say which version."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from acrux_otel_instrumentation.definitions import FrameworkDefinition, while_alive

import acrux_otel.tool  # noqa: F401
from acrux_otel import described, verdict
from acrux_otel.catalog import SqlCatalog, automatic
from acrux_otel.seam import open_call, unobserve
from acrux_otel.settings import settings
from tests.conftest import Exported, tool_module
from tests.frameworks.rig import Rig, found


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqlCatalog]:
    """An empty one that this process syncs to, as if no tool had been called and nothing told yet."""
    monkeypatch.setattr(verdict, "_warned", set())
    url = f"sqlite:///{tmp_path}/catalog.db"
    monkeypatch.setattr(settings, "catalog", url)
    monkeypatch.setattr(tool_module, "_tools", {})
    monkeypatch.setattr(described, "_sites", [])
    automatic.arm()
    made = SqlCatalog(url)
    yield made
    described.listen(None)
    unobserve(opened=automatic._at_first_call)
    assert not automatic.pending(30)
    made.close()


def unhurried(kind: str) -> Any:
    """A tool that takes as long as one that asks somebody."""
    if kind == "sync":

        def forecast(city: str) -> dict:
            """Tell the weather of a city."""
            time.sleep(0.3)
            return {"city": city}

        return forecast

    async def aforecast(city: str) -> dict:
        """Tell the weather of a city."""
        await asyncio.sleep(0.3)
        return {"city": city}

    return aforecast


@pytest.mark.parametrize("rig", found().values(), ids=str)
async def test_a_frameworks_tool_is_synced_once_and_later_spans_name_the_version(
    rig: Rig, catalog: SqlCatalog, everywhere: Exported, instrument: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """As the model is shown it, once, though the framework's tool is another object in each turn."""
    instrument(rig.name, *rig.also)
    kind = rig.kinds[-1]
    for _ in range(3):
        await rig.turn(unhurried(kind), *rig.asked("ok"))
        assert not automatic.pending(30)
    entry = catalog.tool("forecast")
    version = catalog.version(entry.id, 1)
    assert entry.version_count == 1
    assert version.definition is not None
    assert set(version.definition.parameters["properties"]) == {"city"}
    assert "weather" in (version.definition.description or "")
    spans = [each for each in everywhere if each.outcome is not None]
    assert [each.attributes.get("toolVersionId") for each in spans[1:]] == [version.id] * 2
    assert [each.getMessage() for each in caplog.records if each.name == "acrux_otel"] == []


@pytest.mark.parametrize("rig", found().values(), ids=str)
async def test_a_name_that_no_tool_has_does_not_reach_the_catalog(
    rig: Rig, catalog: SqlCatalog, everywhere: Exported, instrument: Any
) -> None:
    """What a model made up is no definition."""
    instrument(rig.name, *rig.also)
    await rig.run(rig.kinds[-1], "unknown")
    assert not automatic.pending(30)
    assert [each.name for each in catalog.tools()] == []


def described_as(parameters: Any, name: str = "forecast") -> Any:
    return FrameworkDefinition(name, description="Tell the weather.", parameters=parameters)


def call(definition: Any) -> None:
    open_call(definition).ok(1)
    assert not automatic.pending(30)


def test_a_second_tool_of_a_name_is_left_out_with_one_warning(
    catalog: SqlCatalog, exported: Exported, caplog: pytest.LogCaptureFixture
) -> None:
    """One name is one tool in a catalog: the first stays, and no span names a version that did not run."""
    first, alike, other = (
        described_as(lambda parameter=each: {"type": "object", "properties": {parameter: {}}})
        for each in ("city", "city", "town")
    )
    for definition in (first, first, alike, alike, other, other):
        call(definition)
    version = catalog.version(catalog.tool("forecast").id, 1)
    assert catalog.tool("forecast").version_count == 1
    named = [each.attributes.get("toolVersionId") for each in exported.tools()]
    assert named[1::2] == [version.id, version.id, None]
    assert named[4] is None
    (warning,) = [each.getMessage() for each in caplog.records if each.name == "acrux_otel"]
    assert "'forecast' differs" in warning


def test_a_schema_that_the_framework_cannot_make_is_not_made_up(
    catalog: SqlCatalog, exported: Exported, caplog: pytest.LogCaptureFixture
) -> None:
    """The tool is not synced, one warning says why, and the others are."""

    def broken() -> Any:
        raise KeyError("no schema")

    call(described_as(broken, "odd"))
    call(described_as(lambda: {"type": "object", "properties": {}}))
    assert [each.name for each in catalog.tools()] == ["forecast"]
    (warning,) = [each.getMessage() for each in caplog.records if each.name == "acrux_otel"]
    assert "'odd'" in warning and "not synced" in warning
    assert [each.outcome for each in exported.tools()] == ["ok", "ok"]


def test_a_tool_that_is_gone_before_it_was_synced_is_passed_over(
    catalog: SqlCatalog, exported: Exported, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody is warned of it: the next one of its kind is synced."""

    class Tool:
        schema: ClassVar = {"type": "object", "properties": {"city": {}}}

    for alive in (False, True):
        tool = Tool()
        definition = described_as(while_alive(tool, lambda each: each.schema))
        if not alive:
            del tool
        call(definition)
    assert catalog.tool("forecast").version_count == 1
    assert [each.getMessage() for each in caplog.records if each.name == "acrux_otel"] == []


def test_a_catalog_that_is_configured_later_gets_the_tools_that_were_called_before(
    exported: Exported, catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the next call on, as with decorated tools."""
    url, settings.catalog = settings.catalog, None
    definition = described_as(lambda: {"type": "object", "properties": {}})
    call(definition)
    settings.catalog = url
    automatic.arm()
    call(definition)
    assert catalog.tool("forecast").version_count == 1
