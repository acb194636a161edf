# SPDX-License-Identifier: Apache-2.0
"""A decorated function behaves as the undecorated one."""

from __future__ import annotations

import asyncio
import copy
import functools
import gc
import inspect
import logging
import pickle
import types
import typing
import warnings
import weakref
from collections.abc import AsyncIterator, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from opentelemetry import baggage, context, trace

import acrux_otel as acrux
from acrux_otel import Outcome


@acrux.tool
def search(q: str, limit: int = 5, *, exact: bool = False) -> list[str]:
    "Search."
    return [q]


class Shelf:
    def __init__(self, k: int) -> None:
        self.k = k

    @acrux.tool
    def add(self, x: int) -> int:
        return x + self.k

    @classmethod
    @acrux.tool
    def c(cls, x: int) -> int:
        return x

    @acrux.tool
    @classmethod
    def c2(cls, x: int) -> tuple[str, int]:
        return cls.__name__, x

    @acrux.tool
    @staticmethod
    def s(x: int) -> int:
        return x

    @staticmethod
    @acrux.tool
    def s2(x: int) -> int:
        return x

    @acrux.tool
    def other_name(this, x: int) -> int:
        return x * this.k

    @acrux.tool
    async def later(self, x: int) -> int:
        return acrux.ToolResult.warn("late", "late", x + self.k)


class Shop(Shelf): ...


def test_A08_a_framework_sees_the_real_signature() -> None:
    bare = search.__wrapped__
    assert (
        str(inspect.signature(search))
        == "(q: 'str', limit: 'int' = 5, *, exact: 'bool' = False) -> 'list[str]'"
    )
    assert typing.get_type_hints(search) == typing.get_type_hints(bare)
    for name in ("__name__", "__doc__", "__module__", "__qualname__", "__defaults__", "__kwdefaults__"):
        assert getattr(search, name) == getattr(bare, name), name
    assert inspect.isfunction(search)


def test_A08_the_kind_of_function_is_kept() -> None:
    @acrux.tool
    async def coroutine() -> None: ...

    @acrux.tool
    def generator() -> Iterator[int]:
        yield 1

    @acrux.tool
    async def async_generator() -> AsyncIterator[int]:
        yield 1

    kinds = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
    for function, kind in zip((coroutine, generator, async_generator), kinds, strict=True):
        assert [each(function) for each in kinds] == [each is kind for each in kinds]
    assert inspect.iscoroutinefunction(Shelf(1).later)


def test_A08_a_tool_result_is_stripped_from_signature_and_hints() -> None:
    @acrux.tool
    def f(q: str) -> dict[str, int] | acrux.ToolResult:
        return {}

    assert typing.get_type_hints(f)["return"] == dict[str, int]
    assert "ToolResult" not in str(inspect.signature(f))
    assert "q" in inspect.signature(f).parameters


def test_A09_methods_bind_in_either_order(exported: Any) -> None:
    a, b = Shelf(1), Shelf(10)
    assert (a.add(1), b.add(1), Shelf.c(2), Shelf.s(3), Shelf.add(a, 5)) == (2, 11, 2, 3, 6)
    assert (Shop.c2(1), a.c2(2), Shelf.s2(4), a.s(5), a.other_name(3)) == (
        ("Shop", 1),
        ("Shelf", 2),
        4,
        5,
        3,
    )
    assert len(exported.tools()) == 10


def test_A09_the_contract_of_a_method_has_no_self() -> None:
    for method in (Shelf.add, Shelf(1).add, Shelf.c, Shelf.c2, Shelf.s, Shelf.s2, Shelf.other_name):
        assert list(acrux.definition_of(method).parameters["properties"]) == ["x"]
    assert acrux.definition_of(Shelf(1).add) is acrux.definition_of(Shelf(2).add)


def test_A09_a_recorded_input_has_no_self(exported: Any) -> None:
    class Box:
        @acrux.tool(capture="full")
        def add(self, x: int) -> int:
            return x

        def __repr__(self) -> str:
            return "SECRET-SELF"

    Box().add(1)
    assert exported.only.attributes["gen_ai.tool.call.arguments"] == '{"x":1}'
    assert "SECRET-SELF" not in exported.only.everything()


