# SPDX-License-Identifier: Apache-2.0
"""`flush()` and `flushing()`, for the places where a process stops without ending."""

from __future__ import annotations

import asyncio
import sys
import threading
from contextlib import ContextDecorator
from functools import wraps
from inspect import iscoroutinefunction
from time import monotonic
from typing import Any

from opentelemetry import metrics, trace

from acrux_otel.export.configuring import is_ours
from acrux_otel.export.exit import Blocking, flush_all
from acrux_otel.settings import settings

__all__ = ["flush", "flush_joined", "flushing"]

_joined: dict[int, tuple[object, Blocking]] = {}


def flush(timeout: float = 5.0) -> bool:
    """Send everything that is queued, ours and what a joined provider exports, and end the catalog's sync.

    Args:
        timeout: seconds to wait at most, whatever the endpoint does.

    Returns:
        Whether everything was handed over in time. Never raises.
    """
    try:
        deadline = monotonic() + max(0.0, float(timeout))
        sent = flush_all(deadline - monotonic(), _others())
        return not _syncing(deadline) and sent
    except Exception:
        return False


def _syncing(deadline: float) -> bool:
    """Whether the catalog is still being synced by then; where that never began, nothing of it is loaded."""
    automatic = sys.modules.get("acrux_otel.catalog.automatic")
    return automatic is not None and automatic.pending(deadline - monotonic())


def flush_joined(deadline: float) -> None:
    """Have the providers that somebody else made send what they hold, until ``deadline``."""
    for other in _others():
        other.done_by(deadline)


def _others() -> list[Blocking]:
    """The providers in force that somebody else made."""
    found = []
    for provider in (
        settings.tracer_provider or trace.get_tracer_provider(),
        settings.meter_provider or metrics.get_meter_provider(),
    ):
        force_flush = getattr(provider, "force_flush", None)
        if force_flush is None or is_ours(provider):
            continue
        if id(provider) not in _joined:
            _joined[id(provider)] = provider, Blocking(force_flush)
        found.append(_joined[id(provider)][1])
    return found


class flushing(ContextDecorator):
    """Flush at the end of a block or of every call of a function, sync or async.

    For handlers of serverless functions, which are frozen once they return::

        @acrux.flushing(timeout=2)
        def handler(event, context): ...

    Args:
        timeout: seconds that the flush may take.
    """

    def __init__(self, timeout: float = 5.0) -> None:
        self._timeout = timeout

    def __call__(self, function: Any) -> Any:
        if not iscoroutinefunction(function):
            return super().__call__(function)

        @wraps(function)
        async def flushed(*args: Any, **kwargs: Any) -> Any:
            async with flushing(self._timeout):
                return await function(*args, **kwargs)

        return flushed

    def __enter__(self) -> flushing:
        return self

    def __exit__(self, *exc: object) -> None:
        flush(self._timeout)

    async def __aenter__(self) -> flushing:
        return self

    async def __aexit__(self, *exc: object) -> None:
        loop = asyncio.get_running_loop()
        done = loop.create_future()

        def finished() -> None:
            if not done.done():
                done.set_result(None)

        def work() -> None:
            flush(self._timeout)
            try:
                loop.call_soon_threadsafe(finished)
            except RuntimeError:
                pass  # the loop is gone, and with it whoever waited

        # Not the loop's executor: closing a loop waits for that one's threads.
        threading.Thread(target=work, name="acrux-otel-flush", daemon=True).start()
        await done
