# SPDX-License-Identifier: Apache-2.0
"""The catalog: every tool's definition, versioned. Public; each name is loaded on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from acrux_otel.catalog.acruxcore import AcruxCoreCatalog, ServerCatalog
    from acrux_otel.catalog.comparison import Drift, Edit, compare, drift
    from acrux_otel.catalog.errors import (
        AnswerUnreadable,
        CatalogError,
        CatalogRefused,
        CatalogUnreachable,
        DashboardSuperseded,
        InvalidTool,
        KeyRefused,
        MovesBack,
        NameTaken,
        NotATool,
        NotFound,
    )
    from acrux_otel.catalog.explicit import async_sync, sync
    from acrux_otel.catalog.model import (
        Alias,
        Change,
        Definition,
        Event,
        Page,
        Ref,
        Resolved,
        SyncResult,
        ToolEntry,
        Version,
    )
    from acrux_otel.catalog.opening import open_catalog
    from acrux_otel.catalog.protocol import Browsable, Catalog
    from acrux_otel.catalog.server import catalog_app, serve
    from acrux_otel.catalog.sql import Keys, SqlCatalog

__all__ = [
    "AcruxCoreCatalog",
    "Alias",
    "AnswerUnreadable",
    "Browsable",
    "Catalog",
    "CatalogError",
    "CatalogRefused",
    "CatalogUnreachable",
    "Change",
    "DashboardSuperseded",
    "Definition",
    "Drift",
    "Edit",
    "Event",
    "InvalidTool",
    "KeyRefused",
    "Keys",
    "MovesBack",
    "NameTaken",
    "NotATool",
    "NotFound",
    "Page",
    "Ref",
    "Resolved",
    "ServerCatalog",
    "SqlCatalog",
    "SyncResult",
    "ToolEntry",
    "Version",
    "async_sync",
    "catalog_app",
    "compare",
    "drift",
    "open_catalog",
    "serve",
    "sync",
]

_MODULES = {
    "acruxcore": ("AcruxCoreCatalog", "ServerCatalog"),
    "comparison": ("Drift", "Edit", "compare", "drift"),
    "errors": (
        "AnswerUnreadable",
        "CatalogError",
        "CatalogRefused",
        "CatalogUnreachable",
        "DashboardSuperseded",
        "InvalidTool",
        "KeyRefused",
        "MovesBack",
        "NameTaken",
        "NotATool",
        "NotFound",
    ),
    "explicit": ("async_sync", "sync"),
    "model": (
        "Alias",
        "Change",
        "Definition",
        "Event",
        "Page",
        "Ref",
        "Resolved",
        "SyncResult",
        "ToolEntry",
        "Version",
    ),
    "opening": ("open_catalog",),
    "protocol": ("Browsable", "Catalog"),
    "server": ("catalog_app", "serve"),
    "sql": ("Keys", "SqlCatalog"),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    module = _HOMES.get(name)
    if module is None:
        raise AttributeError(f"module 'acrux_otel.catalog' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"acrux_otel.catalog.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
