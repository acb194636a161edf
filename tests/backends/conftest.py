# SPDX-License-Identifier: Apache-2.0
"""Fixtures that start the real backends, and skip with one line where they are not built.

With ACRUX_OTEL_REQUIRE_BACKENDS=1 a missing backend is a failure: a green run means that they ran.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import pytest

from .servers import REPOSITORY, Collector, Jaeger

BUILD_SCRIPT = REPOSITORY / "collector-config" / "build_backends.py"
_missing: dict[str, str] = {}


class StartCollector(Protocol):
    """Starts one collector more; each is stopped at the end of the session at the latest."""

    def __call__(
        self,
        *,
        jaeger: Jaeger | None = None,
        configs: Sequence[str | Path] = (),
        env: Mapping[str, str] | None = None,
    ) -> Collector: ...


def _binary(name: str) -> Path:
    answer = subprocess.run(
        [sys.executable, str(BUILD_SCRIPT), "--print-path", name], capture_output=True, text=True, check=False
    )
    if answer.returncode == 0:
        return Path(answer.stdout.strip())
    reason = answer.stderr.strip()
    if os.environ.get("ACRUX_OTEL_REQUIRE_BACKENDS") == "1":
        pytest.fail(f"{reason} (ACRUX_OTEL_REQUIRE_BACKENDS=1 forbids to skip)", pytrace=False)
    _missing[name] = reason
    pytest.skip(reason)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say once why tests were skipped: -q says only how many."""
    if _missing:
        terminalreporter.write_line(f"tests/backends skipped: {'; '.join(_missing.values())} (needs Go)")


@pytest.fixture(scope="session")
def jaeger_binary() -> Path:
    """The program, built by `make backends`."""
    return _binary("jaeger")


@pytest.fixture(scope="session")
def collector_binary() -> Path:
    """The program, built by `make backends`; it also has `validate --config FILE`."""
    return _binary("collector")


@pytest.fixture(scope="session")
def jaeger(jaeger_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jaeger]:
    """One Jaeger for the whole session: use a service name of your own."""
    with Jaeger(jaeger_binary, tmp_path_factory.mktemp("jaeger")) as server:
        yield server


@pytest.fixture(scope="session")
def collector(collector_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartCollector]:
    """Starts collectors: `collector()` writes spans to a file, with `jaeger=jaeger` it sends them on too."""
    started: list[Collector] = []

    def start(
        *,
        jaeger: Jaeger | None = None,
        configs: Sequence[str | Path] = (),
        env: Mapping[str, str] | None = None,
    ) -> Collector:
        folder = tmp_path_factory.mktemp("collector")
        server = Collector(collector_binary, folder, jaeger=jaeger, configs=configs, env=env)
        started.append(server)
        server.start()
        return server

    yield start
    for server in started:
        server.stop()
