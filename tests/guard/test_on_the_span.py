# SPDX-License-Identifier: Apache-2.0
"""What a guarded call leaves on its one span, in the metrics and in the run; what the caller gets."""

from __future__ import annotations

import asyncio
import copy
import logging
import pickle
import traceback
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Status, StatusCode

import acrux_otel as acrux
from acrux_otel import CircuitBreaker, Guard, Retry, ToolAnnotations, ToolUnavailable, Verdict
from acrux_otel.call import CURRENT
from acrux_otel.guard.unavailable import CIRCUIT_OPEN
from acrux_otel.seam import open_call
from acrux_otel.settings import settings
from acrux_otel.testing import record_calls
from acrux_otel.verdict import ErrorType, Outcome, ToolResult

from .conftest import FakeClock
from .test_retries import Failing, guard, tool
from .test_retries import Status as HttpStatus

REFUSED = ConnectionRefusedError(111, "refused")


def attempt_events(span: Any) -> list[dict[str, Any]]:
    return [attributes for name, attributes in span.events if name == "acrux.tool.attempt"]


def test_a_recovered_call_is_one_green_span(clock: FakeClock, exported: Any) -> None:
    """R15: fails twice, then works: one span, UNSET, three attempts, an event for each that failed."""
    tool(Failing(REFUSED, HttpStatus(503, retry_after="2"), {"n": 3}), guard(clock))()
    span = exported.only
    assert (span.outcome, span.status) == ("ok", "UNSET")
    assert span.attributes["acrux.tool.attempts"] == 3
    assert not {"errorType", "error.type", "acrux.tool.stop_reason"} & set(span.attributes)
    first, second = attempt_events(span)
    assert (first["errorType"], first["errorCode"]) == ("transport", "connection_refused")
    assert (second["errorType"], second["errorCode"]) == ("http_status", "http_503")
    assert (first["acrux.tool.attempt.number"], second["acrux.tool.attempt.number"]) == (1, 2)
    assert second["acrux.tool.retry.after"] == 2
    assert [first["acrux.tool.retry.delay"], second["acrux.tool.retry.delay"]] == clock.slept
    assert not [each for each in span.events if each[0] == "exception"]


def test_a_healthy_call_says_one_attempt(clock: FakeClock, exported: Any) -> None:
    """So that attempts can be summed."""
    tool(Failing({"n": 1}), guard(clock))()
    assert exported.only.attributes["acrux.tool.attempts"] == 1


def test_an_unguarded_call_says_nothing_of_attempts(exported: Any) -> None:
    """The attribute belongs to guarded calls."""
    acrux.tool(lambda_like)()
    assert "acrux.tool.attempts" not in exported.only.attributes


def lambda_like() -> dict[str, int]:
    return {}


@pytest.mark.parametrize(
    ("failure", "annotations", "reason"),
    [
        (HttpStatus(404), {}, "tool_failure:non_retryable"),
        (ValueError("mine"), {}, "tool_failure:non_retryable"),
        (HttpStatus(500), {}, "tool_failure:http_5xx"),
        (HttpStatus(500), {"idempotent": True}, "tool_failure:retry_exhausted"),
        (TimeoutError("t"), {}, "tool_failure:timeout"),
        (TimeoutError("t"), {"read_only": True}, "tool_failure:retry_exhausted"),
        (REFUSED, {}, "tool_failure:retry_exhausted"),
    ],
    ids=repr,
)
def test_the_reason_for_stopping_is_on_the_span(
    failure: Exception, annotations: dict[str, bool], reason: str, clock: FakeClock, exported: Any
) -> None:
    """And the original exception reaches the caller."""
    with pytest.raises(type(failure)) as caught:
        tool(Failing(failure), guard(clock), **annotations)()
    assert caught.value is failure
    assert exported.only.attributes["acrux.tool.stop_reason"] == reason
    assert [each[0] for each in exported.only.events].count("exception") == 1


