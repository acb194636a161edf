# SPDX-License-Identifier: Apache-2.0
"""The circuit breaker: one probe, three outcomes, no leaked place, the same in threads and tasks."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

import acrux_otel as acrux
from acrux_otel import CircuitBreaker, Guard, Retry, ToolUnavailable
from acrux_otel.guard.breaker import Circuit
from acrux_otel.settings import settings

from .conftest import FakeClock

DOWN = ConnectionRefusedError("down")


def once(breaker: CircuitBreaker, clock: FakeClock, **options: Any) -> Guard:
    return Guard(None, breaker, clock=clock, **options)


def fail(made: Callable[[], Any], times: int = 1) -> None:
    for _ in range(times):
        with pytest.raises(ConnectionRefusedError):
            made()


class Service:
    """Up or down; counts who asked."""

    def __init__(self) -> None:
        self.up, self.calls = False, 0
        self.lock = threading.Lock()

    def __call__(self) -> str:
        with self.lock:
            self.calls += 1
        if not self.up:
            raise ConnectionRefusedError("down")
        return "up"


def billing(service: Any, guard: Guard, name: str = "billing") -> Any:
    @acrux.tool(guard=guard, name=name)
    def tool() -> Any:
        return service()

    return tool


# -- the states --------------------------------------------------------------------------------------------


def test_three_failures_in_a_row_open_it_for_twenty_seconds(clock: FakeClock) -> None:
    """The defaults of the design."""
    service = Service()
    made = billing(service, Guard(None, clock=clock))
    fail(made, 3)
    for _ in range(5):
        with pytest.raises(ToolUnavailable):
            made()
    clock.advance(19.9)
    with pytest.raises(ToolUnavailable):
        made()
    assert service.calls == 3
    clock.advance(0.2)
    service.up = True
    assert made() == "up"
    assert service.calls == 4


def test_a_success_ends_the_streak(clock: FakeClock) -> None:
    """Consecutive failures count, unless a window is set."""
    service = Service()
    breaker = CircuitBreaker(clock=clock)
    made = billing(service, once(breaker, clock))
    for _ in range(4):
        service.up = False
        fail(made, 2)
        service.up = True
        made()
    assert breaker.state == "closed"


def test_a_window_counts_failures_among_successes(clock: FakeClock) -> None:
    """A flapping service is caught; failures older than the window are forgotten."""
    service = Service()
    breaker = CircuitBreaker(failures=3, window=10, clock=clock)
    made = billing(service, once(breaker, clock))
    for _ in range(4):  # one failure in 6 s: never three within 10 s
        service.up = False
        fail(made)
        service.up = True
        made()
        clock.advance(6)
    assert breaker.state == "closed"
    service.up = False
    fail(made)
    service.up = True
    made()
    service.up = False
    fail(made)
    assert breaker.state == "open"


def test_a_failing_probe_opens_it_anew(clock: FakeClock) -> None:
    """A fresh timer; one failure is enough."""
    service = Service()
    breaker = CircuitBreaker(clock=clock)
    made = billing(service, once(breaker, clock))
    fail(made, 3)
    clock.advance(21)
    assert breaker.state == "half_open"
    fail(made)
    assert breaker.state == "open"
    clock.advance(19)
    assert breaker.state == "open"


def test_what_says_nothing_of_the_service_moves_nothing(clock: FakeClock) -> None:
    """A caller's fault, a declared failure, a hand-off: the streak stays, and a probe's place is free."""

    class NotFound(Exception):
        status_code = 404

    class Paused(Exception):
        pass

    says: list[Any] = []

    @acrux.tool(guard=once(breaker := CircuitBreaker(clock=clock), clock), control_flow=(Paused,))
    def tool(x: int = 1) -> Any:
        outcome = says[0]
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    neutral = [
        NotFound(),
        acrux.ToolResult.error("location_not_found", "?"),
        Paused(),
        KeyboardInterrupt(),
    ]
    says[:] = [DOWN]
    fail(tool, 2)
    for each in neutral:
        says[:] = [each]
        try:
            tool()
        except BaseException:
            pass
    with pytest.raises(TypeError):
        tool(y=1)
    says[:] = [DOWN]
    fail(tool)
    assert breaker.state == "open"
    clock.advance(21)
    for each in neutral:
        says[:] = [each]
        refused = None
        try:
            tool()
        except ToolUnavailable as exc:
            refused = exc
        except BaseException:
            pass
        assert refused is None
    says[:] = ["fine"]
    assert tool() == "fine"
    assert breaker.state == "closed"


def test_an_answer_from_before_the_change_moves_nothing(clock: FakeClock) -> None:
    """A slow success that was admitted before the circuit opened does not close it; a failure neither."""
    breaker = CircuitBreaker(failures=1, clock=clock)
    circuit = breaker.circuit("x")
    early, late = circuit.enter(), circuit.enter()
    assert early is not None and late is not None
    circuit.failed(early)
    clock.advance(21)
    probe = circuit.enter()
    assert probe is not None
    circuit.succeeded(late)
    assert breaker.state == "half_open"
    circuit.failed(early)
    assert breaker.state == "half_open"
    circuit.succeeded(probe)
    assert breaker.state == "closed"


def test_several_probes_must_all_succeed(clock: FakeClock) -> None:
    """`half_open=2`: two at a time, both needed, one failure ends it."""
    breaker = CircuitBreaker(failures=1, half_open=2, clock=clock)
    circuit = breaker.circuit("x")
    circuit.failed(circuit.enter() or 0)
    clock.advance(21)
    one, two = circuit.enter(), circuit.enter()
    assert one is not None and two is not None and circuit.enter() is None
    circuit.succeeded(one)
    assert circuit.enter() is None and breaker.state == "half_open"
    circuit.succeeded(two)
    assert breaker.state == "closed"


def test_a_retry_stops_where_the_circuit_opens(clock: FakeClock, exported: Any) -> None:
    """The attempt that opened it is the last, and `circuit_open` outranks `retry_exhausted`."""
    service = Service()
    made = billing(service, Guard(Retry(max_attempts=10), CircuitBreaker(clock=clock), clock=clock))
    fail(made)
    assert service.calls == 3
    assert exported.only.attributes["acrux.tool.stop_reason"] == "tool_unavailable:circuit_open"


# -- one probe ---------------------------------------------------------------------------------------------


async def test_twenty_tasks_one_probe(clock: FakeClock) -> None:
    """A24: the place is taken before the first await."""
    breaker = CircuitBreaker(failures=1, cooldown=10, clock=clock)
    ran, up = 0, False

    @acrux.tool(guard=once(breaker, clock))
    async def slow_ok() -> str:
        nonlocal ran
        if not up:
            raise DOWN
        ran += 1
        await asyncio.sleep(0.02)
        return "fine"

    with pytest.raises(ConnectionRefusedError):
        await slow_ok()
    clock.advance(11)
    up = True
    results = await asyncio.gather(*(slow_ok() for _ in range(20)), return_exceptions=True)
    assert ran == 1
    assert results.count("fine") == 1
    refused = [each for each in results if isinstance(each, ToolUnavailable)]
    assert len(refused) == 19
    assert {(each.verdict.error_type, each.verdict.code) for each in refused} == {
        ("transport", "circuit_open")
    }
    assert breaker.state == "closed"


def test_twenty_threads_one_probe(clock: FakeClock) -> None:
    """A24, with a barrier."""
    breaker = CircuitBreaker(failures=1, cooldown=10, clock=clock)
    barrier, release = threading.Barrier(20), threading.Event()
    ran, refused = [], []
    up = False

    @acrux.tool(guard=once(breaker, clock))
    def slow_ok() -> str:
        if not up:
            raise DOWN
        ran.append(1)
        release.wait(10)
        return "fine"

    fail(slow_ok)
    clock.advance(11)
    up = True

    def call() -> None:
        barrier.wait(10)
        try:
            slow_ok()
        except ToolUnavailable as exc:
            refused.append(exc)
            if len(refused) == 19:
                release.set()

    threads = [threading.Thread(target=call) for _ in range(20)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(20)
    assert (len(ran), len(refused)) == (1, 19)
    assert breaker.state == "closed"


def test_threads_and_event_loops_share_the_one_probe(clock: FakeClock) -> None:
    """Two event loops in two threads, one circuit."""
    breaker = CircuitBreaker(failures=1, cooldown=10, key="shared", clock=clock)
    up, ran, barrier = False, [], threading.Barrier(2)

    @acrux.tool(guard=once(breaker, clock))
    async def service() -> str:
        if not up:
            raise DOWN
        ran.append(1)
        await asyncio.sleep(0.05)
        return "fine"

    with pytest.raises(ConnectionRefusedError):
        asyncio.run(service())
    clock.advance(11)
    up = True

    async def many() -> None:
        barrier.wait(10)
        await asyncio.gather(*(service() for _ in range(10)), return_exceptions=True)

    threads = [threading.Thread(target=lambda: asyncio.run(many())) for _ in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(20)
    assert len(ran) == 1


async def test_a_cancelled_probe_frees_its_place(clock: FakeClock) -> None:
    """The next call is the probe."""
    breaker = CircuitBreaker(failures=1, cooldown=10, clock=clock)
    mode = "down"

    @acrux.tool(guard=once(breaker, clock))
    async def service() -> str:
        if mode == "down":
            raise DOWN
        if mode == "hang":
            await asyncio.sleep(60)
        return "fine"

    with pytest.raises(ConnectionRefusedError):
        await service()
    clock.advance(11)
    mode = "hang"
    task = asyncio.ensure_future(service())
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    mode = "up"
    assert await service() == "fine"


def test_a_generator_probe_that_is_dropped_frees_its_place(clock: FakeClock) -> None:
    """Closed, or just forgotten."""
    breaker = CircuitBreaker(failures=1, cooldown=10, clock=clock)
    up = False

    @acrux.tool(guard=once(breaker, clock))
    def stream() -> Any:
        if not up:
            raise DOWN
        yield 1
        yield 2

    with pytest.raises(ConnectionRefusedError):
        list(stream())
    clock.advance(11)
    up = True
    first = stream()
    assert next(first) == 1
    with pytest.raises(ToolUnavailable):
        next(stream())
    del first
    gc.collect()
    second = stream()
    next(second)
    second.close()
    assert list(stream()) == [1, 2]
    assert breaker.state == "closed"


def test_a_probe_that_hangs_does_not_keep_the_tool_away_for_ever(clock: FakeClock) -> None:
    """After another cool-down the next probe is admitted; the first one's answer still counts."""
    circuit = CircuitBreaker(failures=1, cooldown=10, clock=clock).circuit("x")
    circuit.failed(circuit.enter() or 0)
    clock.advance(11)
    hanging = circuit.enter()
    assert hanging is not None and circuit.enter() is None
    clock.advance(11)
    assert circuit.enter() is not None
    assert circuit.succeeded(hanging)
    assert circuit.state == "closed"


