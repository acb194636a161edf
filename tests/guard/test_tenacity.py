# SPDX-License-Identifier: Apache-2.0
"""Why the guard has a loop of its own: what tenacity does and does not do, asked of tenacity itself.

Where one of these fails after an update, the choice may be made anew.
"""

from __future__ import annotations

import asyncio
import time
import traceback
from types import SimpleNamespace
from typing import Any

import pytest

tenacity = pytest.importorskip("tenacity")


class Limited(Exception):
    retry_after = 7.0


async def test_it_meets_the_rule_for_cancellation() -> None:
    """A cancelled wait ends at once and is not retried."""
    calls = 0

    @tenacity.retry(wait=tenacity.wait_fixed(30), reraise=True)
    async def down() -> None:
        nonlocal calls
        calls += 1
        raise ConnectionRefusedError

    task = asyncio.ensure_future(down())
    await asyncio.sleep(0.02)
    begun = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (calls, time.monotonic() - begun < 1) == (1, True)


def test_it_can_be_made_to_meet_the_floor() -> None:
    """A wait function sees the exception."""
    slept: list[float] = []
    done: list[Any] = []

    @tenacity.retry(
        wait=lambda state: max(state.outcome.exception().retry_after, 0.1), sleep=slept.append, reraise=True
    )
    def limited() -> str:
        if not done:
            done.append(1)
            raise Limited
        return "fine"

    assert (limited(), slept) == ("fine", [7.0])


async def test_it_does_not_retry_generators() -> None:
    """Neither kind: the function has returned before anything can fail."""
    calls = 0

    @tenacity.retry(stop=tenacity.stop_after_attempt(3), reraise=True)
    def stream() -> Any:
        nonlocal calls
        calls += 1
        raise ConnectionRefusedError
        yield

    @tenacity.retry(stop=tenacity.stop_after_attempt(3), reraise=True)
    async def astream() -> Any:
        nonlocal calls
        calls += 1
        raise ConnectionRefusedError
        yield

    with pytest.raises(ConnectionRefusedError):
        list(stream())
    assert calls == 1
    with pytest.raises((ConnectionRefusedError, TypeError)):
        async for _ in astream():
            raise AssertionError
    assert calls <= 2


async def test_it_does_not_retry_what_a_plain_function_returns_to_be_awaited() -> None:
    """A partial or lambda over a coroutine function is common among tools."""
    calls = 0

    async def down() -> None:
        nonlocal calls
        calls += 1
        raise ConnectionRefusedError

    retried = tenacity.retry(stop=tenacity.stop_after_attempt(3), reraise=True)(
        SimpleNamespace(run=lambda: down()).run
    )
    with pytest.raises(ConnectionRefusedError):
        await retried()
    assert calls == 1


def test_it_adds_frames_to_the_traceback() -> None:
    """Its own and a Future's stand between the caller and the tool."""

    @tenacity.retry(stop=tenacity.stop_after_attempt(2), wait=tenacity.wait_none(), reraise=True)
    def down() -> None:
        raise ConnectionRefusedError

    with pytest.raises(ConnectionRefusedError) as caught:
        down()
    files = [each.filename for each in traceback.extract_tb(caught.value.__traceback__)]
    assert any("concurrent" in each for each in files)
    assert sum("tenacity" in each for each in files) >= 3
