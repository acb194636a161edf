# SPDX-License-Identifier: Apache-2.0
"""The circuit breaker: after enough failures nobody asks the service any more, until one probe succeeds.

A permit is taken before the body runs and before anything is awaited, under a lock that knows neither
threads nor event loops; it carries the circuit's generation, so that an answer which comes after the state
has changed moves nothing. Imports `.checks`, `.clock` and `.locking`.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, Literal
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary

from acrux_otel import attributes as names
from acrux_otel import metrics
from acrux_otel.guard.checks import number
from acrux_otel.guard.clock import SYSTEM, Clock
from acrux_otel.guard.locking import LOCK, forks

if TYPE_CHECKING:
    from acrux_otel.run import Run

__all__ = ["Circuit", "CircuitBreaker", "CircuitState"]


class CircuitState(str, enum.Enum):
    """Where a circuit stands."""

    CLOSED = "closed"
    HALF_OPEN = "half_open"
    OPEN = "open"

    def __str__(self) -> str:
        return self.value


_CLOSED: Final = CircuitState.CLOSED
_HALF_OPEN: Final = CircuitState.HALF_OPEN
_OPEN: Final = CircuitState.OPEN
_LEVEL: Final = {_CLOSED: 0, _HALF_OPEN: 1, _OPEN: 2}


class Circuit:
    """One circuit. `enter` gives a permit or None; exactly one of the three outcomes gives it back.

    Attributes:
        quiet: closed, and no failure is remembered: there is nothing that a success could change.
        generation: counts the changes of state; it is the permit.
        cause: errorCode of the failure that opened it last.
    """

    __slots__ = (
        "__weakref__",
        "_breaker",
        "_dropped",
        "_fork",
        "_opened_at",
        "_passed",
        "_probe_at",
        "_probes",
        "_recent",
        "_state",
        "_streak",
        "cause",
        "generation",
        "name",
        "quiet",
    )

    def __init__(self, name: str, breaker: CircuitBreaker) -> None:
        self.name, self._breaker = name, breaker
        self._state = _CLOSED
        self.quiet = True
        self.generation = 0
        self.cause: str | None = None
        self._streak = 0
        self._recent: deque[float] = deque()
        self._opened_at = self._probe_at = 0.0
        self._probes = self._passed = 0
        self._dropped: deque[int] = deque()
        self._fork = forks()
        with LOCK:
            _circuits.add(self)

    @property
    def state(self) -> CircuitState:
        """The state now; ``half_open`` also when the cool-down is over and no probe has asked yet."""
        with LOCK:
            if self._state is _OPEN and self.wait() <= 0:
                return _HALF_OPEN
            return self._state

    def wait(self) -> float:
        """Seconds until a probe may be admitted; 0 where one may be now."""
        with LOCK:
            since = self._opened_at if self._state is _OPEN else self._probe_at
            if self._state is _CLOSED:
                return 0.0
            return max(0.0, since + self._breaker.cooldown - self._breaker.clock.now())

    def enter(self) -> int | None:
        """A permit for one attempt; None: do not ask the service now."""
        with LOCK:
            if self._state is _CLOSED:
                return self.generation
            if self._state is _OPEN:
                if self.wait() > 0:
                    return None
                self._turn(_HALF_OPEN)
            else:
                self._reclaim()
                if self._probes + self._passed >= self._breaker.half_open:
                    return None
            self._probes += 1
            self._probe_at = self._breaker.clock.now()
            return self.generation

    def succeeded(self, permit: int) -> bool:
        """The service answered. Whether this closed the circuit."""
        with LOCK:
            if permit != self.generation or self._state is _OPEN:
                return False
            if self._state is _CLOSED:
                # Failures within a window count whatever lies between them.
                if self._breaker.window is None and self._streak:
                    self._streak = 0
                    self.quiet = True
                return False
            self._probes = max(0, self._probes - 1)
            self._passed += 1
            if self._passed < self._breaker.half_open:
                return False
            self._turn(_CLOSED)
            return True

    def failed(self, permit: int, cause: str | None = None) -> bool:
        """The service did not answer as it should. Whether this opened the circuit."""
        with LOCK:
            if permit != self.generation or self._state is _OPEN:
                return False
            if self._state is _CLOSED:
                self.quiet = False
                if self._counted() < self._breaker.failures:
                    return False
            self.cause = cause
            self._turn(_OPEN)
            self._opened_at = self._breaker.clock.now()
            return True

    def neutral(self, permit: int) -> None:
        """The attempt told nothing of the service; a probe's place is free again."""
        with LOCK:
            if permit == self.generation and self._state is _HALF_OPEN:
                self._probes = max(0, self._probes - 1)

    def dropped(self, permit: int) -> None:
        """As `neutral`, for finalizers: takes no lock."""
        self._dropped.append(permit)

    def reset(self) -> None:
        """Close it and forget all failures; what is still in flight counts no more."""
        with LOCK:
            self._turn(_CLOSED)

    def _counted(self) -> int:
        window = self._breaker.window
        if window is None:
            self._streak += 1
            return self._streak
        now = self._breaker.clock.now()
        recent = self._recent
        recent.append(now)
        while now - recent[0] > window or len(recent) > self._breaker.failures:
            recent.popleft()
        return len(recent)

    def _turn(self, state: CircuitState) -> None:
        self._state = state
        self.generation += 1
        self._streak = self._probes = self._passed = 0
        self._recent.clear()
        self._dropped.clear()
        self._fork = forks()
        self.quiet = state is _CLOSED

    def _reclaim(self) -> None:
        """Free the places of probes that will not come back."""
        if self._fork != forks():  # they run in the process that this one was forked from
            self._probes, self._fork = 0, forks()
        while self._dropped:
            if self._dropped.popleft() == self.generation:
                self._probes = max(0, self._probes - 1)
        # A probe that hangs must not keep the circuit from ever being tried again; its answer, should it
        # come, still counts.
        if self._probes and self.wait() <= 0:
            self._probes -= 1


