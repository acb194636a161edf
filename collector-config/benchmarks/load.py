# SPDX-License-Identifier: Apache-2.0
"""Load one gateway on loopback with a bounded number of spans, and say what it took.

Runs of 60 spans as in compare_test.go, a third of them tool calls, every fifteenth span a failure; sent as
OTLP/HTTP protobuf, 20 runs a request. Needs the built collector (`make backends`).
"""

from __future__ import annotations

import argparse
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

__all__ = ["main"]

HERE: Final = Path(__file__).resolve().parents[1]
SPANS_PER_RUN: Final = 60
RUNS_PER_REQUEST: Final = 20

CONFIG: Final = """
receivers: {otlp: {protocols: {grpc: {endpoint: 127.0.0.1:PORT0}, http: {endpoint: 127.0.0.1:PORT1}}}}
extensions: {health_check: {endpoint: 127.0.0.1:PORT2}, file_storage/queue: {directory: FOLDER}}
exporters: {file: {path: FOLDER/kept.jsonl}}
service: {pipelines: {traces/file: {receivers: [forward/kept], exporters: [file]}}}
"""


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for opened in sockets:
        opened.bind(("127.0.0.1", 0))
    ports = [opened.getsockname()[1] for opened in sockets]
    for opened in sockets:
        opened.close()
    return ports


def fill(span: Span, place: int) -> None:
    """The attributes of one span of a run."""
    texts: dict[str, str]
    if place == 0:
        span.name, texts = "invoke_agent a", {"gen_ai.operation.name": "invoke_agent", "session.id": "s-881"}
    elif place % 3 == 1:
        span.name = "POST"
        texts = {"http.request.method": "POST", "url.full": "https://api.example.com/v1/messages"}
    elif place % 3 == 2:
        span.name = "chat m-large"
        texts = {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": "m-large",
            "gen_ai.response.id": "r1",
        }
    else:
        span.name = "execute_tool search"
        texts = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "search",
            "gen_ai.tool.type": "function",
        }
        texts["gen_ai.tool.call.arguments"] = f'{{"q": "oslo {place}"}}'
        if place % 15 == 0:
            texts["error.type"] = "ReadTimeout"
            span.status.code = span.status.STATUS_CODE_ERROR
            event = span.events.add(name="exception")
            for key, value in {
                "exception.type": "httpx.ReadTimeout",
                "exception.stacktrace": "  at x\n" * 100,
            }.items():
                event.attributes.add(key=key).value.string_value = value
    for key, value in texts.items():
        span.attributes.add(key=key).value.string_value = value


def request(source: random.Random) -> bytes:
    message = ExportTraceServiceRequest()
    resource = message.resource_spans.add()
    resource.resource.attributes.add(key="service.name").value.string_value = "load"
    spans = resource.scope_spans.add().spans
    now = time.time_ns()
    for _ in range(RUNS_PER_REQUEST):
        trace_id, root = source.randbytes(16), source.randbytes(8)
        for place in range(SPANS_PER_RUN):
            span = spans.add(trace_id=trace_id, span_id=root if place == 0 else source.randbytes(8))
            span.start_time_unix_nano, span.end_time_unix_nano = now, now + 900_000
            if place:
                span.parent_span_id = root
            fill(span, place)
    return message.SerializeToString()


def usage(pid: int) -> tuple[float, float]:
    """Processor seconds and resident MiB of a process (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return seconds, int(fields[21]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Load one gateway on loopback and measure it.")
    parser.add_argument("binary", help="the collector")
    parser.add_argument("--spans", type=int, default=240_000)
    parser.add_argument("--rate", type=int, default=20_000, help="spans a second that are offered")
    parser.add_argument("--memory", type=int, default=400, help="the memory limiter's MiB")
    parser.add_argument("--hold", default="5s", help="how long a trace is held")
    parser.add_argument("--toolverdict", action="store_true")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        return measure(options, Path(folder))


def measure(options: argparse.Namespace, folder: Path) -> int:
    grpc, http, health, metrics, telemetry = free_ports(5)
    config = CONFIG.replace("FOLDER", str(folder))
    for number, port in enumerate((grpc, http, health)):
        config = config.replace(f"PORT{number}", str(port))
    (folder / "load.yaml").write_text(config)
    names = ["gateway.yaml", *(["toolverdict.yaml"] if options.toolverdict else [])]
    words = [word for name in names for word in ("--config", str(HERE / name))]
    env = {
        "ACRUX_CONFIG_FOLDER": str(HERE),
        "ACRUX_METRICS_PORT": str(metrics),
        "ACRUX_TELEMETRY_PORT": str(telemetry),
        "ACRUX_MEMORY_MIB": str(options.memory),
        "ACRUX_MEMORY_SPIKE_MIB": str(options.memory // 5),
        "ACRUX_NUM_TRACES": "20000",
        "GOMEMLIMIT": f"{options.memory}MiB",
        "ACRUX_WAIT" if options.toolverdict else "ACRUX_DECISION_WAIT": options.hold,
    }
    with (folder / "log").open("wb") as log:
        command = [options.binary, *words, "--config", str(folder / "load.yaml")]
        process = subprocess.Popen(command, env=env, stdout=log, stderr=log)
        try:
            ready(health, process)
            send(options, http, process.pid)
        finally:
            process.terminate()
            process.wait(30)
    return 0


def ready(port: int, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 20
    while time.monotonic() < end and process.poll() is None:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=1).close()
            return
        except OSError:
            time.sleep(0.1)
    sys.exit("the collector did not start")


def send(options: argparse.Namespace, port: int, pid: int) -> None:
    source = random.Random(7)
    per_request = SPANS_PER_RUN * RUNS_PER_REQUEST
    sent = refused = 0
    peak = 0.0
    before, _ = usage(pid)
    started = time.monotonic()
    while sent + refused < options.spans:
        body = request(source)
        ahead = (sent + refused) / options.rate - (time.monotonic() - started)
        if ahead > 0:
            time.sleep(ahead)
        headers = {"Content-Type": "application/x-protobuf"}
        try:
            urllib.request.urlopen(
                urllib.request.Request(f"http://127.0.0.1:{port}/v1/traces", body, headers), timeout=30
            ).close()
            sent += per_request
        except urllib.error.HTTPError:
            refused += per_request
        peak = max(peak, usage(pid)[1])
    elapsed = time.monotonic() - started
    settle = time.monotonic() + float(options.hold.removesuffix("s")) + 3
    while time.monotonic() < settle:
        time.sleep(0.5)
        peak = max(peak, usage(pid)[1])
    used = usage(pid)[0] - before
    print(
        f"accepted {sent}, refused {refused}, {sent / elapsed:,.0f} spans/s offered and taken, "
        f"{used:.1f} s of processor, {sent / used:,.0f} spans/s a core, "
        f"peak {peak:.0f} MiB resident, limiter at {options.memory}"
    )


if __name__ == "__main__":
    sys.exit(main())
