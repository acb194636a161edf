# SPDX-License-Identifier: Apache-2.0
"""`configure()`: settings of the process, and the providers and exporters that nobody else has set up."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary, WeakSet

from opentelemetry import metrics as metrics_api
from opentelemetry import trace as trace_api
from opentelemetry.metrics import MeterProvider
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor
from opentelemetry.sdk.trace import TracerProvider as SdkTracerProvider
from opentelemetry.trace import TracerProvider

from acrux_otel.export import exit as exiting
from acrux_otel.export.backends import CONSOLE, FILE, OTLP, TEMPO, Destination, backends, destination
from acrux_otel.export.delivery import Delivery
from acrux_otel.export.endpoints import GRPC, HTTP, TRACES, Target
from acrux_otel.export.instance import identified
from acrux_otel.export.options import Given, boolean, given, seconds, whole_number
from acrux_otel.export.otlp import MetricExport, SpanExport
from acrux_otel.export.queue import SpanQueue
from acrux_otel.export.readings import Readings
from acrux_otel.sanitize import Redactor
from acrux_otel.settings import UNSET, capture_level, settings
from acrux_otel.verdict import warn_once

__all__ = ["configure", "is_ours"]

PATIENCE: Final = 60.0  # an outage of less than this loses nothing that fits into the queue
METRICS_PATIENCE: Final = 5.0  # the next collection says the same and more
_TEMPO_PAYLOAD: Final = 2048
_FILE: Final = "acrux-otel.jsonl"

_log: Final = logging.getLogger("acrux_otel")
_lock: Final = threading.RLock()
_ours: Final[WeakSet[Any]] = WeakSet()
_added: Final[WeakKeyDictionary[Any, set[object]]] = WeakKeyDictionary()
_named: str | None = None


def is_ours(provider: object) -> bool:
    """Whether `configure` made this provider."""
    return provider in _ours


def configure(
    service_name: str | None = None,
    *,
    endpoint: str | None = None,
    protocol: str | None = None,
    headers: Mapping[str, str] | str | None = None,
    backend: str | Sequence[str] | None = None,
    file: str | os.PathLike[str] | None = None,
    capture: str | None = None,
    redact: Callable[[str, str], str] | None = None,
    payload_limit: int | None = None,
    metrics: bool | None = None,
    queue_backlog: Callable[[], float] | None = None,
    exit_timeout: float | None = None,
    handle_sigterm: bool | None = None,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
) -> None:
    """Set up export and the process's settings; docs/backends.md has a set-up for every backend.

    Every argument that is text, a number or a switch has a variable ``ACRUX_OTEL_…``; the order is argument,
    that variable, the standard ``OTEL_…`` variable, default. Calling this again changes the settings named
    then, adds the places named then, and sends nothing twice.

    A tracer provider that is in place already is joined; something is added to it only where an endpoint, a
    backend or a file is named here or by ``ACRUX_OTEL_…``, and it is never shut down from here.

    Args:
        service_name: the spans' service; ``OTEL_SERVICE_NAME``.
        endpoint: base URL of an OTLP receiver, with or without ``/v1/traces``; for gRPC ``host:4317``.
            Named nowhere, it is OpenTelemetry's default, ``http://localhost:4318``, and nothing warns if
            nobody listens there.
        protocol: ``http/protobuf`` or ``grpc``; left out, port 4317 or an endpoint without a scheme mean
            gRPC, everything else HTTP.
        headers: sent to the endpoint; a dict, or ``name=value,name=value`` with URL-encoded values.
        backend: ``otlp`` (default), ``jaeger``, ``tempo``, ``acruxcore``, ``console``, ``file`` or ``none``;
            several in a list, or separated by commas.
        file: where the backend ``file`` appends OTLP JSON lines.
        capture: ``none``, ``verdict`` or ``full``: how much text leaves the process.
        redact: ``fn(key, value)`` for each text, returns what to record instead.
        payload_limit: bytes that one argument or result payload may take.
        metrics: False records none.
        queue_backlog: returns how many runs wait; the gauge ``acrux.run.backlog``.
        exit_timeout: seconds for which the end of the process may be held to send what is queued; 0 does
            not wait. Default 3.
        handle_sigterm: send at SIGTERM as well, where the program does not handle that signal itself.
        tracer_provider: for the spans of tools, instead of the global one.
        meter_provider: for the metrics of tools, instead of the global one.

    Raises:
        ValueError: an argument or variable that cannot be used; one line says which.
        ImportError: an optional package is missing; one line says how to install it.
    """
    with _lock:
        chosen = backends(given(backend, "backend"), file=given(file, "file") is not None)
        asked = bool(chosen) or given(endpoint, "endpoint") is not None
        _apply_settings(capture, redact, payload_limit, metrics, tracer_provider, meter_provider)
        if TEMPO in chosen and given(payload_limit, "payload_limit") is None:
            settings.payload_limit = _TEMPO_PAYLOAD
        if queue_backlog is not None:
            _watch_backlog(queue_backlog)
        exiting.set_exit_timeout(seconds(given(exit_timeout, "exit_timeout"), exiting.exit_timeout()))
        if boolean(given(handle_sigterm, "handle_sigterm"), False):
            exiting.handle_sigterm()
        if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
            return
        places = [
            destination(name, endpoint, protocol, headers, alone=len(chosen) < 2)
            for name in _or_default(chosen)
            if name not in (CONSOLE, FILE, "none")
        ]
        for place in places:
            _check(place)
        _export(_Request(service_name, asked, chosen, places, file), tracer_provider)


def _or_default(chosen: list[str]) -> list[str]:
    return chosen or [OTLP]
