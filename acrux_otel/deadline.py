# SPDX-License-Identifier: Apache-2.0
"""A limit in time on code that does not know of one. Imports nothing of ours.

A thread cannot be stopped from outside, so the one that came late is left behind as a daemon: what it
returns or raises then is dropped, what it does to the world is not.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from typing import Any, Final

__all__ = ["DeadlineExceeded", "ThreadUnavailable", "await_with_deadline", "run_with_deadline", "start"]

_EMPTY: Final[Mapping[str, Any]] = {}


class DeadlineExceeded(TimeoutError):
    """The code did not finish in time. It may still be running, where it runs in a thread."""


class ThreadUnavailable(RuntimeError):
    """The system gives no further thread; nothing was run."""


def start(
    fn: Callable[..., Any], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] = _EMPTY
) -> Future[Any]:
    """Run ``fn`` in a daemon thread of its own, in a copy of the current context.

    Returns:
        A future of what ``fn`` returns or raises, SystemExit and KeyboardInterrupt included. Cancelled
        before it is done, the outcome is dropped, and a coroutine or generator that came too late is closed.

    Raises:
        ThreadUnavailable: ``fn`` has not run.
    """
    future: Future[Any] = Future()
    context = contextvars.copy_context()

    def work() -> None:
        try:
            value = context.run(fn, *args, **kwargs)
        except BaseException as exc:
            if future.set_running_or_notify_cancel():
                future.set_exception(exc)
            return
        if future.set_running_or_notify_cancel():
            future.set_result(value)
        elif inspect.iscoroutine(value) or inspect.isgenerator(value):
            value.close()

    try:
        threading.Thread(target=work, name="acrux-otel-deadline", daemon=True).start()
    except RuntimeError as error:
        raise ThreadUnavailable(str(error)) from None
    return future


def run_with_deadline(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], seconds: float
) -> Any:
    """Call ``fn(*args, **kwargs)`` and wait at most ``seconds`` for it.

    It runs in a daemon thread with a copy of the context: what it sets in context variables stays there,
    and objects that are bound to a thread (a SQLite connection, say) cannot be used across the limit.

    Returns:
        What ``fn`` returns.

    Raises:
        DeadlineExceeded: it did not finish in time. The thread goes on; its late outcome is dropped.
        ThreadUnavailable: ``fn`` has not run.
        BaseException: what ``fn`` raised, the same object.
    """
    future = start(fn, args, kwargs)
    done = threading.Event()
    future.add_done_callback(lambda _: done.set())
    try:
        # Not `future.result(timeout)`: its TimeoutError could not be told from one that `fn` raised.
        done.wait(min(seconds, threading.TIMEOUT_MAX))
    except BaseException:  # KeyboardInterrupt while waiting
        future.cancel()
        raise
    if not done.is_set() and future.cancel():
        raise DeadlineExceeded(_late(seconds))
    return _outcome(future)


def _raised_in(exc: BaseException, function: Any) -> bool:
    """Whether ``function`` itself raised ``exc``: before 3.11.3 a time limit's error tells no cause."""
    step = exc.__traceback__
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    return step is not None and step.tb_frame.f_code is function.__code__


def _outcome(future: Future[Any]) -> Any:
    try:
        return future.result()
    finally:
        del future  # the exception's traceback holds this frame: no cycle


async def await_with_deadline(awaitable: Awaitable[Any], seconds: float) -> Any:
    """Await ``awaitable`` for at most ``seconds``, then cancel it and wait for it to end.

    A cancellation from outside reaches it and is raised at once. Runs on asyncio and on trio.

    Returns:
        What the awaitable returns; also if it comes late because it held its own cancellation up.

    Raises:
        DeadlineExceeded: it was cancelled because it did not finish in time.
        BaseException: what the awaitable raised, the same object.
    """
    if not _on_asyncio():
        return await _on_trio(awaitable, seconds)
    if sys.version_info >= (3, 11):
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                return await awaitable
        except TimeoutError as exc:
            if limit.expired() and _raised_in(exc, asyncio.Timeout.__aexit__):
                raise DeadlineExceeded(_late(seconds)) from None
            raise
    # Before 3.11 a task cannot tell whose cancellation it got, so the work is a task of its own.
    task = asyncio.ensure_future(awaitable)
    try:
        await asyncio.wait((task,), timeout=seconds)
    except BaseException:
        task.cancel()
        await asyncio.wait((task,))
        raise
    if task.done():
        return task.result()
    task.cancel()
    await asyncio.wait((task,))
    if task.cancelled():
        raise DeadlineExceeded(_late(seconds))
    return task.result()


def _on_asyncio() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def _on_trio(awaitable: Awaitable[Any], seconds: float) -> Any:
    import trio

    with trio.move_on_after(seconds) as scope:
        return await awaitable
    if scope.cancelled_caught:
        raise DeadlineExceeded(_late(seconds))
    return None


def _late(seconds: float) -> str:
    return f"no answer within {seconds:g} s"