# -- whose circuit -----------------------------------------------------------------------------------------


def test_each_tool_has_a_circuit_of_its_own(clock: FakeClock) -> None:
    """One guard around two tools: the healthy one goes on."""
    guard = Guard(None, CircuitBreaker(clock=clock), clock=clock)

    @acrux.tool(guard=guard)
    def down() -> None:
        raise DOWN

    @acrux.tool(guard=guard)
    def up() -> str:
        return "fine"

    fail(down, 3)
    assert up() == "fine"
    assert guard.breaker is not None
    assert guard.breaker.states == {"down": "open", "up": "closed"}
    assert guard.breaker.state == "open"
    guard.breaker.reset()
    assert guard.breaker.state == "closed"


def test_a_key_shares_one_circuit(clock: FakeClock) -> None:
    """Two tools of one service fail together; other settings under the same key are refused."""

    def keyed(**options: Any) -> CircuitBreaker:
        return CircuitBreaker(key="billing-service", clock=clock, **options)

    one, two = keyed(), keyed()

    @acrux.tool(guard=once(one, clock))
    def invoice() -> None:
        raise DOWN

    @acrux.tool(guard=once(two, clock))
    def verify() -> None:
        raise AssertionError

    fail(invoice, 3)
    with pytest.raises(ToolUnavailable):
        verify()
    with pytest.raises(ValueError, match=r"CircuitBreaker\(key='billing-service'\) exists with .*failures=3"):
        keyed(failures=9)