def test_a_bound_method_is_a_bound_method() -> None:
    a = Shelf(1)
    assert inspect.ismethod(a.add) and a.add.__self__ is a and a.add.__func__ is Shelf.add
    assert a.add == a.add and hash(a.add) == hash(a.add) and a.add != Shelf(1).add
    assert str(inspect.signature(a.add)) == "(x: 'int') -> 'int'"
    assert inspect.isfunction(Shelf.__dict__["add"])


def test_call_answers_with_value_and_verdict() -> None:
    @acrux.tool
    def f(x: int) -> dict[str, int]:
        return {"x": x} if x else acrux.ToolResult.error("zero", "x is zero")

    answer = f.call(1)
    assert (answer.value, answer.verdict.outcome, answer.executed, answer.name) == (
        {"x": 1},
        Outcome.OK,
        True,
        "f",
    )
    answer = f.call(x=0)
    assert (answer.value, answer.verdict.code) == ({"error": "x is zero"}, "zero")


def test_call_is_awaitable_exactly_when_the_function_is() -> None:
    @acrux.tool
    async def f(x: int) -> int:
        return x

    @acrux.tool
    def returns_awaitable(x: int) -> Any:
        return f.__wrapped__(x)

    assert inspect.iscoroutinefunction(f.call)
    assert asyncio.run(f.call(3)).value == 3
    assert asyncio.run(returns_awaitable.call(4)).value == 4
    late = asyncio.run(Shelf(1).later.call(2))
    assert (late.value, late.verdict.code) == (3, "late")


def test_call_binds_on_methods_and_runs_generators_to_their_end() -> None:
    assert Shelf(1).add.call(1).value == 2
    assert Shelf.c2.call(1).value == ("Shelf", 1)
    assert Shelf.s.call(1).value == 1

    @acrux.tool
    def g() -> Any:
        yield 1
        yield acrux.ToolResult.warn("w", "m", 2)

    answer = g.call()
    assert (answer.value, answer.verdict.code) == ([1, 2], "w")


def test_call_raises_what_the_tool_raised() -> None:
    @acrux.tool
    def f() -> None:
        raise KeyError("k")

    with pytest.raises(KeyError):
        f.call()


def test_copy_deepcopy_and_pickle_go_by_reference() -> None:
    assert copy.copy(search) is search and copy.deepcopy(search) is search
    assert pickle.loads(pickle.dumps(search)) is search
    bound = pickle.loads(pickle.dumps(Shelf(7).add))
    assert bound(1) == 8
    assert pickle.loads(pickle.dumps(Shelf.add)) is Shelf.add
    assert copy.deepcopy(Shelf(7).add)(1) == 8
    assert pickle.loads(pickle.dumps(Shop.c2))(1) == ("Shop", 1)


def test_decorating_twice_makes_one_span(exported: Any) -> None:
    twice = acrux.tool(name="other")(acrux.tool(suspect="warn")(search.__wrapped__))
    assert twice("x") == ["x"]
    assert exported.only.name == "execute_tool other"
    assert acrux.tool(search) is search


def test_partials_and_callable_objects_are_tools(exported: Any) -> None:
    class Weather:
        """Looks at the sky."""

        def __call__(self, city: str) -> str:
            return city

    partial = acrux.tool(functools.partial(search.__wrapped__, limit=1))
    weather = acrux.tool(Weather())
    assert (partial("a"), weather("b")) == (["a"], "b")
    assert [span.name for span in exported] == ["execute_tool search", "execute_tool weather"]

    class Later:
        async def __call__(self, x: int) -> int:
            return x

    assert asyncio.run(acrux.tool(Later())(2)) == 2


@pytest.mark.parametrize("arguments", [((), {}), (("a", 1, 2), {}), (("a",), {"nope": 1})])
def test_wrong_arguments_give_the_native_error_and_a_span(exported: Any, arguments: Any) -> None:
    args, kwargs = arguments
    with pytest.raises(TypeError) as native:
        search.__wrapped__(*args, **kwargs)
    with pytest.raises(TypeError) as ours:
        search(*args, **kwargs)
    assert str(ours.value) == str(native.value)
    span = exported.only
    assert (span.attributes["errorType"], span.attributes["errorCode"]) == (
        "schema_mismatch",
        "invalid_arguments",
    )


def test_a_type_error_of_the_body_is_not_a_binding_error(exported: Any) -> None:
    @acrux.tool
    def f(x: Any) -> int:
        return len(x)

    with pytest.raises(TypeError):
        f(3)
    assert exported.only.attributes["errorCode"] == "type_error"


