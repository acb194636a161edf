# SPDX-License-Identifier: Apache-2.0
"""Deadlines, cancellations and interrupts: everything is answered, nothing is left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from typing import Any

import pytest
from conftest import gone, tool_threads

import acrux_otel as acrux
from acrux_otel import ToolCall, ToolSession, arun_tool_calls, run_tool_calls, to_anthropic


def outcomes(results: Any) -> list[str]:
    return [each.verdict.outcome.value for each in results]


@acrux.tool
async def ok() -> str:
    return "ok"


@acrux.tool
async def sleeps() -> str:
    await asyncio.sleep(30)
    return "late"


def hanging(release: threading.Event) -> Any:
    @acrux.tool
    def hangs() -> str:
        release.wait(30)
        return "late"

    return hangs


# -- deadlines -------------------------------------------------------------------------------------------


async def test_a_hanging_tool_holds_neither_call_nor_loop(exported: Any, release: threading.Event) -> None:
    """It is answered at the deadline; the late return is dropped and the ended span stays as it is."""
    began = time.monotonic()
    calls = [ToolCall("1", "hangs"), ToolCall("2", "sleeps"), ToolCall("3", "ok")]
    results = await arun_tool_calls(calls, [hanging(release), sleeps, ok], timeout=0.3)
    assert time.monotonic() - began < 2
    assert outcomes(results) == ["error", "error", "ok"]
    for each in results[:2]:
        assert (each.verdict.error_type, each.verdict.code, each.executed) == (
            acrux.ErrorType.TRANSPORT,
            "timeout",
            True,
        )
        assert each.value.startswith("Timed out: no answer within the turn's 0.3 s.")
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert len(tool_threads()) == 1
    before = {each.attributes["gen_ai.tool.call.id"]: each for each in exported.tools()}
    assert before["1"].status == "ERROR"
    assert before["1"].attributes["errorCode"] == "timeout"
    release.set()
    assert gone()
    await asyncio.sleep(0.01)
    assert len(exported.tools()) == 3


def test_calls_whose_turn_never_came_are_not_executed(exported: Any, release: threading.Event) -> None:
    """The deadline is the turn's: what waited for the hanging one says that the time ran out."""
    calls = [ToolCall("1", "hangs"), ToolCall("2", "ok"), ToolCall("3", "ok")]
    results = run_tool_calls(calls, [hanging(release), ok], order="sequential", timeout=0.2)
    assert outcomes(results) == ["error", "not_executed", "not_executed"]
    assert results[1].value == "Not executed: the turn's time ran out."
    assert len(exported.tools()) == 3


def test_a_tool_that_ignores_its_cancellation_is_left_behind(caplog: pytest.LogCaptureFixture) -> None:
    """The answer comes all the same, one warning says so, and the loop can be closed."""
    swallowed = []

    @acrux.tool
    async def stubborn() -> str:
        for _ in range(200):
            try:
                await asyncio.sleep(0.05)
            except asyncio.CancelledError:
                swallowed.append(1)
        return "at last"

    began = time.monotonic()
    results = run_tool_calls([ToolCall("1", "stubborn")], [stubborn], timeout=0.1)
    assert outcomes(results) == ["error"]
    assert time.monotonic() - began < 5
    assert swallowed
    assert [record.levelname for record in caplog.records if record.name == "acrux_otel"] == ["WARNING"]


async def test_a_turn_in_time_is_not_touched() -> None:
    """A deadline that is not reached changes nothing and leaves no timer."""
    results = await arun_tool_calls([ToolCall("1", "ok")], [ok], timeout=5)
    assert outcomes(results) == ["ok"]
    loop = asyncio.get_running_loop()
    assert [handle for handle in loop._scheduled if not handle.cancelled()] == []  # type: ignore[attr-defined]


# -- cancellation ----------------------------------------------------------------------------------------


async def test_cancelled_it_cancels_and_awaits_the_others(exported: Any, release: threading.Event) -> None:
    """CancelledError comes out when every task is over, and the session has an answer for each call."""
    ended: list[str] = []

    @acrux.tool
    async def tidy() -> None:
        try:
            await asyncio.sleep(30)
        finally:
            await asyncio.sleep(0.05)
            ended.append("tidy")

    session = ToolSession()
    calls = [ToolCall(name, name) for name in ("ok", "tidy", "hangs", "unknown")] + [ToolCall("waits", "ok")]
    turn = asyncio.create_task(
        arun_tool_calls(
            calls,
            [ok, tidy, hanging(release)],
            after={"waits": "tidy"},
            session=session,
        )
    )
    await asyncio.sleep(0.1)
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert ended == ["tidy"]
    assert outcomes(session.results) == ["ok", "cancelled", "cancelled", "error", "not_executed"]
    assert asyncio.all_tasks() == {asyncio.current_task()}
    blocks = to_anthropic(session.results)["content"]
    assert [block["tool_use_id"] for block in blocks] == [call.id for call in calls]
    assert [block.get("is_error", False) for block in blocks] == [False, True, True, True, True]
    assert "Cancelled: the turn was cancelled before this call finished." in blocks[1]["content"]
    assert blocks[4]["content"] == "Not executed: the turn was cancelled."
    spans = {each.attributes["gen_ai.tool.call.id"]: each for each in exported.tools()}
    assert {call_id: span.outcome for call_id, span in spans.items()} == {
        "ok": "ok",
        "tidy": "cancelled",
        "hangs": "cancelled",
        "unknown": "error",
        "waits": "not_executed",
    }
    assert spans["tidy"].status == spans["hangs"].status == "UNSET"