def test_each_run_may_have_circuits_of_its_own(clock: FakeClock) -> None:
    """`per="run"`: another run tries for itself."""

    @acrux.tool(guard=once(CircuitBreaker(per="run", clock=clock), clock))
    def down() -> None:
        raise DOWN

    for _ in range(2):
        with acrux.run("agent"):
            fail(down, 3)
            with pytest.raises(ToolUnavailable):
                down()


# -- observed ----------------------------------------------------------------------------------------------


def test_its_changes_are_events_on_the_span_that_caused_them(clock: FakeClock, exported: Any) -> None:
    """Opened, probed, closed."""
    service = Service()
    made = billing(service, once(CircuitBreaker(clock=clock), clock))
    fail(made, 3)
    clock.advance(21)
    service.up = True
    made()
    states = [
        [event[1]["acrux.tool.circuit.state"] for event in span.events if event[0] == "acrux.tool.circuit"]
        for span in exported.tools()
    ]
    assert states == [[], [], ["open"], ["half_open", "closed"]]


def test_a_refused_call_is_a_span_that_says_circuit_open(clock: FakeClock, exported: Any) -> None:
    """No attempt, no exception event: the tool raised nothing."""
    made = billing(Service(), once(CircuitBreaker(clock=clock), clock))
    fail(made, 3)
    exported.clear()
    with pytest.raises(ToolUnavailable) as caught:
        made()
    span = exported.only
    assert (span.outcome, span.status) == ("error", "ERROR")
    assert (span.attributes["errorType"], span.attributes["errorCode"]) == ("transport", "circuit_open")
    assert span.attributes["acrux.tool.attempts"] == 0
    assert span.attributes["acrux.tool.stop_reason"] == "tool_unavailable:circuit_open"
    assert span.events == []
    assert "connection_refused" in str(caught.value)
    assert caught.value.retry_at is not None


