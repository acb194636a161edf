# SPDX-License-Identifier: Apache-2.0
"""An HTTP server on loopback that answers a model provider's client with what a test wrote down."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["Provider", "provider"]


class Provider:
    """Attributes: ``url`` to give to the client, ``answers`` still to be given, ``requests`` that came."""

    def __init__(self, url: str, answers: list[Any]) -> None:
        self.url, self.answers = url, answers
        self.requests: list[Any] = []


@contextmanager
def provider(*answers: Any) -> Iterator[Provider]:
    """Serve ``answers``, one for each request, the last one for ever."""
    made: Provider

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            made.requests.append(json.loads(self.rfile.read(length) or b"null"))
            answer = made.answers.pop(0) if len(made.answers) > 1 else made.answers[0]
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made = Provider(f"http://127.0.0.1:{server.server_address[1]}", list(answers))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
