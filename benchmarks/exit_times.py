# SPDX-License-Identifier: Apache-2.0
"""For how long the end of a program is held, by kind of endpoint and by spans that are queued.

    python benchmarks/exit_times.py                 # the table of docs/exit.md, a few minutes
    python benchmarks/exit_times.py --repeat 3      # the median of three runs

A program makes its calls and ends; what is measured is the wall time from its last statement until the
process is gone, which includes some 0.1 s that Python itself needs. Endpoints are on loopback.
"""

from __future__ import annotations

import argparse
import contextlib
import http.server
import os
import platform
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

CALLS = """
import sys, time
import acrux_otel as acrux

@acrux.tool
def find(city: str) -> dict:
    return {"city": city}

if "configure" in sys.argv:
    acrux.configure("exit-times")
elif "sdk" in sys.argv:
    from opentelemetry import metrics, trace
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    metrics.set_meter_provider(MeterProvider([PeriodicExportingMetricReader(OTLPMetricExporter())]))
for number in range(int(sys.argv[1])):
    find("Paris")
print("ended", time.time(), flush=True)
"""
SUBJECTS = ("configure()", "configure(), gRPC", "acrux-otel run", "the SDK alone")
KINDS = ("live", "refused", "black hole", "slow (5 s an answer)", "500", "503")
SPANS = (10, 2048)


@contextlib.contextmanager
def endpoint(kind: str, subject: str) -> Iterator[str | None]:
    """An endpoint of that kind for that subject; None where the kind is one of HTTP only."""
    grpc = "gRPC" in subject
    if kind in ("refused", "black hole"):
        with socket.socket() as bound:
            bound.bind(("127.0.0.1", 0))
            if kind == "black hole":
                bound.listen(64)  # the system completes connections, and nobody reads
            address = f"127.0.0.1:{bound.getsockname()[1]}"
            yield address if grpc else f"http://{address}"
    elif grpc:
        if kind != "live":
            yield None
            return
        with grpc_server() as address:
            yield address
    else:
        status = int(kind) if kind.isdecimal() else 200
        with http_server(lambda: time.sleep(5 if "slow" in kind else 0), status) as url:
            yield url


@contextlib.contextmanager
def http_server(before: Callable[[], None], status: int) -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            before()
            with contextlib.suppress(OSError):
                self.send_response(status)
                self.send_header("content-length", "0")
                self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads, server.block_on_close = True, False
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@contextlib.contextmanager
def grpc_server() -> Iterator[str]:
    from concurrent.futures import ThreadPoolExecutor

    import grpc

    class Export(grpc.GenericRpcHandler):  # type: ignore[misc]
        def service(self, details: object) -> object:
            return grpc.unary_unary_rpc_method_handler(lambda body, context: b"")

    server = grpc.server(ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers((Export(),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(0).wait(5)


def held(subject: str, kind: str, spans: int, script: Path) -> float | None:
    """Seconds; None where there is no such endpoint."""
    with endpoint(kind, subject) as address:
        if address is None:
            return None
        env = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "ACRUX"))}
        env |= {"OTEL_EXPORTER_OTLP_ENDPOINT": address, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "512"}
        if "gRPC" in subject:
            env["OTEL_EXPORTER_OTLP_PROTOCOL"] = "grpc"
        if subject == "acrux-otel run":
            command = [str(Path(sys.executable).with_name("acrux-otel")), "run", str(script), str(spans)]
        else:
            how = "sdk" if "SDK" in subject else "configure"
            command = [sys.executable, str(script), str(spans), how]
        done = subprocess.Popen(
            command, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        said, _ = done.communicate(timeout=180)
        ended = time.time()
        assert done.returncode == 0, f"{subject}, {kind}: exit code {done.returncode}"
        return ended - float(said.split("ended")[1])


def main() -> None:
    parser = argparse.ArgumentParser(description="How long an exit is held, as a table.")
    parser.add_argument("--repeat", type=int, default=1, help="runs of each cell; the median is shown")
    repeat = parser.parse_args().repeat
    print(
        f"Python {platform.python_version()}, opentelemetry-sdk {version('opentelemetry-sdk')}, "
        f"{os.cpu_count()} cores; seconds, median of {repeat}; exit timeout 3 s\n"
    )
    print(f"| endpoint | spans queued | {' | '.join(SUBJECTS)} |")
    print(f"|---|---:|{'---:|' * len(SUBJECTS)}")
    with TemporaryDirectory() as folder:
        script = Path(folder) / "app.py"
        script.write_text(CALLS)
        for kind in KINDS:
            for spans in SPANS:
                cells = []
                for subject in SUBJECTS:
                    times = [held(subject, kind, spans, script) for _ in range(repeat)]
                    known = [each for each in times if each is not None]
                    cells.append(f"{statistics.median(known):.1f}" if known else "-")
                print(f"| {kind} | {spans:,} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
