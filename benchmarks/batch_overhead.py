# SPDX-License-Identifier: Apache-2.0
"""What a call costs in the batch runner, beside plain `asyncio.gather` over the same functions.

CPU time of the process per call, the rivals in turn, slice by slice; turns of eight calls. Run it with
``python benchmarks/batch_overhead.py``; `table` is for `run.py`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

import acrux_otel as acrux
from acrux_otel.definition import bind_arguments
from acrux_otel.settings import settings

CALLS = 8
ARGUMENTS = json.dumps({"city": "Kathmandu", "days": 3})


class Discard(SpanExporter):
    def export(self, spans: Any) -> SpanExportResult:
        return SpanExportResult.SUCCESS


async def forecast(city: str, days: int) -> dict[str, Any]:
    """Tells the weather."""
    return {"city": city, "days": days}


def forecast_blocking(city: str, days: int) -> dict[str, Any]:
    """Tells the weather."""
    return {"city": city, "days": days}


tool = acrux.tool(name="forecast")(forecast)
blocking = acrux.tool(name="forecast_blocking")(forecast_blocking)
DEFINITION = acrux.definition_of(tool)
ASKED = [acrux.ToolCall(f"call_{place}", "forecast", ARGUMENTS) for place in range(CALLS)]
ASKED_BLOCKING = [acrux.ToolCall(call.id, "forecast_blocking", ARGUMENTS) for call in ASKED]


async def gather_bare() -> None:
    await asyncio.gather(*(forecast(**json.loads(ARGUMENTS)) for _ in range(CALLS)))


async def gather_decorated() -> None:
    await asyncio.gather(*(tool(**json.loads(ARGUMENTS)) for _ in range(CALLS)))


async def gather_validated() -> None:
    """The same work as ours by hand: arguments validated, a verdict for each call."""

    async def one() -> Any:
        args, kwargs = bind_arguments(DEFINITION, json.loads(ARGUMENTS))
        return await tool.call(*args, **kwargs)

    await asyncio.gather(*(one() for _ in range(CALLS)))


async def batch() -> None:
    await acrux.arun_tool_calls(ASKED, [tool])


async def gather_threads() -> None:
    arguments = json.loads(ARGUMENTS)
    await asyncio.gather(*(asyncio.to_thread(blocking, **arguments) for _ in range(CALLS)))


async def batch_threads() -> None:
    await acrux.arun_tool_calls(ASKED_BLOCKING, [blocking])


def asyncio_run() -> None:
    asyncio.run(gather_decorated())


def batch_sync() -> None:
    acrux.run_tool_calls(ASKED, [tool])


IN_LOOP: list[tuple[str, Callable[[], Awaitable[None]]]] = [
    ("gather, bare coroutines", gather_bare),
    ("gather, decorated coroutines", gather_decorated),
    ("gather, decorated, arguments validated", gather_validated),
    ("arun_tool_calls, async tools", batch),
    ("gather over to_thread, decorated functions", gather_threads),
    ("arun_tool_calls, sync tools", batch_threads),
]
ALONE: list[tuple[str, Callable[[], None]]] = [
    ("asyncio.run of gather, decorated coroutines", asyncio_run),
    ("run_tool_calls, async tools", batch_sync),
]


async def in_loop(slices: int, turns: int) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {name: [] for name, _ in IN_LOOP}
    for _ in range(slices + 1):
        for name, run in IN_LOOP:
            begun = time.process_time_ns()
            for _ in range(turns):
                await run()
            found[name].append((time.process_time_ns() - begun) / turns / CALLS / 1000)
    return {name: times[1:] for name, times in found.items()}


def alone(slices: int, turns: int) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {name: [] for name, _ in ALONE}
    for _ in range(slices + 1):
        for name, run in ALONE:
            begun = time.process_time_ns()
            for _ in range(turns):
                run()
            found[name].append((time.process_time_ns() - begun) / turns / CALLS / 1000)
    return {name: times[1:] for name, times in found.items()}


def table(slices: int = 20, turns: int = 20) -> str:
    """The rows, as Markdown."""
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(Discard()))
    settings.tracer_provider = provider
    measured = {**asyncio.run(in_loop(slices, turns)), **alone(slices, turns)}
    provider.shutdown()
    rows = ["| turn of eight calls | µs of CPU per call | fastest slice |", "|---|---|---|"]
    rows += [
        f"| {name} | {statistics.median(times):.0f} | {min(times):.0f} |" for name, times in measured.items()
    ]
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slices", type=int, default=20)
    parser.add_argument("--turns", type=int, default=20, help="turns in a slice")
    options = parser.parse_args()
    print(table(options.slices, options.turns))


if __name__ == "__main__":
    main()
