# SPDX-License-Identifier: Apache-2.0
"""Runs a coroutine to its end for a caller that is no coroutine. Imports the standard library only.

`asyncio.run` would do, but it sets the thread's event loop to none behind it, waits without limit for
tasks and executor threads that will not end, and cannot be used where a loop runs already.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from typing import Any, Final, Generic, TypeVar

__all__ = ["run_alone"]

T = TypeVar("T")
_GRACE: Final = 1.0  # seconds that tasks which tools left behind get to end when they are cancelled


def run_alone(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run ``main()`` on an event loop of its own, in a copy of the current context, and wait for it.

    Where a loop runs in this thread already, the other one gets a thread; the caller's loop stands still
    meanwhile, as in every function that is no coroutine.

    Raises:
        BaseException: what ``main`` raised. KeyboardInterrupt cancels it, waits for it, and is raised.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _Loop(main).run()
    return _run_beside(_Loop(main))


class _Loop(Generic[T]):
    def __init__(self, main: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._main = main
        self._loop = asyncio.new_event_loop()
        self._task: asyncio.Task[T] | None = None

    def run(self) -> T:
        loop = self._loop
        try:
            task = self._task = loop.create_task(self._main())
            try:
                return loop.run_until_complete(task)
            except BaseException:
                # KeyboardInterrupt lands anywhere in the loop; the task is still to be ended in order.
                if not task.done():
                    task.cancel()
                    loop.run_until_complete(asyncio.wait((task,)))
                _ = task.cancelled() or task.exception()  # else asyncio says that nobody retrieved it
                raise
        finally:
            self._close()

    def cancel(self) -> None:
        """Cancel ``main``, from another thread."""

        def cancel() -> None:
            if self._task is not None:
                self._task.cancel()

        try:
            self._loop.call_soon_threadsafe(cancel)
        except RuntimeError:  # it is over
            pass

    def _close(self) -> None:
        loop = self._loop
        try:
            left = asyncio.all_tasks(loop)
            if left:
                for task in left:
                    task.cancel()
                loop.run_until_complete(asyncio.wait(left, timeout=_GRACE))
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            loop.close()


def _run_beside(alone: _Loop[T]) -> T:
    """In a thread, because a loop runs in this one."""
    outcome: Future[T] = Future()
    context = contextvars.copy_context()

    def work() -> None:
        try:
            outcome.set_result(context.run(alone.run))
        except BaseException as exc:
            outcome.set_exception(exc)

    threading.Thread(target=work, name="acrux-otel-batch", daemon=True).start()
    # Not `Thread.join`: before 3.13 one that was interrupted returns at once when it is called again.
    try:
        wait((outcome,))
    except BaseException:
        alone.cancel()
        wait((outcome,))
        raise
    return outcome.result()