def test_the_state_is_a_metric(clock: FakeClock) -> None:
    """0 closed, 1 half open, 2 open, by tool."""
    reader = InMemoryMetricReader()
    settings.meter_provider = MeterProvider([reader])
    made = billing(Service(), once(CircuitBreaker(clock=clock), clock), "metered")

    def read() -> Any:
        data: Any = reader.get_metrics_data()
        return {
            point.attributes["gen_ai.tool.name"]: point.value
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == "acrux.tool.circuit.state"
            for point in metric.data.data_points
        }

    fail(made, 2)
    assert read()["metered"] == 0
    fail(made)
    assert read()["metered"] == 2
    clock.advance(21)
    assert read()["metered"] == 1


# -- forks -------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_does_not_wait_for_its_parents_probe(clock: FakeClock) -> None:
    """The probe in flight runs over there, and the lock is free."""
    circuit = CircuitBreaker(failures=1, cooldown=10, clock=clock).circuit("x")
    circuit.failed(circuit.enter() or 0)
    clock.advance(11)
    assert circuit.enter() is not None and circuit.enter() is None

    stop = threading.Event()

    def busy() -> None:
        other = CircuitBreaker(clock=clock).circuit("y")
        while not stop.is_set():
            other.succeeded(other.enter() or 0)

    threads = [threading.Thread(target=busy) for _ in range(4)]
    for each in threads:
        each.start()
    try:
        for _ in range(20):
            context = multiprocessing.get_context("fork")
            child = context.Process(target=_child, args=(circuit,))
            child.start()
            child.join(20)
            assert child.exitcode == 0
    finally:
        stop.set()
        for each in threads:
            each.join(10)
    assert circuit.enter() is None


def _child(circuit: Circuit) -> None:
    os._exit(0 if circuit.enter() is not None else 1)


# -- against a reference model -----------------------------------------------------------------------------


class Reference:
    """The rules again, as plainly as they can be written."""

    def __init__(self, failures: int, cooldown: float, half_open: int) -> None:
        self.limit, self.cooldown, self.half_open = failures, cooldown, half_open
        self.state, self.streak, self.opened = "closed", 0, 0.0
        self.probes: set[int] = set()
        self.passed = 0
        self.epoch = 0

    def enter(self, now: float, ticket: int) -> bool:
        if self.state == "open":
            if now - self.opened < self.cooldown:
                return False
            self.state, self.epoch, self.passed, self.probes = "half_open", self.epoch + 1, 0, set()
        if self.state == "half_open":
            if len(self.probes) + self.passed >= self.half_open:
                return False
            self.probes.add(ticket)
        return True

    def end(self, now: float, ticket: int, epoch: int, outcome: str) -> None:
        if epoch != self.epoch:
            return
        self.probes.discard(ticket)
        if outcome == "neutral":
            return
        if outcome == "success":
            self.streak = 0
            if self.state == "half_open":
                self.passed += 1
                if self.passed >= self.half_open:
                    self.state, self.epoch, self.probes = "closed", self.epoch + 1, set()
            return
        self.streak += 1
        if self.state == "half_open" or self.streak >= self.limit:
            self.state, self.opened, self.epoch, self.streak = "open", now, self.epoch + 1, 0