def test_an_error_that_a_failed_attempt_put_on_the_span_is_taken_back(
    clock: FakeClock, exported: Any
) -> None:
    """`set_status(ERROR)` before `raise` is common; a recovered call is not red for it."""
    work = Failing(REFUSED, {"n": 2})

    def body(x: int) -> Any:
        try:
            return work()
        except ConnectionError as exc:
            trace.get_current_span().set_status(Status(StatusCode.ERROR, str(exc)))
            raise

    assert tool(body, guard(clock))() == {"n": 2}
    assert (exported.only.outcome, exported.only.status) == ("ok", "UNSET")


def test_the_traceback_is_the_tools_own(clock: FakeClock) -> None:
    """The same exception object; the last frame is where it was raised."""

    def body(x: int) -> Any:
        raise REFUSED.with_traceback(None)

    with pytest.raises(ConnectionRefusedError) as caught:
        tool(body, guard(clock, 2))()
    assert caught.value is REFUSED
    assert traceback.extract_tb(caught.value.__traceback__)[-1].name == "body"
    assert caught.value.__context__ is None and caught.value.__cause__ is None


def test_retries_are_counted_for_the_tool_and_the_run(clock: FakeClock, exported: Any) -> None:
    """`acrux.tool.retries`, as metric and on the run's span; one call, one duration."""
    reader = InMemoryMetricReader()
    settings.meter_provider = MeterProvider([reader])
    with acrux.run("agent") as run:
        tool(Failing(REFUSED, REFUSED, 1), guard(clock))()
    assert (run.summary.calls, run.summary.failed, run.summary.retries) == (1, 0, 2)
    data: Any = reader.get_metrics_data()
    metrics = {m.name: m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics}
    assert [point.value for point in metrics["acrux.tool.retries"].data.data_points] == [2]
    assert [point.count for point in metrics["gen_ai.execute_tool.duration"].data.data_points] == [1]
    assert [point.value for point in metrics["acrux.tool.calls"].data.data_points] == [1]


def test_a_refused_call_has_no_duration(clock: FakeClock) -> None:
    """No body ran; it is counted all the same."""
    reader = InMemoryMetricReader()
    settings.meter_provider = MeterProvider([reader])
    made = tool(Failing(REFUSED), Guard(None, CircuitBreaker(failures=1, clock=clock), clock=clock))
    with pytest.raises(ConnectionRefusedError):
        made()
    with pytest.raises(ToolUnavailable):
        made()
    data: Any = reader.get_metrics_data()
    metrics = {m.name: m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics}
    assert sum(point.count for point in metrics["gen_ai.execute_tool.duration"].data.data_points) == 1
    codes = {p.attributes["errorCode"]: p.value for p in metrics["acrux.tool.calls"].data.data_points}
    assert codes == {"connection_refused": 1, "circuit_open": 1}


def test_observers_see_one_call_with_its_attempts(clock: FakeClock) -> None:
    """`record_calls()` needs no SDK; the guard neither."""
    with record_calls() as calls:
        tool(Failing(REFUSED, 1), guard(clock))()
    assert [(each.outcome, each.attempts) for each in calls] == [("ok", 2)]


def test_without_a_trace_it_works_the_same(clock: FakeClock) -> None:
    """No SDK, nobody reads a verdict but the guard."""
    work = Failing(ToolResult.error("rate_limited", "slow"), {"n": 2})
    assert tool(work, guard(clock, retry_codes={"rate_limited"}))() == {"n": 2}
    assert tool(Failing(REFUSED, 3), guard(clock))() == 3


def test_no_text_leaves_under_capture_none(clock: FakeClock, exported: Any) -> None:
    """Events carry types and codes only."""
    settings.capture = 0
    secret = "sk-very-secret"
    with pytest.raises(ConnectionRefusedError):
        tool(Failing(ConnectionRefusedError(secret)), guard(clock))()
    assert secret not in exported.only.everything()


