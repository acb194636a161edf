# SPDX-License-Identifier: Apache-2.0
"""Edges where a decorated function once differed from the undecorated one."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import functools
import gc
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import baggage, context, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace import StatusCode

import acrux_otel as acrux
from acrux_otel import call as call_module
from acrux_otel import seam
from acrux_otel.settings import FULL, NONE, settings
from acrux_otel.testing import record_calls


def test_a_collected_generator_does_not_crash_the_interpreter() -> None:
    """Setting a context variable while a collection interrupts another set crashes CPython 3.11."""
    code = (
        "import acrux_otel as acrux\n"
        "@acrux.tool\n"
        "def gen():\n    yield 1\n    yield 2\n"
        "@acrux.tool\n"
        "def t(): return 1\n"
        "def garbage():\n    c = []; g = gen(); next(g); c += [g, c]\n"
        "for _ in range(3000): garbage(); t(); t()\n"
    )
    sdk = (
        "from opentelemetry.sdk.trace import TracerProvider\n"
        "from acrux_otel.settings import settings\n"
        "settings.tracer_provider = TracerProvider()\n"
    )
    for program in (code, sdk + code):
        assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0


def _sync(function: Any) -> Any:
    @functools.wraps(function)
    def run(*args: Any) -> Any:
        return asyncio.run(function(*args))

    return run


def test_the_kind_is_that_of_the_function_and_not_of_what_it_wraps(exported: Any) -> None:
    @acrux.tool
    @_sync
    async def get(city: str) -> dict[str, str]:
        return {"city": city}

    @acrux.tool
    @contextlib.contextmanager
    def opened(x: int) -> Iterator[int]:
        yield x

    assert get("Pune") == {"city": "Pune"}
    with opened(3) as value:
        assert value == 3
    assert get.call("Pune").value == {"city": "Pune"}
    assert len(exported.tools()) == 3


def _needs_login(function: Any) -> Any:
    @functools.wraps(function)
    def check(*args: Any, **kwargs: Any) -> Any:
        raise PermissionError

    return check


def test_a_decorator_between_two_tools_is_kept(exported: Any) -> None:
    @acrux.tool(name="renamed")
    @_needs_login
    @acrux.tool
    def secret() -> str:
        return "secret"

    with pytest.raises(PermissionError):
        secret()
    with pytest.raises(PermissionError):
        secret.call()
    assert [span.name for span in exported.tools()] == ["execute_tool renamed"] * 2


@pytest.mark.parametrize("guard", [None, acrux.Guard()])
def test_a_tool_below_a_decorator_below_a_tool_is_one_call(exported: Any, guard: Any) -> None:
    """Sync and async, and the declaration of the inner one is the word of both."""

    @acrux.tool(name="renamed", guard=guard)
    @_wrapped
    @acrux.tool
    def plain() -> Any:
        return acrux.ToolResult.error("no_such_row", "none")

    @acrux.tool(name="later", guard=guard)
    @_wrapped
    @acrux.tool
    async def coroutine() -> int:
        return 2

    assert plain() == {"error": "none"}
    assert asyncio.run(_awaited(coroutine())) == 2
    assert [(span.name, span.outcome) for span in exported.tools()] == [
        ("execute_tool renamed", "error"),
        ("execute_tool later", "ok"),
    ]
    assert exported.tools()[0].attributes["errorCode"] == "no_such_row"


async def _awaited(awaitable: Any) -> Any:
    return await awaitable


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="no SIGALRM on this system")
def test_a_tool_called_in_a_signal_handler_does_not_lock_up() -> None:
    settings.meter_provider = MeterProvider([InMemoryMetricReader()])

    @acrux.tool
    def t() -> int:
        return 1

    @acrux.tool
    def handled() -> int:
        return 2

    before = signal.signal(signal.SIGALRM, lambda *_: handled())
    signal.setitimer(signal.ITIMER_REAL, 0.005, 0.005)
    try:
        for _ in range(20_000):
            t()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_observers_come_and_go_from_many_threads() -> None:
    before = (call_module.observers.opened, call_module.observers.closed)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:

        def record() -> None:
            for _ in range(300):
                with record_calls():
                    pass

        threads = [threading.Thread(target=record) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    finally:
        sys.setswitchinterval(interval)
    assert (call_module.observers.opened, call_module.observers.closed) == before


def _mark(function: Any) -> Any:
    function.__kernel__ = True
    return function


def _wrapped(function: Any) -> Any:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


class Marked:
    @_mark
    @acrux.tool
    def m(self) -> int:
        """The tool's own doc."""
        return 1

    @_mark
    @acrux.tool
    def odd(this) -> int:
        return 1

    @_wrapped
    @acrux.tool
    def w(self) -> int:
        """Wrapped doc."""
        return 2

    @acrux.tool
    def keyword_self(s, /, **kw: Any) -> Any:
        return kw


