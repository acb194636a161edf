# SPDX-License-Identifier: Apache-2.0
"""An HTTP server on a free loopback port, for one API."""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any, Protocol

__all__ = ["Api", "Refused", "serve"]


class Refused(Exception):
    """A request that the API answers with the status 400.

    Attributes:
        body: the JSON of the answer.
    """

    def __init__(self, message: str, body: dict[str, Any]) -> None:
        super().__init__(message)
        self.body = body


class Api(Protocol):
    """What the server asks: the JSON for a path and the JSON that was posted to it."""

    def answer(self, path: str, request: dict[str, Any]) -> dict[str, Any]: ...


@contextlib.contextmanager
def serve(api: Api) -> Iterator[str]:
    """Serve ``api`` until the block ends; gives the base URL."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.api = api
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    api: Api


class _Handler(http.server.BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = 10  # seconds that a silent client may hold a thread

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        try:
            status, body = 200, self.server.api.answer(self.path.partition("?")[0], request)
        except Refused as refusal:
            status, body = 400, refusal.body
        payload = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet: the example's output is its table."""
