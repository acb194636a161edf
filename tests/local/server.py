# SPDX-License-Identifier: Apache-2.0
"""`acrux-otel up` as a child process on a free loopback port, ended by its process id."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import urllib.parse
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from typing_extensions import Self

__all__ = ["COMMAND", "PROTOBUF", "Answer", "Up", "environment"]

COMMAND = [sys.executable, "-c", "from acrux_otel.cli import main; main()"]
PROTOBUF = "application/x-protobuf"


def environment(**variables: str) -> dict[str, str]:
    """The test's environment without its OpenTelemetry and our variables, plus these."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "ACRUX"))}
    return {**inherited, "NO_PROXY": "127.0.0.1,localhost", **variables}


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Up:
    """Runs between `with` and the end of the block; `start` and `kill` in between."""

    def __init__(self, home: Path, *options: str, port: int = 0, program: Sequence[str] = ()) -> None:
        self.home = home
        self._command = [*COMMAND, "up", "--port", str(port), "--home", str(home), *options, *program]
        self.process: subprocess.Popen[str] | None = None
        self.url = ""
        self.said: list[str] = []

    def start(self) -> None:
        """Wait until it says where it is."""
        self.process = subprocess.Popen(
            self._command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(line)
            match = re.match(r"page +(http\S+)/traces$", line.strip())
            if match:
                self.url = match[1]
            if line.startswith("Ctrl-C"):
                return
        raise RuntimeError("".join(self.said))

    def kill(self) -> None:
        """As a crash would."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(10)

    def stop(self) -> int:
        """As Ctrl-C does; gives the exit code."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            return self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        finally:
            if self.process.stdout is not None:
                self.process.stdout.close()

    def ask(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """One request on a connection of its own, nothing followed."""
        parts = urllib.parse.urlsplit(self.url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
        try:
            connection.request(method, path, body, dict(headers or {}))
            answer = connection.getresponse()
            return Answer(
                answer.status, {name.lower(): text for name, text in answer.getheaders()}, answer.read()
            )
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, headers=headers)

    def send(self, body: bytes, kind: str = PROTOBUF, path: str = "/v1/traces", **headers: str) -> Answer:
        return self.ask("POST", path, body, {"Content-Type": kind, **headers})

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
