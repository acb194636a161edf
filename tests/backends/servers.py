# SPDX-License-Identifier: Apache-2.0
"""The real Jaeger and collector as child processes on loopback, stopped by their process ids."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from typing_extensions import Self

from . import otlp_json
from .jaeger_api import JaegerAPI

__all__ = ["Collector", "Jaeger", "Server", "free_ports"]

REPOSITORY = Path(__file__).resolve().parents[2]
JAEGER_CONFIG = REPOSITORY / "collector-config" / "backends" / "jaeger" / "jaeger.yaml"
FILE_CONFIG = Path(__file__).with_name("collector.yaml")
TO_JAEGER_CONFIG = Path(__file__).with_name("collector-to-jaeger.yaml")

LOOPBACK = "127.0.0.1"
# Below the range from which systems take ports for outgoing connections, so that none of those
# can sit on a server's port while the server is down.
PORTS = range(20_000, 32_000)


def free_ports(count: int) -> list[int]:
    """Different TCP ports on which nobody listens."""
    found: list[int] = []
    for port in random.SystemRandom().sample(PORTS, len(PORTS)):
        with socket.socket() as probe:
            try:
                probe.bind((LOOPBACK, port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise RuntimeError(f"no {count} free ports between {PORTS.start} and {PORTS.stop}")


class Server:
    """A program that says over HTTP when it is ready.

    Args:
        command: the program and its arguments.
        env: variables to set for it; OTEL_… of the test process are not handed on.
        health_port: where a GET of any path answers 200 once it is ready.
        log: file for its output, appended to on each start.
    """

    def __init__(
        self, command: Sequence[str | Path], env: Mapping[str, str], health_port: int, log: Path
    ) -> None:
        self.command = [str(word) for word in command]
        self.log = log
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
        self._env = {**inherited, **env}
        self._health = f"http://{LOOPBACK}:{health_port}/status"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Process id of the running program."""
        assert self._process is not None, "not started"
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, timeout: float = 30.0) -> None:
        """Start and wait until it is ready.

        Args:
            timeout: seconds to wait.

        Raises:
            RuntimeError: it ended, or was not ready in time (it is stopped then); with the end of its log.
        """
        assert not self.running, "started twice"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command, env=self._env, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        deadline = time.monotonic() + timeout
        while not self._ready():
            ended = self._process.poll() is not None
            if ended or time.monotonic() > deadline:
                self.kill()
                what = (
                    f"ended with exit code {self._process.returncode}" if ended else "was not ready in time"
                )
                raise RuntimeError(f"{' '.join(self.command)} {what}:\n{self.log_tail()}")
            time.sleep(0.05)

    def _ready(self) -> bool:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(self._health, timeout=1) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def stop(self, timeout: float = 10.0) -> None:
        """Ask it to end (it flushes what it holds); after `timeout` seconds end it. May be called twice."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End it at once, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def log_tail(self, lines: int = 15) -> str:
        return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class Jaeger(Server):
    """Jaeger in memory. `grpc_endpoint` and `http_endpoint` take OTLP; `api` is its query API."""

    def __init__(self, binary: Path, folder: Path) -> None:
        grpc, http, query_http, query_grpc, health = free_ports(5)
        env = {
            "JAEGER_OTLP_GRPC_PORT": str(grpc),
            "JAEGER_OTLP_HTTP_PORT": str(http),
            "JAEGER_QUERY_HTTP_PORT": str(query_http),
            "JAEGER_QUERY_GRPC_PORT": str(query_grpc),
            "JAEGER_HEALTH_PORT": str(health),
        }
        super().__init__([binary, "--config", JAEGER_CONFIG], env, health, folder / "jaeger.log")
        self.grpc_endpoint = f"http://{LOOPBACK}:{grpc}"
        self.http_endpoint = f"http://{LOOPBACK}:{http}"
        self.query_endpoint = f"http://{LOOPBACK}:{query_http}"
        self.api = JaegerAPI(self.query_endpoint)


class Collector(Server):
    """The collector distribution; stop and start keep its ports and its file.

    A config of the caller's own finds in its environment COLLECTOR_OTLP_GRPC_PORT, COLLECTOR_OTLP_HTTP_PORT,
    COLLECTOR_HEALTH_PORT (it must have the health_check extension there), COLLECTOR_PROMETHEUS_PORT,
    COLLECTOR_SPANS_FILE, COLLECTOR_STORAGE_FOLDER, and with a Jaeger JAEGER_OTLP_GRPC_ENDPOINT (host:port)
    and JAEGER_OTLP_HTTP_ENDPOINT (URL).

    Args:
        binary: the program.
        folder: an empty folder for its files.
        jaeger: where the default config also sends spans.
        configs: the default is OTLP in and a file out; a text with a newline in it is taken as YAML.
        env: further variables for the configs.
    """

    def __init__(
        self,
        binary: Path,
        folder: Path,
        *,
        jaeger: Jaeger | None = None,
        configs: Sequence[str | Path] = (),
        env: Mapping[str, str] | None = None,
    ) -> None:
        grpc, http, health, prometheus = free_ports(4)
        self.spans_file = folder / "spans.jsonl"
        storage = folder / "storage"
        storage.mkdir()
        variables = {
            "COLLECTOR_OTLP_GRPC_PORT": str(grpc),
            "COLLECTOR_OTLP_HTTP_PORT": str(http),
            "COLLECTOR_HEALTH_PORT": str(health),
            "COLLECTOR_PROMETHEUS_PORT": str(prometheus),
            "COLLECTOR_SPANS_FILE": str(self.spans_file),
            "COLLECTOR_STORAGE_FOLDER": str(storage),
        }
        if jaeger is not None:
            variables["JAEGER_OTLP_GRPC_ENDPOINT"] = jaeger.grpc_endpoint.removeprefix("http://")
            variables["JAEGER_OTLP_HTTP_ENDPOINT"] = jaeger.http_endpoint
        command: list[str | Path] = [binary]
        for number, config in enumerate(configs or [FILE_CONFIG, *([TO_JAEGER_CONFIG] if jaeger else [])]):
            if isinstance(config, str) and "\n" in config:
                text, config = config, folder / f"config-{number}.yaml"
                config.write_text(text, encoding="utf-8")
            command += ["--config", config]
        super().__init__(command, {**variables, **(env or {})}, health, folder / "collector.log")
        self.grpc_endpoint = f"http://{LOOPBACK}:{grpc}"
        self.http_endpoint = f"http://{LOOPBACK}:{http}"
        self.prometheus_endpoint = f"http://{LOOPBACK}:{prometheus}/metrics"

    def spans(self) -> list[otlp_json.Span]:
        """What its file exporter has written so far."""
        return otlp_json.read_spans(self.spans_file)

    def wait_for_spans(
        self, wanted: Callable[[otlp_json.Span], bool], *, count: int = 1, timeout: float = 10.0
    ) -> list[otlp_json.Span]:
        """Poll the file until `count` spans are `wanted`.

        Returns:
            Those spans, at least `count`.

        Raises:
            TimeoutError: fewer came within `timeout` seconds.
        """
        deadline = time.monotonic() + timeout
        while len(found := [span for span in self.spans() if wanted(span)]) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(found)} of {count} spans in {timeout} s; {self.log_tail(5)}")
            time.sleep(0.05)
        return found
