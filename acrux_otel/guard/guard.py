# SPDX-License-Identifier: Apache-2.0
"""`Guard`: one place for retries, time limits, circuit breaker, policy and fallback of a call."""

from __future__ import annotations

import types
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import WeakKeyDictionary

from acrux_otel import drive
from acrux_otel.definition import ToolDefinition, define
from acrux_otel.definition.callables import default_name
from acrux_otel.guard import driving
from acrux_otel.guard.allowance import allowance_of
from acrux_otel.guard.breaker import Circuit, CircuitBreaker
from acrux_otel.guard.checks import number
from acrux_otel.guard.clock import SYSTEM, Clock
from acrux_otel.guard.part import PartSite
from acrux_otel.guard.policy import Allowed, Policy
from acrux_otel.guard.retry import Retry
from acrux_otel.run import current_run
from acrux_otel.seam import ToolSite

if TYPE_CHECKING:
    from acrux_otel.guard.unavailable import NextStep

__all__ = ["Guard"]

F = TypeVar("F", bound=Callable[..., Any])
_UNSET: Final[Any] = object()
_ONCE: Final = Retry(max_attempts=1)


class Guard:
    """Stands around a tool: ``@tool(guard=Guard(...))``, ``configure(guard=...)``, or any callable.

    One guard may stand around many tools: each has a circuit of its own, unless the breaker says otherwise.
    A function that is no tool is part of the tool call that it is used in; outside of one it is a call
    itself, with a span. Guards within guards add their retries up instead of multiplying them.

    Args:
        retry: None makes one attempt only.
        breaker: None asks the service always. Left out, three failures in a row open a circuit for 20 s.
        timeout: seconds for one attempt. A plain function then runs in a thread of its own, with a copy of
            the context; one that comes late goes on there, and what it returns is dropped. A generator's
            attempt lasts until its first item.
        deadline: seconds for all attempts and the waits between them; the same threads.
        fallback: what to answer instead where the service fails or is not asked: a value (each caller gets
            a copy), or ``fn(verdict)``, a coroutine function for an asynchronous tool. It covers no failure
            that is the caller's (a bad argument, 404), no denial and no cancellation.
        allowed: names of the tools that may run, or ``fn(name, arguments) -> bool``.
        next_step: what `ToolUnavailable` advises: ``fallback``, ``partial`` or ``escalate``; left out,
            ``partial`` where the run has answers already.
        clock: for simulations.

    Raises:
        ValueError: a setting that can never work; one line says which, and the allowed range.
    """

    def __init__(
        self,
        retry: Retry | None = _UNSET,
        breaker: CircuitBreaker | None = _UNSET,
        *,
        timeout: float | None = None,
        deadline: float | None = None,
        fallback: Any = _UNSET,
        allowed: Allowed | None = None,
        next_step: NextStep | None = None,
        clock: Clock | None = None,
    ) -> None:
        number("Guard", "timeout", timeout, 0, 86_400, above=True, optional=True)
        number("Guard", "deadline", deadline, 0, 86_400, above=True, optional=True)
        for field, given, kind in (
            ("retry", retry, Retry),
            ("breaker", breaker, CircuitBreaker),
            ("clock", clock, Clock),
        ):
            if given is not None and given is not _UNSET and not isinstance(given, kind):
                raise ValueError(f"Guard({field}=) is {given!r:.60}; expected a {kind.__name__}, or None")
        if next_step not in (None, "fallback", "partial", "escalate"):
            raise ValueError(
                f"Guard(next_step=) is {next_step!r:.60}; expected 'fallback', 'partial' or 'escalate'"
            )
        self.clock = clock or SYSTEM
        self.retry = Retry() if retry is _UNSET else retry or _ONCE
        self.retry_codes = self.retry.retry_codes
        self.breaker = CircuitBreaker(clock=self.clock) if breaker is _UNSET else breaker
        self.timeout, self.deadline = timeout, deadline
        self.fallback, self.has_fallback = fallback, fallback is not _UNSET
        self.policy = Policy(allowed) if allowed is not None else None
        self.next_step = next_step
        self.allowance = allowance_of(self.clock)
        self._wrapped: tuple[WeakKeyDictionary[Any, Any], ...] = (WeakKeyDictionary(), WeakKeyDictionary())

    def __call__(self, function: F) -> F:
        """Decorate a function, or a tool whose guard this then is."""
        if getattr(function, "__acrux_tool__", None) is not None:
            from acrux_otel.tool import tool

            return tool(guard=self)(function)
        if not callable(function):
            raise TypeError(f"Guard was put on {function!r:.60}; expected a function or another callable")
        made: F = self._wrap(function, function)
        return made

    def call(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call ``function(*args, **kwargs)`` under this guard.

        Returns:
            What the function returns, or the fallback.

        Raises:
            ToolUnavailable: it was not called at all, and there is no fallback.
            BaseException: what its last attempt raised.
        """
        function, bound = _apart(function)
        return self._known(function, plain=True)(*bound, *args, **kwargs)

    async def acall(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """As `call`, and await the result; the waits between attempts leave the event loop free.

        A plain function runs on the event loop, or in a thread where this guard has a time limit.
        """
        function, bound = _apart(function)
        result = self._known(function, plain=False)(*bound, *args, **kwargs)
        return await result if isinstance(result, Awaitable) else result

    def _known(self, function: Any, *, plain: bool) -> Any:
        known = self._wrapped[plain]
        try:
            wrapped = known.get(function)
        except TypeError:  # cannot be hashed or weakly referenced
            return self._made(function, plain=plain)
        if wrapped is None:
            wrapped = self._made(function, plain=plain)
            try:
                known[function] = wrapped
            except TypeError:
                pass
        return wrapped

    def _made(self, function: Any, *, plain: bool) -> Any:
        if plain or getattr(function, "__acrux_tool__", None) is not None:
            return self(function)
        return self._wrap(driving.awaited(self, function), function)

    def _wrap(self, function: Any, given: Any) -> Any:
        from acrux_otel.tool import like, site_of

        definition = _define(given)
        site = site_of(given, definition, {"guard": self}, kind=PartSite)
        return like(drive.wrap(function, site), given, definition.name)

    def around(self, fn: Any, site: ToolSite) -> Callable[..., Any]:
        """What runs under a call of ``site``: ``fn``, guarded, and of its kind."""
        return driving.around(self, fn, site)

    def circuit(self, site: ToolSite) -> Circuit | None:
        """The circuit of a call made now."""
        if self.breaker is None:
            return None
        run = current_run() if self.breaker.per == "run" else None
        return self.breaker.circuit(site.name, run)

    def fixed_circuit(self, site: ToolSite) -> Circuit | None:
        """The circuit of every call of ``site``; None where a call has more to ask than its circuit."""
        breaker = self.breaker
        limited = self.timeout is not None or self.deadline is not None or self.policy is not None
        if breaker is None or breaker.per == "run" or limited:
            return None
        return breaker.circuit(site.name)

    def __repr__(self) -> str:
        return f"Guard({self.retry!r}, {self.breaker!r}, timeout={self.timeout}, deadline={self.deadline})"


def _apart(function: Any) -> tuple[Any, tuple[Any, ...]]:
    """A bound method is made anew at each look, so what is remembered belongs to its function."""
    if isinstance(function, types.MethodType):
        return function.__func__, (function.__self__,)
    return function, ()


def _define(function: Any) -> ToolDefinition:
    name = default_name(function) or "callable"
    try:
        return define(function, name=name)
    except (TypeError, ValueError):  # what no model could call can be guarded all the same
        return ToolDefinition(function, name)
