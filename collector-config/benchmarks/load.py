# SPDX-License-Identifier: Apache-2.0
"""Load one gateway on loopback with a bounded number of spans, and say what it took.

Runs of 60 spans as in compare_test.go, a third of them tool calls, every fifteenth span a failure; sent as
OTLP/HTTP protobuf, 20 runs a request. What is refused is sent again, as SDKs and agents do. Everything is
kept, so that what comes out can be compared with what went in. Needs Linux and `make collector`.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import random
import re
import socket
import subprocess
import sys
import tempfile
import threading
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
SPANS_PER_REQUEST: Final = SPANS_PER_RUN * RUNS_PER_REQUEST

CONFIG: Final = """
receivers: {otlp: {protocols: {grpc: {endpoint: 127.0.0.1:PORT0}, http: {endpoint: 127.0.0.1:PORT1}}}}
extensions: {health_check: {endpoint: 127.0.0.1:PORT2}, file_storage/queue: {directory: FOLDER}}
exporters: {file: {path: FOLDER/kept, format: proto}}
service: {pipelines: {traces/file: {receivers: [forward/kept], exporters: [file]}}}
"""


@dataclasses.dataclass
class Result:
    """What one run took; spans, seconds and MiB."""

    accepted: int = 0
    refusals: int = 0  # requests, each sent again
    given_up: int = 0  # spans that were refused until the time was over
    came_out: int = 0
    evicted: int = 0  # traces
    elapsed: float = 0.0
    processor: float = 0.0
    peak_heap: float = 0.0
    peak_resident: float = 0.0
    limit: int = 0
    go_limit: int = 0


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


class Watch:
    """What the process uses and says of itself, looked at ten times a second until stopped."""

    def __init__(self, process: subprocess.Popen[bytes], telemetry: int, result: Result) -> None:
        self._process, self._url, self._result = process, f"http://127.0.0.1:{telemetry}/metrics", result
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._end.wait(0.1):
            status = Path(f"/proc/{self._process.pid}/status").read_text()
            resident = re.search(r"^VmRSS:\s+(\d+) kB", status, re.MULTILINE)
            if resident is not None:
                self._result.peak_resident = max(self._result.peak_resident, int(resident[1]) / 2**10)
            heap = self.metric("otelcol_process_runtime_heap_alloc_bytes")
            self._result.peak_heap = max(self._result.peak_heap, heap / 2**20)

    def metric(self, name: str) -> float:
        """The sum of one of its own metrics; 0 where it is not there, or does not answer in time."""
        try:
            with urllib.request.urlopen(self._url, timeout=5) as answer:
                text = answer.read().decode()
        except OSError:
            return 0.0
        return sum(
            float(value) for value in re.findall(rf"^{name}\w*(?:{{[^}}]*}})? (\S+)$", text, re.MULTILINE)
        )

    def stop(self) -> None:
        self._end.set()
        self._thread.join()


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Load one gateway on loopback and measure it.")
    parser.add_argument("binary", help="the collector")
    parser.add_argument("--spans", type=int, default=240_000)
    parser.add_argument("--rate", type=int, default=20_000, help="spans a second that are offered at most")
    parser.add_argument("--memory", type=int, default=400, help="the memory limiter's MiB")
    parser.add_argument("--spike", type=int, help="below the limit by so many MiB it refuses (a fifth of it)")
    parser.add_argument("--gomemlimit", type=int, help="MiB (where it begins to refuse)")
    parser.add_argument("--hold", type=float, default=5, help="seconds for which a trace is held")
    parser.add_argument("--seconds", type=float, default=120, help="after which a request is given up")
    parser.add_argument("--toolverdict", action="store_true")
    parser.add_argument("--json", action="store_true", help="print the result as one line of JSON")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        result = measure(options, Path(folder))
    if options.json:
        print(json.dumps(dataclasses.asdict(result)))
        return 0
    print(
        f"{result.accepted} spans accepted, {result.given_up} given up, {result.refusals} refusals, "
        f"{result.came_out} spans came out, {result.evicted} traces evicted; "
        f"{result.accepted / result.elapsed:,.0f} spans/s, "
        f"{result.accepted / result.processor:,.0f} spans/s for each core used; "
        f"peak {result.peak_heap:.0f} MiB of heap, {result.peak_resident:.0f} MiB resident, "
        f"limiter at {result.limit}, GOMEMLIMIT at {result.go_limit}"
    )
    return 0


def measure(options: argparse.Namespace, folder: Path) -> Result:
    grpc, http, health, metrics, telemetry = free_ports(5)
    config = CONFIG.replace("FOLDER", str(folder))
    for number, port in enumerate((grpc, http, health)):
        config = config.replace(f"PORT{number}", str(port))
    (folder / "load.yaml").write_text(config)
    names = ["gateway.yaml", *(["toolverdict.yaml"] if options.toolverdict else [])]
    words = [word for name in names for word in ("--config", str(HERE / name))]
    spike = options.spike or options.memory // 5
    result = Result(limit=options.memory, go_limit=options.gomemlimit or options.memory - spike)
    env = {
        "ACRUX_CONFIG_FOLDER": str(HERE),
        "ACRUX_METRICS_PORT": str(metrics),
        "ACRUX_TELEMETRY_PORT": str(telemetry),
        "ACRUX_MEMORY_MIB": str(options.memory),
        "ACRUX_MEMORY_SPIKE_MIB": str(spike),
        "ACRUX_OK_PERCENT": "100",
        "GOMEMLIMIT": f"{result.go_limit}MiB",
        "ACRUX_WAIT" if options.toolverdict else "ACRUX_DECISION_WAIT": f"{options.hold}s",
    }
    with (folder / "log").open("wb") as log:
        command = [options.binary, *words, "--config", str(folder / "load.yaml")]
        process = subprocess.Popen(command, env=env, stdout=log, stderr=log)
        try:
            ready(health, process)
            watch = Watch(process, telemetry, result)
            send(options, http, process, result)
            drain(options, watch, result)
            watch.stop()
            result.evicted = int(watch.metric("otelcol_processor_groupbytrace_traces_evicted"))
        finally:
            process.terminate()
            process.wait(30)
    return result


def ready(port: int, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 20
    while time.monotonic() < end and process.poll() is None:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=1).close()
            return
        except OSError:
            time.sleep(0.1)
    sys.exit("the collector did not start")


def send(options: argparse.Namespace, port: int, process: subprocess.Popen[bytes], result: Result) -> None:
    source = random.Random(7)
    before, started = processor_seconds(process.pid), time.monotonic()
    while result.accepted + result.given_up < options.spans:
        body = request(source)
        ahead = (result.accepted + result.given_up) / options.rate - (time.monotonic() - started)
        if ahead > 0:
            time.sleep(ahead)
        end = time.monotonic() + options.seconds
        while not offer(port, body) and time.monotonic() < end:
            result.refusals += 1
            time.sleep(0.2)
        if time.monotonic() < end:
            result.accepted += SPANS_PER_REQUEST
        else:
            result.given_up += SPANS_PER_REQUEST
    result.elapsed = time.monotonic() - started
    result.processor = processor_seconds(process.pid) - before


def offer(port: int, body: bytes) -> bool:
    """Whether a request was taken; refused is what a sender must send again."""
    headers = {"Content-Type": "application/x-protobuf"}
    asked = urllib.request.Request(f"http://127.0.0.1:{port}/v1/traces", body, headers)
    try:
        urllib.request.urlopen(asked, timeout=60).close()
    except urllib.error.HTTPError as error:
        if error.code not in (429, 503):
            raise
        return False
    return True


def drain(options: argparse.Namespace, watch: Watch, result: Result) -> None:
    """Wait until all that was accepted has come out, or nothing more comes."""
    last, since = -1, time.monotonic()
    while result.came_out < result.accepted and time.monotonic() - since < options.hold + 20:
        time.sleep(0.5)
        result.came_out = int(watch.metric("otelcol_exporter_sent_spans"))
        if result.came_out != last:
            last, since = result.came_out, time.monotonic()


if __name__ == "__main__":
    sys.exit(main())
