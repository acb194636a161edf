# SPDX-License-Identifier: Apache-2.0
"""Type-checked by strict mypy and pyright, and never run: guards, budgets and what a refusal says."""

from __future__ import annotations

import datetime

from typing_extensions import assert_type

import acrux_otel as acrux

GUARD = acrux.Guard(
    retry=acrux.Retry(),
    breaker=acrux.CircuitBreaker(failures=5, cooldown=30, per="run"),
    timeout=2,
    fallback={"temp": None},
    allowed={"weather"},
)


@acrux.tool(guard=GUARD)
def weather(city: str) -> dict[str, int]:
    return {"temp": 18}


@acrux.tool(guard=False)
async def weather_later(city: str) -> dict[str, int]:
    return {"temp": 18}


@GUARD
def plain(city: str, days: int = 1) -> list[str]:
    return [city] * days


async def a_guarded_function_keeps_its_type() -> None:
    assert_type(weather("Pune"), dict[str, int])
    assert_type(await weather_later("Pune"), dict[str, int])
    assert_type(plain("Pune", days=2), list[str])


def a_refusal_says_why_and_what_to_do() -> None:
    try:
        weather("Pune")
    except acrux.ToolUnavailable as refusal:
        assert_type(refusal.verdict, acrux.Verdict)
        assert_type(refusal.stop_reason, str)
        assert_type(refusal.checked, tuple[str, ...])
        assert_type(refusal.retry_at, datetime.datetime | None)


def a_run_under_a_budget() -> None:
    with acrux.run("agent", budget=acrux.RunBudget(max_calls=3, stop_on={"http_401"})):
        weather("Pune")
    with acrux.RunBudget(max_seconds=5) as spending:
        assert_type(spending.calls, int)
        assert_type(spending.stop_reason, str | None)
        assert_type(spending.left, dict[str, float])
