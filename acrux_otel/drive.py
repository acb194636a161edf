# SPDX-License-Identifier: Apache-2.0
"""How each kind of function runs under a call, step by step.

A call is current only while the tool's own code runs, never across a ``yield``: whoever consumes a
generator, in whichever task, finds its own context untouched.
"""

from __future__ import annotations

import asyncio
import inspect
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from typing import Any, Final

from acrux_otel.returned import ASYNC_GENERATOR, FUTURE, GENERATOR, KINDS, OBJECT, PLAIN, kind_of, unwrap
from acrux_otel.seam import Call, ToolSite, problem
from acrux_otel.settings import settings
from acrux_otel.verdict import Outcome, ToolCallResult, Verdict

__all__ = ["follow", "guard_by_default", "wrap", "wrap_for_result"]

_CLOSED: Final = Verdict(Outcome.CLOSED)
_CANCELLED: Final = Verdict(Outcome.CANCELLED)
_Function = Callable[..., Any]


def wrap(fn: _Function, body: _Function, site: ToolSite) -> _Function:
    """A function of the same kind as ``body`` (what ``fn`` runs) that runs ``fn`` under a call."""
    _bind(fn, body, site)
    if inspect.iscoroutinefunction(body):
        return _coroutine(site)
    if inspect.isasyncgenfunction(body):
        return _async_generator(site)
    if inspect.isgeneratorfunction(body):
        return _generator(site)
    return _plain(site)


def _bind(fn: _Function, body: _Function, site: ToolSite) -> None:
    """Have the site run ``fn``, under its guard; once, because a guard keeps state."""
    if site.unguarded is None:
        site.unguarded = fn, body
        _bound.add(site)
        _guard(fn, body, site)


def _guard(fn: _Function, body: _Function, site: ToolSite) -> None:
    guard = settings.guard if site.guard is None else site.guard
    if guard:
        site.set_body(guard.around(fn, body, site), guarded=True)
    else:
        site.set_body(fn, guarded=False)


def guard_by_default(guard: Any) -> None:
    """Put ``guard`` around every tool that has none of its own, those that exist included; None: none."""
    settings.guard = guard
    for site in list(_bound):
        if site.guard is None and site.unguarded is not None:
            _guard(*site.unguarded, site)


_bound: Final[weakref.WeakSet[ToolSite]] = weakref.WeakSet()


def _unread(site: ToolSite, result: Any) -> Any:
    """What the caller gets where nobody reads the verdict."""
    if KINDS.get(type(result)) == PLAIN:
        return result
    return Call(site, None, (), {}).ok(result)


def _plain(site: ToolSite) -> _Function:
    def call_tool(*args: Any, **kwargs: Any) -> Any:
        call = site.open(args, kwargs)
        if call is None:
            return _unread(site, site.body(*args, **kwargs))
        try:
            result = site.body(*args, **kwargs)
        except BaseException as exc:
            call.raised(exc)
            raise
        return call.ok(result)

    return call_tool


def _coroutine(site: ToolSite) -> _Function:
    async def call_tool(*args: Any, **kwargs: Any) -> Any:
        call = site.open(args, kwargs)
        if call is None:
            return _unread(site, await site.body(*args, **kwargs))
        try:
            result = await site.body(*args, **kwargs)
        except BaseException as exc:
            call.raised(exc)
            raise
        return call.ok(result)

    return call_tool


