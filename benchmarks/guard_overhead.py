# SPDX-License-Identifier: Apache-2.0
"""What a guard costs a healthy call: the same tool without and with `Guard()`, in turn, in one process.

Thread CPU time; the difference of neighbouring slices holds also where the machine's speed drifts. Run it
with ``python benchmarks/guard_overhead.py``.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

import acrux_otel as acrux
from acrux_otel.settings import settings

GOAL = 3.0  # µs over the unguarded call
SLICES, CALLS = 120, 300
Run = Callable[[int], None]


class Discard(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.SUCCESS


def weather(city: str) -> dict[str, Any]:
    """Tells the weather."""
    return {"temp": 18}


async def weather_async(city: str) -> dict[str, Any]:
    """Tells the weather."""
    return {"temp": 18}


def plain(function: Callable[[str], Any]) -> Run:
    def run(calls: int) -> None:
        for _ in range(calls):
            function("Berlin")

    return run


def awaited(function: Callable[[str], Any]) -> Run:
    async def calls_of(calls: int) -> None:
        for _ in range(calls):
            await function("Berlin")

    return lambda calls: asyncio.run(calls_of(calls))


def under_budget(run: Run) -> Run:
    def runs(calls: int) -> None:
        with acrux.run("bench", budget=acrux.RunBudget(max_calls=1_000_000)):
            run(calls)

    return runs


def provider(**options: Any) -> TracerProvider:
    made = TracerProvider(**options)
    made.add_span_processor(BatchSpanProcessor(Discard()))
    return made


def cases() -> dict[str, tuple[TracerProvider | None, Run, Run]]:
    guarded, guarded_async = acrux.tool(guard=acrux.Guard()), acrux.tool(guard=acrux.Guard())
    bare, bare_async = acrux.tool(weather), acrux.tool(weather_async)
    one, two = plain(bare), plain(guarded(weather))
    return {
        "healthy call, recorded": (provider(), one, two),
        "healthy coroutine, recorded": (
            provider(),
            awaited(bare_async),
            awaited(guarded_async(weather_async)),
        ),
        "healthy call, unsampled": (provider(sampler=ALWAYS_OFF), one, two),
        "healthy call, no SDK": (None, one, two),
        "healthy call in a run with a budget": (provider(), under_budget(one), under_budget(two)),
    }


def timed(run: Run) -> float:
    begun = time.thread_time_ns()
    run(CALLS)
    return (time.thread_time_ns() - begun) / CALLS / 1000


def main() -> None:
    print(f"| work | unguarded, µs | guarded, µs | guard adds, µs (goal <= {GOAL:g} for the first) |")
    print("|---|---|---|---|")
    for name, (tracers, unguarded, guarded) in cases().items():
        settings.tracer_provider = tracers
        for _ in range(5):
            timed(unguarded), timed(guarded)
        pairs = [(timed(unguarded), timed(guarded)) for _ in range(SLICES)]
        added = sorted(two - one for one, two in pairs)
        low, high = added[SLICES // 10], added[-SLICES // 10]
        print(
            f"| {name} | {min(one for one, _ in pairs):.1f} | {min(two for _, two in pairs):.1f} "
            f"| **{statistics.median(added):.1f}** ({low:.1f} to {high:.1f}) |"
        )


if __name__ == "__main__":
    main()
