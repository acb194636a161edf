# SPDX-License-Identifier: Apache-2.0
"""OTLP over HTTP: protobuf and JSON, gzip, ``/v1/traces``. What is acknowledged is on disk.

https://opentelemetry.io/docs/specs/otlp/#otlphttp. Metrics and logs are acknowledged and not kept, so that a
program that sends all three to one endpoint is not told of errors.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from acrux_otel.local import wire
from acrux_otel.local.schema import StoreError
from acrux_otel.local.store import Store
from acrux_otel.local.wire import JSON, PROTOBUF, BadBody, TooLarge

__all__ = ["Receiver"]

_log: Final = logging.getLogger("acrux_otel")
_BODY: Final = 16 * 1024**2  # bytes as sent
_UNPACKED: Final = 64 * 1024**2  # bytes after unpacking
_WAITING: Final = 128 * 1024**2  # bytes of requests that wait for the store
_INVALID_ARGUMENT, _RESOURCE_EXHAUSTED, _UNAVAILABLE = 3, 8, 14

Take = Callable[[bytes, str], bytes]


class Receiver:
    """Takes export requests into a store, one after the other in one thread of its own."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="acrux-store")
        self._waiting = 0

    def routes(self) -> list[Route]:
        """The three signals' paths."""
        return [
            Route("/v1/traces", self._endpoint(self._traces), methods=["POST"]),
            Route("/v1/metrics", self._endpoint(self._metrics), methods=["POST"]),
            Route("/v1/logs", self._endpoint(self._logs), methods=["POST"]),
        ]

    async def keep_limits(self, every: float) -> None:
        """Apply the store's limits now and every so many seconds, until cancelled."""
        while True:
            try:
                await asyncio.get_running_loop().run_in_executor(self._thread, self._store.keep)
            except StoreError as error:
                _log.error("the store's limits could not be applied: %s", error)
            await asyncio.sleep(every)

    def close(self) -> None:
        """Finish what was begun."""
        self._thread.shutdown()

    def _endpoint(self, take: Take) -> Callable[[Request], object]:
        async def endpoint(request: Request) -> Response:
            kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind not in (PROTOBUF, JSON):
                given = kind[:60] or "missing"
                reason = f"Content-Type is {given!r}; expected {PROTOBUF} or {JSON}"
                return _refused(415, _INVALID_ARGUMENT, reason, PROTOBUF)
            if self._waiting > _WAITING:
                return _busy("more is waiting than can be stored", kind)
            try:
                body = await _body(request)
                self._waiting += len(body)
                try:
                    encoding = request.headers.get("content-encoding", "").strip().lower()
                    answer = await asyncio.get_running_loop().run_in_executor(
                        self._thread, lambda: take(wire.decompressed(body, encoding, _UNPACKED), kind)
                    )
                finally:
                    self._waiting -= len(body)
                return Response(answer, media_type=kind)
            except TooLarge as error:
                answered = _refused(413, _RESOURCE_EXHAUSTED, str(error), kind)
                answered.headers["connection"] = "close"  # or the rest of the body would be read
                return answered
            except BadBody as error:
                return _refused(400, _INVALID_ARGUMENT, str(error), kind)
            except StoreError as error:
                _log.error("spans could not be stored: %s", error)
                return _busy(f"the store cannot be written: {error}", kind)
            except ClientDisconnect:
                return Response(status_code=400)

        return endpoint

    def _traces(self, body: bytes, kind: str) -> bytes:
        request, rejected = wire.read_spans(body, kind)
        self._store.add(request, rejected)
        return wire.encode(wire.traces_answer(rejected), kind)

    def _metrics(self, body: bytes, kind: str) -> bytes:
        return wire.encode(wire.read_metrics(body, kind), kind)

    def _logs(self, body: bytes, kind: str) -> bytes:
        return wire.encode(wire.read_logs(body, kind), kind)


async def _body(request: Request) -> bytes:
    """The body as sent; a body that says it is too large is not read at all."""
    reason = f"the body is larger than {_BODY} bytes"
    said = request.headers.get("content-length", "")
    if said.isdecimal() and int(said) > _BODY:
        raise TooLarge(reason)
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > _BODY:
            raise TooLarge(reason)
        parts.append(part)
    return b"".join(parts)


def _refused(status: int, code: int, reason: str, kind: str) -> Response:
    return Response(wire.refusal(code, reason, kind), status, media_type=kind)


def _busy(reason: str, kind: str) -> Response:
    """The sender tries again: 503 is one of OTLP's retryable statuses."""
    answer = _refused(503, _UNAVAILABLE, reason, kind)
    answer.headers["retry-after"] = "1"
    return answer