def _generator(site: ToolSite) -> _Function:
    def call_tool(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        call = site.open_to_follow(args, kwargs)
        return (yield from _steps(call, _begin(call, args, kwargs)))

    return call_tool


def _async_generator(site: ToolSite) -> _Function:
    async def call_tool(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        call = site.open_to_follow(args, kwargs)
        steps = _async_steps(call, _begin(call, args, kwargs))
        step: Callable[[Any], Awaitable[Any]] = steps.asend
        value: Any = None
        while True:
            try:
                item = await step(value)
            except StopAsyncIteration:
                return
            try:
                value = yield item
                step = steps.asend
            except GeneratorExit:
                await steps.aclose()
                raise
            except BaseException as exc:
                step, value = steps.athrow, exc

    return call_tool


def _begin(call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The tool's own generator; none of its code has run yet."""
    try:
        made = call.site.body(*args, **kwargs)
    except BaseException as exc:
        call.raised(exc)
        raise
    call.leave()
    return made


def _steps(call: Call, generator: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    step: Callable[[Any], Any] = generator.send
    value: Any = None
    while True:
        call.enter()
        try:
            item = step(value)
        except StopIteration as stop:
            return call.ok(stop.value)
        except BaseException as exc:
            call.raised(exc)
            raise
        item = call.yielded(item)
        call.leave()
        try:
            value = yield item
            step = generator.send
        except GeneratorExit:
            call.enter()
            try:
                result = generator.close()  # type: ignore[func-returns-value]  # a value since 3.13
            except BaseException as exc:
                call.raised(exc)
                raise
            call.declared(_CLOSED)
            return result
        except BaseException as exc:
            step, value = generator.throw, exc


async def _async_steps(call: Call, generator: AsyncGenerator[Any, Any]) -> AsyncGenerator[Any, Any]:
    step: Callable[[Any], Awaitable[Any]] = generator.asend
    value: Any = None
    dropped = _Dropped(call)
    while True:
        call.enter()
        try:
            item = await step(value)
        except StopAsyncIteration:
            call.ok(None)
            return
        except BaseException as exc:
            call.raised(exc)
            raise
        item = call.yielded(item)
        call.leave()
        try:
            value = yield item
            step = generator.asend
        except GeneratorExit:
            call.enter()
            try:
                await generator.aclose()
            except BaseException as exc:
                call.raised(exc)
                raise
            call.declared(_CLOSED)
            del dropped
            raise
        except BaseException as exc:
            step, value = generator.athrow, exc


class _Dropped:
    """Ends the call of an async generator that was dropped where no event loop could close it."""

    __slots__ = ("_call",)

    def __init__(self, call: Call) -> None:
        self._call = call

    def __del__(self) -> None:
        self._call.close(_CLOSED)


async def _await(call: Call, awaitable: Awaitable[Any]) -> Any:
    call.enter()
    try:
        result = await awaitable
    except BaseException as exc:
        call.raised(exc)
        raise
    return call.ok(result)


def follow(call: Call, result: Any, kind: int) -> Any:
    """Keep ``call`` open for a returned value that is not finished; returns what its caller gets."""
    call.leave()
    if kind == FUTURE:
        return _watch(call, result)
    made: Any
    if kind == GENERATOR:
        made = _steps(call, result)
    elif kind == ASYNC_GENERATOR:
        made = _async_steps(call, result)
    else:
        made = _await(call, result)
    name = getattr(result, "__name__", None)
    if isinstance(name, str):
        made.__name__, made.__qualname__ = name, getattr(result, "__qualname__", name)
    # One that is never started runs no code of ours that could end the call.
    weakref.finalize(made, _abandon, call, result).atexit = False
    return made


def _abandon(call: Call, result: Any) -> None:
    if inspect.iscoroutine(result) and inspect.getcoroutinestate(result) == inspect.CORO_CREATED:
        result.close()  # Python has warned of ours already
    call.close(_CLOSED)


def _watch(call: Call, future: Any) -> Any:
    def done(finished: Any) -> None:
        try:
            if finished.cancelled():
                call.close(_CANCELLED)
                return
            # Not `.exception()`: asking asyncio for it silences "exception was never retrieved".
            exc = finished._exception
            if exc is not None:
                call.close(call.judge_exception(exc), exception=exc)
                return
            value, declared = unwrap(finished.result(), kind_of(finished.result()), text=call.site.as_text)
            call.close(call.judge(value, declared), value)
        except Exception as error:
            problem("a future was watched", error)
            call.close(Verdict(Outcome.OK))

    try:
        if future.done():
            done(future)
        else:
            future.add_done_callback(done)
    except Exception as error:
        problem("a future was watched", error)
    return future


def wrap_for_result(fn: _Function, body: _Function, site: ToolSite) -> _Function:
    """What ``.call`` is: runs ``fn`` and answers with a `ToolCallResult`; raises what the tool raised.

    A generator is run to its end; the value is then the list of what it yielded.
    """
    _bind(fn, body, site)
    if inspect.isasyncgenfunction(body):

        async def call_async_generator(*args: Any, **kwargs: Any) -> ToolCallResult[Any]:
            call = site.open_to_follow(args, kwargs, read=True)
            items = [item async for item in _async_steps(call, _begin(call, args, kwargs))]
            return _answer(call, items)

        return call_async_generator
    if inspect.isgeneratorfunction(body):

        def call_generator(*args: Any, **kwargs: Any) -> ToolCallResult[Any]:
            call = site.open_to_follow(args, kwargs, read=True)
            return _answer(call, list(_steps(call, _begin(call, args, kwargs))))

        return call_generator
    if inspect.iscoroutinefunction(body):

        async def call_coroutine(*args: Any, **kwargs: Any) -> ToolCallResult[Any]:
            call = site.open_to_follow(args, kwargs, read=True)
            try:
                result = await site.body(*args, **kwargs)
            except BaseException as exc:
                call.raised(exc)
                raise
            return _answer(call, call.ok(result))

        return call_coroutine

    def call_plain(*args: Any, **kwargs: Any) -> Any:
        call = site.open_to_follow(args, kwargs, read=True)
        try:
            result = site.body(*args, **kwargs)
        except BaseException as exc:
            call.raised(exc)
            raise
        return _answer_later(call, call.ok(result))

    return call_plain


def _answer(call: Call, value: Any) -> ToolCallResult[Any]:
    verdict = call.verdict or Verdict(Outcome.OK)
    return ToolCallResult(call.id, call.site.name, value, verdict, call.executed)


def _answer_later(call: Call, value: Any) -> Any:
    """The answer to a plain function, which may have returned work that is still to be done."""
    kind = kind_of(value)
    if kind <= OBJECT:
        return _answer(call, value)
    if kind == GENERATOR:
        return _answer(call, list(value))
    return _answer_async(call, value, kind)


async def _answer_async(call: Call, value: Any, kind: int) -> ToolCallResult[Any]:
    if kind == ASYNC_GENERATOR:
        return _answer(call, [item async for item in value])
    if isinstance(value, asyncio.Future) or kind != FUTURE:
        answer = await value
    else:
        answer = await asyncio.wrap_future(value)
    unwrapped, _ = unwrap(answer, kind_of(answer), text=call.site.as_text)
    if call.verdict is None:
        await asyncio.sleep(0)  # the future's callbacks run after it is done
    return _answer(call, unwrapped)
