# SPDX-License-Identifier: Apache-2.0
"""Waiting for delivery, never longer than asked: flush, the end of the process, SIGTERM, forked children.

The SDK's own waits do not keep their bounds, so each runs on a daemon thread and is left behind when its
time is up.
"""

from __future__ import annotations

import atexit
import os
import signal
import threading
from collections.abc import Callable, Iterable
from functools import partial
from time import monotonic
from types import FrameType
from typing import Any, Final

from acrux_otel.export.delivery import Delivery

__all__ = ["Pipe", "add", "close", "close_all", "flush_all", "handle_sigterm", "set_exit_timeout"]


class Pipe:
    """Something that can be flushed and closed, each at most one thread at a time.

    Args:
        flush: blocks until all is handed on; returns False or raises where it is not.
        close: the same for good; None for a provider that is not ours to close.
        delivery: told when the end is near; its retries then stop.
    """

    def __init__(
        self,
        flush: Callable[[], object],
        close: Callable[[], object] | None = None,
        delivery: Delivery | None = None,
    ) -> None:
        self._flush, self.close, self.delivery = flush, close, delivery
        self._lock = threading.Lock()
        self._running: _Job | None = None

    def flush_by(self, deadline: float) -> bool:
        """Flush everything that is queued now; whether that was done before ``deadline``."""
        # What runs already may have begun before the newest span ended: wait for it, then go again.
        with self._lock:
            job = self._running
        if job is not None and not job.wait(deadline):
            return False
        with self._lock:
            if self._running is job or self._running is None:
                self._running = _Job(self._flush)
            job = self._running
        return job.wait(deadline) and job.worked

    def after_fork(self) -> None:
        """The threads did not come along."""
        self._lock = threading.Lock()
        self._running = None
        if self.delivery is not None:
            self.delivery.after_fork()


class _Job:
    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work
        self.done = threading.Event()
        self.worked = False
        try:
            threading.Thread(target=self._run, name="acrux-otel-wait", daemon=True).start()
        except RuntimeError:  # no thread can be started any more
            self.done.set()

    def _run(self) -> None:
        try:
            self.worked = self._work() is not False
        except BaseException:
            self.worked = False
        finally:
            self.done.set()

    def wait(self, deadline: float) -> bool:
        return self.done.wait(max(0.0, deadline - monotonic()))


_pipes: list[Pipe] = []
_exit_timeout = 3.0
_registered = False
_DEFAULT_HANDLERS: Final = (signal.SIG_DFL, None)


def add(pipe: Pipe) -> None:
    """Flush and, where it can be closed, close ``pipe`` with the others."""
    global _registered
    _pipes.append(pipe)
    if not _registered:
        _registered = True
        atexit.register(close_all)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_after_fork)


def set_exit_timeout(seconds: float) -> None:
    """How long the end of the process may be held; 0 does not wait."""
    global _exit_timeout
    _exit_timeout = seconds


def flush_all(timeout: float, others: Iterable[Pipe] = ()) -> bool:
    """Flush every pipe at once; whether all is delivered before ``timeout`` seconds are over."""
    deadline = monotonic() + timeout
    jobs = [_Job(partial(pipe.flush_by, deadline)) for pipe in (*_pipes, *others)]
    for job in jobs:
        job.wait(deadline)
    return all(job.worked for job in jobs)


def close_all() -> None:
    """Deliver what can be delivered within the exit timeout, then let go."""
    close(*_pipes)


def close(*pipes: Pipe) -> None:
    """`close_all` for some."""
    deadline = monotonic() + _exit_timeout
    ours = [pipe for pipe in pipes if pipe.close is not None]
    for pipe in ours:
        if pipe.delivery is not None:
            pipe.delivery.close_by(deadline)
    if _exit_timeout <= 0:
        return
    jobs = [_Job(pipe.close) for pipe in ours if pipe.close is not None]
    for job in jobs:
        job.wait(deadline)


def handle_sigterm() -> bool:
    """Deliver at SIGTERM too, then end by that signal; only where nobody handles it already.

    Returns:
        Whether the handler is in place; it can only be set from the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        return False
    if signal.getsignal(signal.SIGTERM) not in _DEFAULT_HANDLERS:
        return False
    signal.signal(signal.SIGTERM, _on_sigterm)
    return True


def _on_sigterm(number: int, frame: FrameType | None) -> Any:
    signal.signal(number, signal.SIG_DFL)
    try:
        close_all()
    finally:
        os.kill(os.getpid(), number)


def _after_fork() -> None:
    for pipe in _pipes:
        pipe.after_fork()