# -- fallback ----------------------------------------------------------------------------------------------


def test_a_fallback_answers_with_a_warning_that_says_for_what(clock: FakeClock, exported: Any) -> None:
    """`fallback_used`, with the failed attempt's errorType and errorCode."""
    made = tool(Failing(HttpStatus(503)), Guard(Retry(max_attempts=2), fallback={"rows": []}, clock=clock))
    assert made() == {"rows": []}
    span = exported.only
    assert (span.outcome, span.status) == ("warning", "UNSET")
    assert (span.attributes["errorType"], span.attributes["errorCode"]) == ("tool_declared", "fallback_used")
    assert "http_status/http_503" in span.attributes["warning.message"]
    assert span.attributes["acrux.tool.fallback.error_type"] == "http_status"
    assert span.attributes["acrux.tool.fallback.error_code"] == "http_503"
    assert span.attributes["acrux.tool.attempts"] == 2
    assert span.attributes["acrux.tool.stop_reason"] == "tool_failure:retry_exhausted"


def test_each_caller_gets_a_fallback_of_its_own(clock: FakeClock) -> None:
    """What one agent does to it is not what the next one sees."""
    made = tool(Failing(REFUSED), Guard(None, None, fallback={"rows": []}, clock=clock))
    made()["rows"].append(1)
    assert made() == {"rows": []}


def test_a_fallback_may_be_made_from_the_verdict(clock: FakeClock) -> None:
    """`fn(verdict)`, also where no body ran; `.call` tells whether one did."""
    seen: list[Verdict] = []

    def answer(verdict: Verdict) -> str:
        seen.append(verdict)
        return f"sorry: {verdict.code}"

    made = tool(
        Failing(REFUSED), Guard(None, CircuitBreaker(failures=1, clock=clock), fallback=answer, clock=clock)
    )
    first, second = made.call(), made.call()
    assert (first.value, first.executed) == ("sorry: connection_refused", True)
    assert (second.value, second.executed) == ("sorry: circuit_open", False)
    assert second.verdict.outcome is Outcome.WARNING
    assert [each.code for each in seen] == ["connection_refused", "circuit_open"]


async def test_a_fallback_may_be_a_coroutine_function(clock: FakeClock) -> None:
    """For an asynchronous tool."""

    async def answer(verdict: Verdict) -> str:
        await asyncio.sleep(0)
        return "later"

    @acrux.tool(guard=Guard(None, None, fallback=answer, clock=clock))
    async def down() -> str:
        raise REFUSED

    assert await down() == "later"


@pytest.mark.parametrize(
    "outcome", [HttpStatus(404), ToolResult.error("location_not_found", "?"), KeyboardInterrupt()], ids=repr
)
def test_a_fallback_covers_no_failure_of_the_callers(outcome: Any, clock: FakeClock) -> None:
    """Nor a cancellation: the answer would be wrong, not late."""
    made = tool(Failing(outcome), Guard(None, None, fallback="covered", clock=clock))
    if isinstance(outcome, BaseException):
        with pytest.raises(type(outcome)):
            made()
    else:
        assert made() == {"error": "?"}


