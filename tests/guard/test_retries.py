# SPDX-License-Identifier: Apache-2.0
"""Which failures are tried again, when, and how often."""

from __future__ import annotations

import asyncio
import email.utils
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import requests

import acrux_otel as acrux
from acrux_otel import Guard, Retry, ToolAnnotations, ToolResult
from acrux_otel.deadline import run_with_deadline

from .conftest import FakeClock


class Status(Exception):
    def __init__(self, status: int, **headers: str) -> None:
        super().__init__(f"HTTP {status}")
        self.status_code = status
        self.response = SimpleNamespace(
            status_code=status, headers={name.replace("_", "-"): value for name, value in headers.items()}
        )


class Failing:
    """Raises, or returns, one thing after another; then the last for ever."""

    def __init__(self, *outcomes: Any) -> None:
        self.outcomes, self.calls = list(outcomes), 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        outcome = self.outcomes[min(self.calls, len(self.outcomes) - 1)]
        self.calls += 1
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome


def tool(work: Callable[..., Any], guard: Guard, **annotations: bool) -> Any:
    def service(x: int = 1) -> Any:
        return work(x)

    return acrux.tool(guard=guard, annotations=ToolAnnotations(**annotations))(service)


def guard(clock: FakeClock, attempts: int = 3, **options: Any) -> Guard:
    return Guard(Retry(max_attempts=attempts, **options), None, clock=clock)


REFUSED = ConnectionRefusedError(111, "refused")
RESET = ConnectionResetError(104, "reset")
REQUEST = httpx.Request("GET", "http://x/")


# -- what --------------------------------------------------------------------------------------------------

CERTAIN = [
    REFUSED,
    ConnectionError("no connection"),
    Status(425),
    Status(429),
    Status(503),
    httpx.ConnectTimeout("t", request=REQUEST),
    httpx.ConnectError("c", request=REQUEST),
    requests.exceptions.ConnectTimeout("t"),
]
AMBIGUOUS = [
    RESET,
    TimeoutError("t"),
    Status(408),
    Status(500),
    Status(502),
    Status(504),
    Status(529),
    httpx.ReadTimeout("t", request=REQUEST),
    httpx.RemoteProtocolError("r", request=REQUEST),
    requests.exceptions.ReadTimeout("t"),
]
NEVER = [
    Status(400),
    Status(401),
    Status(403),
    Status(404),
    Status(409),
    Status(422),
    Status(501),
    ValueError("my own"),
    RuntimeError("429 Too Many Requests, retry please"),  # A22: prose is not protocol
    UnicodeDecodeError("utf-8", b"x", 0, 1, "bad"),
]


@pytest.mark.parametrize("failure", CERTAIN, ids=repr)
def test_what_was_certainly_not_carried_out_is_retried_for_any_tool(
    failure: Exception, clock: FakeClock
) -> None:
    """R14: refused, DNS, 425, 429, 503, and a connection that was never made."""
    work = Failing(failure, "fine")
    assert tool(work, guard(clock))() == "fine"
    assert work.calls == 2


@pytest.mark.parametrize("failure", AMBIGUOUS, ids=repr)
def test_an_ambiguous_failure_is_not_retried_for_a_tool_that_says_nothing(
    failure: Exception, clock: FakeClock
) -> None:
    """R14: one requested call, one e-mail."""
    work = Failing(failure, "twice")
    with pytest.raises(type(failure)) as caught:
        tool(work, guard(clock))()
    assert caught.value is failure
    assert work.calls == 1


@pytest.mark.parametrize("failure", AMBIGUOUS, ids=repr)
@pytest.mark.parametrize("how", ["idempotent", "read_only", "retry_ambiguous"])
def test_an_ambiguous_failure_is_retried_where_twice_is_as_good_as_once(
    failure: Exception, how: str, clock: FakeClock
) -> None:
    """Annotated idempotent or read-only, or by the guard's own word."""
    work = Failing(failure, "fine")
    if how == "retry_ambiguous":
        made = tool(work, guard(clock, retry_ambiguous=True))
    else:
        made = tool(work, guard(clock), **{how: True})
    assert made() == "fine"
    assert work.calls == 2


