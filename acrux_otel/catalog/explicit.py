# SPDX-License-Identifier: Apache-2.0
"""`sync()` and `async_sync()`: decorated tools into a catalog, when somebody says so."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any, Final

from acrux_otel.catalog.errors import CatalogError, DashboardSuperseded, InvalidTool, NotATool
from acrux_otel.catalog.model import SyncResult
from acrux_otel.catalog.opening import open_catalog
from acrux_otel.catalog.protocol import Catalog
from acrux_otel.catalog.publishing import Plan, plan, publish, superseded
from acrux_otel.tool import Tool

__all__ = ["async_sync", "plans_for", "sync"]

_log: Final = logging.getLogger("acrux_otel")
_CONFLICTS: Final = ("warn", "error")


def sync(
    tools: Callable[..., Any] | Iterable[Callable[..., Any]],
    *,
    catalog: str | Catalog | None = None,
    alias: str | None = None,
    changelog: str | None = None,
    on_conflict: str = "warn",
) -> list[SyncResult]:
    """Bring a catalog up to date with decorated tools, and stamp their versions on their spans.

    One after the other: a tool that fails leaves those before it committed. An unchanged tool commits
    nothing. A tool with ``sync=False`` is not written: its alias is followed.

    Args:
        tools: decorated with ``@acrux.tool``.
        catalog: as `acrux_otel.catalog.open_catalog` takes it; by default what is configured, else AcruxCore
            by its variables, else the embedded SQLite file.
        alias: to move, instead of each tool's own (``production`` by default).
        changelog: what changed, instead of each tool's own.
        on_conflict: ``"error"`` raises where a version edited in a dashboard was replaced (it stays in the
            catalog and can be promoted); ``"warn"`` logs a warning.

    Returns:
        What became of each tool, in the order given.

    Raises:
        NotATool, InvalidTool: before anything is sent, also for two tools of one name.
        CatalogError: of the kind that fits what happened; ``.synced`` has the tools before it.
        ValueError, ImportError: as `open_catalog` does.
    """
    if on_conflict not in _CONFLICTS:
        raise ValueError(f"on_conflict is {on_conflict!r}; expected 'warn' or 'error'")
    plans = plans_for(tools, alias=alias, changelog=changelog)
    opened = open_catalog(catalog)
    results: list[SyncResult] = []
    try:
        for each in plans:
            result = publish(opened, each)
            results.append(result)
            if result.superseded_source == "dashboard":
                if on_conflict == "error":
                    raise DashboardSuperseded(superseded(result))
                _log.warning("%s", superseded(result))
    except CatalogError as error:
        error.synced = tuple(results)
        raise
    finally:
        if opened is not catalog:
            opened.close()
    new = sum(result.committed for result in results)
    _log.info("catalog %s: %d tools, %d new versions", opened.label, len(results), new)
    return results


async def async_sync(
    tools: Callable[..., Any] | Iterable[Callable[..., Any]],
    *,
    catalog: str | Catalog | None = None,
    alias: str | None = None,
    changelog: str | None = None,
    on_conflict: str = "warn",
) -> list[SyncResult]:
    """`sync` in a thread, so that the event loop goes on; arguments, result and errors are the same."""
    return await asyncio.to_thread(
        sync, tools, catalog=catalog, alias=alias, changelog=changelog, on_conflict=on_conflict
    )


def plans_for(tools: Any, *, alias: str | None = None, changelog: str | None = None) -> list[Plan]:
    """What is to be done with each tool, each once.

    Raises:
        NotATool: something that is not decorated.
        InvalidTool: a tool that no catalog takes, or two of one name.
    """
    given = [tools] if _tool_of(tools) is not None or not isinstance(tools, Iterable) else list(tools)
    found: dict[str, Tool] = {}
    for each in given:
        tool = _tool_of(each)
        if tool is None:
            named = getattr(each, "__qualname__", None) or f"a {type(each).__name__}"
            raise NotATool(f"{named} is not a tool; decorate it with @acrux.tool")
        name = tool.definition.name
        other = found.setdefault(name, tool)
        if other is not tool and other.place != tool.place:
            raise InvalidTool(
                f"two tools are named {name!r}: {other.place} and {tool.place}; rename one with name="
            )
    return [plan(tool, alias, changelog) for tool in found.values()]


def _tool_of(given: Any) -> Tool | None:
    found = given if isinstance(given, Tool) else getattr(given, "__acrux_tool__", None)
    if found is None and isinstance(given, (staticmethod, classmethod)):
        found = getattr(given.__func__, "__acrux_tool__", None)
    return found if isinstance(found, Tool) else None
