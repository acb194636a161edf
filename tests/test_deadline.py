# SPDX-License-Identifier: Apache-2.0
"""The rules of `acrux_otel.deadline`."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import subprocess
import sys
import threading
import time

import pytest

from acrux_otel.deadline import DeadlineExceeded, await_with_deadline, run_with_deadline, start

VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")


def test_what_ends_in_time_is_returned() -> None:
    """The value is the function's own."""
    value = object()
    assert run_with_deadline(lambda *args, **kwargs: (value, args, kwargs), (1,), {"b": 2}, 5) == (
        value,
        (1,),
        {"b": 2},
    )


@pytest.mark.parametrize("raised", [ValueError("no"), TimeoutError("mine"), SystemExit(3), StopIteration()])
def test_what_is_raised_in_time_is_the_same_object(raised: BaseException) -> None:
    """A TimeoutError of the function's own is no deadline."""

    def fail() -> None:
        raise raised

    with pytest.raises(type(raised)) as caught:
        run_with_deadline(fail, (), {}, 5)
    assert caught.value is raised


def test_a_late_function_is_left_behind_and_its_outcome_dropped() -> None:
    """The caller is back at the deadline; the thread goes on as a daemon and nobody hears of it."""
    release, ended = threading.Event(), threading.Event()

    def slow() -> str:
        release.wait(10)
        ended.set()
        return "late"

    began = time.monotonic()
    with pytest.raises(DeadlineExceeded, match=r"no answer within 0\.05 s"):
        run_with_deadline(slow, (), {}, 0.05)
    assert time.monotonic() - began < 2
    assert all(each.daemon for each in threading.enumerate() if each.name == "acrux-otel-deadline")
    release.set()
    assert ended.wait(5)


def test_work_that_comes_too_late_is_closed(recwarn: pytest.WarningsRecorder) -> None:
    """A coroutine that nobody can await any more warns of nothing."""
    release = threading.Event()

    async def never() -> None:
        raise AssertionError

    def slow() -> object:
        release.wait(10)
        return never()

    with pytest.raises(DeadlineExceeded):
        run_with_deadline(slow, (), {}, 0.02)
    release.set()
    for thread in threading.enumerate():
        if thread.name == "acrux-otel-deadline":
            thread.join(5)
    gc.collect()
    assert not [each for each in recwarn if "never awaited" in str(each.message)]


def test_the_context_is_a_copy() -> None:
    """The function sees its caller's variables, and what it sets stays with it."""
    VARIABLE.set("caller")

    def look() -> str:
        seen = VARIABLE.get()
        VARIABLE.set("changed")
        return seen

    assert run_with_deadline(look, (), {}, 5) == "caller"
    assert VARIABLE.get() == "caller"


def test_a_future_can_be_waited_for_by_others() -> None:
    """`start` alone waits for nothing."""
    assert start(lambda: 3).result(5) == 3


def test_the_process_ends_while_a_late_function_still_runs() -> None:
    """Exit does not wait for what was left behind."""
    code = (
        "import time\n"
        "from acrux_otel.deadline import DeadlineExceeded, run_with_deadline\n"
        "try:\n    run_with_deadline(time.sleep, (60,), {}, 0.05)\n"
        "except DeadlineExceeded:\n    print('left')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=20)
    assert (done.stdout, done.returncode, done.stderr) == ("left\n", 0, "")


async def test_an_awaitable_in_time_is_returned() -> None:
    """Coroutines, tasks and futures alike."""

    async def quick() -> int:
        await asyncio.sleep(0)
        return 4

    assert await await_with_deadline(quick(), 5) == 4
    assert await await_with_deadline(asyncio.ensure_future(quick()), 5) == 4


async def test_a_late_awaitable_is_cancelled() -> None:
    """It sees the cancellation; the caller sees the deadline."""
    seen: list[str] = []

    async def slow() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    with pytest.raises(DeadlineExceeded, match="no answer within"):
        await await_with_deadline(slow(), 0.02)
    assert seen == ["cancelled"]


async def test_a_timeout_of_the_awaitables_own_is_no_deadline() -> None:
    """The same object comes out."""
    own = TimeoutError("mine")

    async def fail() -> None:
        raise own

    with pytest.raises(TimeoutError) as caught:
        await await_with_deadline(fail(), 5)
    assert caught.value is own


async def test_a_cancellation_from_outside_is_raised_at_once() -> None:
    """It reaches the work, and is no deadline."""
    seen: list[str] = []

    async def slow() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    task = asyncio.ensure_future(await_with_deadline(slow(), 30))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["cancelled"]


def test_it_runs_on_trio_too() -> None:
    """A late awaitable is cancelled by trio's own means."""
    trio = pytest.importorskip("trio")

    async def main() -> None:
        with pytest.raises(DeadlineExceeded):
            await await_with_deadline(trio.sleep(60), 0.02)
        await await_with_deadline(trio.sleep(0), 5)

    trio.run(main)