def test_an_exception_whose_str_raises_passes_as_it_is(exported: Any) -> None:
    class Odd(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no")

    given = Odd()

    @acrux.tool
    def f() -> None:
        raise given

    with pytest.raises(Odd) as caught:
        f()
    assert caught.value is given
    assert exported.only.status == "ERROR" and exported.only.description


# -- cancellation, generators, context -------------------------------------------------------------------


def test_A06_a_cancelled_tool_ends_once_and_is_told_from_success(exported: Any) -> None:
    @acrux.tool
    async def slow() -> None:
        await asyncio.sleep(10)

    async def main() -> None:
        task = asyncio.create_task(slow())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert trace.get_current_span() is trace.INVALID_SPAN

    asyncio.run(main())
    span = exported.only
    assert (span.status, span.outcome, span.events) == ("UNSET", "cancelled", [])
    assert "errorType" not in span.attributes


def test_A06_a_coroutine_that_is_dropped_ends_its_span(exported: Any, caplog: Any) -> None:
    @types.coroutine
    def pause() -> Any:
        yield

    @acrux.tool
    async def waits() -> None:
        await pause()

    def start() -> Any:
        coroutine = waits()
        coroutine.send(None)
        return coroutine

    coroutine = contextvars_run(start)
    coroutine.close()
    assert exported.only.outcome == "closed"
    assert trace.get_current_span() is trace.INVALID_SPAN
    assert not [r for r in caplog.records if r.name.startswith("opentelemetry")]


def contextvars_run(function: Any) -> Any:
    import contextvars

    return contextvars.copy_context().run(function)


def test_A07_an_async_generator_closed_from_another_task_detaches_cleanly(
    exported: Any, tracer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    @acrux.tool
    async def stream() -> AsyncIterator[int]:
        for i in range(3):
            with tracer.start_as_current_span("child"):
                pass
            yield i

    async def main() -> None:
        generator = stream()
        assert await generator.__anext__() == 0
        assert trace.get_current_span() is trace.INVALID_SPAN
        await asyncio.create_task(generator.aclose())

    asyncio.run(main())
    assert not [record for record in caplog.records if record.name == "opentelemetry.context"]
    span = exported.only
    assert (span.outcome, span.status) == ("closed", "UNSET")
    [child] = [each for each in exported if each.name == "child"]
    assert child.parent_id == span.span_id


def test_a_span_of_the_body_stays_current_across_a_yield(exported: Any, tracer: Any) -> None:
    """What the body attached is back at its next step, and the consumer never sees it."""

    @acrux.tool
    def pages() -> Iterator[int]:
        with tracer.start_as_current_span("listing"):
            yield 1
            with tracer.start_as_current_span("second page"):
                yield 2

    for _ in pages():
        assert trace.get_current_span() is trace.INVALID_SPAN
    by_name = {span.name: span for span in exported}
    assert by_name["second page"].parent_id == by_name["listing"].span_id
    assert by_name["listing"].parent_id == by_name["execute_tool pages"].span_id


def test_a_generator_keeps_the_protocol(exported: Any) -> None:
    @acrux.tool
    def echo() -> Any:
        got = yield "first"
        while got != "stop":
            try:
                got = yield got
            except KeyError as error:
                got = f"caught {error}"
        return "result"

    generator = echo()
    assert next(generator) == "first"
    assert generator.send("a") == "a"
    assert generator.throw(KeyError("k")) == "caught 'k'"
    with pytest.raises(StopIteration) as stop:
        generator.send("stop")
    assert stop.value.value == "result"
    assert exported.only.outcome == "ok"


def test_an_async_generator_keeps_the_protocol(exported: Any) -> None:
    @acrux.tool
    async def echo() -> Any:
        got = yield "first"
        try:
            got = yield got
        except KeyError as error:
            yield f"caught {error}"

    async def main() -> list[Any]:
        generator = echo()
        return [
            await generator.__anext__(),
            await generator.asend("a"),
            await generator.athrow(KeyError("k")),
        ] + [item async for item in generator]

    assert asyncio.run(main()) == ["first", "a", "caught 'k'"]
    assert exported.only.outcome == "ok"


@pytest.mark.parametrize("how", ["return", "yield", "record"])
def test_a_generator_declares_in_three_ways(exported: Any, how: str) -> None:
    @acrux.tool
    def g() -> Any:
        yield 1
        if how == "yield":
            yield acrux.ToolResult.error("bad", "bad page", {"page": None})
        if how == "record":
            acrux.record_error("bad", "bad page")
        if how == "return":
            return acrux.ToolResult.error("bad", "bad page")
        return None

    assert list(g()) == ([1, {"page": None}] if how == "yield" else [1])
    assert (exported.only.status, exported.only.attributes["errorCode"]) == ("ERROR", "bad")


def test_a_generator_never_started_has_no_span(exported: Any) -> None:
    @acrux.tool
    def g() -> Iterator[int]:
        yield 1

    g().close()
    g()
    gc.collect()
    assert exported.tools() == []


def test_a_dropped_generator_ends_its_span(exported: Any) -> None:
    @acrux.tool
    def g() -> Iterator[int]:
        yield 1
        yield 2

    @acrux.tool
    async def ag() -> AsyncIterator[int]:
        yield 1
        yield 2

    next(g())
    with pytest.raises(StopIteration):
        ag().__anext__().send(None)  # no event loop will ever close it
    gc.collect()
    assert [(span.name, span.outcome) for span in exported] == [
        ("execute_tool g", "closed"),
        ("execute_tool ag", "closed"),
    ]


def test_a_factory_of_a_generator_or_coroutine_is_followed_to_its_end(exported: Any) -> None:
    async def work() -> Any:
        return acrux.ToolResult.error("late", "too late")

    @acrux.tool
    def later() -> Any:
        return work()

    @acrux.tool
    def many() -> Any:
        return (i for i in range(3))

    assert asyncio.run(later()) == {"error": "too late"}
    assert list(many()) == [0, 1, 2]
    assert [(span.name, span.outcome) for span in exported] == [
        ("execute_tool later", "error"),
        ("execute_tool many", "ok"),
    ]


def test_a_returned_coroutine_never_awaited_closes_its_call(exported: Any) -> None:
    async def work() -> None: ...

    @acrux.tool
    def later() -> Any:
        return work()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        later()
        gc.collect()
    assert exported.only.outcome == "closed"
    assert len([w for w in caught if "never awaited" in str(w.message)]) == 1


def test_futures_and_tasks_are_returned_as_they_are_and_watched(exported: Any) -> None:
    made: list[Any] = []

    @acrux.tool
    def start() -> Any:
        made.append(asyncio.ensure_future(asyncio.sleep(0, acrux.ToolResult.warn("w", "m", 1))))
        return made[-1]

    @acrux.tool
    def submit(pool: ThreadPoolExecutor) -> Any:
        def fail() -> None:
            raise ConnectionRefusedError(111, "refused")

        made.append(pool.submit(fail))
        return made[-1]

    async def main() -> None:
        task = start()
        assert task is made[-1]
        await task
        await asyncio.sleep(0)

    asyncio.run(main())
    with ThreadPoolExecutor(1) as pool:
        future = submit(pool)
        assert future is made[-1]
        with pytest.raises(ConnectionRefusedError):
            future.result(10)
    assert [span.attributes["errorCode"] for span in exported] == ["w", "connection_refused"]


def test_watching_a_task_does_not_silence_asyncio(exported: Any) -> None:
    """A task whose exception nobody fetched is still reported by asyncio."""

    async def fail() -> None:
        raise ValueError("unseen")

    @acrux.tool
    def start() -> Any:
        return asyncio.ensure_future(fail())

    reported: list[Any] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, info: reported.append(info["message"]))
        start()
        await asyncio.sleep(0.01)
        gc.collect()
        await asyncio.sleep(0)

    asyncio.run(main())
    assert any("never retrieved" in message for message in reported)
    assert exported.only.attributes["errorCode"] == "value_error"


@pytest.mark.parametrize("exc", [KeyboardInterrupt, SystemExit])
def test_an_exit_is_cancelled_and_ends_the_span(exported: Any, exc: type[BaseException]) -> None:
    @acrux.tool
    def f() -> None:
        raise exc

    with pytest.raises(exc):
        f()
    assert (exported.only.status, exported.only.outcome) == ("UNSET", "cancelled")


def test_the_callers_context_is_as_it_was(exported: Any, tracer: Any) -> None:
    @acrux.tool
    def leaky() -> None:
        context.attach(baggage.set_baggage("left", "behind"))

    with tracer.start_as_current_span("agent") as agent:
        leaky()
        assert trace.get_current_span() is agent
        assert baggage.get_baggage("left") is None
    span = exported.only
    assert span.parent_id == f"{agent.get_span_context().span_id:016x}"


def test_A19_a_copied_context_keeps_the_parent(exported: Any, tracer: Any) -> None:
    import contextvars

    with tracer.start_as_current_span("agent") as agent, ThreadPoolExecutor(3) as pool:
        jobs = [pool.submit(contextvars.copy_context().run, search, str(i)) for i in range(3)]
        assert [job.result(10) for job in jobs] == [["0"], ["1"], ["2"]]
    parent = f"{agent.get_span_context().span_id:016x}"
    assert [span.parent_id for span in exported.tools()] == [parent] * 3


def test_results_are_freed_when_the_caller_drops_them(exported: Any) -> None:
    """Nothing of ours keeps a result or an exception alive."""

    class Big: ...

    class Boom(Exception): ...

    @acrux.tool
    def f() -> Big:
        return Big()

    @acrux.tool
    def fails() -> None:
        error = Boom("x")
        refs.append(weakref.ref(error))
        raise error

    refs: list[Any] = [weakref.ref(f())]
    try:
        fails()
    except Boom:
        pass
    gc.collect()
    assert [ref() for ref in refs] == [None, None]


# -- bad options -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nme": "x"}, "nme"),
        ({"capture": "some"}, "capture"),
        ({"control_flow": ValueError}, "control_flow"),
        ({"control_flow": (1,)}, "control_flow"),
        ({"inject": "Ctx"}, "inject"),
        ({"suspect": "error"}, "suspect"),
        ({"sync": "yes"}, "sync"),
        ({"sync": False, "changelog": "x"}, "sync"),
        ({"name": ""}, "name"),
        ({"name": 3}, "name"),
        ({"result_severity": "fatal"}, "severity"),
        ({"result_schema": {"type": "nonsense"}}, "result_schema"),
    ],
)
def test_what_can_never_work_is_refused_at_decoration(options: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message) as caught:
        acrux.tool(**options)(lambda_free)
    assert "\n" not in str(caught.value)