class Breaking(RuleBasedStateMachine):
    """Any interleaving of calls that begin, end in any order, and time that passes."""

    cooldown = 10.0

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.tickets = 0
        self.flying: dict[int, tuple[int, int]] = {}
        self.setup(3, 1)

    def setup(self, failures: int, half_open: int) -> None:
        self.breaker = CircuitBreaker(failures, None, self.cooldown, half_open, clock=self.clock)
        self.circuit = self.breaker.circuit("x")
        self.model = Reference(failures, self.cooldown, half_open)
        self.flying.clear()

    @precondition(lambda self: self.tickets == 0)
    @rule(failures=st.integers(1, 4), half_open=st.integers(1, 3))
    def choose(self, failures: int, half_open: int) -> None:
        self.setup(failures, half_open)

    @rule()
    def begin(self) -> None:
        self.tickets += 1
        permit = self.circuit.enter()
        assert (permit is not None) == self.model.enter(self.clock.now(), self.tickets)
        if permit is not None:
            self.flying[self.tickets] = (permit, self.model.epoch)

    @precondition(lambda self: self.flying)
    @rule(data=st.data(), outcome=st.sampled_from(["success", "failure", "failure", "neutral", "dropped"]))
    def end(self, data: st.DataObject, outcome: str) -> None:
        ticket = data.draw(st.sampled_from(sorted(self.flying)))
        permit, epoch = self.flying.pop(ticket)
        end = {"success": self.circuit.succeeded, "failure": self.circuit.failed}
        if outcome in end:
            end[outcome](permit)
        else:
            getattr(self.circuit, outcome)(permit)
        self.model.end(self.clock.now(), ticket, epoch, "neutral" if outcome == "dropped" else outcome)

    # Less than a cool-down since the last probe: a place that lapses is another test's.
    @precondition(lambda self: self.model.state != "half_open")
    @rule(seconds=st.sampled_from([1.0, 4.0, 9.0, 11.0]))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @invariant()
    def same_state(self) -> None:
        model = self.model.state
        if model == "open" and self.clock.now() - self.model.opened >= self.cooldown:
            model = "half_open"
        assert self.breaker.state == model

    @invariant()
    def quiet_means_closed_and_clean(self) -> None:
        assert self.circuit.quiet == (self.model.state == "closed" and self.model.streak == 0)


TestBreakerAgainstAModel = Breaking.TestCase
TestBreakerAgainstAModel.settings = hypothesis_settings(
    max_examples=60, stateful_step_count=40, deadline=None
)


@pytest.mark.parametrize("way", ["threads", "tasks"])
def test_under_load_no_two_probes_ever_overlap(way: str, clock: FakeClock) -> None:
    """Many callers, time that passes, every kind of end: at most one probe is in flight, and none is lost."""
    breaker = CircuitBreaker(failures=1, cooldown=10, clock=clock)
    circuit = breaker.circuit("x")
    inside, worst = 0, 0
    lock = threading.Lock()

    def take() -> int | None:
        nonlocal inside, worst
        half_open = circuit.state != "closed"
        permit = circuit.enter()
        if permit is not None and half_open:
            with lock:
                inside += 1
                worst = max(worst, inside)
        return permit

    def give(permit: int, outcome: int) -> None:
        nonlocal inside
        with lock:
            inside = 0 if circuit.state == "closed" else max(0, inside - 1)
        if outcome == 0:
            circuit.neutral(permit)
        else:
            circuit.failed(permit)

    circuit.failed(circuit.enter() or 0)

    async def task(seed: int) -> None:
        for step in range(50):
            permit = take()
            await asyncio.sleep(0)
            if permit is not None:
                give(permit, (seed + step) % 2)
                clock.advance(10.5)

    def thread(seed: int) -> None:
        for step in range(50):
            permit = take()
            if permit is not None:
                give(permit, (seed + step) % 2)
                clock.advance(10.5)

    if way == "tasks":

        async def main() -> None:
            await asyncio.gather(*(task(seed) for seed in range(10)))

        asyncio.run(main())
    else:
        threads = [threading.Thread(target=thread, args=(seed,)) for seed in range(10)]
        for each in threads:
            each.start()
        for each in threads:
            each.join(20)
    assert worst <= 1
    clock.advance(21)
    probe = circuit.enter()
    assert probe is not None and circuit.succeeded(probe) and breaker.state == "closed"
