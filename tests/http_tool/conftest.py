# SPDX-License-Identifier: Apache-2.0
"""A real server on loopback that answers what a test says, and tells what it was asked."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Iterator
from email.message import Message
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from demo_servers import Server


@dataclasses.dataclass
class Asked:
    """One request as it arrived."""

    method: str
    path: str
    headers: Message
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Service(Server):
    """Answers every request the same way until told otherwise."""

    def __init__(self) -> None:
        super().__init__(_Answering)
        self.asked: list[Asked] = []
        self.answers()

    def answers(
        self,
        body: Any = None,
        status: int = 200,
        kind: str = "application/json",
        headers: dict[str, str] | None = None,
        slowly: float = 0.0,
    ) -> None:
        """From now on: ``body`` as JSON, or as it is where it is bytes; a byte every ``slowly`` seconds."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.reply: Callable[[], Any] = lambda: (status, content, kind, headers or {}, slowly)

    @property
    def last(self) -> Asked:
        return self.asked[-1]


class _Answering(BaseHTTPRequestHandler):
    server: Service
    timeout = 20

    def handle_any(self) -> None:
        self.server.asked.append(Asked(self.command, self.path, self.headers, self._body()))
        status, content, kind, headers, slowly = self.server.reply()
        self.send_response(status)
        for name, value in {"Content-Type": kind, **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        try:
            if self.command != "HEAD" and not slowly:
                self.wfile.write(content)
            for byte in content if slowly else b"":
                self.wfile.write(bytes([byte]))
                self.wfile.flush()
                time.sleep(slowly)
        except OSError:  # who asked has gone
            pass

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers["Content-Length"] or 0))

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any


@pytest.fixture
def service() -> Iterator[Service]:
    with Service().running() as running:
        yield running
