# SPDX-License-Identifier: Apache-2.0
"""The tables of a SQL catalog, for SQLAlchemy Core. `migrations` makes them."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Column, Integer, MetaData, Table, Text

__all__ = ["ALIASES", "EVENTS", "KEYS", "TOOLS", "VERSIONS"]

_metadata: Final = MetaData()

TOOLS: Final = Table(
    "acrux_tools",
    _metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("description", Text),
    Column("created_by", Text, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("deleted_at", Text),
)
VERSIONS: Final = Table(
    "acrux_tool_versions",
    _metadata,
    Column("id", Text, primary_key=True),
    Column("tool_id", Text, nullable=False),
    Column("number", Integer, nullable=False),
    Column("source", Text, nullable=False),
    Column("description", Text),
    Column("changelog", Text),
    Column("change", Text),
    Column("parameters", Text, nullable=False),
    Column("executor", Text, nullable=False),
    Column("result", Text),
    Column("severity", Text),
    Column("annotations", Text, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("created_at", Text, nullable=False),
)
ALIASES: Final = Table(
    "acrux_tool_aliases",
    _metadata,
    Column("id", Text, primary_key=True),
    Column("tool_id", Text, nullable=False),
    Column("alias", Text, nullable=False),
    Column("version_id", Text, nullable=False),
    Column("updated_at", Text, nullable=False),
)
EVENTS: Final = Table(
    "acrux_tool_events",
    _metadata,
    Column("id", Integer, primary_key=True),
    Column("tool_id", Text, nullable=False),
    Column("at", Text, nullable=False),
    Column("by", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("version", Integer),
    Column("alias", Text),
    Column("previous", Integer),
)
KEYS: Final = Table(
    "acrux_catalog_keys",
    _metadata,
    Column("name", Text, primary_key=True),
    Column("hash", Text, nullable=False, unique=True),
    Column("role", Text, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("revoked_at", Text),
)
