# SPDX-License-Identifier: Apache-2.0
"""Waiting for delivery, never longer than asked: flush, the end of the process, SIGTERM, forked children."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from functools import partial
from time import monotonic
from types import FrameType
from typing import Final, Protocol
from weakref import WeakSet, finalize

__all__ = [
    "Blocking",
    "Job",
    "Outlet",
    "add",
    "close_all",
    "exit_deadline",
    "exit_timeout",
    "flush_all",
    "flush_at_end_of_workers",
    "handle_sigterm",
    "reset_in_children",
    "set_exit_timeout",
]

EXIT_TIMEOUT: Final = 3.0


class Outlet(Protocol):
    """Something that holds telemetry until it is sent. Deadlines are `time.monotonic` seconds."""

    def flush_by(self, deadline: float) -> bool:
        """Send what is held now; whether all of it was sent before ``deadline``."""

    def end_by(self, deadline: float) -> None:
        """Begin to send the rest, and stop at ``deadline``; does not block."""

    def ended_by(self, deadline: float) -> None:
        """Wait for that."""


class Blocking:
    """Gives a bound to a function that does not keep one: it runs on a daemon thread, one at a time."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work
        self.after_fork()
        reset_in_children(self)

    def after_fork(self) -> None:
        """The threads did not come along."""
        self._lock = threading.RLock()  # the handler of a signal may come while its thread is in here
        self._job: Job | None = None

    def done_by(self, deadline: float) -> bool:
        """Whether a run that began after this question came to a good end before ``deadline``."""
        with self._lock:
            earlier = self._job
        if earlier is not None and not earlier.wait(deadline):
            return False
        with self._lock:
            if self._job is earlier:
                self._job = Job(self._work)
            job = self._job
        return job is not None and job.wait(deadline) and job.worked


class Job:
    """One run of a function on a daemon thread of its own, which may be left behind.

    Attributes:
        worked: it returned something other than False.
    """

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work
        self._done = threading.Event()
        self.worked = False
        try:
            threading.Thread(target=self._run, name="acrux-otel-wait", daemon=True).start()
        except RuntimeError:  # the interpreter is ending
            self._done.set()

    def _run(self) -> None:
        try:
            self.worked = self._work() is not False
        except BaseException:
            self.worked = False
        finally:
            self._done.set()

    def wait(self, deadline: float) -> bool:
        """Whether it is over before ``deadline``."""
        return self._done.wait(max(0.0, deadline - monotonic()))


_outlets: list[Outlet] = []
_forked: WeakSet[object] = WeakSet()
_exit_timeout = EXIT_TIMEOUT
_deadline: float | None = None
_registered = False
_workers_watched = False


def add(outlet: Outlet, *, waits: bool = False) -> None:
    """Flush ``outlet`` with the others, and end it with the process.

    Args:
        waits: its end begins only when it is waited for, so that comes first.
    """
    global _registered
    _outlets.insert(0 if waits else len(_outlets), outlet)
    if not _registered:
        _registered = True
        # urllib3 closes its pools by finalisers. The first one made asks to be run at exit; made on our
        # thread while the process already ends, it would ask too late and speak up in the teardown.
        finalize(close_all, int)
        atexit.register(close_all)


def exit_timeout() -> float:
    """Seconds that the end of the process may be held; 0 does not wait."""
    return _exit_timeout


def set_exit_timeout(seconds: float) -> None:
    """See `exit_timeout`."""
    global _exit_timeout
    _exit_timeout = seconds


def exit_deadline() -> float | None:
    """Until when the process may be held, once it has begun to end."""
    global _deadline
    if _deadline is None and not threading.main_thread().is_alive():
        _deadline = monotonic() + _exit_timeout
    return _deadline


def flush_all(timeout: float, others: Iterable[Blocking] = ()) -> bool:
    """Flush everything at once; whether all is sent before ``timeout`` seconds are over."""
    deadline = monotonic() + timeout
    jobs = [Job(partial(other.done_by, deadline)) for other in others]
    jobs += [Job(partial(outlet.flush_by, deadline)) for outlet in _outlets]
    for job in jobs:
        job.wait(deadline)
    return all(job.worked for job in jobs)


def close_all() -> None:
    """Send what can be sent within the exit timeout, then let go."""
    global _deadline
    _deadline = deadline = monotonic() + _exit_timeout
    for outlet in _outlets:
        outlet.end_by(deadline)
    for outlet in _outlets if _exit_timeout else ():
        outlet.ended_by(deadline)


def handle_sigterm() -> bool:
    """Deliver at SIGTERM too, then end by that signal; only where nobody handles it already.

    Returns:
        Whether the handler is in place; Python sets handlers in the main thread only.
    """
    if threading.current_thread() is not threading.main_thread():
        return False
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return False
    signal.signal(signal.SIGTERM, _on_sigterm)
    return True


def _on_sigterm(number: int, frame: FrameType | None) -> None:
    from acrux_otel.export.flushing import flush_joined

    signal.signal(number, signal.SIG_DFL)
    try:
        deadline = monotonic() + _exit_timeout
        close_all()
        flush_joined(deadline)
    finally:
        os.kill(os.getpid(), number)


def reset_in_children(part: object) -> None:
    """Have ``part.after_fork()`` called in a forked child, for as long as ``part`` lives."""
    _forked.add(part)


def _after_fork() -> None:
    global _deadline
    _deadline = None
    for part in list(_forked):
        part.after_fork()  # type: ignore[attr-defined]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def flush_at_end_of_workers() -> None:
    """A multiprocessing worker ends by `os._exit`, which knows no atexit, but runs finalizers before."""
    global _workers_watched
    if _workers_watched:
        return
    _workers_watched = True
    from multiprocessing import parent_process, util

    util.register_after_fork(sys.modules[__name__], _finalize_worker)
    if parent_process() is not None:
        _finalize_worker()


def _finalize_worker(_: object = None) -> None:
    from multiprocessing import util

    util.Finalize(None, _flush_worker, exitpriority=0)


def _flush_worker() -> None:
    from acrux_otel.export.flushing import flush

    flush(_exit_timeout)
