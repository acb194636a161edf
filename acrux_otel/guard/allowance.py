# SPDX-License-Identifier: Apache-2.0
"""The retry budget: however many calls fail at once, retries stay a small share of a process's calls.

A fixed number of attempts still doubles the load on a service that is already down; a share of all calls
cannot. Imports `.clock` and `.locking`.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final
from weakref import WeakKeyDictionary

from acrux_otel import attributes as names
from acrux_otel import metrics
from acrux_otel.guard.clock import SYSTEM, Clock
from acrux_otel.guard.locking import LOCK

__all__ = ["SHARE", "RetryAllowance", "allowance_of"]

SHARE: Final = 0.2  # of all calls
_WINDOW: Final = 10.0  # seconds
_ALWAYS: Final = 10  # retries that any window may have
_SAMPLE_EVERY: Final = 0.25  # seconds


class RetryAllowance:
    """Counts guarded calls and retries on one clock.

    A healthy call costs one step of a counter. Only failures look at the time, so how many calls the last
    ten seconds had is known from the samples that failures left; before there are any, it is taken as few.

    Attributes:
        count: call it once for each guarded call.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._counter = itertools.count()
        self.count: Callable[[], int] = self._counter.__next__
        self._looks = 0  # reading the counter moves it
        self._samples: deque[tuple[float, int]] = deque()
        self._retries: deque[float] = deque()

    def take(self, share: float | None) -> bool:
        """Whether one more retry may be made now; it then counts as made.

        Args:
            share: retries per call that are allowed beyond the ten of any ten seconds; None: any number.
        """
        with LOCK:
            now = self._clock.now()
            calls = self._calls(now)
            fits = share is None or self._left(share, calls) > 0
            if fits:
                self._retries.append(now)
            return fits

    def left(self, share: float) -> int:
        """How many retries could be made right now."""
        with LOCK:
            return max(0, self._left(share, self._calls(self._clock.now())))

    def _left(self, share: float, calls: int) -> int:
        return max(_ALWAYS, int(share * calls)) - len(self._retries)

    def _calls(self, now: float) -> int:
        """Calls in the window, as far as samples tell; also forgets what is older."""
        total = self.count() - self._looks
        self._looks += 1
        samples, retries = self._samples, self._retries
        if not samples or now - samples[-1][0] >= _SAMPLE_EVERY:
            samples.append((now, total))
        # The newest sample that is as old as the window is its beginning.
        while len(samples) > 1 and now - samples[1][0] >= _WINDOW:
            samples.popleft()
        while retries and now - retries[0] >= _WINDOW:
            retries.popleft()
        since, before = samples[0]
        age = now - since
        calls = total - before
        return calls if age <= _WINDOW else int(calls * _WINDOW / age)


_of_clock: Final[WeakKeyDictionary[Clock, RetryAllowance]] = WeakKeyDictionary()


def allowance_of(clock: Clock) -> RetryAllowance:
    """The allowance of all guards on ``clock``: of the process, for the system's clock."""
    with LOCK:
        found = _of_clock.get(clock)
        if found is None:
            found = _of_clock[clock] = RetryAllowance(clock)
        return found


def _read() -> Iterable[tuple[float, dict[str, Any]]]:
    return [(allowance_of(SYSTEM).left(SHARE), {})]


metrics.gauge(names.RETRY_BUDGET_METRIC, "{retry}", "Retries that the process may make right now.", _read)
