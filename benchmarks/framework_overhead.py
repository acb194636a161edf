# SPDX-License-Identifier: Apache-2.0
"""What the instrumentation adds to one tool call of LangChain and of MCP: thread CPU time, against none.

Instrumented and not in turns, slice by slice in one process, with an SDK that records and discards; in the
environments of ``tests/frameworks/run_matrix.py``.

    python benchmarks/framework_overhead.py            # writes the second table of benchmarks/README.md
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import thread_time
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "benchmarks" / "README.md"
BEGIN, END = "<!-- timed by benchmarks/framework_overhead.py -->", "<!-- end of times -->"
SLICES, WARM_UP = 60, 5


async def _langchain(measure: Callable[..., Any]) -> None:
    from langchain_core.tools import tool

    @tool
    def forecast(city: str) -> dict:
        """Tell the weather."""
        return {"city": city, "temp": 21}

    call = {"name": "forecast", "args": {"city": "Rome"}, "id": "call-7", "type": "tool_call"}

    async def once() -> None:
        forecast.invoke(call)

    await measure("acrux_langchain", once, 200)


async def _mcp(measure: Callable[..., Any]) -> None:
    from tests.frameworks.rigs.mcp import Server, connected

    async def forecast(city: str) -> dict[str, Any]:
        return {"city": city, "temp": 21}

    server = Server("weather")
    server.add_tool(forecast)
    async with connected(server) as client:
        await client.list_tools()
        await measure("acrux_mcp", lambda: client.call_tool("forecast", {"city": "Rome"}), 50)


def child(framework: str) -> None:
    """Measure in this process, and print ratios of neighbouring slices, and the best slice of each kind."""
    import acrux_otel_instrumentation
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

    class Discard(SpanExporter):
        def export(self, spans: Any) -> SpanExportResult:
            return SpanExportResult.SUCCESS

    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(Discard(), max_queue_size=100_000))
    trace.set_tracer_provider(provider)
    times: dict[bool, list[float]] = {True: [], False: []}

    async def measure(name: str, call: Callable[[], Awaitable[Any]], calls: int) -> None:
        for turn in range(2 * SLICES):
            instrumented = turn % 2 == 0
            if instrumented:
                acrux_otel_instrumentation.instrument(name)
            start = thread_time()
            for _ in range(calls):
                await call()
            spent = (thread_time() - start) / calls
            if instrumented:
                acrux_otel_instrumentation.uninstrument(name)
            if turn >= 2 * WARM_UP:
                times[instrumented].append(spent * 1e6)

    asyncio.run({"langchain": _langchain, "mcp": _mcp}[framework](measure))
    ratios = sorted(ours / none for ours, none in zip(times[True], times[False], strict=True))
    low, high = ratios[len(ratios) // 10], ratios[-len(ratios) // 10]
    print(json.dumps([statistics.median(ratios), low, high, min(times[True]), min(times[False])]))


def main() -> int:
    sys.path[:0] = [str(ROOT), str(ROOT / "instrumentation" / "src")]
    if len(sys.argv) == 3 and sys.argv[1] == "--child":
        child(sys.argv[2])
        return 0
    from tests.frameworks.run_matrix import ENVIRONMENTS, environment

    lines = [
        "| one tool call of | ratio (10 %-90 % of slices) | instrumented, µs | not, µs |",
        "|---|---|---|---|",
    ]
    for framework in ("langchain", "mcp"):
        packages = ENVIRONMENTS[framework]["newest"]
        done = subprocess.run(
            [str(environment(framework, packages)), __file__, "--child", framework],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=300,
            check=True,
        )
        ratio, low, high, ours, none = json.loads(done.stdout.strip().rpartition("\n")[2])
        label = packages[0].replace("==", " ")
        lines.append(f"| {label} | **{ratio:.2f}** ({low:.2f}-{high:.2f}) | {ours:.0f} | {none:.0f} |")
    made = "\n".join(lines)
    print(made)
    text = README.read_text()
    before, _, rest = text.partition(BEGIN)
    README.write_text(f"{before}{BEGIN}\n\n{made}\n\n{END}{rest.partition(END)[2]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
