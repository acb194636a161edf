# SPDX-License-Identifier: Apache-2.0
"""What is installed, and what in packages and variables is known to get in the way."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, entry_points, version
from typing import Final

__all__ = ["conflicts", "versions"]

_PACKAGES: Final = (
    "acrux-otel",
    "acrux-otel-instrumentation",
    "opentelemetry-api",
    "opentelemetry-sdk",
    "opentelemetry-exporter-otlp-proto-http",
    "opentelemetry-exporter-otlp-proto-grpc",
    "opentelemetry-instrumentation",
    "opentelemetry-distro",
    "requests",
    "grpcio",
    "protobuf",
)
_PREFIX: Final = "ACRUX_OTEL_"
_VARIABLES: Final = (
    "BACKEND",
    "CAPTURE",
    "CATALOG",
    "CATALOG_KEY",
    "CATALOG_MODE",
    "ENDPOINT",
    "EXIT_TIMEOUT",
    "FILE",
    "HANDLE_SIGTERM",
    "HEADERS",
    "HOME",
    "METRICS",
    "PAYLOAD_LIMIT",
    "PROTOCOL",
    "SERVICE_NAME",
    "STORM_DETECTION",
    "UP_KEY",
)
# Each makes a tracer provider of its own at start; what comes first decides.
_RIVALS: Final = ("ddtrace", "elastic-apm", "newrelic", "logfire", "azure-monitor-opentelemetry")


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that take part."""
    made = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            made[package] = version(package)
        except PackageNotFoundError:
            made[package] = "not installed"
    return made


def conflicts() -> Iterator[str]:
    """One line for each thing that is likely to surprise."""
    yield from _in_variables()
    yield from _in_packages()


def _in_variables() -> Iterator[str]:
    said = {name: value.strip().lower() for name, value in os.environ.items() if value.strip()}
    for name in sorted(said):
        if name.startswith(_PREFIX) and name.removeprefix(_PREFIX) not in _VARIABLES:
            yield f"{name} is not a variable of acrux-otel"
    if said.get("OTEL_SDK_DISABLED") == "true":
        yield "OTEL_SDK_DISABLED=true: nothing is recorded"
    if said.get("OTEL_TRACES_EXPORTER") == "none":
        yield "OTEL_TRACES_EXPORTER=none: spans are sent only where an endpoint or backend of ours is named"
    if said.get("OTEL_TRACES_SAMPLER", "").endswith("always_off"):
        yield "OTEL_TRACES_SAMPLER is always_off: no span is recorded"
    for name in ("OTEL_EXPORTER_OTLP_TIMEOUT", "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT"):
        if said.get(name, "").isdecimal() and int(said[name]) >= 1000:
            yield f"{name}={said[name]}: OpenTelemetry for Python reads seconds here, not milliseconds"


def _in_packages() -> Iterator[str]:
    found = versions()
    api, sdk = found["opentelemetry-api"], found["opentelemetry-sdk"]
    if api != sdk:
        yield f"opentelemetry-api {api} beside opentelemetry-sdk {sdk}: install the same version of both"
    distributions = sorted(each.name for each in entry_points(group="opentelemetry_distro"))
    if len(distributions) > 1 and not os.environ.get("OTEL_PYTHON_DISTRO"):
        yield f"several distributions ({', '.join(distributions)}): choose by OTEL_PYTHON_DISTRO"
    for package in _RIVALS:
        try:
            yield f"{package} {version(package)} may make a tracer provider first; configure() joins that one"
        except PackageNotFoundError:
            pass
