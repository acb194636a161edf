# SPDX-License-Identifier: Apache-2.0
"""Every framework that is installed: what its tools are reaches a real catalog, and spans say which version."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import acrux_otel.tool  # noqa: F401
from acrux_otel import described
from acrux_otel.catalog import SqlCatalog, automatic
from acrux_otel.seam import unobserve
from acrux_otel.settings import settings
from tests.conftest import Exported, tool_module
from tests.frameworks.rig import Rig, found


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqlCatalog]:
    """An empty one that this process syncs to, as if no tool had been called yet."""
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


@pytest.mark.parametrize("rig", found().values(), ids=str)
async def test_a_frameworks_tool_is_synced_once_and_later_spans_name_the_version(
    rig: Rig, catalog: SqlCatalog, everywhere: Exported, instrument: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """As the model is shown it, once, though the framework makes its tool object anew for each turn."""
    instrument(rig.name, *rig.also)
    kind = rig.kinds[-1]
    for _ in range(3):
        await rig.run(kind, "ok")
        assert not automatic.pending(30)
    entry = catalog.tool("forecast")
    version = catalog.version(entry.id, 1)
    assert entry.version_count == 1
    assert version.definition is not None
    assert set(version.definition.parameters["properties"]) == {"city"}
    assert "weather" in (version.definition.description or "")
    spans = [each for each in everywhere if each.outcome is not None]
    await rig.run(kind, "raise")
    failed = [each for each in everywhere if each.outcome == "error"]
    assert [each.attributes.get("toolVersionId") for each in (*spans[1:], *failed)] == [version.id] * 3
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
