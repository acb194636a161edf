# SPDX-License-Identifier: Apache-2.0
"""Who may ask what: host names, the key, no writes from other sites, and the headers that a page needs."""

from __future__ import annotations

import hashlib
import hmac
import urllib.parse
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["COOKIE", "LOGIN", "Access", "Guarding", "is_loopback"]

LOGIN: Final = "/login"
COOKIE: Final = "acrux_key"
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_OPEN: Final = (LOGIN, "/static/")  # paths that need no key
_PAGES: Final = ("/traces", "/tools", "/catalog")
_HEADERS: Final = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",  # a filter is in the address
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


def is_loopback(host: str) -> bool:
    """Whether ``host`` is reached from this machine only."""
    return host in _LOOPBACK or (host.startswith("127.") and host.replace(".", "").isdecimal())


class Access:
    """The key that visitors need; without one, everybody is let in who names a loopback host.

    Args:
        key: any text, or None.
    """

    def __init__(self, key: str | None) -> None:
        self.key = key
        self.cookie = (
            hmac.new(key.encode(), b"acrux-otel up: cookie", hashlib.sha256).hexdigest() if key else ""
        )

    def opens(self, key: str) -> bool:
        """Whether this is the key."""
        return self.key is None or hmac.compare_digest(key.encode(), self.key.encode())

    def lets_in(self, request: Request) -> bool:
        """Whether the request carries the key, or the cookie that stands for it."""
        if self.key is None:
            return True
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self.opens(given.strip()):
            return True
        return hmac.compare_digest(request.cookies.get(COOKIE, "").encode(), self.cookie.encode())


class Guarding:
    """ASGI middleware around everything that `up` serves."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        refused = self._refusal(scope)
        await (refused or self._app)(scope, receive, send_guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        request = Request(scope)
        headers, path = request.headers, scope["path"]
        # A page of another site may make its name mean this machine: then only the name tells it from us.
        if self._access.key is None and not is_loopback(_host(headers)):
            return PlainTextResponse(
                f"this is {_host(headers)!r} to you; without a key only localhost is answered\n", 421
            )
        if scope["method"] not in ("GET", "HEAD") and _from_elsewhere(headers):
            return PlainTextResponse("a request from another site is not answered\n", 403)
        if not self._access.lets_in(request) and not path.startswith(_OPEN):
            if scope["method"] in ("GET", "HEAD") and (path == "/" or path.startswith(_PAGES)):
                query = f"?{request.url.query}" if request.url.query else ""
                wanted = urllib.parse.quote(path + query, safe="")
                return RedirectResponse(f"{LOGIN}?then={wanted}", 303)
            return PlainTextResponse(
                "a key is needed: Authorization: Bearer KEY\n", 401, {"www-authenticate": "Bearer"}
            )
        return None


def _host(headers: Headers) -> str:
    """The name in the Host header, without its port."""
    try:
        return urllib.parse.urlsplit(f"//{headers.get('host', '')}").hostname or ""
    except ValueError:
        return ""


def _from_elsewhere(headers: Headers) -> bool:
    if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        return True
    origin = headers.get("origin")
    return origin is not None and urllib.parse.urlsplit(origin).netloc != headers.get("host", "")