at_module = acrux.tool(Marked.m.__wrapped__)


def test_what_a_decorator_above_writes_in_a_class_body_is_kept() -> None:
    assert Marked().m.__kernel__ and Marked.m.__kernel__ and Marked().odd.__kernel__
    assert Marked.w.__doc__ == "Wrapped doc." and Marked.w.__module__ == __name__
    assert Marked().w() == 2


def test_a_parameter_may_be_called_self() -> None:
    assert Marked().keyword_self(self=4) == {"self": 4}
    assert Marked().keyword_self.call(self=4).value == {"self": 4}


def test_a_method_decorated_outside_of_its_class_is_copied_and_pickled() -> None:
    assert copy.copy(at_module) is at_module and copy.deepcopy(at_module) is at_module
    assert pickle.loads(pickle.dumps(at_module))(Marked()) == 1


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda r: pickle.loads(pickle.dumps(r))])
def test_a_copied_tool_result_says_the_same(again: Any) -> None:
    assert again(acrux.ToolResult.error("c", "m")).result == {"error": "m"}


def test_a_tool_result_made_by_hand_is_an_error_or_a_warning(exported: Any) -> None:
    made: list[Any] = [acrux.ToolResult(which, "c", "m", 1) for which in ("error", "banana", "ok", "warning")]

    @acrux.tool
    def f(i: int) -> Any:
        return made[i]

    assert [f(i) for i in range(4)] == [1] * 4
    assert [span.outcome for span in exported.tools()] == ["error"] * 3 + ["warning"]


def test_an_exception_that_guards_its_own_attributes_passes_as_it_is(exported: Any) -> None:
    class Shy(Exception):
        def __getattribute__(self, name: str) -> Any:
            raise RuntimeError("keep out")

    given = Shy()

    @acrux.tool
    def f() -> None:
        raise given

    with pytest.raises(BaseException) as caught:
        f()
    assert caught.value is given
    assert len(exported.tools()) == 1


def test_a_status_of_the_body_passes_the_same_gate_as_our_text(exported: Any) -> None:
    settings.capture = NONE

    class Pause(Exception): ...

    @acrux.tool(control_flow=(Pause,))
    def f() -> None:
        trace.get_current_span().set_status(StatusCode.ERROR, "LEAK password=SECRET")
        raise Pause

    with pytest.raises(Pause):
        f()
    assert "LEAK" not in exported.only.everything()
    assert exported.only.outcome == "interrupted"


def test_a_code_that_is_text_is_not_logged_as_it_came(caplog: pytest.LogCaptureFixture) -> None:
    acrux.ToolResult.error("user bob@example.com token=SECRET", "m")
    assert "bob@example.com" not in caplog.text


@pytest.mark.parametrize("limit", [16, 32, 100, 1000])
def test_a_generators_recorded_items_parse_under_any_limit(limit: int) -> None:
    from tests.conftest import Exported

    sink = Exported()
    provider = TracerProvider(span_limits=SpanLimits(max_span_attribute_length=limit))
    provider.add_span_processor(SimpleSpanProcessor(sink))
    settings.tracer_provider, settings.capture = provider, FULL

    @acrux.tool
    def g(n: int) -> Any:
        yield from range(n)

    list(g(400))
    list(g(0))
    many, none = sink.tools()
    kept = json.loads(many.attributes["gen_ai.tool.call.result"])
    assert kept == list(range(len(kept)))
    assert many.attributes["acrux.tool.truncated_bytes"] > limit
    assert none.attributes["gen_ai.tool.call.result"] == "[]"


def test_a_run_restores_the_context_that_its_body_left_behind(exported: Any) -> None:
    with acrux.run("a"):
        context.attach(baggage.set_baggage("k", "v"))
    assert trace.get_current_span() is trace.INVALID_SPAN


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_counts_from_nothing() -> None:
    reader = InMemoryMetricReader()
    settings.meter_provider = MeterProvider([reader])
    read, write = os.pipe()

    @acrux.tool
    def inner(depth: int) -> int:
        if depth:
            inner(depth - 1)
        elif os.fork() == 0:
            return 1
        else:
            return 0
        return 2

    @acrux.tool
    def once() -> int:
        return 1

    once()
    parent = os.getpid()
    inner(2)
    if os.getpid() != parent:
        try:
            data = reader.get_metrics_data()
            values = {
                (metric.name, point.attributes.get("gen_ai.tool.name")): point.value
                for scope in data.resource_metrics[0].scope_metrics
                for metric in scope.metrics
                for point in metric.data.data_points
                if hasattr(point, "value")
            }
            os.write(write, json.dumps([[*key, value] for key, value in values.items()]).encode())
        finally:
            os._exit(0)
    os.wait()
    os.close(write)
    with os.fdopen(read) as lines:
        told = {(name, tool): value for name, tool, value in json.load(lines)}
    assert ("acrux.tool.calls", "once") not in told
    assert told[("acrux.tool.in_flight", "inner")] == 0