@pytest.mark.parametrize("failure", NEVER, ids=repr)
def test_a_failure_that_would_come_again_is_not_retried(failure: Exception, clock: FakeClock) -> None:
    """A22: types and typed attributes decide; digits in a message never do."""
    work = Failing(failure)
    with pytest.raises(type(failure)):
        tool(work, guard(clock, retry_ambiguous=True), idempotent=True)()
    assert work.calls == 1


def test_wrong_arguments_are_not_retried(clock: FakeClock) -> None:
    """The native TypeError comes out of the first attempt."""
    with pytest.raises(TypeError, match="unexpected keyword argument 'y'"):
        tool(Failing("never"), guard(clock), idempotent=True)(y=1)
    assert clock.slept == []


def test_a_declared_error_is_retried_only_by_its_code(clock: FakeClock) -> None:
    """`retry_codes` lists it; its result is the last attempt's."""
    limited, unknown = ToolResult.error("rate_limited", "slow"), ToolResult.error("no_such_city", "?")
    work = Failing(limited, limited, {"temp": 3})
    assert tool(work, guard(clock, retry_codes={"rate_limited"}))() == {"temp": 3}
    assert work.calls == 3
    work = Failing(unknown)
    assert tool(work, guard(clock, retry_codes={"rate_limited"}), idempotent=True)() == {"error": "?"}
    assert work.calls == 1


def test_a_recorded_error_belongs_to_its_attempt(clock: FakeClock, exported: Any) -> None:
    """What the first attempt recorded is gone with it."""
    calls = 0

    @acrux.tool(guard=guard(clock, retry_codes={"rate_limited"}))
    def service() -> dict[str, int]:
        nonlocal calls
        calls += 1
        if calls == 1:
            acrux.record_error("rate_limited", "slow down")
        return {"calls": calls}

    assert service() == {"calls": 2}
    assert (exported.only.outcome, exported.only.status) == ("ok", "UNSET")


def test_warnings_are_not_retried(clock: FakeClock) -> None:
    """A warned call worked."""
    work = Failing(ToolResult.warn("rate_limited", "nearly", {"n": 1}))
    assert tool(work, guard(clock, retry_codes={"rate_limited"}))() == {"n": 1}
    assert work.calls == 1


# -- when --------------------------------------------------------------------------------------------------


def test_retry_after_is_a_floor(clock: FakeClock, exported: Any) -> None:
    """A23: jitter only adds to it, the header's case does not matter, the wait is on the span."""
    tool(Failing(Status(429, Retry_After="7"), "fine"), guard(clock, base_delay=0.1))()
    assert len(clock.slept) == 1 and 7 <= clock.slept[0] <= 7.1
    (event,) = [each for each in exported.only.events if each[0] == "acrux.tool.attempt"]
    assert event[1]["acrux.tool.retry.after"] == 7
    assert event[1]["acrux.tool.retry.delay"] == clock.slept[0]


@pytest.mark.parametrize(
    "header", ["-5", "soon", "", "0", "1e3", "NaN", "inf", "9" * 400, "Wed, 99 Foo 2020"]
)
def test_a_senseless_retry_after_does_no_harm(header: str, clock: FakeClock) -> None:
    """Without a usable header the guard's own backoff holds; a past date or zero means now."""
    work = Failing(Status(429, retry_after=header), "fine")
    assert tool(work, guard(clock, base_delay=1))() == "fine"
    assert 0 <= sum(clock.slept) <= 1


def test_retry_after_may_be_a_date(clock: FakeClock) -> None:
    """RFC 9110: seconds, or an HTTP date."""
    date = email.utils.formatdate(time.time() + 9, usegmt=True)
    tool(Failing(Status(503, retry_after=date), "fine"), guard(clock, base_delay=0.1))()
    assert 7 <= clock.slept[0] <= 9.2


