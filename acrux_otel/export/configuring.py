# SPDX-License-Identifier: Apache-2.0
"""`configure()`: settings of the process, and the providers and exporters that nobody else has set up."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal
from weakref import WeakKeyDictionary, WeakSet

from opentelemetry import metrics as metrics_api
from opentelemetry import trace as trace_api
from opentelemetry.metrics import MeterProvider
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor
from opentelemetry.sdk.trace import TracerProvider as SdkTracerProvider
from opentelemetry.trace import TracerProvider

from acrux_otel.export import exit as exiting
from acrux_otel.export.backends import (
    CONSOLE,
    NONE,
    TEMPO,
    TEMPO_PAYLOAD,
    Destination,
    chosen_backends,
    destination,
    standard_backends,
)
from acrux_otel.export.delivery import METRICS_PATIENCE, PATIENCE, Delivery, require
from acrux_otel.export.instance import identified
from acrux_otel.export.options import Given, boolean, given, seconds, whole_number
from acrux_otel.export.otlp import MetricExport, SpanExport
from acrux_otel.export.queue import SpanQueue
from acrux_otel.export.readings import Readings
from acrux_otel.sanitize import Redactor
from acrux_otel.settings import UNSET, capture_level, settings
from acrux_otel.verdict import warn_once

if TYPE_CHECKING:
    from acrux_otel.catalog import Catalog
    from acrux_otel.guard import Guard

__all__ = ["configure", "is_ours"]

_lock = threading.Lock()
_ours: Final[WeakSet[Any]] = WeakSet()
_added: Final[WeakKeyDictionary[Any, set[object]]] = WeakKeyDictionary()


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
    storm_detection: bool | None = None,
    queue_backlog: Callable[[], float] | None = None,
    exit_timeout: float | None = None,
    handle_sigterm: bool | None = None,
    catalog: str | Catalog | None = None,
    catalog_mode: str | None = None,
    guard: Guard | Literal[False] | None = None,
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
        storm_detection: True puts a keyed hash of the arguments on each tool span, by which a collector or a
            filter sees that the same call was made again. The key is new in every process. Not under
            ``capture="none"``.
        queue_backlog: returns how many runs wait; the gauge ``acrux.run.backlog``.
        exit_timeout: seconds for which the end of the process may be held to send what is queued; 0 does
            not wait. Default 3.
        handle_sigterm: send at SIGTERM as well, where the program does not handle that signal itself.
        catalog: where tools are synced to by themselves: ``acruxcore``, a SQLAlchemy URL, the base URL of a
            catalog server, or a `Catalog`. See docs/catalog.md.
        catalog_mode: ``sync`` (default) writes to it, ``resolve`` only compares and stamps versions.
        guard: stands around every decorated tool that has none of its own, those that exist included;
            False: none any more. See docs/production.md.
        tracer_provider: for the spans of tools, instead of the global one.
        meter_provider: for the metrics of tools, instead of the global one.

    Raises:
        ValueError: an argument or variable that cannot be used; one line says which.
        ImportError: an optional package is missing; one line says how to install it.
    """
    with _lock:
        chosen = chosen_backends(given(backend, "backend"), given(file, "file"))
        asked = bool(chosen) or given(endpoint, "endpoint") is not None
        name = given(service_name, "service_name")
        if name is not None and not isinstance(name.value, str):
            raise ValueError(f"{name.source} is {name.value!r}; expected text")
        places: list[Destination] = []
        if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() != "true":
            wanted = [each for each in chosen if each != NONE] if chosen else standard_backends(asked=asked)
            alone = len(wanted) == 1
            places = [destination(each, endpoint, protocol, headers, file, alone=alone) for each in wanted]
            for place in places:
                require(place.traces)
        if catalog is not None or catalog_mode is not None:
            from acrux_otel.catalog import automatic

            automatic.use(catalog, catalog_mode)
        _apply(capture, redact, payload_limit, metrics, storm_detection, exit_timeout, handle_sigterm)
        if TEMPO in chosen and given(payload_limit, "payload_limit") is None:
            settings.payload_limit = TEMPO_PAYLOAD
        if queue_backlog is not None:
            _watch_backlog(queue_backlog)
        if guard is not None:
            _guard_by_default(guard)
        settings.tracer_provider = tracer_provider or settings.tracer_provider
        settings.meter_provider = meter_provider or settings.meter_provider
        if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() != "true":
            exiting.flush_at_end_of_workers()
            made = _export_spans(tracer_provider, places, name, asked=asked)
            if settings.metrics and meter_provider is None and (made or asked):
                _export_metrics(places, name)


