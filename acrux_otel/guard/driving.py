# SPDX-License-Identifier: Apache-2.0
"""How each kind of function runs under a guard, step by step; what happens next is decided in `.attempts`.

A healthy call of a tool takes the shortest way: where the circuit is quiet there is nothing that its success
could change, so only a failure makes anything of it. A generator's attempt lasts until its first item: after
that nothing is tried again and no time limit applies, and how it ends counts for the circuit.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from typing import TYPE_CHECKING, Any, Final

from acrux_otel.call import CURRENT, Call, Unread, observers
from acrux_otel.deadline import ThreadUnavailable, await_with_deadline, run_with_deadline, start
from acrux_otel.definition.callables import called
from acrux_otel.guard.attempts import UNSET, Attempts, call_of
from acrux_otel.guard.part import Part
from acrux_otel.returned import ASYNC_GENERATOR, DECLARED, FUTURE, GENERATOR, KINDS, PLAIN, kind_of
from acrux_otel.seam import ToolSite
from acrux_otel.verdict import warn_once

if TYPE_CHECKING:
    from acrux_otel.guard.guard import Guard

__all__ = ["around", "awaited"]

_Function = Callable[..., Any]
_NOW: Final = 0.0
_UNREAD: Final = (type(None), Unread)


def around(guard: Guard, fn: _Function, site: ToolSite) -> _Function:
    """A function of the same kind as ``fn`` that runs it under ``guard``."""
    body = called(fn)
    if inspect.iscoroutinefunction(body):
        return _coroutine(guard, fn, site)
    if inspect.isasyncgenfunction(body):
        return _async_generator(guard, fn, site)
    if inspect.isgeneratorfunction(body):
        return _generator(guard, fn, site)
    return _plain(guard, fn, site)


def awaited(guard: Guard, fn: _Function) -> _Function:
    """``fn`` as a coroutine function, whatever it is; a plain one has a thread where time is limited."""

    async def run(*args: Any, **kwargs: Any) -> Any:
        if (guard.timeout or guard.deadline) and not inspect.iscoroutinefunction(fn):
            result = await asyncio.wrap_future(start(fn, args, kwargs))
        else:
            result = fn(*args, **kwargs)
        return await result if inspect.isawaitable(result) else result

    return run


# -- plain functions and coroutines ----------------------------------------------------------------------


def _plain(guard: Guard, fn: _Function, site: ToolSite) -> _Function:
    circuit = guard.fixed_circuit(site)
    count = guard.allowance.count
    judges = site.enforced is not None or site.suspect
    # Where nobody reads the call, a declaration is lost; it only matters if it may be tried again.
    unread = not guard.retry_codes

    def run(*args: Any, **kwargs: Any) -> Any:
        call: Any = CURRENT.get()
        kind = call.__class__
        if (
            circuit is None
            or not circuit.quiet
            or (kind is not Call and not (unread and kind in _UNREAD))
            or (call is not None and call._outer is not None)
        ):
            return _run(_attempts(guard, site, args, kwargs), _NOW, fn, args, kwargs)
        if observers.gate is not None and (refusal := observers.gate(call)) is not None:
            return _run(_attempts(guard, site, args, kwargs, refusal), _NOW, fn, args, kwargs)
        permit = circuit.generation
        count()
        try:
            result = fn(*args, **kwargs)
        except BaseException as exc:
            attempts = _attempts(guard, site, args, kwargs)
            attempts.begun(permit)
            wait = attempts.failed(exc)
            if wait is None and not attempts.covered:
                attempts.close()
                raise
        else:
            if (
                KINDS.get(type(result)) == PLAIN
                and (kind is not Call or call.recorded is None)
                and circuit.quiet
                and not judges
            ):
                return result
            attempts = _attempts(guard, site, args, kwargs)
            attempts.begun(permit)
            returned = kind_of(result)
            if returned > DECLARED:
                return _unfinished(attempts, result, returned, fn, args, kwargs)
            wait = attempts.answered(result)
            if wait is None and not attempts.covered:
                attempts.close()
                return result
        return _run(attempts, wait, fn, args, kwargs)

    return run


def _run(attempts: Attempts, wait: float | None, fn: _Function, args: Any, kwargs: Any) -> Any:
    keep = False
    try:
        while wait is not None:
            if wait:
                attempts.guard.clock.sleep(wait)
            if not attempts.start():
                break
            try:
                result = _once(attempts, fn, args, kwargs)
            except BaseException as exc:
                wait = attempts.failed(exc)
                if wait is None and not attempts.covered:
                    raise
                continue
            kind = kind_of(result)
            if kind > DECLARED:
                keep = True
                return _unfinished(attempts, result, kind, fn, args, kwargs)
            wait = attempts.answered(result)
            if wait is None and not attempts.covered:
                return result
        if attempts.covered:
            value = attempts.fallback()
            if value is not UNSET:
                return attempts.answered_by_fallback(value)
        return attempts.last()
    finally:
        if not keep:
            attempts.close()


def _once(attempts: Attempts, fn: _Function, args: Any, kwargs: Any) -> Any:
    """One attempt, in a thread of its own where it has a limit in time."""
    limit = attempts.limit()
    if limit is None:
        return fn(*args, **kwargs)
    call = attempts.call
    part = Part(call.site, call, args, kwargs)

    def run() -> Any:
        # What it declares after the deadline must not speak for the next attempt.
        CURRENT.set(part)
        return fn(*args, **kwargs)

    try:
        return run_with_deadline(run, (), {}, limit)
    except ThreadUnavailable:
        warn_once("threads", "no thread can be started; tools run without their guards' time limits")
        return fn(*args, **kwargs)
    finally:
        recorded, part.recorded = part.recorded, None
        part.whole = part  # whatever comes later stays with the part
        if recorded is not None:
            call.declare(recorded)


def _coroutine(guard: Guard, fn: _Function, site: ToolSite) -> _Function:
    circuit = guard.fixed_circuit(site)
    count = guard.allowance.count
    judges = site.enforced is not None or site.suspect
    # Where nobody reads the call, a declaration is lost; it only matters if it may be tried again.
    unread = not guard.retry_codes

    async def run(*args: Any, **kwargs: Any) -> Any:
        call: Any = CURRENT.get()
        kind = call.__class__
        if (
            circuit is None
            or not circuit.quiet
            or (kind is not Call and not (unread and kind in _UNREAD))
            or (call is not None and call._outer is not None)
        ):
            return await _arun(_attempts(guard, site, args, kwargs), _NOW, fn, args, kwargs)
        if observers.gate is not None and (refusal := observers.gate(call)) is not None:
            return await _arun(_attempts(guard, site, args, kwargs, refusal), _NOW, fn, args, kwargs)
        permit = circuit.generation
        count()
        try:
            result = await fn(*args, **kwargs)
        except BaseException as exc:
            attempts = _attempts(guard, site, args, kwargs)
            attempts.begun(permit)
            wait = attempts.failed(exc)
            if wait is None and not attempts.covered:
                attempts.close()
                raise
        else:
            if (
                KINDS.get(type(result)) == PLAIN
                and (kind is not Call or call.recorded is None)
                and circuit.quiet
                and not judges
            ):
                return result
            attempts = _attempts(guard, site, args, kwargs)
            attempts.begun(permit)
            wait = attempts.answered(result)
            if wait is None and not attempts.covered:
                attempts.close()
                return result
        return await _arun(attempts, wait, fn, args, kwargs)

    return run


async def _arun(
    attempts: Attempts,
    wait: float | None,
    fn: _Function,
    args: Any,
    kwargs: Any,
    first: Awaitable[Any] | None = None,
) -> Any:
    """As `_run`, for what is awaited; ``first`` is an attempt that was begun already."""
    try:
        while wait is not None:
            if wait:
                await attempts.guard.clock.asleep(wait)
            if first is None and not attempts.start():
                break
            try:
                work, first = first if first is not None else fn(*args, **kwargs), None
                limit = attempts.limit()
                result = await (work if limit is None else await_with_deadline(work, limit))
            except BaseException as exc:
                wait = attempts.failed(exc)
                if wait is None and not attempts.covered:
                    raise
                continue
            wait = attempts.answered(result)
            if wait is None and not attempts.covered:
                return result
        if attempts.covered:
            value = attempts.fallback()
            if inspect.isawaitable(value):
                value = await _fallback_awaited(attempts, value)
            if value is not UNSET:
                return attempts.answered_by_fallback(value)
        return attempts.last()
    finally:
        attempts.close()


async def _fallback_awaited(attempts: Attempts, value: Awaitable[Any]) -> Any:
    try:
        return await value
    except Exception as error:
        attempts.fallback_failed(error)
        return UNSET


def _attempts(guard: Guard, site: ToolSite, args: Any, kwargs: Any, refusal: Any = None) -> Attempts:
    call, alone = call_of(site, args, kwargs)
    attempts = Attempts(guard, call, guard.circuit(site), alone=alone)
    attempts.refusal = refusal
    return attempts


def _unfinished(attempts: Attempts, result: Any, kind: int, fn: _Function, args: Any, kwargs: Any) -> Any:
    """A plain function returned work that is still to be done."""
    attempts.left()
    if kind == GENERATOR:
        return _steps(lambda: attempts, lambda: fn(*args, **kwargs), result)
    if kind == ASYNC_GENERATOR:
        return _async_steps(lambda: attempts, lambda: fn(*args, **kwargs), result)
    if kind != FUTURE:
        return _arun(attempts, _NOW, fn, args, kwargs, result)

    def done(future: Any) -> None:
        # A future is the caller's own object: it cannot be tried again, only counted.
        attempts.committed = True
        if future.cancelled():
            attempts.abandoned()
        elif future._exception is not None:  # `.exception()` would silence asyncio's warning
            attempts.failed(future._exception)
        else:
            attempts.answered(future.result())
        attempts.close()

    result.add_done_callback(done)
    return result


# -- generators ------------------------------------------------------------------------------------------


def _generator(guard: Guard, fn: _Function, site: ToolSite) -> _Function:
    def run(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        return _steps(lambda: _attempts(guard, site, args, kwargs), lambda: fn(*args, **kwargs))

    return run


def _steps(
    begin: Callable[[], Attempts], make: Callable[[], Any], first: Any = None
) -> Generator[Any, Any, Any]:
    """As `_run`, for a generator: ``begin`` is called at its first step, which runs in the call."""
    attempts = begin()
    wait: float | None = _NOW
    try:
        while wait is not None:
            if wait:
                attempts.guard.clock.sleep(wait)
            if first is None and not attempts.start():
                break
            made, first = first if first is not None else make(), None
            try:
                item = _once(attempts, next, (made,), {})
            except StopIteration as ended:
                wait = attempts.answered(ended.value)
                if wait is None and not attempts.covered:
                    return ended.value
                continue
            except BaseException as exc:
                wait = attempts.failed(exc)
                if wait is None and not attempts.covered:
                    raise
                continue
            attempts.committed = True
            return (yield from _rest(attempts, made, item))
        if attempts.covered:
            value = attempts.fallback()
            if value is not UNSET:
                yield attempts.answered_by_fallback(value)
                return None
        return attempts.last()
    finally:
        attempts.close()


def _rest(attempts: Attempts, made: Generator[Any, Any, Any], item: Any) -> Generator[Any, Any, Any]:
    """What follows the first item, which is on its way."""
    step: Callable[[Any], Any] = made.send
    while True:
        value: Any
        try:
            value = yield item
            step = made.send
        except GeneratorExit:
            attempts.abandoned()
            return made.close()
        except BaseException as exc:
            step, value = made.throw, exc
        try:
            item = step(value)
        except StopIteration as ended:
            attempts.answered(ended.value)
            return ended.value
        except BaseException as exc:
            attempts.failed(exc)
            raise


def _async_generator(guard: Guard, fn: _Function, site: ToolSite) -> _Function:
    def run(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        return _async_steps(lambda: _attempts(guard, site, args, kwargs), lambda: fn(*args, **kwargs))

    return run


async def _async_steps(
    begin: Callable[[], Attempts], make: Callable[[], Any], first: Any = None
) -> AsyncGenerator[Any, Any]:
    attempts = begin()
    wait: float | None = _NOW
    try:
        while wait is not None:
            if wait:
                await attempts.guard.clock.asleep(wait)
            if first is None and not attempts.start():
                break
            made, first = first if first is not None else make(), None
            try:
                limit = attempts.limit()
                beginning = made.__anext__()
                item = await (beginning if limit is None else await_with_deadline(beginning, limit))
            except StopAsyncIteration:
                wait = attempts.answered(None)
                if wait is None and not attempts.covered:
                    return
                continue
            except BaseException as exc:
                wait = attempts.failed(exc)
                if wait is None and not attempts.covered:
                    raise
                continue
            attempts.committed = True
            step: Callable[[Any], Awaitable[Any]] = made.asend
            while True:
                value: Any
                try:
                    value = yield item
                    step = made.asend
                except GeneratorExit:
                    attempts.abandoned()
                    await made.aclose()
                    raise
                except BaseException as exc:
                    step, value = made.athrow, exc
                try:
                    item = await step(value)
                except StopAsyncIteration:
                    attempts.answered(None)
                    return
                except BaseException as exc:
                    attempts.failed(exc)
                    raise
        if attempts.covered:
            answer = attempts.fallback()
            if inspect.isawaitable(answer):
                answer = await _fallback_awaited(attempts, answer)
            if answer is not UNSET:
                yield attempts.answered_by_fallback(answer)
                return
        attempts.last()
    finally:
        attempts.close()