@pytest.mark.parametrize("header", ["31", "3600", "9" * 30])
def test_a_service_that_asks_for_more_than_max_delay_is_not_hammered(
    header: str, clock: FakeClock, exported: Any
) -> None:
    """Waiting less would ignore the header, so the call ends."""
    work = Failing(Status(429, retry_after=header))
    with pytest.raises(Status):
        tool(work, guard(clock, max_delay=30))()
    assert (work.calls, clock.slept) == (1, [])
    assert exported.only.attributes["acrux.tool.stop_reason"] == "tool_failure:retry_exhausted"


def test_a_wait_longer_than_the_deadline_is_not_begun(clock: FakeClock, exported: Any) -> None:
    """A23: the result says that time was the reason."""
    work = Failing(Status(429, retry_after="7"))
    made = tool(work, Guard(Retry(max_attempts=3), None, deadline=5, clock=clock))
    with pytest.raises(Status):
        made()
    assert (work.calls, clock.slept) == (1, [])
    assert exported.only.attributes["acrux.tool.stop_reason"] == "tool_failure:deadline_exceeded"


def test_backoff_grows_and_is_random(clock: FakeClock) -> None:
    """Full jitter: anything up to base * 2 ** (n - 1), bounded by max_delay."""
    seen: list[list[float]] = []
    for _ in range(30):
        clock.slept = []
        with pytest.raises(ConnectionRefusedError):
            tool(Failing(REFUSED), guard(clock, 6, base_delay=1, max_delay=5, budget=None))()
        seen.append(clock.slept)
    for at, most in enumerate([1, 2, 4, 5, 5]):
        waits = [each[at] for each in seen]
        assert all(0 <= each <= most for each in waits)
        assert max(waits) > most * 0.6 and min(waits) < most * 0.4


def test_without_jitter_the_waits_are_exact(clock: FakeClock) -> None:
    """For those who want to foretell them."""
    with pytest.raises(ConnectionRefusedError):
        tool(Failing(REFUSED), guard(clock, 4, base_delay=1, jitter=0, budget=None))()
    assert clock.slept == [1, 2, 4]


# -- how often ---------------------------------------------------------------------------------------------


def test_nested_guards_do_not_multiply(clock: FakeClock) -> None:
    """A25: three attempts, not nine."""
    work = Failing(ConnectionError())
    inner = guard(clock)(work)

    def outer() -> Any:
        return inner()

    with pytest.raises(ConnectionError):
        guard(clock)(outer)()
    assert work.calls == 3


def test_a_failure_that_is_wrapped_on_its_way_does_not_multiply_either(clock: FakeClock) -> None:
    """Retries below count for the guard around them."""
    work = Failing(ConnectionError())
    inner = tool(work, guard(clock))

    def outer() -> Any:
        try:
            return inner()
        except ConnectionError:
            raise ConnectionRefusedError from None

    with pytest.raises(ConnectionRefusedError):
        tool(lambda x: outer(), guard(clock))()
    assert work.calls == 3


def test_an_outer_guard_retries_what_no_inner_one_has_tried(clock: FakeClock) -> None:
    """With one inner retry of two spent, one is left outside, and none inside again."""
    work = Failing(ConnectionError())
    inner = tool(work, guard(clock, 2))

    def outer(x: int) -> Any:
        try:
            return inner()
        except ConnectionError:
            raise ConnectionRefusedError from None

    with pytest.raises(ConnectionRefusedError):
        tool(outer, guard(clock, 3))()
    assert work.calls == 3


def test_siblings_have_budgets_of_their_own(clock: FakeClock) -> None:
    """One tool's retries do not cost its neighbour any."""
    one, two = Failing(REFUSED, REFUSED, 1), Failing(REFUSED, REFUSED, 2)
    first, second = tool(one, guard(clock)), tool(two, guard(clock))
    assert tool(lambda x: first() + second(), guard(clock))() == 3
    assert (one.calls, two.calls) == (3, 3)


