# SPDX-License-Identifier: Apache-2.0
"""Catalogs on SQLite and on a real PostgreSQL, a real server, and a stub that answers what a test says."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from acrux_otel.catalog import ServerCatalog, SqlCatalog
from acrux_otel.catalog.server import BASE_PATH, catalog_app
from acrux_otel.catalog.sql import Keys

from . import postgres


@pytest.fixture(scope="session")
def cluster() -> Iterator[postgres.Cluster]:
    programs = postgres.installed()
    if programs is None:
        told = "no PostgreSQL server is installed (apt-get install postgresql)"
        if os.environ.get("ACRUX_OTEL_REQUIRE_BACKENDS") == "1":
            pytest.fail(f"{told} (ACRUX_OTEL_REQUIRE_BACKENDS=1 forbids to skip)", pytrace=False)
        pytest.skip(told)
    made = postgres.Cluster(programs)
    yield made
    made.stop()


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database, of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/catalog.db"
    return str(request.getfixturevalue("cluster").database())


@pytest.fixture
def catalog(database_url: str) -> Iterator[SqlCatalog]:
    made = SqlCatalog(database_url, by="ada")
    yield made
    made.close()


@pytest.fixture
def sqlite_catalog(tmp_path: Path) -> Iterator[SqlCatalog]:
    made = SqlCatalog(f"sqlite:///{tmp_path}/catalog.db", by="ada")
    yield made
    made.close()


@dataclasses.dataclass(frozen=True)
class Served:
    """A running catalog server."""

    url: str
    key: str
    viewer_key: str
    catalog: SqlCatalog

    def client(self, key: str | None = None) -> ServerCatalog:
        return ServerCatalog(self.url, self.key if key is None else key)


@contextlib.contextmanager
def serving(catalog: SqlCatalog) -> Iterator[Served]:
    keys = Keys(catalog.database)
    config = uvicorn.Config(catalog_app(catalog), log_level="error", lifespan="off")
    server = uvicorn.Server(config)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{listener.getsockname()[1]}{BASE_PATH}"
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        deadline = time.monotonic() + 20
        while not server.started and time.monotonic() < deadline:
            time.sleep(0.01)
        yield Served(address, keys.create("robot"), keys.create("reader", "viewer"), catalog)
        server.should_exit = True
        thread.join(20)


@pytest.fixture
def served(catalog: SqlCatalog) -> Iterator[Served]:
    """A server on a database of each kind."""
    with serving(catalog) as made:
        yield made


@pytest.fixture
def served_sqlite(sqlite_catalog: SqlCatalog) -> Iterator[Served]:
    with serving(sqlite_catalog) as made:
        yield made


class Stub:
    """An HTTP server that answers each request with the next of its answers, the last one for ever."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, dict[str, str], bytes]] = []
        self.requests: list[tuple[str, str, dict[str, str], Any]] = []
        stub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                length = int(self.headers.get("content-length", 0))
                text = self.rfile.read(length)
                body = json.loads(text) if text else None
                stub.requests.append((self.command, self.path, dict(self.headers), body))
                status, headers, content = stub.answers[0]
                if len(stub.answers) > 1:
                    stub.answers.pop(0)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST

            def log_message(self, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/api/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def answer(self, status: int, body: Any = None, **headers: str) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.answers.append((status, {"Content-Type": "application/json", **named}, content))

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)


@pytest.fixture
def stub() -> Iterator[Stub]:
    made = Stub()
    yield made
    made.stop()


@pytest.fixture(autouse=True)
def _no_catalog_around(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What the developer has configured is not these tests' affair."""
    for name in list(os.environ):
        if name.startswith(("ACRUXCORE_", "ACRUX_OTEL_CATALOG", "ACRUX_OTEL_HOME")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("ACRUX_OTEL_HOME", str(tmp_path / "home"))
