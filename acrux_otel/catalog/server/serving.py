# SPDX-License-Identifier: Apache-2.0
"""Running the catalog server as a process of its own."""

from __future__ import annotations

import socket
from collections.abc import Callable

import uvicorn

from acrux_otel.catalog.errors import CatalogError
from acrux_otel.catalog.server.app import BODY_TIMEOUT, catalog_app
from acrux_otel.catalog.server.openapi import BASE_PATH
from acrux_otel.catalog.sql import Keys, SqlCatalog

__all__ = ["serve"]


def serve(
    catalog: SqlCatalog,
    host: str = "127.0.0.1",
    port: int = 8765,
    *,
    ready: Callable[[str], None] = lambda address: None,
) -> None:
    """Serve a catalog until the process is told to stop.

    Args:
        host, port: where to listen; port 0 takes a free one.
        ready: called with the base URL once connections are taken.

    Raises:
        CatalogError: there is no key yet, or the database does not answer.
        OSError: the address cannot be had.
    """
    if not any(key.revoked_at is None for key in Keys(catalog.database).list()):
        raise CatalogError(
            "no key can use this catalog yet; make one with: acrux-otel catalog keys create NAME"
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(128)
        shown = f"[{host}]" if ":" in host else host
        ready(f"http://{shown}:{listener.getsockname()[1]}{BASE_PATH}")
        # Longer than any request takes, so that the end cuts none short.
        patience = BODY_TIMEOUT + 5
        config = uvicorn.Config(
            catalog_app(catalog), log_level="warning", access_log=False, timeout_graceful_shutdown=patience
        )
        uvicorn.Server(config).run(sockets=[listener])
