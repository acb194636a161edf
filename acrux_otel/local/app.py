# SPDX-License-Identifier: Apache-2.0
"""Everything that `acrux-otel up` serves, as one ASGI application."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

from acrux_otel.local.catalog_view import CatalogView
from acrux_otel.local.guarding import Access, Guarding
from acrux_otel.local.page import Pages
from acrux_otel.local.receiver import Receiver
from acrux_otel.local.store import Store

__all__ = ["local_app"]

_LIMITS_EVERY: Final = 60.0  # seconds


def local_app(store: Store, key: str | None = None) -> Guarding:
    """The receiver, the catalog server and the page.

    Args:
        store: where spans are kept; it is closed when the application ends.
        key: what every visitor must know; None lets in whoever is on this machine.
    """
    access, catalog = Access(key), CatalogView(store.path)
    receiver, pages = Receiver(store), Pages(store, catalog, access)

    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        limits = asyncio.create_task(receiver.keep_limits(_LIMITS_EVERY))
        try:
            yield
        finally:
            limits.cancel()
            receiver.close()
            catalog.close()
            store.close()

    app = Starlette(
        routes=[*receiver.routes(), *pages.routes()],
        lifespan=lifespan,
        exception_handlers=pages.handlers(),
    )
    return Guarding(_beside(app, catalog), access)


def _beside(app: ASGIApp, catalog: CatalogView) -> ASGIApp:
    """The catalog server's paths beside the page's."""
    if catalog.catalog is None:
        return app
    from acrux_otel.catalog.server import BASE_PATH, catalog_app

    # Whoever gets here has shown the key already.
    server = catalog_app(catalog.catalog, require_key=False)

    async def either(scope: Scope, receive: Receive, send: Send) -> None:
        chosen = server if scope["type"] == "http" and scope["path"].startswith(f"{BASE_PATH}/") else app
        await chosen(scope, receive, send)

    return either