class CircuitBreaker:
    """Settings of circuits, and the circuits themselves.

    Args:
        failures: so many failures in a row open a circuit; with ``window``, so many within it.
        window: seconds; counts failures also where successes lie between them (a flapping service).
        cooldown: seconds for which an open circuit refuses every call.
        half_open: probes that are admitted after that, and that must all succeed to close it.
        per: ``"tool"``: each tool that it guards has a circuit of its own; ``"run"``: in each agent run.
        key: one circuit for everything that uses this key in the process, whichever breaker it has.
        clock: for simulations.

    Raises:
        ValueError: a setting out of its range, or other settings than an earlier breaker of this key.
    """

    def __init__(
        self,
        failures: int = 3,
        window: float | None = None,
        cooldown: float = 20.0,
        half_open: int = 1,
        *,
        per: Literal["tool", "run"] = "tool",
        key: str | None = None,
        clock: Clock | None = None,
    ) -> None:
        owner = "CircuitBreaker"
        number(owner, "failures", failures, 1, 10_000, whole=True)
        number(owner, "window", window, 0, 86_400, above=True, optional=True)
        number(owner, "cooldown", cooldown, 0, 86_400, above=True)
        number(owner, "half_open", half_open, 1, 100, whole=True)
        if per not in ("tool", "run"):
            raise ValueError(f"CircuitBreaker(per=) is {per!r:.60}; expected 'tool' or 'run'")
        if key is not None and (not isinstance(key, str) or not key):
            raise ValueError(f"CircuitBreaker(key=) is {key!r:.60}; expected a name, or None")
        if key is not None and per == "run":
            raise ValueError("CircuitBreaker(key=, per='run'): a key is shared by all runs; give one of them")
        self.failures, self.window, self.cooldown, self.half_open = failures, window, cooldown, half_open
        self.per, self.key, self.clock = per, key, clock or SYSTEM
        self._tools: dict[str, Circuit] = {}
        self._runs: WeakKeyDictionary[Run, dict[str, Circuit]] = WeakKeyDictionary()
        self._shared = self._of_key(key) if key is not None else None

    def _of_key(self, key: str) -> Circuit:
        with LOCK:
            found = _keyed.get(key)
            if found is None:
                found = _keyed[key] = Circuit(key, self)
            theirs = found._breaker
            if theirs._settings() != self._settings():
                raise ValueError(
                    f"CircuitBreaker(key={key!r}) exists with {theirs}; give it the same settings, or use "
                    "another key"
                )
            return found

    def circuit(self, name: str, run: Run | None = None) -> Circuit:
        """The circuit that a call of the tool ``name`` goes through."""
        if self._shared is not None:
            return self._shared
        with LOCK:
            circuits = self._tools
            if run is not None and self.per == "run":
                circuits = self._runs.setdefault(run, {})
            found = circuits.get(name)
            if found is None:
                found = circuits[name] = Circuit(name, self)
            return found

    def _all(self) -> Iterator[Circuit]:
        if self._shared is not None:
            yield self._shared
        yield from list(self._tools.values())
        for circuits in list(self._runs.values()):
            yield from list(circuits.values())

    @property
    def state(self) -> CircuitState:
        """The worst state among its circuits; ``closed`` before the first call."""
        return max((each.state for each in self._all()), key=_LEVEL.__getitem__, default=_CLOSED)

    @property
    def states(self) -> dict[str, CircuitState]:
        """State by tool name or key; the worst, where each run has its own."""
        return _worst(self._all())

    def reset(self) -> None:
        """Close all its circuits."""
        for each in self._all():
            each.reset()

    def _settings(self) -> tuple[Any, ...]:
        return self.failures, self.window, self.cooldown, self.half_open, self.clock

    def __repr__(self) -> str:
        return (
            f"CircuitBreaker(failures={self.failures}, window={self.window}, cooldown={self.cooldown:g}, "
            f"half_open={self.half_open})"
        )


_circuits: Final[WeakSet[Circuit]] = WeakSet()
_keyed: Final[WeakValueDictionary[str, Circuit]] = WeakValueDictionary()


def _worst(circuits: Iterable[Circuit]) -> dict[str, CircuitState]:
    found: dict[str, CircuitState] = {}
    for each in circuits:
        state = each.state
        if _LEVEL[state] >= _LEVEL[found.get(each.name, _CLOSED)]:
            found[each.name] = state
    return found


def _read() -> Iterable[tuple[float, dict[str, Any]]]:
    with LOCK:
        known = list(_circuits)
    return [(_LEVEL[state], {names.TOOL_NAME: name}) for name, state in _worst(known).items()]


metrics.gauge(names.CIRCUIT_METRIC, "1", "Circuit breaker of a tool: 0 closed, 1 half open, 2 open.", _read)
