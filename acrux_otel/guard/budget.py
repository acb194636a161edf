# SPDX-License-Identifier: Apache-2.0
"""What one agent run may use up: calls, repeats, failures, time, money. Over it, no further body runs."""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Final
from weakref import WeakSet

from acrux_otel import attributes as names
from acrux_otel import metrics
from acrux_otel.call import Call, Joined, observe, observers, problem, unobserve
from acrux_otel.classify import not_executed
from acrux_otel.definition.fingerprint import as_json, canonical
from acrux_otel.expected import EXPECTED
from acrux_otel.guard.checks import number
from acrux_otel.guard.clock import SYSTEM, Clock
from acrux_otel.guard.locking import LOCK
from acrux_otel.guard.unavailable import BUDGET_EXHAUSTED, ToolUnavailable
from acrux_otel.settings import NONE, settings
from acrux_otel.verdict import Outcome, Verdict, warn_once

__all__ = ["RunBudget", "Spending", "record_cost", "spending"]

_KEY: Final = secrets.token_bytes(32)
_SPENDING: Final[ContextVar[Spending | None]] = ContextVar("acrux_otel.spending", default=None)
_REMEMBERED: Final = 10_000  # different calls of one run


class RunBudget:
    """Limits of one run; give it to ``run(budget=)``, or use it alone: ``with RunBudget(...) as spending``.

    Every decorated tool called inside is counted, guarded or not. A call over a limit does not run: it
    raises `ToolUnavailable`, or returns the guard's fallback, with outcome ``not_executed``.

    Args:
        max_calls: tool calls.
        max_calls_per_tool: calls of each tool, or a dict with a limit by name.
        max_repeats: how often a call with the same arguments may be made again; 0: never twice.
            Not counted are calls that did not run, and what a batch resends because it had to wait.
        max_failures: calls with outcome ``error``.
        max_seconds: elapsed time; a call in progress is not cut off.
        max_cost: what `record_cost` adds up to.
        stop_on: errorCodes that end the run, such as ``{"policy_denied", "http_401", "http_403"}``.
        clock: for simulations.

    Raises:
        ValueError: a limit out of its range, or none at all.
    """

    def __init__(
        self,
        max_calls: int | None = None,
        max_calls_per_tool: int | Mapping[str, int] | None = None,
        max_repeats: int | None = None,
        max_failures: int | None = None,
        max_seconds: float | None = None,
        max_cost: float | None = None,
        stop_on: Iterable[str] = (),
        *,
        clock: Clock | None = None,
    ) -> None:
        owner = "RunBudget"
        number(owner, "max_calls", max_calls, 1, 1_000_000, whole=True, optional=True)
        if isinstance(max_calls_per_tool, Mapping):
            for name, limit in max_calls_per_tool.items():
                number(owner, f"max_calls_per_tool[{name!r}]", limit, 0, 1_000_000, whole=True)
            max_calls_per_tool = dict(max_calls_per_tool)
        else:
            number(owner, "max_calls_per_tool", max_calls_per_tool, 1, 1_000_000, whole=True, optional=True)
        number(owner, "max_repeats", max_repeats, 0, 1_000_000, whole=True, optional=True)
        number(owner, "max_failures", max_failures, 1, 1_000_000, whole=True, optional=True)
        number(owner, "max_seconds", max_seconds, 0, 1e9, above=True, optional=True)
        number(owner, "max_cost", max_cost, 0, 1e12, above=True, optional=True)
        codes = () if isinstance(stop_on, str) else tuple(stop_on)
        if isinstance(stop_on, str) or not all(isinstance(each, str) for each in codes):
            raise ValueError(f"RunBudget(stop_on=) is {stop_on!r:.60}; expected a set of errorCodes")
        self.max_calls, self.max_calls_per_tool, self.max_repeats = max_calls, max_calls_per_tool, max_repeats
        self.max_failures, self.max_seconds, self.max_cost = max_failures, max_seconds, max_cost
        self.stop_on, self.clock = frozenset(codes), clock or SYSTEM
        limits = (max_calls, max_calls_per_tool, max_repeats, max_failures, max_seconds, max_cost)
        if not self.stop_on and all(each is None for each in limits):
            raise ValueError("RunBudget() limits nothing; give at least one limit, such as max_calls=20")

    def __enter__(self) -> Spending:
        return Spending(self).begin()

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        current = _SPENDING.get()
        if current is not None:
            current.end()