def lambda_free() -> None: ...


@pytest.mark.parametrize("target", [3, "name", type("C", (), {}), property(lambda_free), lambda: 1])
def test_what_is_no_function_with_a_name_is_refused(target: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        acrux.tool(target)


def test_two_tools_of_one_name_warn_once_and_both_work(caplog: Any) -> None:
    @acrux.tool(name="twin")
    def one() -> int:
        return 1

    @acrux.tool(name="twin")
    def two() -> int:
        return 2

    @acrux.tool(name="twin")
    def three() -> int:
        return 3

    assert (one(), two(), three()) == (1, 2, 3)
    records = [r for r in caplog.records if "twin" in r.getMessage()]
    assert len(records) == 1 and records[0].levelno == logging.WARNING
    assert "one" in caplog.text and "two" in caplog.text


def test_a_compiled_coroutine_is_followed_and_a_request_object_is_left_alone(exported: Any) -> None:
    class Compiled(Coroutine[Any, Any, Any]):
        def __await__(self) -> Any:
            yield from asyncio.sleep(0).__await__()
            raise ConnectionResetError(104, "reset")

        def send(self, value: Any) -> Any:
            raise StopIteration

        def throw(self, *args: Any) -> Any:
            raise StopIteration

        def close(self) -> None: ...

    class Request(Compiled):
        async def __aenter__(self) -> int:
            return 7

        async def __aexit__(self, *_: Any) -> None: ...

    @acrux.tool
    def give(which: type) -> Any:
        return which()

    with pytest.raises(ConnectionResetError):
        asyncio.run(_await(give(Compiled)))
    assert isinstance(give(Request), Request)
    assert [span.outcome for span in exported] == ["error", "ok"]


async def _await(awaitable: Any) -> Any:
    return await awaitable


def test_a_bare_future_keeps_its_type() -> None:
    given: Future[int] = Future()

    @acrux.tool
    def f() -> Any:
        return given

    assert f() is given
    assert isinstance(Shelf(1).add, types.MethodType)