def test_a_fallback_that_fails_leaves_the_failure_as_it_was(
    clock: FakeClock, exported: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """One warning; the original exception."""

    def broken(verdict: Verdict) -> Any:
        raise ZeroDivisionError

    made = tool(Failing(REFUSED), Guard(None, None, fallback=broken, clock=clock))
    with caplog.at_level(logging.WARNING), pytest.raises(ConnectionRefusedError) as caught:
        made()
    assert caught.value is REFUSED
    assert "ZeroDivisionError; the failure stands" in caplog.text
    assert exported.only.attributes["errorCode"] == "connection_refused"


# -- refused -----------------------------------------------------------------------------------------------


def opened(clock: FakeClock, **options: Any) -> Any:
    made = tool(
        Failing(REFUSED),
        Guard(None, CircuitBreaker(failures=1, cooldown=20, clock=clock), clock=clock, **options),
    )
    with pytest.raises(ConnectionRefusedError):
        made()
    return made


def test_who_is_refused_learns_what_to_do(clock: FakeClock) -> None:
    """Stop reason, what this run has, the next step, when to come back: one small value."""
    made = opened(clock)

    @acrux.tool
    def orders() -> list[int]:
        return [1]

    with acrux.run("agent"):
        orders()
        with pytest.raises(ToolUnavailable) as caught:
            made()
    exc = caught.value
    assert exc.stop_reason == CIRCUIT_OPEN
    assert exc.checked == ("orders",)
    assert exc.next_step == "partial"
    assert exc.verdict.code == "circuit_open" and exc.verdict.error_type is ErrorType.TRANSPORT
    assert exc.answer["stop_reason"] == CIRCUIT_OPEN and exc.answer["checked"] == ["orders"]
    assert exc.answer["retry_at"] in str(exc)
    assert "Next step: answer with what is known" in str(exc)


def test_without_anything_to_go_on_it_says_escalate(clock: FakeClock) -> None:
    """Unless the guard's owner has said what to do."""
    with pytest.raises(ToolUnavailable) as caught:
        opened(clock)()
    assert caught.value.next_step == "escalate"
    with pytest.raises(ToolUnavailable) as caught:
        opened(clock, next_step="fallback")()
    assert caught.value.next_step == "fallback"


def test_it_can_be_copied_and_pickled(clock: FakeClock) -> None:
    """It crosses process pools."""
    with pytest.raises(ToolUnavailable) as caught:
        opened(clock)()
    for same in (copy.copy(caught.value), pickle.loads(pickle.dumps(caught.value))):
        assert (same.verdict, same.stop_reason, same.retry_at, str(same)) == (
            caught.value.verdict,
            caught.value.stop_reason,
            caught.value.retry_at,
            str(caught.value),
        )


def test_a_tool_that_cannot_do_without_the_refused_one_fails_with_its_verdict(
    clock: FakeClock, exported: Any
) -> None:
    """The outer tool did run; its circuit does not open for the inner one's."""
    made = opened(clock)
    breaker = CircuitBreaker(failures=1, clock=clock)
    outer = acrux.tool(guard=Guard(Retry(), breaker, clock=clock), name="outer")(lambda: made())
    exported.clear()
    with pytest.raises(ToolUnavailable):
        outer()
    by_name = {each.name: each for each in exported.tools()}
    span = by_name["execute_tool outer"]
    assert (span.attributes["errorType"], span.attributes["errorCode"]) == ("transport", "circuit_open")
    assert span.attributes["acrux.tool.attempts"] == 1
    assert breaker.state == "closed"


def test_under_a_frameworks_call_the_guard_writes_on_that_one_span(clock: FakeClock, exported: Any) -> None:
    """One call, one span, whoever opened it."""
    made = tool(Failing(REFUSED, {"n": 2}), guard(clock))
    for _ in range(2):
        call = open_call(made.__acrux_tool__.definition, function=made)
        call.ok(made())
    first, second = exported.tools()
    assert (first.outcome, first.attributes["acrux.tool.attempts"]) == ("ok", 2)
    assert len(attempt_events(first)) == 1
    assert second.attributes["acrux.tool.attempts"] == 1

    refused = opened(clock)
    exported.clear()
    call = open_call(refused.__acrux_tool__.definition, function=refused)
    with pytest.raises(ToolUnavailable) as caught:
        refused()
    call.raised(caught.value)
    span = exported.only
    assert (span.attributes["errorCode"], span.attributes["acrux.tool.attempts"]) == ("circuit_open", 0)
    assert call.executed is False
    assert span.events == []


# -- where guards come from --------------------------------------------------------------------------------


def test_a_process_default_guards_the_tools_that_have_no_guard(clock: FakeClock) -> None:
    """Those that exist and those that come; not those that say False or have their own."""
    works = [Failing(REFUSED, "fine") for _ in range(4)]

    def service(work: Any) -> Any:
        return lambda: work()

    before = acrux.tool(name="before")(service(works[0]))
    never = acrux.tool(name="never", guard=False)(service(works[1]))
    own = acrux.tool(name="own", guard=guard(clock, 1))(service(works[2]))
    acrux.configure(guard=guard(clock, 2), backend="none", tracer_provider=TracerProvider())
    after = acrux.tool(name="after")(service(works[3]))
    assert before() == after() == "fine"
    for each in (never, own):
        with pytest.raises(ConnectionRefusedError):
            each()
    acrux.configure(guard=False, backend="none", tracer_provider=TracerProvider())
    works[0].calls = 0
    with pytest.raises(ConnectionRefusedError):
        before()


def test_a_plain_function_is_a_call_of_its_own_outside_of_one(clock: FakeClock, exported: Any) -> None:
    """`guard.call`, `guard.acall` and the decorator: one span, named after the function."""
    work = Failing(REFUSED, {"n": 2})

    def lookup(x: int) -> Any:
        """Looks up."""
        return work(x)

    assert guard(clock).call(lookup, 3) == {"n": 2}
    span = exported.only
    assert span.name == "execute_tool lookup"
    assert span.attributes["acrux.tool.attempts"] == 2


def test_a_plain_function_is_part_of_the_call_that_it_is_used_in(clock: FakeClock, exported: Any) -> None:
    """No second span; its failed attempts are events of the tool's, what it declares is the tool's."""
    work = Failing(REFUSED, {"n": 2})

    @guard(clock)
    def fetch() -> Any:
        acrux.record_warning("stale", f"attempt {work.calls}")
        return work()

    @acrux.tool
    def service() -> Any:
        return fetch()

    assert service() == {"n": 2}
    span = exported.only
    assert (span.outcome, span.attributes["errorCode"]) == ("warning", "stale")
    assert span.attributes["warning.message"] == "attempt 1"
    assert len(attempt_events(span)) == 1
    assert "acrux.tool.attempts" not in span.attributes


def test_a_part_may_return_the_tools_declaration(clock: FakeClock, exported: Any) -> None:
    """A helper that is no tool hands its `ToolResult` on untouched."""

    @guard(clock)
    def helper() -> Any:
        return ToolResult.error("no_rows", "nothing found")

    @acrux.tool
    def service() -> Any:
        return helper()

    assert service() == {"error": "nothing found"}
    assert exported.only.attributes["errorCode"] == "no_rows"


def test_a_tool_called_through_a_guard_is_one_call(clock: FakeClock, exported: Any) -> None:
    """The guard takes the place of the tool's own."""
    work = Failing(REFUSED, REFUSED, 3)
    made = tool(work, guard(clock, 1))
    assert guard(clock).call(made) == 3
    assert exported.only.attributes["acrux.tool.attempts"] == 3


def test_methods_partials_and_builtins_can_be_guarded(clock: FakeClock) -> None:
    """Whatever is callable."""
    import functools

    class Client:
        def __init__(self) -> None:
            self.work = Failing(REFUSED, "fine")

        def fetch(self, x: int) -> Any:
            return self.work(x)

        @acrux.tool
        def tool(self, x: int) -> Any:
            return self.work(x)

        @Guard(Retry(max_attempts=2, base_delay=0, max_delay=0), None)
        def guarded(self, x: int) -> Any:
            return self.work(x)

    one = guard(clock)
    assert one.call(Client().fetch, 1) == "fine"
    assert one.call(Client().tool, 1) == "fine"
    assert one.call(functools.partial(Client().fetch, 1)) == "fine"
    assert one.call(Failing(REFUSED, "fine")) == "fine"
    assert Client().guarded(1) == "fine"
    assert one.call(max, 1, 2) == 2
    assert one.call(dict, a=1) == {"a": 1}


async def test_acall_waits_without_blocking_the_loop(exported: Any) -> None:
    """Plain and coroutine functions, and functions that return an awaitable."""
    waiting = Guard(Retry(max_attempts=2, base_delay=0.05, jitter=0), None)
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.005)
            ticks += 1

    ticker = asyncio.ensure_future(tick())
    plain, coroutine, returned = (Failing(REFUSED, "fine") for _ in range(3))

    async def work(of: Any) -> Any:
        return of()

    assert await waiting.acall(plain) == "fine"
    assert await waiting.acall(work, coroutine) == "fine"
    assert await waiting.acall(lambda: work(returned)) == "fine"
    ticker.cancel()
    assert ticks >= 5
    assert len(exported.tools()) == 3