class Spending:
    """What one run has used of its budget.

    Attributes:
        calls, failures: tool calls admitted, and those that failed.
        cost: what was recorded.
        stop_reason: set once a call was refused, or a code of ``stop_on`` ended the run.
    """

    def __init__(self, budget: RunBudget) -> None:
        self.budget = budget
        self.calls = self.failures = 0
        self.cost = 0.0
        self.stop_reason: str | None = None
        self._stopped: str | None = None
        self._per_tool: dict[str, int] = {}
        self._same: dict[bytes, int] = {}
        self._began = budget.clock.now()
        self._outer: Spending | None = None

    def begin(self) -> Spending:
        """Count every tool call of this context from now on, here and in the budgets around it."""
        self._outer = _SPENDING.get()
        _SPENDING.set(self)
        _watch(self, 1)
        return self

    def end(self) -> None:
        """Count no more."""
        if _SPENDING.get() is self:
            _SPENDING.set(self._outer)
        _watch(self, -1)

    @property
    def left(self) -> dict[str, float]:
        """What is left of each limit that covers the whole run: calls, failures, seconds, cost."""
        budget = self.budget
        pairs = {
            "calls": (budget.max_calls, self.calls),
            "failures": (budget.max_failures, self.failures),
            "seconds": (budget.max_seconds, budget.clock.now() - self._began),
            "cost": (budget.max_cost, self.cost),
        }
        return {name: max(0, most - used) for name, (most, used) in pairs.items() if most is not None}

    @property
    def share_left(self) -> float:
        """The smallest share of a whole-run limit that is left, 0 to 1."""
        if self._stopped is not None:
            return 0.0
        budget = self.budget
        most: dict[str, Any] = {
            "calls": budget.max_calls,
            "failures": budget.max_failures,
            "seconds": budget.max_seconds,
            "cost": budget.max_cost,
        }
        return min((left / most[name] for name, left in self.left.items()), default=1.0)

    def attributes(self) -> dict[str, Any]:
        """As written on the run's span."""
        return {names.RUN_BUDGET_PREFIX + name: left for name, left in self.left.items()}

    def seconds_left(self) -> float | None:
        """Until the first of the budgets around here ends; None: no limit in time."""
        found = [left for each in self._chain() if (left := each.left.get("seconds")) is not None]
        return min(found, default=None)

    def admit(self, call: Call) -> str | None:
        """Take one call from every budget around here; or why not, in words that a model can read."""
        chain = list(self._chain())
        compares = any(each.budget.max_repeats is not None for each in chain)
        hashed = _hash_of(call) if compares else None
        with LOCK:
            for each in chain:
                reason = each._over(call, hashed)
                if reason is not None:
                    each.stop_reason = BUDGET_EXHAUSTED
                    return f"{BUDGET_EXHAUSTED}: {reason} Answer with what you have."
            for each in chain:
                each._count(call, hashed)
        target = call.joined if isinstance(call, Joined) else call
        target.repeats = hashed
        if hashed is None or settings.storm_detection:  # which has written a hash of its own
            return None
        if settings.capture_for(call.site.capture) != NONE:
            target.lean = False
            target.attributes = {**(target.attributes or {}), names.ARGUMENTS_HASH: hashed.hex()}
        return None

    def _over(self, call: Call, hashed: bytes | None) -> str | None:
        budget, name = self.budget, call.site.name
        if self._stopped is not None:
            return self._stopped
        if budget.max_calls is not None and self.calls >= budget.max_calls:
            return f"the run has used its {_many(budget.max_calls, 'tool call')}."
        if budget.max_failures is not None and self.failures >= budget.max_failures:
            return f"the run has had {_many(self.failures, 'failed tool call')}, which is its limit."
        if budget.max_seconds is not None and budget.clock.now() - self._began >= budget.max_seconds:
            return f"the run has used its {budget.max_seconds:g} seconds."
        if budget.max_cost is not None and self.cost >= budget.max_cost:
            return f"the run has cost {self.cost:g}; its limit is {budget.max_cost:g}."
        limit = budget.max_calls_per_tool
        limit = limit.get(name) if isinstance(limit, dict) else limit
        if isinstance(limit, int) and self._per_tool.get(name, 0) >= limit:
            return f"{name} was called {_many(limit, 'time')}, which is its limit in one run."
        if budget.max_repeats is not None and hashed is not None and not _is_resend(call):
            same = self._same.get(hashed, 0)
            if same > budget.max_repeats:
                return f"{name} was called {_many(same, 'time')} with the same arguments already."
        return None

    def _count(self, call: Call, hashed: bytes | None) -> None:
        self.calls += 1
        name = call.site.name
        self._per_tool[name] = self._per_tool.get(name, 0) + 1
        if hashed is None or _is_resend(call):
            return
        if hashed in self._same or len(self._same) < _REMEMBERED:
            self._same[hashed] = self._same.get(hashed, 0) + 1

    def uncount(self, hashed: bytes) -> None:
        """A call that was admitted did not run after all, so to send it again is no repeat."""
        with LOCK:
            for each in self._chain():
                if each._same.get(hashed):
                    each._same[hashed] -= 1

    def closed(self, verdict: Verdict) -> None:
        """A call of this run ended with ``verdict``."""
        if verdict.outcome is not Outcome.ERROR:
            return
        with LOCK:
            for each in self._chain():
                each.failures += 1
                if verdict.code in each.budget.stop_on and each._stopped is None:
                    each._stopped = f"a tool call failed with {verdict.code}, which ends the run."
                    each.stop_reason = BUDGET_EXHAUSTED

    def add_cost(self, amount: float) -> None:
        """Count ``amount`` in every budget around here."""
        with LOCK:
            for each in self._chain():
                each.cost += amount

    def _chain(self) -> Iterable[Spending]:
        each: Spending | None = self
        while each is not None:
            yield each
            each = each._outer