async def test_cancelled_at_once_nothing_runs(exported: Any) -> None:
    """A turn that is cancelled before its first step answers nothing and leaves no task."""
    turn = asyncio.create_task(arun_tool_calls([ToolCall("1", "ok")], [ok]))
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert exported.tools() == []


async def test_a_callers_timeout_works_as_ever(release: threading.Event) -> None:
    """`asyncio.wait_for` around a turn raises its TimeoutError."""
    session = ToolSession()
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(
            arun_tool_calls(
                [ToolCall("1", "hangs"), ToolCall("2", "ok")], [hanging(release), ok], session=session
            ),
            0.2,
        )
    assert outcomes(session.results) == ["cancelled", "ok"]


async def test_a_tool_that_cancels_itself_is_no_cancelled_turn() -> None:
    """It is answered as cancelled; the turn goes on."""

    @acrux.tool
    async def gives_up() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(1)

    results = await arun_tool_calls([ToolCall("1", "gives_up"), ToolCall("2", "ok")], [gives_up, ok])
    assert outcomes(results) == ["cancelled", "ok"]
    assert results[0].value == "Cancelled: the tool was cancelled before it finished"


# -- interrupts ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_an_interrupt_from_a_tool_comes_out_after_the_others_ended(
    kind: str, error: type[BaseException], release: threading.Event
) -> None:
    """The same object, when the siblings were cancelled and awaited; the session has all answers."""
    ended: list[str] = []
    raised = error("stop")

    @acrux.tool
    def sync_stop() -> None:
        time.sleep(0.1)
        raise raised

    @acrux.tool
    async def async_stop() -> None:
        await asyncio.sleep(0.1)
        raise raised

    @acrux.tool
    async def tidy() -> None:
        try:
            await asyncio.sleep(30)
        finally:
            ended.append("tidy")

    session = ToolSession()
    calls = [
        ToolCall("1", "ok"),
        ToolCall("2", "tidy"),
        ToolCall("3", f"{kind}_stop"),
        ToolCall("4", "hangs"),
    ]
    with pytest.raises(error) as caught:
        run_tool_calls(calls, [ok, tidy, sync_stop, async_stop, hanging(release)], session=session)
    assert caught.value is raised
    assert ended == ["tidy"]
    assert outcomes(session.results) == ["ok", "cancelled", "cancelled", "cancelled"]


PROGRAM = """
import os, signal, sys, threading, time, asyncio
import acrux_otel as acrux

@acrux.tool
def hangs():
    time.sleep(60)

@acrux.tool
async def tidy():
    try:
        await asyncio.sleep(60)
    finally:
        print("tidied", flush=True)

@acrux.tool
async def ok():
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    return "ok"

session = acrux.ToolSession()
calls = [acrux.ToolCall(name, name) for name in ("hangs", "tidy", "ok")]
try:
    acrux.run_tool_calls(calls, [hangs, tidy, ok], session=session)
except KeyboardInterrupt:
    print([each.verdict.outcome.value for each in session.results], flush=True)
"""


def test_ctrl_c_ends_the_turn_in_order_and_a_hang_does_not_hold_the_exit() -> None:
    """The signal cancels and awaits the calls, partial results are there, and the process ends."""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["tidied", "['cancelled', 'cancelled', 'ok']"]
    assert done.returncode == 0
    assert time.monotonic() - began < 40


def test_a_hanging_tool_does_not_hold_the_interpreters_exit() -> None:
    """Its thread is a daemon."""
    program = textwrap.dedent(
        """
        import threading, acrux_otel as acrux
        hangs = lambda: threading.Event().wait()
        print(acrux.run_tool_calls([acrux.ToolCall("1", "h")], {"h": hangs}, timeout=0.2)[0].verdict.code)
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert (done.stdout, done.stderr) == ("timeout\n", "")


def test_an_interrupt_beside_a_running_loop_ends_the_other_loop(release: threading.Event) -> None:
    """Also where the turn has a thread of its own, its calls are cancelled before the interrupt goes on."""
    ended = threading.Event()

    @acrux.tool
    async def tidy() -> None:
        try:
            await asyncio.sleep(30)
        finally:
            ended.set()

    async def main() -> None:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        run_tool_calls([ToolCall("1", "tidy")], [tidy])

    loop = asyncio.new_event_loop()
    task = loop.create_task(main())
    with pytest.raises(KeyboardInterrupt):
        loop.run_until_complete(task)
    assert ended.is_set()
    assert isinstance(task.exception(), KeyboardInterrupt)
    loop.close()


# -- threads ---------------------------------------------------------------------------------------------


def test_no_thread_is_left_after_a_turn() -> None:
    """A thread ends with its call."""

    @acrux.tool
    def quick() -> str:
        return "quick"

    for _ in range(3):
        run_tool_calls([ToolCall(str(place), "quick") for place in range(20)], [quick])
    assert gone()


def test_where_no_thread_can_be_had_the_call_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The failure to start one is the call's, not the turn's."""

    @acrux.tool
    def quick() -> str:
        return "quick"

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    results = run_tool_calls([ToolCall("1", "quick"), ToolCall("2", "ok")], [quick, ok])
    assert outcomes(results) == ["error", "ok"]
    assert (results[0].value, results[0].executed) == ("can't start new thread", False)