async def test_acall_cuts_a_plain_function_off() -> None:
    """In a thread of its own, so that the loop stays free."""
    import time

    with pytest.raises(TimeoutError):
        await Guard(None, None, timeout=0.03).acall(time.sleep, 0.5)


# -- kinds of functions ------------------------------------------------------------------------------------


async def test_an_async_generator_is_retried_until_its_first_item(clock: FakeClock, exported: Any) -> None:
    """Nothing was delivered yet, so nothing is delivered twice."""
    fails = [REFUSED, REFUSED]

    @acrux.tool(guard=guard(clock))
    async def stream() -> Any:
        if fails:
            raise fails.pop()
        for item in range(3):
            got = yield item
            assert got is None
        yield "end"

    assert [each async for each in stream()] == [0, 1, 2, "end"]
    assert (exported.only.outcome, exported.only.attributes["acrux.tool.attempts"]) == ("ok", 3)


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_a_generator_is_not_retried_after_its_first_item(kind: str, clock: FakeClock, exported: Any) -> None:
    """The consumer has it already; how it ends counts for the circuit."""
    breaker = CircuitBreaker(failures=1, clock=clock)
    runs = 0
    retrying = Guard(Retry(max_attempts=5), breaker, clock=clock)

    def stream() -> Any:
        nonlocal runs
        runs += 1
        yield 1
        raise REFUSED

    async def astream() -> Any:
        nonlocal runs
        runs += 1
        yield 1
        raise REFUSED

    async def consume() -> list[Any]:
        return [each async for each in acrux.tool(guard=retrying)(astream)()]

    with pytest.raises(ConnectionRefusedError):
        list(acrux.tool(guard=retrying)(stream)()) if kind == "plain" else asyncio.run(consume())
    assert runs == 1
    assert breaker.state == "open"
    assert exported.only.attributes["errorCode"] == "connection_refused"


