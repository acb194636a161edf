# SPDX-License-Identifier: Apache-2.0
"""Times every case and writes the table of benchmarks/README.md.

Thread CPU time, ours and bare OpenTelemetry in turn, slice by slice in one process for each case: a
ratio of neighbouring slices holds also where the machine's speed drifts. Run it with ``make bench``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
MARK = ("<!-- table -->", "<!-- end of table -->")


def measure(index: int, slices: int, calls: int) -> dict[str, Any]:
    """The ratios of one case, in this process."""
    sys.path.insert(0, str(HERE))
    from cases import CASES, Run

    ours, bare = CASES[index].make()

    def timed(run: Run) -> float:
        begun = time.thread_time_ns()
        for _ in range(calls):
            run()
        return (time.thread_time_ns() - begun) / calls

    for run in (ours, bare):
        timed(run)
    pairs = [(timed(ours), timed(bare)) for _ in range(slices)]
    ratios = sorted(one / other for one, other in pairs)
    return {
        "ratio": statistics.median(ratios),
        "low": ratios[len(ratios) // 10],
        "high": ratios[-len(ratios) // 10],
        "ours": min(one for one, _ in pairs) / 1000,
        "bare": min(other for _, other in pairs) / 1000,
    }


def import_ratio(rounds: int = 15) -> tuple[float, float]:
    """Median wall time of importing what a tool needs, and only the package, over the API's own import."""

    def timed(code: str) -> float:
        begun = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return time.perf_counter() - begun

    nothing, api, package, tool = (
        "pass",
        "import opentelemetry.trace",
        "import acrux_otel",
        ("from acrux_otel import tool, ToolResult, run"),
    )
    rows = [[timed(code) for code in (nothing, api, package, tool)] for _ in range(rounds)]
    package_ratio = statistics.median((row[2] - row[0]) / (row[1] - row[0]) for row in rows)
    tool_ratio = statistics.median((row[3] - row[0]) / (row[1] - row[0]) for row in rows)
    return package_ratio, tool_ratio


def table(slices: int, calls: int) -> str:
    from cases import CASES

    lines = [
        "| work | ratio (10 %-90 % of slices) | goal | ours, µs | bare, µs |",
        "|---|---|---|---|---|",
    ]
    for index, case in enumerate(CASES):
        command = [
            sys.executable,
            __file__,
            "--case",
            str(index),
            "--slices",
            str(slices),
            "--calls",
            str(calls),
        ]
        row = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        lines.append(
            f"| {case.name} | **{row['ratio']:.2f}** ({row['low']:.2f}-{row['high']:.2f}) | {case.goal:.2f} "
            f"| {row['ours']:.1f} | {row['bare']:.1f} |"
        )
        print(lines[-1], flush=True)
    package, tool = import_ratio()
    lines.append(f"| `import acrux_otel`, over `import opentelemetry.trace` | **{package:.2f}** | 1.60 | | |")
    lines.append(f"| the same with `tool`, `ToolResult` and `run` loaded | **{tool:.2f}** | 1.60 | | |")
    versions = ", ".join(f"{name} {version(name)}" for name in ("opentelemetry-sdk", "acrux-otel"))
    lines += [
        "",
        f"CPython {platform.python_version()}, {os.cpu_count()} cores, {versions}; made by `make bench`.",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", type=int, help="time one case in this process and print JSON")
    parser.add_argument("--slices", type=int, default=200)
    parser.add_argument("--calls", type=int, default=200, help="calls in a slice")
    options = parser.parse_args()
    if options.case is not None:
        print(json.dumps(measure(options.case, options.slices, options.calls)))
        return
    sys.path.insert(0, str(HERE))
    readme = HERE / "README.md"
    head, _, rest = readme.read_text().partition(MARK[0])
    tail = rest.partition(MARK[1])[2]
    readme.write_text(f"{head}{MARK[0]}\n{table(options.slices, options.calls)}\n{MARK[1]}{tail}")


if __name__ == "__main__":
    main()
