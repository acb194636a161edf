# SPDX-License-Identifier: Apache-2.0
"""`run()`: one agent run, its span and the summary of its tool calls."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import threading
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from opentelemetry.context import Context, attach, get_current
from opentelemetry.trace import Span, TracerProvider, set_span_in_context

from acrux_otel import attributes as names
from acrux_otel import span
from acrux_otel.sanitize import DETAIL_LIMIT, text
from acrux_otel.seam import Call, observe, problem, unobserve
from acrux_otel.settings import settings
from acrux_otel.verdict import Outcome, Verdict

if TYPE_CHECKING:
    from acrux_otel.guard.budget import RunBudget, Spending

__all__ = ["Run", "RunSummary", "completed", "current_run", "run"]

F = TypeVar("F", bound=Callable[..., Any])
_RUN: Final[ContextVar[Run | None]] = ContextVar("acrux_otel.run", default=None)
_ANSWERED: Final = (Outcome.OK, Outcome.WARNING)
_NAMED: Final = 100
_lock = threading.RLock()  # a signal handler or a finaliser may open a run in the middle of it
_open_runs = 0


@dataclasses.dataclass
class RunSummary:
    """The tool calls made under a run in this process, so far.

    Attributes:
        calls: calls made, without those that were not executed.
        failed, warned, not_executed: calls by outcome.
        retries: attempts after the first.
        first_failed: name and verdict of the first failing tool.
        completed: names of the tools that have answered, in the order of their first answer.
        stop_reason: why a guard ended the run.
    """

    calls: int = 0
    failed: int = 0
    warned: int = 0
    not_executed: int = 0
    retries: int = 0
    first_failed: tuple[str, Verdict] | None = None
    completed: dict[str, None] = dataclasses.field(default_factory=dict, repr=False)
    stop_reason: str | None = None

    @property
    def outcome(self) -> Outcome:
        """Red if any call failed, amber if any warned, else green."""
        if self.failed:
            return Outcome.ERROR
        return Outcome.WARNING if self.warned else Outcome.OK

    def add(self, name: str, verdict: Verdict, attempts: int) -> None:
        """Count one call."""
        outcome = verdict.outcome
        if outcome is Outcome.NOT_EXECUTED:
            self.not_executed += 1
            return
        self.calls += 1
        self.retries += max(0, attempts - 1)
        if outcome in _ANSWERED and verdict.code != "fallback_used" and len(self.completed) < _NAMED:
            self.completed[name] = None
        if outcome is Outcome.WARNING:
            self.warned += 1
        elif outcome is Outcome.ERROR:
            self.failed += 1
            if self.first_failed is None:
                self.first_failed = (name, verdict)

    def attributes(self) -> dict[str, Any]:
        """As written on the run's span."""
        written: dict[str, Any] = {
            names.TRACE_OUTCOME: self.outcome.value,
            names.RUN_CALLS: self.calls,
            names.RUN_FAILED: self.failed,
            names.RUN_WARNED: self.warned,
            names.RUN_NOT_EXECUTED: self.not_executed,
            names.RUN_RETRIES: self.retries,
        }
        if self.first_failed is not None:
            name, verdict = self.first_failed
            written[names.RUN_FIRST_FAILED_TOOL] = name
            if verdict.error_type is not None:
                written[names.RUN_FIRST_FAILED_TYPE] = verdict.error_type.value
                written[names.RUN_FIRST_FAILED_CODE] = verdict.code or "unspecified"
        if self.stop_reason is not None:
            written[names.RUN_STOP_REASON] = self.stop_reason
        return written