def test_the_generator_protocol_goes_through(clock: FakeClock, exported: Any) -> None:
    """send, throw, return value and close."""

    @acrux.tool(guard=guard(clock))
    def stream() -> Any:
        got = []
        try:
            got.append((yield 1))
            try:
                yield 2
            except KeyError:
                got.append("caught")
            yield 3
        finally:
            got.append("closed")
        return got

    made = stream()
    assert next(made) == 1
    assert made.send("sent") == 2
    assert made.throw(KeyError()) == 3
    with pytest.raises(StopIteration) as ended:
        next(made)
    assert ended.value.value == ["sent", "caught", "closed"]
    closed = stream()
    next(closed)
    closed.close()
    assert [each.outcome for each in exported.tools()] == ["ok", "closed"]


def test_a_generator_has_its_fallback_as_only_item(clock: FakeClock) -> None:
    """Before anything was delivered."""

    @acrux.tool(guard=Guard(None, None, fallback="sorry", clock=clock))
    def stream() -> Any:
        raise REFUSED
        yield

    assert list(stream()) == ["sorry"]


def test_a_generator_is_cut_off_before_its_first_item() -> None:
    """The time limit is for the attempt, which the first item ends."""
    import time

    @acrux.tool(guard=Guard(None, None, timeout=0.1))
    def stream(slow_first: bool) -> Any:
        if slow_first:
            time.sleep(1)
        yield 1
        time.sleep(0.2)
        yield 2

    assert list(stream(False)) == [1, 2]
    with pytest.raises(TimeoutError):
        list(stream(True))