def test_nesting_is_seen_across_threads_with_a_copied_context(clock: FakeClock) -> None:
    """The batch runner's threads carry the context."""
    work = Failing(ConnectionError())
    inner = guard(clock)(work)
    with pytest.raises(ConnectionError):
        guard(clock)(lambda: run_with_deadline(inner, (), {}, 10))()
    assert work.calls == 3


def test_what_an_inner_guard_held_back_an_outer_one_holds_back_too(clock: FakeClock) -> None:
    """The inner tool's owner did not say that twice is safe."""
    work = Failing(TimeoutError("after sending"))
    inner = tool(work, guard(clock))
    with pytest.raises(TimeoutError):
        tool(lambda x: inner(), guard(clock), idempotent=True)()
    assert work.calls == 1


async def test_siblings_that_fail_together_do_not_multiply(clock: FakeClock) -> None:
    """Also where the outer call sees only one of their exceptions."""
    works = [Failing(ConnectionError()) for _ in range(4)]
    inners = [guard(clock, 2)(work) for work in works]

    @guard(clock, 2)
    async def outer() -> None:
        async def one(inner: Any) -> Any:
            await asyncio.sleep(0)
            return inner()

        await asyncio.gather(*(one(inner) for inner in inners))

    with pytest.raises(ConnectionError):
        await outer()
    assert [work.calls for work in works] == [2, 2, 2, 2]


def test_a_storm_spends_the_retry_budget(clock: FakeClock) -> None:
    """Ten retries in ten seconds, then a fifth of the calls; the rest fail at once."""
    work = Failing(REFUSED)
    made = tool(work, guard(clock, 2, base_delay=0, max_delay=0))
    for _ in range(200):
        with pytest.raises(ConnectionRefusedError):
            made()
        clock.advance(0.01)
    retries = work.calls - 200
    assert 10 <= retries <= 200 * 0.2 + 1


def test_the_retry_budget_comes_back(clock: FakeClock) -> None:
    """In any ten seconds ten retries are always allowed."""
    work = Failing(REFUSED)
    made = tool(work, guard(clock, 2, base_delay=0, max_delay=0))
    for _ in range(3):
        before = work.calls
        for _ in range(10):
            with pytest.raises(ConnectionRefusedError):
                made()
        assert work.calls - before == 20
        clock.advance(11)


def test_healthy_calls_earn_retries(clock: FakeClock) -> None:
    """A busy process may retry more than an idle one."""
    healthy, broken = tool(Failing("fine"), guard(clock)), Failing(REFUSED)
    made = tool(broken, guard(clock, 2, base_delay=0, max_delay=0))
    with pytest.raises(ConnectionRefusedError):
        made()
    for _ in range(1000):
        healthy()
    clock.advance(1)
    for _ in range(100):
        with pytest.raises(ConnectionRefusedError):
            made()
    assert broken.calls == 2 + 200


# -- cancellation and time ---------------------------------------------------------------------------------


async def test_a_cancellation_ends_the_attempt_at_once() -> None:
    """No further attempt, no wait, no verdict of failure."""
    calls = 0

    @acrux.tool(guard=Guard(Retry(max_attempts=5, retry_ambiguous=True)))
    async def slow() -> None:
        nonlocal calls
        calls += 1
        await asyncio.sleep(30)

    task = asyncio.ensure_future(slow())
    await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert calls == 1


async def test_a_cancellation_ends_the_wait_at_once(exported: Any) -> None:
    """The span says cancelled, and has the attempt that failed."""

    @acrux.tool(guard=Guard(Retry(max_attempts=5, base_delay=30, jitter=0), None))
    async def refused() -> None:
        raise REFUSED

    task = asyncio.ensure_future(refused())
    await asyncio.sleep(0.02)
    begun = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - begun < 1
    assert exported.only.outcome == "cancelled"
    assert "errorType" not in exported.only.attributes


