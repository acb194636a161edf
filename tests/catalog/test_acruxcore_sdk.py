# SPDX-License-Identifier: Apache-2.0
"""AcruxCore's own client (from PyPI) works unchanged against our server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import acruxcore
import pytest
from acruxcore import AcruxCore, AcruxCoreError
from acruxcore.tools_api import _reset_sync_cache_for_testing as forget_synced

import acrux_otel as acrux
from acrux_otel.catalog import Change

from .conftest import Served


@pytest.fixture
async def hub(served: Served) -> AsyncIterator[AcruxCore]:
    forget_synced()  # it remembers for the whole process what it synced
    async with AcruxCore(api_key=served.key, base_url=served.url) as made:
        yield made


def _weather(description: str = "The weather of a city.", **options: Any) -> Any:
    def get_weather(city: str, days: int = 1) -> dict[str, Any]:
        return {}

    get_weather.__doc__ = description
    return acruxcore.tool(**options)(get_weather)


async def test_sync_resync_resolve_and_promote(hub: AcruxCore) -> None:
    first = (await hub.tools.sync([_weather()]))[0]
    assert (first.version_number, first.committed, first.alias) == (1, True, "production")
    assert first.version_id
    forget_synced()
    again = (await hub.tools.sync([_weather()]))[0]
    assert (again.version_number, again.committed, again.version_id) == (1, False, first.version_id)
    second = (await hub.tools.sync([_weather("Otherwise.")]))[0]
    assert (second.version_number, second.committed) == (2, True)

    refs = [{"name": "get_weather"}, {"name": "get_weather", "version": 1}]
    live, pinned = await hub.tools.resolve(refs)
    assert (live.version_number, live.function["description"]) == (2, "Otherwise.")
    assert (pinned.version_id, pinned.executor_type, pinned.name) == (
        first.version_id,
        "client",
        "get_weather",
    )

    moved = await hub.tools.promote_alias(first.tool_id, "production", 1)
    assert (moved.version_number, moved.version_id) == (1, first.version_id)
    assert (await hub.tools.resolve([{"name": "get_weather"}]))[0].version_number == 1


async def test_its_errors_carry_ours(hub: AcruxCore) -> None:
    with pytest.raises(AcruxCoreError) as caught:
        await hub.tools.resolve([{"name": "nope"}, {"name": "nor_this", "version": 3}])
    assert caught.value.status_code == 404
    assert caught.value.body["error"]["code"] == "TOOL_REF_NOT_FOUND"
    assert caught.value.body["error"]["refs"] == [{"name": "nope"}, {"name": "nor_this", "version": 3}]


async def test_a_wrong_key_is_refused(served: Served) -> None:
    async with AcruxCore(api_key="acx_sk_wrong", base_url=served.url, max_retries=0) as stranger:
        with pytest.raises(AcruxCoreError) as caught:
            await stranger.tools.list()
    assert caught.value.status_code == 401


async def test_a_dashboard_edit_that_code_replaces_warns(hub: AcruxCore) -> None:
    first = (await hub.tools.sync([_weather()]))[0]
    schema = {"type": "object", "properties": {}}
    edited = await hub.tools.commit_version(
        first.tool_id, schema, {"type": "client"}, description="By hand.", source="dashboard"
    )
    await hub.tools.promote_alias(first.tool_id, "production", edited.version_number)
    with pytest.warns(UserWarning, match="superseding a version edited in the dashboard"):
        await hub.tools.sync([_weather("From code.")])


async def test_everything_else_that_it_can_do_with_tools(hub: AcruxCore) -> None:
    made = await hub.tools.create("by_hand", description="A shell.")
    assert (made.callable, made.version_count, made.latest_version_number, made.aliases) == (
        False,
        0,
        None,
        [],
    )
    schema = {"type": "object", "properties": {}}
    first = await hub.tools.commit_version(made.id, schema, {"type": "client"}, changelog="first")
    assert first.aliases is not None and [each.alias for each in first.aliases] == ["production", "staging"]
    assert first.warnings and first.source == "api"
    second = await hub.tools.commit_version(made.id, schema, {"type": "client"}, description="Two.")
    assert (second.aliases, second.warnings) == (None, None)
    with pytest.raises(AcruxCoreError, match="400"):
        await hub.tools.commit_version(made.id, schema, {"type": "client"}, source="code")

    shown = await hub.tools.get(made.id)
    assert (shown.callable, shown.executor_type, shown.version_count) == (True, "client", 2)
    assert [(each.alias, each.version_number) for each in shown.aliases] == [
        ("production", 1),
        ("staging", 1),
    ]
    listed = await hub.tools.list_versions(made.id, limit=1)
    assert (listed.total, [each.version_number for each in listed.data]) == (2, [2])
    assert (await hub.tools.get_version(made.id, 1)).parameters_schema == schema

    renamed = await hub.tools.update(made.id, name="renamed", description=None)
    assert (renamed.name, renamed.description) == ("renamed", None)
    found = await hub.tools.list(search="renam", page=1, limit=10)
    assert [each.id for each in found.data] == [made.id]
    with pytest.raises(AcruxCoreError) as taken:
        await hub.tools.create("renamed")
    assert (taken.value.status_code, taken.value.body["error"]["code"]) == (409, "TOOL_NAME_TAKEN")
    await hub.tools.delete(made.id)
    with pytest.raises(AcruxCoreError) as gone:
        await hub.tools.get(made.id)
    assert gone.value.status_code == 404


async def test_its_sync_keeps_what_only_ours_says(hub: AcruxCore, served: Served) -> None:
    """Result schema and annotations are not in its request, and an omission is no removal."""

    @acrux.tool(result_schema={"type": "object"}, annotations=acrux.ToolAnnotations(read_only=True))
    def get_weather(city: str, days: int = 1) -> dict[str, Any]:
        """The weather of a city."""
        return {}

    ours = acrux.sync(get_weather, catalog=served.client())[0]
    theirs = (await hub.tools.sync([_weather("Theirs.")]))[0]
    kept = served.catalog.version(ours.tool_id, theirs.version_number)
    assert kept.definition is not None
    assert (kept.definition.result, kept.definition.annotations) == ({"type": "object"}, {"read_only": True})
    assert kept.change is not Change.NONE
    resolved = (await hub.tools.resolve([{"name": "get_weather"}]))[0]
    assert (resolved.result_schema, resolved.result_schema_severity) == ({"type": "object"}, "warn")