async def test_a_plain_function_may_return_what_is_awaited(clock: FakeClock, exported: Any) -> None:
    """It is called anew for each attempt."""
    work = Failing(REFUSED, "fine")

    async def run() -> Any:
        return work()

    @acrux.tool(guard=guard(clock), annotations=ToolAnnotations())
    def service() -> Any:
        return run()

    assert await service() == "fine"
    assert exported.only.attributes["acrux.tool.attempts"] == 2


async def test_a_future_is_the_callers_own_and_only_counted(clock: FakeClock) -> None:
    """It is returned as it is; its end counts for the circuit."""
    breaker = CircuitBreaker(failures=1, clock=clock)
    future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    made = tool(lambda x: future, Guard(Retry(), breaker, clock=clock))
    assert made() is future
    future.set_exception(ConnectionRefusedError())
    await asyncio.sleep(0)
    assert future.exception() is not None
    assert breaker.state == "open"


def test_a_result_is_checked_once(clock: FakeClock, exported: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An enforced schema costs as much as without a guard."""
    import acrux_otel.definition as definitions

    checked: list[object] = []
    real = definitions.validate_result

    def counting(schema: Any, result: Any) -> Any:
        checked.append(result)
        return real(schema, result)

    monkeypatch.setattr(definitions, "validate_result", counting)

    @acrux.tool(guard=guard(clock), result_schema={"type": "object", "required": ["n"]})
    def service() -> dict[str, int]:
        return {"n": 1}

    service()
    assert len(checked) == 1
    assert exported.only.outcome == "ok"


@pytest.mark.parametrize("breaker", [True, False])
@pytest.mark.parametrize("fails", [True, False])
def test_nothing_stays_current_where_nobody_reads(breaker: bool, fails: bool, clock: FakeClock) -> None:
    """Without an SDK the guard makes a call of its own, and takes it back; also for what is awaited later."""
    circuits = CircuitBreaker(clock=clock) if breaker else None
    one = Guard(Retry(max_attempts=2), circuits, clock=clock)
    work, later = (Failing(*([REFUSED] if fails else []), "fine") for _ in range(2))

    async def run() -> Any:
        return later()

    plain = tool(work, one)
    returns = acrux.tool(guard=one, name="returns")(lambda: run())
    assert plain() == "fine"
    assert CURRENT.get() is None
    awaitable = returns()
    assert CURRENT.get() is None
    assert asyncio.run(awaitable) == "fine"
    assert CURRENT.get() is None
    if fails:
        assert (work.calls, later.calls) == (2, 2)


def test_it_runs_on_trio() -> None:
    """Waits and time limits, by trio's own means."""
    trio = pytest.importorskip("trio")
    calls = 0

    @acrux.tool(guard=Guard(Retry(max_attempts=2, base_delay=0.01), timeout=0.1))
    async def service(hang: bool) -> str:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise REFUSED
        if hang:
            await trio.sleep(30)
        return "fine"

    async def main() -> None:
        assert await service(False) == "fine"
        with pytest.raises(TimeoutError):
            await service(True)

    trio.run(main)
    assert calls == 3


def test_the_retry_budget_is_a_metric() -> None:
    """What the process may still retry right now."""
    reader = InMemoryMetricReader()
    settings.meter_provider = MeterProvider([reader])

    def read() -> int:
        tool(Failing("fine"), Guard())()
        data: Any = reader.get_metrics_data()
        metrics = {m.name: m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics}
        (point,) = metrics["acrux.tool.retry_budget.left"].data.data_points
        return int(point.value)

    before = read()
    tool(Failing(REFUSED, "fine"), Guard(Retry(base_delay=0)))()
    assert read() == before - 1
