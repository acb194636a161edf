# SPDX-License-Identifier: Apache-2.0
"""A clock that the tests move, and guards on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from acrux_otel.drive import guard_by_default
from acrux_otel.guard import Clock


class FakeClock(Clock):
    """Time passes only where somebody sleeps, or a test says so."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.slept: list[float] = []

    def now(self) -> float:
        return self.time

    def advance(self, seconds: float) -> None:
        self.time += seconds

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.advance(seconds)

    async def asleep(self, seconds: float) -> None:
        self.sleep(seconds)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(autouse=True)
def _no_default_guard() -> Iterator[None]:
    yield
    guard_by_default(None)