class Run:
    """One agent run: ``with``, ``async with``, or a decorator that opens a run for each call.

    Attributes:
        name: the agent's or the task's name.
        summary: counts of the tool calls made under it, live.
        spending: what it has used of its budget; None where it has none.
    """

    def __init__(
        self,
        name: str,
        tags: Iterable[str] = (),
        session_id: str | None = None,
        tracer_provider: TracerProvider | None = None,
        budget: RunBudget | None = None,
    ) -> None:
        self.name, self.tags, self.session_id = name, tuple(tags), session_id
        self.summary = RunSummary()
        self.spending: Spending | None = None
        self._budget = budget
        self.span: Span | None = None
        self._tracer_provider = tracer_provider
        self._lock = threading.RLock()
        self._context: Context | None = None
        self._entered = False

    @property
    def trace_id(self) -> str | None:
        """The trace's id, 32 hexadecimal digits; None where no SDK is set up."""
        context = self.span.get_span_context() if self.span is not None else None
        return f"{context.trace_id:032x}" if context is not None and context.is_valid else None

    def add(self, name: str, verdict: Verdict, attempts: int) -> None:
        """Count one call; safe from any thread."""
        with self._lock:
            self.summary.add(name, verdict, attempts)

    def __enter__(self) -> Run:
        if self._entered:
            raise RuntimeError(f"run({self.name!r}) was entered before; make a new one for each run")
        self._entered = True
        self._outer = _RUN.get()
        _RUN.set(self)
        _watch(1)
        if self._budget is not None:
            self.spending = self._budget.__enter__()
        try:
            self._start()
        except Exception as error:
            problem("a run began", error)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _watch(-1)
        if self.spending is not None:
            self.spending.end()
            self.summary.stop_reason = self.spending.stop_reason
        if _RUN.get() is self:  # else it ends in a Context that never was its own
            _RUN.set(self._outer)
            if self._context is not None:
                attach(self._previous)
        if self.span is None:
            return
        try:
            self._finish(self.span, exc)
        except Exception as error:
            problem("a run's summary was recorded", error)
        try:
            self.span.end()
        except Exception as error:
            problem("a run's span ended", error)

    async def __aenter__(self) -> Run:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.__exit__(kind, exc, traceback)

    def __call__(self, function: F) -> F:
        """Open a run like this one for each call of ``function``."""
        if not callable(function):
            raise TypeError(f"run({self.name!r}) was given {function!r:.80} to decorate; expected a function")
        if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
            raise TypeError(
                f"run({self.name!r}) was given the generator function {function.__name__!r}; "
                "use `with run(...)` inside it"
            )
        called = function if inspect.isroutine(function) else type(function).__call__
        if inspect.iscoroutinefunction(called):

            @functools.wraps(function)
            async def run_async(*args: Any, **kwargs: Any) -> Any:
                async with self._again():
                    return await function(*args, **kwargs)

            return run_async  # type: ignore[return-value]

        @functools.wraps(function)
        def run_function(*args: Any, **kwargs: Any) -> Any:
            with self._again():
                return function(*args, **kwargs)

        return run_function  # type: ignore[return-value]

    def _again(self) -> Run:
        return Run(self.name, self.tags, self.session_id, self._tracer_provider, self._budget)

    def _start(self) -> None:
        start = span.OURS.starter(self._tracer_provider)
        if start is None:
            return
        attributes: dict[str, Any] = {
            names.OPERATION_NAME: names.INVOKE_AGENT,
            names.AGENT_NAME: text(self.name, DETAIL_LIMIT),
        }
        if self.session_id is not None:
            attributes[names.SESSION_ID] = text(self.session_id, DETAIL_LIMIT)
        for tag in self.tags:
            attributes[names.TAG_PREFIX + text(tag, 128)] = True
        parent = get_current()
        self.span = start(
            f"{names.INVOKE_AGENT} {attributes[names.AGENT_NAME]}", parent, span.INTERNAL, attributes
        )
        if self.span.get_span_context().is_valid:
            self._previous = parent
            self._context = set_span_in_context(self.span, parent)
            attach(self._context)

    def _finish(self, target: Span, exc: BaseException | None) -> None:
        if not target.is_recording():
            return
        with self._lock:
            written = self.summary.attributes()
        if self.spending is not None:
            written |= self.spending.attributes()
        span.enrich(target, written)
        if isinstance(exc, Exception):
            span.fail(target, exc, settings.capture_for(3))


def run(
    name: str,
    *,
    tags: Iterable[str] | None = (),
    session_id: str | None = None,
    tracer_provider: TracerProvider | None = None,
    budget: RunBudget | None = None,
) -> Run:
    """One agent run: a span that everything inside belongs to, with a summary of its tool calls.

    Args:
        name: the agent's or the task's name.
        tags: recorded as ``acrux.tag.{tag}=true``.
        session_id: the conversation that the run belongs to.
        tracer_provider: instead of the one in force.
        budget: what the run may use up, ``RunBudget(max_calls=20, ...)``; a decorated function has it anew
            for each run.

    Returns:
        A `Run`: use it with ``with`` or ``async with``, or as a decorator.

    Raises:
        TypeError: a name, tag or session id that is not a string, or a budget that is none.
    """
    if not isinstance(name, str) or not name:
        raise TypeError(f"run(name) is {name!r}; expected a non-empty string")
    tags = tags or ()
    if isinstance(tags, str):
        raise TypeError(f"run(tags=) is the string {tags!r}; expected a list of strings, such as [{tags!r}]")
    tags = tuple(tags)
    for tag in tags:
        if not isinstance(tag, str) or not tag:
            raise TypeError(f"run(tags=) holds {tag!r}; expected non-empty strings")
    if session_id is not None and not isinstance(session_id, str):
        raise TypeError(f"run(session_id=) is {session_id!r}; expected a string")
    if budget is not None:
        from acrux_otel.guard.budget import RunBudget

        if not isinstance(budget, RunBudget):
            raise TypeError(
                f"run(budget=) is {budget!r:.60}; expected a RunBudget, such as RunBudget(max_calls=20)"
            )
    return Run(name, tags, session_id, tracer_provider, budget)


def current_run() -> Run | None:
    """The run that this context is in."""
    return _RUN.get()


def completed() -> tuple[str, ...]:
    """Names of the tools that have answered in the run that this context is in."""
    current = _RUN.get()
    return () if current is None else tuple(current.summary.completed)


def _opened(call: Call) -> None:
    call.run = _RUN.get()


def _closed(call: Call, verdict: Verdict) -> None:
    if call.run is not None:
        call.run.add(call.site.name, verdict, call.attempts)


def _watch(runs: int) -> None:
    """Look at every call of the process only while a run is open."""
    global _open_runs
    with _lock:
        _open_runs += runs
        if _open_runs == 1 and runs == 1:
            observe(_opened, _closed)
        elif _open_runs == 0:
            unobserve(_opened, _closed)
