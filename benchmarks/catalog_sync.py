#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long it takes to sync 1,000 tools into a SQLite file, first and again; written to benchmarks/README.md.

    python benchmarks/catalog_sync.py [--tools 1000] [--repeat 5]

Each sync is one of a new process, as a deploy step is. Wall time, with what SQLite writes to the disk.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

README = Path(__file__).with_name("README.md")
BEGIN, END = "<!-- timed by benchmarks/catalog_sync.py -->", "<!-- end of sync times -->"


def made_tools(number: int) -> list[Callable[..., Any]]:
    """Tools of four parameters each, with a description of three lines."""
    import acrux_otel as acrux

    def one(index: int) -> Callable[..., Any]:
        def search(
            query: str, limit: int = 10, order: Literal["asc", "desc"] = "asc", tags: list[str] | None = None
        ) -> dict[str, Any]:
            return {}

        search.__doc__ = (
            f"Search collection {index}.\n\nArgs:\n    query: What to look for.\n"
            "    limit: How many at most.\n    order: By date.\n    tags: All of which must be there."
        )
        return acrux.tool(name=f"search_{index}")(search)

    return [one(index) for index in range(number)]


def child(url: str, number: int) -> None:
    """Print, in seconds, how long the definitions took and how long the sync, and the new versions."""
    import acrux_otel as acrux
    from acrux_otel.catalog import SqlCatalog

    tools = made_tools(number)
    catalog = SqlCatalog(url)
    catalog.tools()  # connected, and the tables made
    start = perf_counter()
    for each in tools:
        definition = acrux.definition_of(each)
        assert definition.parameters and definition.result
    defined = perf_counter()
    results = acrux.sync(tools, catalog=catalog)
    done = perf_counter()
    print(json.dumps([defined - start, done - defined, sum(each.committed for each in results)]))


def measured(number: int, repeat: int) -> dict[str, list[float]]:
    """Seconds by kind of work."""
    seconds: dict[str, list[float]] = {"definitions": [], "first": [], "again": []}
    for _ in range(repeat):
        with tempfile.TemporaryDirectory() as folder:
            for kind, new in (("first", number), ("again", 0)):
                command = [sys.executable, __file__, "--child", f"sqlite:///{folder}/acrux.db"]
                done = subprocess.run(
                    [*command, "--tools", str(number)], capture_output=True, text=True, check=True
                )
                defining, syncing, committed = json.loads(done.stdout)
                if committed != new:
                    raise SystemExit(f"{committed} versions were new, not {new}")
                seconds["definitions"].append(defining)
                seconds[kind].append(syncing)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tools", type=int, default=1000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--child", metavar="URL", help="sync once in this process and print JSON")
    options = parser.parse_args()
    if options.child:
        child(options.child, options.tools)
        return
    seconds = measured(options.tools, options.repeat)
    lines = [
        f"| {options.tools:,} tools | ms a tool, median (fastest-slowest) | s in all |",
        "|---|---|---|",
    ]
    for kind, name in (
        ("first", "first sync: a new version each"),
        ("again", "re-sync: nothing has changed"),
        ("definitions", "before either: schemas from the functions, once a process"),
    ):
        low, middle, high = (
            each * 1000 / options.tools
            for each in (min(seconds[kind]), statistics.median(seconds[kind]), max(seconds[kind]))
        )
        total = statistics.median(seconds[kind])
        lines.append(f"| {name} | **{middle:.2f}** ({low:.2f}-{high:.2f}) | {total:.2f} |")
    made = "\n".join(lines)
    print(made)
    before, _, rest = README.read_text().partition(BEGIN)
    README.write_text(f"{before}{BEGIN}\n\n{made}\n\n{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    main()