def _apply(
    capture: str | None,
    redact: Callable[[str, str], str] | None,
    payload_limit: int | None,
    metrics: bool | None,
    storm_detection: bool | None,
    exit_timeout: float | None,
    handle_sigterm: bool | None,
) -> None:
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
    settings.storm_detection = boolean(given(storm_detection, "storm_detection"), settings.storm_detection)
    exiting.set_exit_timeout(seconds(given(exit_timeout, "exit_timeout"), exiting.exit_timeout()))
    if boolean(given(handle_sigterm, "handle_sigterm"), False):
        exiting.handle_sigterm()


def _guard_by_default(guard: object) -> None:
    from acrux_otel.drive import guard_by_default
    from acrux_otel.guard import Guard

    if guard is not False and not isinstance(guard, Guard):
        raise ValueError(f"guard is {guard!r:.60}; expected a Guard, or False")
    guard_by_default(guard or None)


def _watch_backlog(read: Callable[[], float]) -> None:
    from acrux_otel import attributes as names
    from acrux_otel.metrics import gauge

    gauge(names.BACKLOG_METRIC, "{run}", "Agent runs that wait to be started.", lambda: [(read(), {})])


def _resource(name: Given | None) -> Resource:
    return identified(Resource.create({"service.name": name.value} if name is not None else {}))


def _export_spans(
    explicit: TracerProvider | None, places: Sequence[Destination], name: Given | None, *, asked: bool
) -> bool:
    """Make or join a tracer provider and add what is new; whether a provider was made."""
    provider: Any = explicit or trace_api.get_tracer_provider()
    made = isinstance(provider, trace_api.ProxyTracerProvider)
    if made:
        provider = SdkTracerProvider(resource=_resource(name), shutdown_on_exit=False)
        _ours.add(provider)
        trace_api.set_tracer_provider(provider)
    elif name is not None and name.value != _service(provider):
        warn_once(
            "service_name",
            "%s %r has no effect: a tracer provider of service %r is in place already",
            name.source,
            name.value,
            _service(provider),
        )
    if not (made or asked or is_ours(provider)):
        return False
    if not hasattr(provider, "add_span_processor"):
        warn_once(
            "provider", "a %s takes no exporter; nothing of ours is sent from it", type(provider).__name__
        )
        return False
    there = _added.setdefault(provider, set())
    for place in places:
        if place.key not in there:
            there.add(place.key)
            provider.add_span_processor(_processor(place))
    return made


def _service(provider: object) -> object:
    resource = getattr(provider, "resource", None)
    return resource.attributes.get("service.name") if resource is not None else None


def _processor(place: Destination) -> SpanProcessor:
    if place.traces.protocol == CONSOLE:
        from acrux_otel.export.console import Console

        return Console()
    queue = SpanQueue(SpanExport(Delivery(place.traces, PATIENCE), place.rewrite, place.most))
    exiting.add(queue)
    return queue


def _export_metrics(places: Sequence[Destination], name: Given | None) -> None:
    """Make a meter provider where there is none; the readers of one that exists cannot be changed."""
    wanted = [place.metrics for place in places if place.metrics is not None]
    if not wanted or not type(metrics_api.get_meter_provider()).__name__.startswith("_Proxy"):
        return
    exporters = [MetricExport(Delivery(each, METRICS_PATIENCE)) for each in wanted]
    readings = Readings(exporters, _resource(name))
    _ours.add(readings.provider)
    metrics_api.set_meter_provider(readings.provider)
    exiting.add(readings, waits=True)


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
