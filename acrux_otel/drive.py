# SPDX-License-Identifier: Apache-2.0
"""How each kind of function runs under a call, step by step.

A call is current only while the tool's own code runs, never across a ``yield``: whoever consumes a
generator, in whichever task, finds its own context untouched.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import sys
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from typing import Any, Final

from acrux_otel.definition.callables import called
from acrux_otel.returned import ASYNC_GENERATOR, FUTURE, GENERATOR, KINDS, OBJECT, PLAIN, kind_of, unwrap
from acrux_otel.seam import Call, ToolSite, current_call, problem
from acrux_otel.settings import settings
from acrux_otel.verdict import Outcome, ToolCallResult, Verdict

__all__ = ["follow", "guard_by_default", "wrap", "wrap_for_result"]

_CLOSED: Final = Verdict(Outcome.CLOSED)
_CANCELLED: Final = Verdict(Outcome.CANCELLED)
_Function = Callable[..., Any]


def wrap(fn: _Function, site: ToolSite) -> _Function:
    """A function of the same kind as ``fn`` that runs it under a call."""
    _bind(fn, site)
    body = called(fn)
    if inspect.iscoroutinefunction(body):
        return _coroutine(site)
    if inspect.isasyncgenfunction(body):
        return _async_generator(site)
    if inspect.isgeneratorfunction(body):
        return _generator(site)
    return _plain(site)


def _bind(fn: _Function, site: ToolSite) -> None:
    """Have the site run ``fn``, under its guard; once, because a guard keeps state."""
    if site.unguarded is None:
        site.unguarded = fn
        _bound.add(site)
        _guard(fn, site)


def _guard(fn: _Function, site: ToolSite) -> None:
    guard = settings.guard if site.guard is None else site.guard
    body = guard.around(fn, site) if guard else fn
    if hasattr(fn, "__acrux_tool__"):
        body = _expecting(body, site)
    site.set_body(body, guarded=bool(guard))


def _expecting(body: _Function, site: ToolSite) -> _Function:
    """``body`` of a decorator that stands on a tool: the tool's own call is part of this one."""

    def run(*args: Any, **kwargs: Any) -> Any:
        call = current_call()
        if call is not None:
            call.awaits = site.expects
        return body(*args, **kwargs)

    return run


def guard_by_default(guard: Any) -> None:
    """Put ``guard`` around every tool that has none of its own, those that exist included; None: none."""
    settings.guard = guard
    for site in list(_bound):
        if site.guard is None and site.unguarded is not None:
            _guard(site.unguarded, site)


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
    def begin(*args: Any, **kwargs: Any) -> tuple[Call, Any]:
        return _begun(site.open_to_follow(args, kwargs), args, kwargs)

    return _stepping(begin)


def _async_generator(site: ToolSite) -> _Function:
    def begin(*args: Any, **kwargs: Any) -> tuple[Call, Any]:
        return _begun(site.open_to_follow(args, kwargs), args, kwargs)

    return _async_stepping(begin)


def _begun(call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Call, Any]:
    """A call and the tool's own generator; none of its code has run yet."""
    try:
        made = call.site.body(*args, **kwargs)
    except BaseException as exc:
        call.raised(exc)
        raise
    call.leave()
    return call, made


def _stepping(begin: Callable[..., tuple[Call, Generator[Any, Any, Any]]]) -> _Function:
    """A generator function that passes each step on to the generator of ``begin(...)``."""

    def call_tool(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        call, generator = begin(*args, **kwargs)
        call.items_follow()
        step: Callable[[Any], Any] = generator.send
        value: Any = None
        closing = False
        while True:
            if closing and _collecting():
                # Setting a context variable inside a collection that another set began would crash
                # CPython 3.11; what is left of the body runs in the context that there is.
                call.close(_CLOSED)
                try:
                    step(value)
                except StopIteration as stop:
                    return stop.value
            call.enter()
            try:
                item = step(value)
            except StopIteration as stop:
                if closing:
                    call.declared(_CLOSED)
                    return stop.value
                return call.ok(stop.value)
            except BaseException as exc:
                call.raised(exc)
                raise
            item = call.yielded(item)
            call.leave()
            try:
                value = yield item
                step = generator.send
            except BaseException as exc:
                step, value = generator.throw, exc
                closing = isinstance(exc, GeneratorExit)

    return call_tool


def _async_stepping(begin: Callable[..., tuple[Call, AsyncGenerator[Any, Any]]]) -> _Function:
    """The same for an async generator function."""

    async def call_tool(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        call, generator = begin(*args, **kwargs)
        call.items_follow()
        step: Callable[[Any], Awaitable[Any]] = generator.asend
        value: Any = None
        dropped = _Dropped(call)
        closing: BaseException | None = None
        while True:
            if closing is not None and _collecting():  # as above
                call.close(_CLOSED)
                try:
                    await step(value)
                except StopAsyncIteration:
                    raise closing from None
            call.enter()
            try:
                item = await step(value)
            except StopAsyncIteration:
                if closing is None:
                    call.ok(None)
                    return
                call.declared(_CLOSED)
                del dropped
                raise closing from None
            except BaseException as exc:
                call.raised(exc)
                raise
            item = call.yielded(item)
            call.leave()
            try:
                value = yield item
                step = generator.asend
            except BaseException as exc:
                step, value = generator.athrow, exc
                closing = exc if isinstance(exc, GeneratorExit) else None

    return call_tool


# The phases of garbage collections, the last one last. Python runs signal handlers inside of a callback
# that is written in Python, and drops what they raise: Ctrl-C would be lost. These two run no Python.
_phases: dict[str, object] = {}
if sys.version_info < (3, 12):
    gc.callbacks += [_phases.pop, _phases.__setitem__]


def _collecting() -> bool:
    return next(reversed(_phases), "stop") == "start"


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
        made = _stepping(lambda: (call, result))()
    elif kind == ASYNC_GENERATOR:
        made = _async_stepping(lambda: (call, result))()
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


def wrap_for_result(fn: _Function, site: ToolSite) -> _Function:
    """What ``.call`` is: runs ``fn`` and answers with a `ToolCallResult`; raises what the tool raised.

    A generator is run to its end; the value is then the list of what it yielded.
    """
    _bind(fn, site)
    body = called(fn)
    if inspect.isasyncgenfunction(body):

        async def call_async_generator(*args: Any, **kwargs: Any) -> ToolCallResult[Any]:
            call, made = _begun(site.open_to_follow(args, kwargs, read=True), args, kwargs)
            return _answer(call, [item async for item in _async_stepping(lambda: (call, made))()])

        return call_async_generator
    if inspect.isgeneratorfunction(body):

        def call_generator(*args: Any, **kwargs: Any) -> ToolCallResult[Any]:
            call, made = _begun(site.open_to_follow(args, kwargs, read=True), args, kwargs)
            return _answer(call, list(_stepping(lambda: (call, made))()))

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