def test_a_keyboard_interrupt_is_not_retried(clock: FakeClock) -> None:
    """It ends the call, whatever the settings."""
    work = Failing(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        tool(work, guard(clock, retry_ambiguous=True, retry_codes={"keyboard_interrupt"}))()
    assert work.calls == 1


def test_a_plain_function_is_cut_off_at_its_timeout(exported: Any) -> None:
    """It goes on in a thread of its own; the call is a timeout, and is tried again where that is safe."""
    release, calls = threading.Event(), 0

    @acrux.tool(
        annotations=ToolAnnotations(read_only=True),
        guard=Guard(Retry(max_attempts=2, base_delay=0), timeout=0.05),
    )
    def slow() -> str:
        nonlocal calls
        calls += 1
        if calls == 1:
            release.wait(10)
            acrux.record_error("late", "from the first attempt")
        return f"attempt {calls}"

    try:
        assert slow() == "attempt 2"
    finally:
        release.set()
    assert exported.only.outcome == "ok"
    assert exported.only.attributes["acrux.tool.attempts"] == 2


def test_what_a_late_attempt_declares_is_nobodys(exported: Any) -> None:
    """State belongs to the attempt, also where it speaks while the next one runs."""
    release, said, calls = threading.Event(), threading.Event(), 0

    @acrux.tool(
        annotations=ToolAnnotations(read_only=True),
        guard=Guard(Retry(max_attempts=2, base_delay=0), timeout=1),
    )
    def slow() -> str:
        nonlocal calls
        calls += 1
        if calls == 1:
            release.wait(20)
            acrux.record_error("late", "from the first attempt")
            said.set()
            return "late"
        release.set()
        assert said.wait(0.9)
        return "fine"

    assert slow() == "fine"
    assert exported.only.outcome == "ok"


async def test_a_coroutine_is_cancelled_at_its_timeout(exported: Any) -> None:
    """An ambiguous failure: the tool said nothing, so there is one attempt."""
    seen: list[str] = []

    @acrux.tool(guard=Guard(timeout=0.02))
    async def slow() -> None:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    with pytest.raises(TimeoutError, match=r"no answer within 0\.02 s"):
        await slow()
    assert seen == ["cancelled"]
    span = exported.only
    assert (span.attributes["errorType"], span.attributes["errorCode"]) == ("transport", "timeout")
    assert span.attributes["acrux.tool.stop_reason"] == "tool_failure:timeout"


async def test_the_deadline_covers_all_attempts(exported: Any) -> None:
    """The second attempt gets only what is left."""
    calls = 0

    @acrux.tool(
        annotations=ToolAnnotations(idempotent=True),
        guard=Guard(Retry(max_attempts=10, base_delay=0), None, timeout=0.1, deadline=0.25),
    )
    async def slow() -> None:
        nonlocal calls
        calls += 1
        await asyncio.sleep(30)

    begun = time.monotonic()
    with pytest.raises(TimeoutError):
        await slow()
    assert time.monotonic() - begun < 2
    assert 2 <= calls <= 3
    assert exported.only.attributes["acrux.tool.stop_reason"] == "tool_failure:deadline_exceeded"


def test_a_call_that_begins_after_the_deadline_around_it_does_not_run(
    clock: FakeClock, exported: Any
) -> None:
    """Nested deadlines are the earliest of them."""
    ran = False

    @acrux.tool(guard=Guard(clock=clock))
    def inner() -> None:
        nonlocal ran
        ran = True

    @acrux.tool(guard=Guard(deadline=5, clock=clock))
    def outer() -> str:
        clock.advance(6)
        with pytest.raises(acrux.ToolUnavailable) as caught:
            inner()
        assert caught.value.stop_reason == "tool_failure:deadline_exceeded"
        return "went on"

    assert outer() == "went on"
    assert not ran
    refused = next(each for each in exported.tools() if each.name.endswith("inner"))
    assert (refused.outcome, refused.status) == ("not_executed", "UNSET")
    assert refused.attributes["acrux.tool.attempts"] == 0
