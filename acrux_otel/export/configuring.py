# SPDX-License-Identifier: Apache-2.0
"""`configure()`: settings of the process, and the providers and exporters that nobody else has set up."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from opentelemetry import metrics as metrics_api
from opentelemetry import trace as trace_api
from opentelemetry.metrics import MeterProvider
from opentelemetry.sdk.metrics import MeterProvider as SdkMeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider as SdkTracerProvider
from opentelemetry.trace import TracerProvider

from acrux_otel.export import exit as exiting
from acrux_otel.export.delivery import Delivery
from acrux_otel.export.endpoints import GRPC, METRICS, TRACES, Target, target
from acrux_otel.export.options import boolean, given, seconds, whole_number
from acrux_otel.export.otlp import MetricExport, SpanExport
from acrux_otel.export.processor import SpanQueue
from acrux_otel.sanitize import Redactor
from acrux_otel.settings import UNSET, capture_level, settings

__all__ = ["configure"]

# An outage of less than this loses nothing that fits into the queue.
_PATIENCE = 60.0
_METRICS_PATIENCE = 5.0

_lock = threading.Lock()
_sent_to: set[str] = set()


def configure(
    service_name: str | None = None,
    *,
    endpoint: str | None = None,
    protocol: str | None = None,
    headers: Mapping[str, str] | str | None = None,
    capture: str | None = None,
    redact: Callable[[str, str], str] | None = None,
    payload_limit: int | None = None,
    metrics: bool | None = None,
    exit_timeout: float | None = None,
    handle_sigterm: bool | None = None,
    queue_backlog: Callable[[], float] | None = None,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
) -> None:
    """Set up export and the process's settings; see docs/backends.md for every backend.

    Every argument that is text, a number or a switch has a variable ``ACRUX_OTEL_…``; the order is argument,
    that variable, the standard ``OTEL_…`` variable, default. Calling it again changes the settings named
    then and sends nothing twice.

    Where a tracer provider is in place already, it is joined, and an exporter is added to it only if an
    endpoint is named here or by ``ACRUX_OTEL_ENDPOINT``.

    Args:
        service_name: what the spans' service is called; ``OTEL_SERVICE_NAME``.
        endpoint: base URL of an OTLP receiver, with or without ``/v1/traces``; for gRPC ``host:4317``.
            Left out everywhere, it is OpenTelemetry's default, ``http://localhost:4318``, and it is no
            problem if nobody listens there.
        protocol: ``http/protobuf`` (default) or ``grpc``.
        headers: sent to the endpoint, as a dict or as ``name=value,name=value`` with URL-encoded values.
        capture: ``none``, ``verdict`` or ``full``: how much text leaves the process.
        redact: ``fn(key, value)`` for each text value, returns what to record instead.
        payload_limit: bytes that one argument or result payload may take.
        metrics: False records no metrics.
        exit_timeout: seconds that the end of the process may be held to deliver what is queued; 0 does not
            wait. Concerns only providers that are made here.
        handle_sigterm: deliver at SIGTERM as well, where the program does not handle that signal itself.
        queue_backlog: returns how many runs wait; the gauge ``acrux.run.backlog``.
        tracer_provider: used for the spans of tools instead of the global one.
        meter_provider: used for the metrics of tools instead of the global one.

    Raises:
        ValueError: an argument or variable that cannot be used; one line says which.
        ImportError: an optional package is missing; one line says how to install it.
    """
    with _lock:
        _apply_settings(capture, redact, payload_limit, metrics, tracer_provider, meter_provider)
        timeout = given(exit_timeout, "exit_timeout")
        exiting.set_exit_timeout(seconds(timeout, 3.0))
        if queue_backlog is not None:
            _watch_backlog(queue_backlog)
        if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
            return
        asked = given(endpoint, "endpoint") is not None
        resource = _resource(service_name)
        _export_spans(resource, asked, tracer_provider, endpoint, protocol, headers)
        if settings.metrics:
            _export_metrics(resource, asked, meter_provider, endpoint, protocol, headers)
        if boolean(given(handle_sigterm, "handle_sigterm"), False):
            exiting.handle_sigterm()


def _apply_settings(
    capture: str | None,
    redact: Callable[[str, str], str] | None,
    payload_limit: int | None,
    metrics: bool | None,
    tracer_provider: TracerProvider | None,
    meter_provider: MeterProvider | None,
) -> None:
    if capture is not None:
        level = capture_level(capture, "capture")
        if level != UNSET:
            settings.capture = level
    if redact is not None:
        if not callable(redact):
            raise ValueError(f"redact is {redact!r}; expected a function fn(key, value)")
        settings.redactor = Redactor(redact)
    limit = whole_number(given(payload_limit, "payload_limit"), None)
    if limit is not None:
        settings.payload_limit = limit
    settings.metrics = boolean(given(metrics, "metrics"), settings.metrics)
    settings.tracer_provider = tracer_provider or settings.tracer_provider
    settings.meter_provider = meter_provider or settings.meter_provider


def _watch_backlog(read: Callable[[], float]) -> None:
    from acrux_otel import attributes as names
    from acrux_otel.metrics import gauge

    gauge(names.BACKLOG_METRIC, "{run}", "Agent runs that wait to be started.", lambda: [(read(), {})])


def _resource(service_name: str | None) -> Resource:
    attributes: dict[str, Any] = {"service.instance.id": str(uuid.uuid4())}
    name = given(service_name, "service_name", "OTEL_SERVICE_NAME")
    if name is not None:
        if not isinstance(name.value, str):
            raise ValueError(f"{name.source} is {name.value!r}; expected text")
        attributes["service.name"] = name.value
    # The variables' attributes win over the instance id, an argument's name over the variables.
    return Resource(attributes).merge(Resource.create({k: v for k, v in attributes.items() if k[8] == "n"}))


def _export_spans(resource: Resource, asked: bool, explicit: TracerProvider | None, *where: object) -> None:
    provider: Any = explicit or trace_api.get_tracer_provider()
    if isinstance(provider, trace_api.ProxyTracerProvider):
        provider = SdkTracerProvider(resource=resource, shutdown_on_exit=False)
        provider._acrux_otel = True
        trace_api.set_tracer_provider(provider)
    elif not asked and not getattr(provider, "_acrux_otel", False):
        return
    if not asked and _switched_off("OTEL_TRACES_EXPORTER"):
        return
    destination = target(TRACES, *where)
    if _known(destination):
        return
    _require(destination)
    delivery = Delivery(destination, _PATIENCE)
    queue = SpanQueue(SpanExport(delivery))
    provider.add_span_processor(queue)
    exiting.add(exiting.Pipe(queue.drain, queue.finish, delivery))


def _export_metrics(resource: Resource, asked: bool, explicit: MeterProvider | None, *where: object) -> None:
    provider: Any = explicit or metrics_api.get_meter_provider()
    if not type(provider).__name__.startswith("_Proxy"):
        return  # its readers are fixed when it is made
    if not asked and (_switched_off("OTEL_METRICS_EXPORTER") or not _ours(trace_api.get_tracer_provider())):
        return
    destination = target(METRICS, *where)
    if _known(destination):
        return
    _require(destination)
    delivery = Delivery(destination, _METRICS_PATIENCE)
    reader = PeriodicExportingMetricReader(MetricExport(delivery))
    made = SdkMeterProvider([reader], resource=resource, shutdown_on_exit=False)
    made._acrux_otel = True  # type: ignore[attr-defined]
    metrics_api.set_meter_provider(made)
    exiting.add(exiting.Pipe(made.force_flush, made.shutdown, delivery))


def _ours(provider: object) -> bool:
    return getattr(provider, "_acrux_otel", False) is True


def _switched_off(variable: str) -> bool:
    return os.environ.get(variable, "").strip().lower() == "none"


def _known(destination: Target) -> bool:
    key = f"{destination.protocol} {destination.url}"
    if key in _sent_to:
        return True
    _sent_to.add(key)
    return False


def _require(destination: Target) -> None:
    if destination.protocol == GRPC:
        import acrux_otel.export.over_grpc  # noqa: F401  # its absence is said now, not in the background
