# SPDX-License-Identifier: Apache-2.0
"""A PostgreSQL cluster of its own, on loopback, stopped by its process id."""

from __future__ import annotations

import glob
import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import psycopg

_numbers = itertools.count(1)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def installed() -> Path | None:
    """Where Debian puts the newest server's programs, or those on the PATH."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"), key=lambda path: int(path.split("/")[4]))
    on_path = shutil.which("initdb")
    return Path(found[-1]).parent if found else Path(on_path).parent if on_path else None


class Cluster:
    """One running server; `database` makes an empty database in it."""

    def __init__(self, programs: Path) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="acrux-postgres-", dir="/tmp"))
        self._port = free_port()
        self._as = _unprivileged()
        if self._as:
            owner = pwd.getpwnam(self._as["user"])
            os.chown(self._folder, owner.pw_uid, owner.pw_gid)
        data = str(self._folder / "data")
        made = [
            programs / "initdb",
            "-D",
            data,
            "-U",
            "acrux",
            "-A",
            "trust",
            "--locale=C",
            "-E",
            "UTF8",
            "-N",
        ]
        subprocess.run(made, check=True, capture_output=True, timeout=120, cwd=self._folder, **self._as)
        options = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "fsync": "off"}
        command = [str(programs / "postgres"), "-D", data, "-p", str(self._port)]
        for name, value in options.items():
            command += ["-c", f"{name}={value}"]
        self._log = (self._folder / "log").open("wb")
        self._process = subprocess.Popen(
            command, stdout=self._log, stderr=subprocess.STDOUT, cwd=self._folder, **self._as
        )
        self._wait()

    def database(self) -> str:
        """The URL of a new, empty database."""
        name = f"test_{next(_numbers)}"
        with psycopg.connect(self._address("postgres"), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"')
        return self._address(name)

    def stop(self) -> None:
        self._process.send_signal(signal.SIGINT)  # PostgreSQL's fast shutdown
        self._process.wait(timeout=30)
        self._log.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _address(self, name: str) -> str:
        return f"postgresql://acrux@127.0.0.1:{self._port}/{name}"

    def _wait(self) -> None:
        deadline = time.monotonic() + 60
        while True:
            try:
                psycopg.connect(self._address("postgres"), connect_timeout=5).close()
                return
            except psycopg.OperationalError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    told = (self._folder / "log").read_text(errors="replace")[-2000:]
                    raise RuntimeError(f"PostgreSQL did not start: {told}") from None
                time.sleep(0.1)


def _unprivileged() -> dict[str, Any]:
    """initdb refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    names = {each.pw_name for each in pwd.getpwall()}
    return {"user": "postgres" if "postgres" in names else "nobody"}
