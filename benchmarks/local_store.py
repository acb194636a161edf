#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How fast the local store takes spans over loopback HTTP, and how fast filters answer over what it took.

    python benchmarks/local_store.py [--spans 500000]

The receiver runs in a process of its own on one core (taskset), the sender on the other; batches of 512.
"""

from __future__ import annotations

import argparse
import http.client
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans, Span

from acrux_otel.local.store import Store
from acrux_otel.query import parse

BATCH = 512
TOOLS = [f"tool_{number}" for number in range(20)]
CODES = ["location_not_found", "http_503", "timeout", "rate_limited", *(f"code_{n}" for n in range(30))]
FILTERS = {
    "status:error": "indexed",
    "status:ok": "indexed",
    "error_type:tool_declared": "indexed",
    "error_type:tool_declared status:error": "indexed",
    "error_code:location_not_found": "indexed",
    "error_code:code_7": "indexed",
    "error_code:never_seen": "indexed",
    "error_code:http_503 tool:tool_3": "indexed",
    "tool:tool_5": "indexed",
    "tool:tool_5 outcome:error": "indexed",
    "tool:tool_5 -outcome:ok": "indexed",
    "warning:yes": "indexed",
    "warning:no": "indexed",
    "outcome:ok": "indexed",
    "attempts:>2": "indexed",
    "duration:>1s": "indexed",
    "service:shop": "indexed",
    "tag:rare": "indexed",
    "-error_type:transport status:error": "indexed",
    "tag.gen_ai.request.model:model-3 since:1h": "bounded",
    "Kathmandu since:1h": "bounded",
    "nowhere_at_all since:1h": "bounded",
}


def attribute(key: str, value: str | int | bool) -> KeyValue:
    kind = {bool: "bool_value", int: "int_value", str: "string_value"}[type(value)]
    return KeyValue(key=key, value=AnyValue(**{kind: value}))


def tool_span(span: Span, chance: random.Random) -> None:
    tool = chance.choice(TOOLS)
    span.name = f"execute_tool {tool}"
    given: dict[str, str | int | bool] = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": tool,
        "gen_ai.tool.type": "function",
        "gen_ai.tool.description": "Tell today's weather in a city, as measured nearby.",
        "gen_ai.tool.call.id": f"call_{chance.getrandbits(48):012x}",
        "executorType": "client",
        "toolVersionId": "0a64bd1e-9a63-4ad6-9cf2-0fd4b1ac3f5f:3",
        "acrux.tool.outcome": "ok",
    }
    fate = chance.random()
    if fate < 0.10:
        code = chance.choice(CODES)
        kind = "tool_declared" if fate < 0.06 else "transport"
        given |= {"acrux.tool.outcome": "error", "errorType": kind, "errorCode": code, "error.type": kind}
        given |= {"errorDetail": "no city is called Atlantis Prime", "acrux.tool.retryable": False}
        span.status.code, span.status.message = 2, "no city is called Atlantis Prime"
    elif fate < 0.15:
        given |= {
            "acrux.tool.outcome": "warning",
            "errorType": "tool_declared",
            "errorCode": "ambiguous_city",
        }
        given |= {"warning.type": "ambiguous_city", "warning.message": "matches India, Pakistan"}
    if fate > 0.8:
        given["acrux.tool.attempts"] = chance.randint(1, 4)
    given["gen_ai.tool.call.arguments"] = f'{{"city": "{chance.choice(["Kathmandu", "Hyderabad", "Oslo"])}"}}'
    span.attributes.extend(attribute(*each) for each in given.items())


def model_span(span: Span, chance: random.Random) -> None:
    model = f"model-{chance.randrange(8)}"
    span.name, span.kind = f"chat {model}", Span.SPAN_KIND_CLIENT
    given: dict[str, str | int | bool] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "scripted",
        "gen_ai.request.model": model,
        "gen_ai.response.model": f"{model}-2026",
        "gen_ai.response.id": f"chatcmpl-{chance.getrandbits(64):016x}",
        "gen_ai.usage.input_tokens": chance.randrange(4000),
        "gen_ai.usage.output_tokens": chance.randrange(500),
    }
    span.attributes.extend(attribute(*each) for each in given.items())


def run_spans(scope: ScopeSpans, chance: random.Random, start: int) -> None:
    """A run of six spans: the run's own, three of models, two of tools."""
    trace_id = chance.randbytes(16)
    root = chance.randbytes(8)
    length = chance.randint(200, 3000) * 1_000_000
    for number in range(6):
        span = scope.spans.add(trace_id=trace_id, span_id=root if number == 0 else chance.randbytes(8))
        span.kind = Span.SPAN_KIND_INTERNAL
        span.start_time_unix_nano = start + number * length // 6
        span.end_time_unix_nano = start + (length if number == 0 else (number + 1) * length // 6)
        if number == 0:
            span.name = "invoke_agent weather-brief"
            tag = "rare" if chance.random() < 0.001 else "common"
            span.attributes.extend(
                [
                    attribute("gen_ai.operation.name", "invoke_agent"),
                    attribute("gen_ai.agent.name", "weather-brief"),
                    attribute("session.id", f"session-{chance.randrange(1000)}"),
                    attribute(f"acrux.tag.{tag}", True),
                    attribute("acrux.tool.calls", 2),
                ]
            )
            continue
        span.parent_span_id = root
        (tool_span if number in (2, 4) else model_span)(span, chance)


def bodies(spans: int, hours: float) -> list[bytes]:
    """Export requests of 512 spans, of runs that began over the last ``hours``."""
    chance = random.Random(7)
    now = time.time_ns()
    runs = -(-spans // 6)
    pending: list[Span] = []
    made = []
    for number in range(runs):
        scope = ScopeSpans()
        run_spans(scope, chance, now - int((1 - number / runs) * hours * 3.6e12))
        pending.extend(scope.spans)
        while len(pending) >= BATCH:
            made.append(body(pending[:BATCH], chance))
            del pending[:BATCH]
    made.append(body(pending, chance))
    return made


def body(spans: list[Span], chance: random.Random) -> bytes:
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    service = chance.choice(["weather", "shop", "billing"])
    resource.resource.attributes.extend([attribute("service.name", service)])
    resource.scope_spans.add(spans=spans).scope.name = "acrux_otel"
    return bytes(request.SerializeToString())


def serve(folder: Path, port: int) -> subprocess.Popen[bytes]:
    command = [
        sys.executable,
        "-c",
        "from acrux_otel.cli import main; main()",
        "up",
        "--port",
        str(port),
        "--keep",
        "30d",
    ]
    command += ["--max-size", "8GB", "--home", str(folder)]
    if shutil.which("taskset"):
        command = ["taskset", "-c", "0", *command]
        os.sched_setaffinity(0, {1})
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    for _ in range(200):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            connection.request("GET", "/traces")
            connection.getresponse().read()
            return process
        except OSError:
            time.sleep(0.05)
    process.terminate()
    raise SystemExit("the receiver did not start")


def ingest(folder: Path, requests: list[bytes], port: int) -> None:
    process = serve(folder, port)
    spans = 0
    took = []
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        began = time.perf_counter()
        for each in requests:
            before = time.perf_counter()
            connection.request("POST", "/v1/traces", each, {"Content-Type": "application/x-protobuf"})
            answer = connection.getresponse()
            text = answer.read()
            if answer.status != 200 or text:
                raise SystemExit(f"the receiver answered {answer.status} {text!r}")
            took.append(time.perf_counter() - before)
        elapsed = time.perf_counter() - began
    finally:
        process.terminate()
        process.wait(10)
    spans = (len(requests) - 1) * BATCH
    size = (folder / "acrux.db").stat().st_size
    print("| spans | spans/s | ms for a batch, median | p95 | file, MB | bytes a span |")
    print("|---|---|---|---|---|---|")
    print(
        f"| {spans:,} | {spans / elapsed:,.0f} | {statistics.median(took) * 1000:.1f} "
        f"| {percentile(took, 95) * 1000:.1f} | {size / 1e6:.0f} | {size / spans:.0f} |\n"
    )


def percentile(values: list[float], percent: int) -> float:
    return sorted(values)[max(0, -(-len(values) * percent // 100) - 1)]


def search(folder: Path, rounds: int) -> None:
    store = Store(folder / "acrux.db", create=False)
    everything: dict[str, list[float]] = {"indexed": [], "bounded": []}
    print("| filter | ms, median | p95 | runs |")
    print("|---|---|---|---|")
    for text, kind in FILTERS.items():
        took = []
        for _ in range(rounds if kind == "indexed" else max(3, rounds // 5)):
            before = time.perf_counter()
            page = store.page(parse(text), 50)
            took.append((time.perf_counter() - before) * 1000)
        everything[kind] += took
        print(
            f"| `{text}` | {statistics.median(took):.1f} | {percentile(took, 95):.1f} "
            f"| {len(page.runs)}{'+' if page.after else ''} |"
        )
    for kind, took in everything.items():
        print(f"| all {kind} | {statistics.median(took):.1f} | {percentile(took, 95):.1f} | |")
    before = time.perf_counter()
    store.tools(time.time_ns() - 24 * 3_600_000_000_000)
    print(f"| (tools page, 24 h) | {(time.perf_counter() - before) * 1000:.0f} | | |")
    before = time.perf_counter()
    store.codes()
    print(f"| (codes) | {(time.perf_counter() - before) * 1000:.0f} | | |")
    store.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--spans", type=int, default=500_000)
    parser.add_argument("--hours", type=float, default=72, help="over which the runs are spread")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--port", type=int, default=24318)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        requests = bodies(options.spans, options.hours)
        ingest(folder, requests, options.port)
        search(folder, options.rounds)


if __name__ == "__main__":
    main()
