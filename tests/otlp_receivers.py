# SPDX-License-Identifier: Apache-2.0
"""OTLP receivers on loopback, real over HTTP and gRPC, and endpoints that misbehave; and programs to run."""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import http.server
import os
import socket
import subprocess
import sys
import textwrap
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from concurrent import futures
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

__all__ = [
    "Program",
    "Received",
    "black_hole",
    "closed_port",
    "environment",
    "grpc_receiver",
    "http_receiver",
    "run_program",
]

_METRICS = ("metrics", "MetricsService")


@dataclasses.dataclass
class Request:
    """One request as it came."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def is_metrics(self) -> bool:
        return any(word in self.path for word in _METRICS)


def value_of(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [value_of(each) for each in value.array_value.values]
    if kind == "kvlist_value":
        return {each.key: value_of(each.value) for each in value.kvlist_value.values}
    return getattr(value, kind) if kind else None


class Received(list[Request]):
    """What has come so far; `url` takes it."""

    url = ""

    def spans(self) -> list[Any]:
        """Every span, decoded, in the order of arrival."""
        return [span for _, span in self.spans_with_resources()]

    def spans_with_resources(self) -> list[tuple[dict[str, Any], Any]]:
        return [
            ({pair.key: value_of(pair.value) for pair in resource.resource.attributes}, span)
            for request in list(self)
            if not request.is_metrics
            for resource in ExportTraceServiceRequest.FromString(request.body).resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def names(self) -> list[str]:
        return [span.name for span in self.spans()]

    def metrics(self) -> list[tuple[dict[str, Any], Any]]:
        """Every metric of every collection, with its resource's attributes."""
        return [
            ({pair.key: value_of(pair.value) for pair in resource.resource.attributes}, metric)
            for request in list(self)
            if request.is_metrics
            for resource in ExportMetricsServiceRequest.FromString(request.body).resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        ]


Answer = Callable[[Request], "tuple[int, bytes] | tuple[int, bytes, dict[str, str]]"]


def accept(request: Request) -> tuple[int, bytes]:
    return 200, b""


@contextlib.contextmanager
def http_receiver(answer: Answer = accept, *, port: int = 0, tls: Any = None) -> Iterator[Received]:
    """An OTLP/HTTP receiver; `answer` decides about each request, and what it refuses is not kept."""
    received = Received()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 20

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            encoding = self.headers.get("content-encoding")
            body = {"gzip": gzip.decompress, "deflate": zlib.decompress}.get(encoding or "", bytes)(body)
            headers = {name.lower(): text for name, text in self.headers.items()}
            request = Request(self.path, headers, body)
            status, answered, *more = answer(request)
            if status == 200:
                received.append(request)
            self.send_response(status)
            for name, text in (more[0] if more else {}).items():
                self.send_header(name, text)
            self.send_header("content-length", str(len(answered)))
            self.end_headers()
            with contextlib.suppress(OSError):
                self.wfile.write(answered)

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    class Server(http.server.ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False

        def handle_error(self, request: object, client_address: object) -> None:
            """A client that gave up is no news."""

    server = Server(("127.0.0.1", port), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    received.url = f"http{'s' if tls else ''}://127.0.0.1:{server.server_address[1]}"
    try:
        yield received
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


@contextlib.contextmanager
def grpc_receiver(*, tls: Any = None) -> Iterator[Received]:
    """An OTLP/gRPC receiver; `tls` are server credentials."""
    import grpc

    received = Received()

    class Export(grpc.GenericRpcHandler):  # type: ignore[misc]
        def service(self, details: Any) -> Any:
            headers = dict(details.invocation_metadata)

            def export(body: bytes, context: Any) -> bytes:
                received.append(Request(details.method, headers, body))
                return b""

            return grpc.unary_unary_rpc_method_handler(export)

    server = grpc.server(futures.ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers((Export(),))
    if tls is None:
        received.url = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    else:
        received.url = f"https://127.0.0.1:{server.add_secure_port('127.0.0.1:0', tls)}"
    server.start()
    try:
        yield received
    finally:
        server.stop(0).wait(5)


@contextlib.contextmanager
def black_hole() -> Iterator[int]:
    """A port that takes connections and never answers."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(128)
        kept: list[socket.socket] = []

        def take() -> None:
            with contextlib.suppress(OSError):
                while True:
                    kept.append(listening.accept()[0])

        threading.Thread(target=take, daemon=True).start()
        yield listening.getsockname()[1]
        for each in kept:
            each.close()


@contextlib.contextmanager
def closed_port() -> Iterator[int]:
    """A port that refuses connections for as long as the block lasts: it is bound, and nobody listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


@dataclasses.dataclass
class Program:
    """A program that has ended."""

    returncode: int
    stdout: str
    stderr: str

    @property
    def lines(self) -> list[str]:
        """What it said on standard error."""
        return self.stderr.strip().splitlines()


def environment(**variables: str) -> dict[str, str]:
    """The test's environment without its OpenTelemetry, ours and AcruxCore's variables, plus these."""
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "ACRUX", "GRPC_"))
    }
    # Newer Pythons warn of every fork of a process with threads, whoever started those.
    quiet = {"NO_PROXY": "127.0.0.1,localhost", "PYTHONWARNINGS": "ignore::DeprecationWarning"}
    return {**inherited, **quiet, **variables}


PRELUDE = """
import sys, time
import acrux_otel as acrux

@acrux.tool
def find(city: str) -> dict:
    "Find a city."
    if city == "Atlantis":
        return acrux.ToolResult.error("location_not_found", "no such city")
    return {"city": city}
"""


def run_program(
    code: str,
    *arguments: str,
    env: Mapping[str, str] | None = None,
    command: list[str] | None = None,
    timeout: float = 60,
    folder: Path | None = None,
) -> Program:
    """Run ``code`` after a prelude that decorates the tool `find`, in a process of its own."""
    text = PRELUDE + textwrap.dedent(code)
    launched = [*(command or [sys.executable]), *(["-c", text] if command is None else []), *arguments]
    done = subprocess.run(
        launched,
        env=environment(**(env or {})),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        cwd=folder,
        stdin=subprocess.DEVNULL,
    )
    return Program(done.returncode, done.stdout, done.stderr)


def eventually(condition: Callable[[], object], timeout: float = 10) -> bool:
    """Whether ``condition`` comes true within ``timeout`` seconds."""
    end = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True
