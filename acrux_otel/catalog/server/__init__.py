# SPDX-License-Identifier: Apache-2.0
"""The catalog as a server, for a team without AcruxCore."""

try:
    import starlette  # noqa: F401
    import uvicorn  # noqa: F401
except ImportError as missing:
    raise ImportError(
        f"the catalog server needs {missing.name}; install it with: pip install 'acrux-otel[catalog]'",
        name=missing.name,
    ) from None

from acrux_otel.catalog.server.app import catalog_app
from acrux_otel.catalog.server.openapi import BASE_PATH
from acrux_otel.catalog.server.serving import serve

__all__ = ["BASE_PATH", "catalog_app", "serve"]
