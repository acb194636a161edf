# SPDX-License-Identifier: Apache-2.0
"""The catalog in a database, SQLite or PostgreSQL: the embedded default, and what the server serves."""

try:
    import sqlalchemy  # noqa: F401
except ImportError as missing:
    raise ImportError(
        f"a SQL catalog needs {missing.name}; install it with: pip install 'acrux-otel[catalog]'",
        name=missing.name,
    ) from None

from acrux_otel.catalog.sql.catalog import SqlCatalog
from acrux_otel.catalog.sql.database import sqlite_url
from acrux_otel.catalog.sql.keys import EDITOR, VIEWER, Key, Keys

__all__ = ["EDITOR", "VIEWER", "Key", "Keys", "SqlCatalog", "sqlite_url"]
