# SPDX-License-Identifier: Apache-2.0
"""Which catalog is meant: what was given, what is configured, AcruxCore's variables, or the embedded file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from acrux_otel.catalog.protocol import Catalog
from acrux_otel.settings import settings

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

__all__ = ["MODES", "configured", "embedded", "mode", "open_catalog"]

MODES: Final = ("sync", "resolve")
_ACRUXCORE: Final = "acruxcore"


def open_catalog(given: str | Catalog | None = None) -> Catalog:
    """A catalog.

    Args:
        given: ``acruxcore``, a SQLAlchemy URL, the base URL of a catalog server, or a catalog itself; left
            out, it is what `configure(catalog=)` or ``ACRUX_OTEL_CATALOG`` says, else AcruxCore where its
            variables are set, else the embedded SQLite file.

    Raises:
        ValueError: something that names no catalog; one line says what was expected.
        ImportError: an optional package is missing; one line says how to install it.
    """
    named = given if given is not None else configured()
    if named is None:
        if os.environ.get("ACRUXCORE_BASE_URL", "").strip():
            return _over_http(_ACRUXCORE)
        return _in_database(embedded())
    if not isinstance(named, str):
        if isinstance(named, Catalog):
            return named
        raise ValueError(f"catalog is a {type(named).__name__}; {_EXPECTED}")
    name = named.strip()
    if name.lower() == _ACRUXCORE or name.lower().startswith(("http://", "https://")):
        return _over_http(name)
    if "://" not in name:
        may_be_secret = ":" in name or "@" in name  # a URL that was mistyped, with a password in it
        told = "cannot be read (it is not shown)" if may_be_secret else f"is {name[:80]!r}"
        raise ValueError(f"catalog {told}; {_EXPECTED}")
    return _in_database(name)


def configured() -> str | Catalog | None:
    """What was configured; None where nothing was."""
    found: Any = settings.catalog
    return found if found is not None else os.environ.get("ACRUX_OTEL_CATALOG", "").strip() or None


def mode(given: object = None) -> str:
    """Whether automatic syncing writes, ``sync``, or only compares, ``resolve``.

    Raises:
        ValueError: neither.
    """
    source = "catalog_mode"
    name = given if given is not None else settings.catalog_mode
    if name is None:
        source = "ACRUX_OTEL_CATALOG_MODE"
        name = os.environ.get(source, "").strip().lower() or MODES[0]
    if name not in MODES:
        raise ValueError(f"{source} is {name!r}; expected 'sync' or 'resolve'")
    return str(name)


def embedded() -> URL:
    """The URL of the embedded SQLite file, ``.acrux/acrux.db`` or below ``ACRUX_OTEL_HOME``."""
    from acrux_otel.catalog.sql import sqlite_url

    return sqlite_url(Path(os.environ.get("ACRUX_OTEL_HOME") or ".acrux") / "acrux.db")


_EXPECTED: Final = (
    "expected 'acruxcore', a database such as sqlite:///path/to/file.db or postgresql://user@host/database, "
    "or a server such as https://host/api/v1"
)


def _over_http(name: str) -> Catalog:
    from acrux_otel.catalog.acruxcore import AcruxCoreCatalog, ServerCatalog

    known = os.environ.get("ACRUXCORE_BASE_URL", "").strip().rstrip("/")
    if name.lower() == _ACRUXCORE or name.rstrip("/") == known:
        return AcruxCoreCatalog()
    return ServerCatalog(name)


def _in_database(url: str | URL) -> Catalog:
    from acrux_otel.catalog.sql import SqlCatalog

    return SqlCatalog(url)