def _many(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _is_resend(call: Call) -> bool:
    """Whether the batch runner sends it again because it had to wait for another call."""
    expected = EXPECTED.get()
    return expected is not None and expected.resend and expected.call is call


def _hash_of(call: Call) -> bytes | None:
    """A keyed hash of tool and arguments: equal for equal calls, and no dictionary finds what was in it."""
    try:
        arguments = canonical(as_json(dict(call.arguments())))
        text = f"{call.site.name}\0{arguments}".encode("utf-8", "surrogatepass")
        return hashlib.blake2b(text, digest_size=16, key=_KEY).digest()
    except Exception as error:
        problem("arguments were compared", error)
        return None


def spending() -> Spending | None:
    """The innermost budget that this context is in."""
    return _SPENDING.get()


def record_cost(amount: float) -> None:
    """Add to the cost of the run that this context is in, from inside a tool or anywhere else.

    Args:
        amount: in the currency of ``RunBudget(max_cost=)``. Outside of a budget it does nothing; what is no
            number from 0 up is ignored, with one warning.
    """
    if isinstance(amount, bool) or not isinstance(amount, (int, float)) or not 0 <= amount < math.inf:
        warn_once("cost", "record_cost(%.40r) is ignored; expected a number from 0 up", amount)
        return
    current = _SPENDING.get()
    if current is not None:
        current.add_cost(amount)


# -- what is told of calls while a budget is in force ----------------------------------------------------


def gate(call: Call) -> ToolUnavailable | None:
    """The refusal of a call that is over a budget of this context."""
    current = _SPENDING.get()
    if current is None:
        return None
    try:
        reason = current.admit(call)
    except Exception as error:
        problem("a run's budget was asked", error)
        return None
    target = call.joined if isinstance(call, Joined) else call
    target.budget = current
    target.admitted = True
    if reason is None:
        return None
    from acrux_otel.run import completed

    return ToolUnavailable(not_executed(reason), BUDGET_EXHAUSTED, completed(), "partial")


def _opened(call: Call) -> None:
    call.budget = _SPENDING.get()


def _closed(call: Call, verdict: Verdict) -> None:
    current: Spending | None = call.budget
    if current is None:
        return
    if not call.admitted and verdict.outcome is not Outcome.NOT_EXECUTED:
        # Run by a framework: it cannot be refused, but it counts.
        with LOCK:
            for each in current._chain():
                each._count(call, None)
    if call.repeats is not None and not call.executed:
        current.uncount(call.repeats)
    current.closed(verdict)


_open: Final[WeakSet[Spending]] = WeakSet()
_watching = 0


def _watch(spent: Spending, step: int) -> None:
    """Look at calls only while a budget is in force somewhere."""
    global _watching
    with LOCK:
        (_open.add if step > 0 else _open.discard)(spent)
        _watching += step
        if step > 0 and _watching == 1:
            observe(_opened, _closed)
            observers.gate = gate
        elif _watching == 0:
            unobserve(_opened, _closed)
            observers.gate = None


def _read() -> Iterable[tuple[float, dict[str, Any]]]:
    with LOCK:
        shares = [each.share_left for each in _open]
    return [(min(shares), {})] if shares else []


metrics.gauge(
    names.BUDGET_METRIC, "1", "Smallest share of a run's budget that is left, over the open runs.", _read
)
