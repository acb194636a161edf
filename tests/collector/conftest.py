# SPDX-License-Identifier: Apache-2.0
"""The real collector and Jaeger, as tests/backends starts them, and this project's own configs for them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest
from backends.conftest import StartCollector, collector, collector_binary, jaeger, jaeger_binary
from backends.servers import Collector, free_ports

__all__ = ["collector", "collector_binary", "jaeger", "jaeger_binary", "required", "thorough"]

CONFIGS: Final = Path(__file__).parents[2] / "collector-config"

# For what takes longer than its worth on every run.
thorough: Final = pytest.mark.skipif(
    os.environ.get("ACRUX_OTEL_THOROUGH") != "1",
    reason="takes long: ACRUX_OTEL_THOROUGH=1 runs it (`make test-collector`, `.ci/run`)",
)


_absent: set[str] = set()


def required(program: str, package: str) -> str:
    """Path of a program that a test needs; without it the test is skipped, or fails where all must run."""
    path = shutil.which(program)
    if path is not None:
        return path
    reason = f"{program} is not installed ({package})"
    if os.environ.get("ACRUX_OTEL_REQUIRE_BACKENDS") == "1":
        pytest.fail(f"{reason} (ACRUX_OTEL_REQUIRE_BACKENDS=1 forbids to skip)", pytrace=False)
    _absent.add(reason)
    pytest.skip(reason)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say once what was not there: -q says only how many tests were skipped."""
    if _absent:
        terminalreporter.write_line(f"tests/collector skipped in part: {'; '.join(sorted(_absent))}")


# What is kept goes to a file; everything is kept, and soon.
TO_FILE: Final = """
exporters:
  file:
    path: ${env:COLLECTOR_SPANS_FILE}
    append: true
    flush_interval: 50ms
service:
  pipelines:
    traces/file:
      receivers: [forward/kept]
      exporters: [file]
"""

# Ports and a folder that are free here, for any of the configs.
OWN_PORTS: Final = """
extensions:
  health_check:
    endpoint: 127.0.0.1:${env:COLLECTOR_HEALTH_PORT}
  file_storage/queue:
    directory: ${env:COLLECTOR_STORAGE_FOLDER}
receivers:
  otlp:
    protocols:
      grpc:
        endpoint: 127.0.0.1:${env:COLLECTOR_OTLP_GRPC_PORT}
      http:
        endpoint: 127.0.0.1:${env:COLLECTOR_OTLP_HTTP_PORT}
"""

StartGateway = Callable[..., Collector]


@pytest.fixture(scope="session")
def gateway(collector: StartCollector) -> StartGateway:
    """Starts gateways: the stock config as it is, what it keeps to a file; `over` is merged over that."""

    def start(*over: str | Path, **env: str) -> Collector:
        telemetry, metrics = free_ports(2)
        ports: Mapping[str, str] = {
            "ACRUX_CONFIG_FOLDER": str(CONFIGS),
            "ACRUX_OK_PERCENT": "100",
            "ACRUX_DECISION_WAIT": "100ms",
            "ACRUX_BATCH_TIMEOUT": "50ms",
            "ACRUX_WAIT": "300ms",
            "ACRUX_METRICS_INTERVAL": "200ms",
            "ACRUX_TELEMETRY_PORT": str(telemetry),
            "ACRUX_METRICS_PORT": str(metrics),
        }
        configs: Sequence[str | Path] = [CONFIGS / "gateway.yaml", *over, OWN_PORTS, TO_FILE]
        server = collector(configs=configs, env={**ports, **env})
        server.prometheus_endpoint = f"http://127.0.0.1:{metrics}/metrics"
        return server

    return start
