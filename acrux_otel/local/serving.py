# SPDX-License-Identifier: Apache-2.0
"""Runs the application with uvicorn on a socket of ours, and a program into it where one is given."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Sequence

import uvicorn

from acrux_otel.local.guarding import Guarding

__all__ = ["CannotListen", "listen", "program_environment", "serve"]


class CannotListen(Exception):
    """The address cannot be used; one line says why."""


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one.

    Raises:
        CannotListen: the port is taken, or the host is none of this machine's.
    """
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.listen(512)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise CannotListen(
            f"{host}:{port} cannot be used: {reason}; another acrux-otel up or a collector may be there: "
            "choose another with --port"
        ) from None
    return bound


def program_environment(url: str, key: str | None) -> dict[str, str]:
    """The variables that make a program send its spans and definitions here."""
    given = {
        **os.environ,
        "OTEL_EXPORTER_OTLP_ENDPOINT": url,
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "ACRUX_OTEL_CATALOG": f"{url}/api/v1",
    }
    if key is not None:
        given["OTEL_EXPORTER_OTLP_HEADERS"] = f"authorization=Bearer%20{key}"
        given["ACRUX_OTEL_CATALOG_KEY"] = key
    return given


def serve(
    app: Guarding,
    bound: socket.socket,
    ready: Callable[[], None],
    program: Sequence[str] = (),
    environment: dict[str, str] | None = None,
) -> None:
    """Serve until interrupted.

    Args:
        ready: called once requests are answered, and after ``program`` has ended.
        program: run once requests are answered, with ``environment``.
    """
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=3,
            timeout_keep_alive=30,
        )
    )
    starting = threading.Thread(
        target=_start, args=(server, ready, program, environment), name="acrux-up", daemon=True
    )
    starting.start()
    with bound:
        server.run(sockets=[bound])


def _start(
    server: uvicorn.Server,
    ready: Callable[[], None],
    program: Sequence[str],
    environment: dict[str, str] | None,
) -> None:
    waiting = threading.Event()
    while not server.started and not server.should_exit:
        waiting.wait(0.02)
    if program and not server.should_exit:
        try:
            subprocess.run(program, env=environment, check=False)
        except OSError as error:
            print(f"error: {program[0]!r} cannot be run: {error.strerror}", flush=True)
            os.kill(os.getpid(), signal.SIGTERM)
            return
    if not server.should_exit:
        ready()
