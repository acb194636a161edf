# SPDX-License-Identifier: Apache-2.0
"""One request and its response, sync and async, within time and size."""

from __future__ import annotations

import functools
import inspect
import ssl
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from acrux_otel import attributes as names
from acrux_otel.call import current_call
from acrux_otel.http_tool.errors import ResponseTooLarge

if TYPE_CHECKING:
    import httpx

    from acrux_otel.http_tool.request import RequestShape
    from acrux_otel.http_tool.response import ResponseMeaning

__all__ = ["Exchange"]

# Of the body as it was sent; httpx has undone the coding.
_OF_THE_WIRE: Final = ("content-encoding", "content-length", "transfer-encoding")
Headers = Mapping[str, str] | Callable[[], Any] | None


class Exchange:
    """What one call of an HTTP tool does.

    Args:
        headers: of every request, or what makes them, awaitable in an async tool.
        timeout: seconds for the whole exchange, and for each step of it.
        max_bytes: of the response's body.
        client: whose connections are used; by default each call makes its own.
    """

    def __init__(
        self,
        shape: RequestShape,
        meaning: ResponseMeaning,
        *,
        headers: Headers,
        timeout: float,
        max_bytes: int,
        client: Any,
    ) -> None:
        self._shape, self._meaning = shape, meaning
        self._headers, self._timeout, self._max_bytes = headers, timeout, max_bytes
        self._client = client

    def send(self, arguments: Mapping[str, Any]) -> Any:
        """Send, wait, and return what the response means."""
        import httpx

        given = self._headers() if callable(self._headers) else self._headers
        with self._connected(httpx.Client) as client:
            request = self._shape.request(client, arguments, given, self._timeout)
            body = _Body(request, self._timeout, self._max_bytes)
            response = client.send(request, stream=True)
            try:
                for chunk in response.iter_bytes():
                    body.add(chunk)
            finally:
                response.close()
        return self._judged(body.whole(response))

    async def send_async(self, arguments: Mapping[str, Any]) -> Any:
        """`send`, for an async tool."""
        import httpx

        given = self._headers() if callable(self._headers) else self._headers
        if inspect.isawaitable(given):
            given = await given
        async with self._connected(httpx.AsyncClient) as client:
            request = self._shape.request(client, arguments, given, self._timeout)
            body = _Body(request, self._timeout, self._max_bytes)
            response = await client.send(request, stream=True)
            try:
                async for chunk in response.aiter_bytes():
                    body.add(chunk)
            finally:
                await response.aclose()
        return self._judged(body.whole(response))

    def _judged(self, response: httpx.Response) -> Any:
        if response.status_code >= 300:
            self._meaning.fail(response)
        call = current_call()
        if call is not None:
            call.note(names.HTTP_STATUS, response.status_code)
        return self._meaning.of(response)

    def _connected(self, kind: Any) -> Any:
        """The client that was given, which stays open, or one of ``kind`` for this call."""
        return nullcontext(self._client) if self._client is not None else kind(verify=_trusted())


class _Body:
    """The body of one response as it comes in."""

    def __init__(self, request: httpx.Request, seconds: float, limit: int) -> None:
        self._request = request
        self._until, self._seconds = monotonic() + seconds, seconds
        self._limit = limit
        self._chunks: list[bytes] = []
        self._size = 0

    def add(self, chunk: bytes) -> None:
        self._size += len(chunk)
        if self._size > self._limit:
            raise ResponseTooLarge(f"the response is longer than max_bytes={self._limit:,}")
        if monotonic() > self._until:
            import httpx

            raise httpx.ReadTimeout(f"no whole response within {self._seconds:g} s", request=self._request)
        self._chunks.append(chunk)

    def whole(self, streamed: httpx.Response) -> httpx.Response:
        """The response with its body, as if it had been read at once."""
        import httpx

        kept = [(name, value) for name, value in streamed.headers.multi_items() if name not in _OF_THE_WIRE]
        return httpx.Response(
            streamed.status_code,
            headers=kept,
            content=b"".join(self._chunks),
            request=streamed.request,
            extensions=streamed.extensions,
        )


@functools.cache
def _trusted() -> ssl.SSLContext:
    """The certificates to trust, read once: that is most of what a client costs."""
    import httpx

    return httpx.create_ssl_context()