def test_a_definition_that_a_framework_drops_is_freed() -> None:
    import weakref

    from acrux_otel.definition import define

    def tool() -> int:
        return 1

    definition = define(tool)
    seam.open_call(definition).ok(1)
    freed = weakref.ref(definition)
    del definition
    gc.collect()
    assert freed() is None


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs setitimer")
@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_a_signal_in_a_garbage_collection_still_reaches_the_program() -> None:
    """Python runs the handler in the first Python code after it; what a callback there raises is lost."""

    class Interrupted(Exception):
        pass

    def interrupt(*_: object) -> None:
        raise Interrupted

    def collect() -> None:
        for _ in range(300):
            gc.collect()

    # Those of other packages' plugins lose it in just this way.
    others = [each for each in gc.callbacks if not str(getattr(each, "__module__", "")).startswith("acrux")]
    heap = [[None] for _ in range(300_000)]  # so that nearly all of the time is spent in collections
    before = signal.signal(signal.SIGVTALRM, interrupt)
    for each in others:
        gc.callbacks.remove(each)
    try:
        for _ in range(5):
            signal.setitimer(signal.ITIMER_VIRTUAL, 0.05)
            with pytest.raises(Interrupted):
                collect()
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
        gc.callbacks.extend(others)
    assert len(heap) == 300_000


def test_decorating_a_bound_tool_again_makes_one_span(exported: Any) -> None:
    bound = Marked()
    acrux.tool(bound.m)()
    acrux.tool(name="again")(bound.m)()
    acrux.tool(functools.partial(bound.m))()
    assert [span.name for span in exported.tools()] == [
        "execute_tool m",
        "execute_tool again",
        "execute_tool m",
    ]


def test_recorded_arguments_are_those_that_the_tool_was_given() -> None:
    @acrux.tool
    def clears(x: list[int]) -> None:
        x.clear()

    @acrux.tool
    def rest(q: int, *more: int, **kw: int) -> None: ...

    @acrux.tool
    def needs(*a: int, x: int) -> None: ...

    @acrux.tool
    def positional(a: int, /, **kw: int) -> None: ...

    with record_calls() as calls:
        clears([1, 2])
        rest(1, 2, 3, z=4)
        with pytest.raises(TypeError):
            needs(y=1)
        positional(1, a=2)
    assert [call.arguments for call in calls] == [
        {"x": [1, 2]},
        {"q": 1, "more": [2, 3], "z": 4},
        {"y": 1},
        {"a": 1, "kw": {"a": 2}},
    ]


def test_the_value_of_a_closed_generator_is_its_own() -> None:
    def native() -> Any:
        try:
            yield 1
        except GeneratorExit:
            return 9

    def opened(function: Any) -> Any:
        generator = function()
        next(generator)
        return generator

    decorated = acrux.tool(native)
    assert opened(decorated).close() == opened(native).close()
    for function in (native, decorated):
        with pytest.raises(StopIteration) as stop:
            opened(function).throw(GeneratorExit)
        assert stop.value.value == 9


def test_the_verdict_outlives_a_small_attribute_limit() -> None:
    from tests.conftest import Exported

    sink = Exported()
    provider = TracerProvider(span_limits=SpanLimits(max_span_attributes=3))
    provider.add_span_processor(SimpleSpanProcessor(sink))
    settings.tracer_provider = provider

    @acrux.tool
    def f() -> Any:
        return acrux.ToolResult.error("code", "message")

    f()
    assert set(sink[0].attributes) == {"acrux.tool.outcome", "errorType", "errorCode"}


def test_a_method_of_a_subclass_is_no_other_tool(caplog: pytest.LogCaptureFixture) -> None:
    class Base:
        @acrux.tool
        def m(self) -> int:
            return 1

    class Sub(Base):
        @acrux.tool
        def m(self) -> int:
            return super().m() + 1

    assert Sub().m() == 2
    assert "two tools" not in caplog.text


def test_what_a_cached_function_offers_stays() -> None:
    @acrux.tool
    @functools.lru_cache
    def f(x: int) -> int:
        return x

    f(1)
    f(1)
    assert f.cache_info().hits == 1


@pytest.mark.parametrize("misuse", [lambda: acrux.run("r")(5), lambda: acrux.run("r", tags=5)])
def test_a_run_says_what_it_cannot_take(misuse: Any) -> None:
    with pytest.raises(TypeError):
        misuse()


def test_an_awaitable_object_is_returned_as_it_is(exported: Any) -> None:
    class Job:
        id = 7

        def __await__(self) -> Any:
            yield from ()
            return self.id

    job = Job()

    @acrux.tool
    def submit() -> Any:
        return job

    assert submit() is job
    assert exported.only.outcome == "ok"
