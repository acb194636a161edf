# SPDX-License-Identifier: Apache-2.0
"""Runs the calls of one turn on one event loop, so that each gets exactly one answer, whatever happens.

Async tools are tasks, sync tools threads, each in a copy of the caller's context. A call that is still
running when the turn ends is answered and its span ended; what its tool does afterwards is dropped.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import inspect
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from time import perf_counter
from typing import Any, Final

from acrux_otel import deadline
from acrux_otel.batch import results as answers
from acrux_otel.batch.arguments import Refused
from acrux_otel.batch.calls import ToolCall
from acrux_otel.batch.order import Plan
from acrux_otel.batch.results import BatchResult
from acrux_otel.batch.session import Ran, ToolSession
from acrux_otel.batch.spans import record_refused, record_skipped
from acrux_otel.batch.toolbox import Runnable
from acrux_otel.batch.toolsets import skip_reason
from acrux_otel.classify import classify, unknown_tool
from acrux_otel.expected import EXPECTED, Expected
from acrux_otel.verdict import Outcome, ToolCallResult, Verdict, warn_once

__all__ = ["Turn"]

_GRACE: Final = 1.0  # seconds that a cancelled task gets to end
_CANCELLED: Final = Verdict(Outcome.CANCELLED)


class _Running:
    """A call that has begun and has no answer yet."""

    __slots__ = ("began", "expected", "task", "thread", "tool")

    def __init__(self, tool: Runnable, expected: Expected) -> None:
        self.tool, self.expected = tool, expected
        self.began = perf_counter()
        self.task: asyncio.Task[None] | None = None
        self.thread: Future[Any] | None = None


class Turn:
    """The calls of one turn, from plan to answers.

    Args:
        calls: in the order asked.
        tools: the tool of each; None where there is none.
        plan: who waits for whom.
        duplicates: places of calls whose id another one of the turn has.
        resent: places of calls that repeat a dependency failure of the last turn.
        timeout: seconds for the whole turn.
        limit: calls that run at the same time.
    """

    def __init__(
        self,
        calls: Sequence[ToolCall],
        tools: Sequence[Runnable | None],
        plan: Plan,
        *,
        duplicates: frozenset[int],
        resent: frozenset[int],
        timeout: float | None,
        limit: int,
        session: ToolSession | None,
    ) -> None:
        self._calls, self._tools, self._plan = calls, tools, plan
        self._duplicates, self._resent = duplicates, resent
        self._timeout, self._limit, self._session = timeout, limit, session
        self._results: dict[int, BatchResult] = {}
        self._running: dict[int, _Running] = {}
        self._ran: list[Ran] = []
        self._blame: dict[int, int] = {}
        self._cancelled: list[asyncio.Task[None]] = []
        self._fatal: BaseException | None = None
        self._advancing = False
        self._over = False

        self._waits = [len(each) for each in plan.waits]
        self._places = {index: place for place, index in enumerate(plan.sequence)}
        self._waiting_for: list[list[int]] = [[] for _ in calls]
        for index, others in enumerate(plan.waits):
            for other in others:
                self._waiting_for[other].append(index)
        self._ready = [self._places[index] for index, count in enumerate(self._waits) if not count]
        heapq.heapify(self._ready)

    async def run(self) -> list[BatchResult]:
        """The results, in the order asked.

        Raises:
            asyncio.CancelledError, KeyboardInterrupt, SystemExit: after the other calls were cancelled and
                awaited.
        """
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()
        self._done = self._loop.create_future()
        expiry = None
        if self._timeout is not None:
            expiry = self._loop.call_later(self._timeout, self._expire)
        try:
            self._advance()
            await self._done
        except BaseException:
            self._end(_CANCELLED, "the turn was cancelled.")
            raise
        finally:
            if expiry is not None:
                expiry.cancel()
            results = self._take_results()
            if self._cancelled:
                await self._drain()
        if self._fatal is not None:
            raise self._fatal
        return results

    def _take_results(self) -> list[BatchResult]:
        results = [self._results[index] for index in range(len(self._calls))]
        # An exception among them leads back here by its traceback: no cycle.
        self._results = {}
        if self._session is not None:
            self._session.results = results
            self._session.learn(self._ran)
        return results

    # -- beginning ------------------------------------------------------------------------------------

    def _advance(self) -> None:
        """Begin whatever is free to, until as many run as may."""
        if self._advancing or self._over:
            return
        self._advancing = True
        while self._ready and len(self._running) < self._limit:
            self._begin(self._plan.sequence[heapq.heappop(self._ready)])
        self._advancing = False
        if len(self._results) == len(self._calls) and not self._done.done():
            self._done.set_result(None)

    def _begin(self, index: int) -> None:
        tool = self._tools[index]
        if index in self._duplicates:
            self._skip(index, f"the call id {self._calls[index].id!r} was used before in this turn.")
        elif index in self._blame:
            failed = self._blame[index]
            outcome = self._results[failed].verdict.outcome
            self._skip(index, skip_reason(self._calls[index], self._calls[failed], outcome))
        elif tool is None:
            verdict = unknown_tool(self._calls[index].name)
            self._refuse(index, verdict, f"Unknown tool: {verdict.detail}.")
        elif tool.is_async:
            self._begin_task(index, tool)
        else:
            self._begin_thread(index, tool)

    def _begin_task(self, index: int, tool: Runnable) -> None:
        running = _Running(tool, self._expect(index))
        self._running[index] = running
        self._spawn(index, running, self._call(index, running))

    def _spawn(self, index: int, running: _Running, work: Any) -> None:
        context = self._context.copy()
        running.task = context.run(self._loop.create_task, work)
        running.task.add_done_callback(partial(self._task_done, index, running))

    async def _call(self, index: int, running: _Running) -> None:
        EXPECTED.set(running.expected)
        outcome: Any
        try:
            args, kwargs = running.tool.bind(self._calls[index])
            running.expected.begin()
            outcome = await running.tool.run(*args, **kwargs)
        except BaseException as exc:
            self._raised(index, running, exc)
        else:
            self._returned(index, running, outcome)

    def _task_done(self, index: int, running: _Running, task: asyncio.Task[None]) -> None:
        """For a task that was cancelled from outside before its first step."""
        if task.cancelled():
            self._raised(index, running, asyncio.CancelledError())

    def _begin_thread(self, index: int, tool: Runnable) -> None:
        running = _Running(tool, self._expect(index))
        self._running[index] = running

        def work() -> Any:
            EXPECTED.set(running.expected)
            args, kwargs = tool.bind(self._calls[index])
            return tool.run(*args, **kwargs) if running.expected.begin() else None

        try:
            running.thread = self._context.copy().run(deadline.start, work)
        except RuntimeError as exc:  # no thread can be started
            self._raised(index, running, exc)
        else:
            running.thread.add_done_callback(partial(self._thread_done, index, running))

    def _thread_done(self, index: int, running: _Running, thread: Future[Any]) -> None:
        if thread.cancelled():
            return
        try:
            self._loop.call_soon_threadsafe(self._land, index, running, thread)
        except RuntimeError:  # the loop is closed: the turn is long over
            pass

    def _land(self, index: int, running: _Running, thread: Future[Any]) -> None:
        """A thread's outcome, in the loop."""
        exc = thread.exception()
        if exc is not None:
            self._raised(index, running, exc)
            return
        outcome = thread.result()
        if not inspect.isawaitable(outcome):
            self._returned(index, running, outcome)
        elif self._is_running(index, running):  # a plain function that returned a coroutine
            self._spawn(index, running, self._await(index, running, outcome))
        elif inspect.iscoroutine(outcome):
            outcome.close()

    async def _await(self, index: int, running: _Running, awaitable: Any) -> None:
        try:
            outcome = await awaitable
        except BaseException as exc:
            self._raised(index, running, exc)
        else:
            self._returned(index, running, outcome)

    def _expect(self, index: int) -> Expected:
        return Expected(self._calls[index].id, resend=index in self._resent)

    # -- ending ---------------------------------------------------------------------------------------

    def _is_running(self, index: int, running: _Running) -> bool:
        return self._running.get(index) is running

    def _returned(self, index: int, running: _Running, answer: ToolCallResult[Any]) -> None:
        if self._is_running(index, running):
            self._settle(index, answers.answered(self._calls[index], answer))

    def _raised(self, index: int, running: _Running, exc: BaseException) -> None:
        if not self._is_running(index, running):
            return
        if isinstance(exc, Refused):
            self._refuse(index, exc.verdict, exc.answer)
            return
        call = running.expected.call
        verdict = call.verdict if call is not None and call.verdict is not None else classify(exc)
        executed = call is not None and call.executed
        ends_turn = isinstance(exc, (KeyboardInterrupt, SystemExit))
        self._over = self._over or ends_turn
        self._settle(index, answers.of_exception(self._calls[index], exc, verdict, executed=executed))
        if ends_turn:
            self._fatal = exc
            self._end(_CANCELLED, "the turn was interrupted.")

    def _settle(self, index: int, result: BatchResult) -> None:
        """The answer of a call; what waited for it may begin."""
        running = self._running.pop(index, None)
        if running is not None and result.executed:
            self._ran.append(
                Ran(
                    result.name,
                    running.tool.writes,
                    running.began,
                    perf_counter(),
                    result.verdict.outcome,
                )
            )
        self._results[index] = result
        ok = result.verdict.outcome in (Outcome.OK, Outcome.WARNING) or index in self._duplicates
        for waiting in self._waiting_for[index]:
            self._waits[waiting] -= 1
            if not ok and index in self._plan.needs[waiting]:
                self._blame.setdefault(waiting, self._blame.get(index, index))
            if not self._waits[waiting]:
                heapq.heappush(self._ready, self._places[waiting])
        self._advance()

    def _skip(self, index: int, reason: str) -> None:
        call, tool = self._calls[index], self._tools[index]
        self._context.copy().run(record_skipped, call, tool, reason)
        self._settle(index, answers.skipped(call, reason))

    def _refuse(self, index: int, verdict: Verdict, answer: str) -> None:
        call, tool = self._calls[index], self._tools[index]
        self._context.copy().run(record_refused, call, tool, verdict)
        self._settle(index, answers.refused(call, verdict, answer))

    def _expire(self) -> None:
        assert self._timeout is not None
        self._end(answers.timed_out(self._timeout), "the turn's time ran out.")

    def _end(self, verdict: Verdict, reason: str) -> None:
        """Answer the calls that have none: ``verdict`` where they run, ``reason`` where they do not yet."""
        self._over = True
        for index, running in list(self._running.items()):
            begun = running.expected.give_up(verdict)
            if running.thread is not None:
                running.thread.cancel()
            if running.task is not None:
                running.task.cancel()
                self._cancelled.append(running.task)
            if begun:
                call = running.expected.call
                ended = (call.verdict if call is not None else None) or verdict
                self._settle(index, answers.stopped(self._calls[index], ended))
            else:
                self._skip(index, reason)
        for index in self._plan.sequence:
            if index not in self._results:
                self._skip(index, reason)
        if not self._done.done():
            self._done.set_result(None)

    async def _drain(self) -> None:
        """Wait for the tasks that were cancelled; not for long, a task can hold its cancellation up."""
        _, stubborn = await asyncio.wait(self._cancelled, timeout=_GRACE)
        for task in stubborn:
            warn_once(
                "batch:stubborn",
                "a tool's task goes on though it was cancelled %g s ago; its answer was given without it",
                _GRACE,
            )
            _stubborn.add(task)
            task.add_done_callback(_stubborn.discard)


# The loop itself holds its tasks weakly.
_stubborn: Final[set[asyncio.Task[None]]] = set()
