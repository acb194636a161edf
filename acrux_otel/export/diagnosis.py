# SPDX-License-Identifier: Apache-2.0
"""What `acrux-otel doctor` finds out: the settings, their sources, and whether each endpoint takes a span."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterator
from time import monotonic
from typing import Any

from acrux_otel.export.backends import (
    CONSOLE,
    NONE,
    OTLP,
    TEMPO,
    TEMPO_PAYLOAD,
    Destination,
    chosen_backends,
    destination,
)
from acrux_otel.export.conflicts import conflicts, versions
from acrux_otel.export.delivery import SendFailed, require, sender_for
from acrux_otel.export.endpoints import FILE, Target
from acrux_otel.export.exit import EXIT_TIMEOUT
from acrux_otel.export.options import boolean, given, seconds, whole_number
from acrux_otel.sanitize import PAYLOAD_LIMIT

__all__ = ["Check", "Diagnosis", "Setting", "diagnose"]


@dataclasses.dataclass(frozen=True)
class Setting:
    """One value as it may be shown, and the variable that gave it."""

    name: str
    value: str
    source: str


@dataclasses.dataclass(frozen=True)
class Check:
    """What came of sending something to one target."""

    backend: str
    signal: str
    place: str
    ok: bool
    told: str
    trace_id: str | None = None


@dataclasses.dataclass
class Diagnosis:
    """Everything that was found."""

    settings: list[Setting] = dataclasses.field(default_factory=list)
    versions: dict[str, str] = dataclasses.field(default_factory=dict)
    checks: list[Check] = dataclasses.field(default_factory=list)
    conflicts: list[str] = dataclasses.field(default_factory=list)
    error: str | None = None

    @property
    def exit_code(self) -> int:
        """0: every span was taken; 1: one was not, or none is sent anywhere; 2: a setting cannot be used."""
        if self.error is not None:
            return 2
        spans = [check.ok for check in self.checks if check.signal == "traces"]
        return 0 if spans and all(spans) else 1

    def as_dict(self) -> dict[str, Any]:
        """For programs."""
        return {**dataclasses.asdict(self), "works": self.exit_code == 0}


def diagnose(timeout: float = 5.0) -> Diagnosis:
    """Read the environment as `configure()` without arguments would, and try every endpoint.

    Args:
        timeout: seconds to wait for each.
    """
    found = Diagnosis(versions=versions(), conflicts=list(conflicts()))
    try:
        found.settings += _general()
        names = chosen_backends(given(None, "backend"), given(None, "file")) or [OTLP]
        places = [destination(name, alone=len(names) == 1) for name in names if name != NONE]
        for place in places:
            found.settings += _of(place)
            require(place.traces)
    except (ValueError, ImportError) as error:
        found.error = str(error)
        return found
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return found
    for place in places:
        found.checks += _try(place, timeout)
    return found


def _general() -> Iterator[Setting]:
    name = given(None, "service_name", "OTEL_SERVICE_NAME")
    listed = re.search(r"(?:^|,)\s*service\.name=([^,]*)", os.environ.get("OTEL_RESOURCE_ATTRIBUTES", ""))
    if name is not None:
        yield Setting("service name", str(name.value), name.source)
    elif listed:
        yield Setting("service name", listed[1], "OTEL_RESOURCE_ATTRIBUTES")
    else:
        yield Setting("service name", "unknown_service", "default; set OTEL_SERVICE_NAME")
    backend = given(None, "backend")
    yield Setting(
        "backend", str(backend.value) if backend else OTLP, backend.source if backend else "default"
    )
    capture = given(None, "capture", "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT")
    yield Setting(
        "capture", str(capture.value) if capture else "verdict", capture.source if capture else "default"
    )
    held, metrics = given(None, "exit_timeout"), given(None, "metrics")
    limit, term = given(None, "payload_limit"), given(None, "handle_sigterm")
    for what, option, shown in (
        ("exit timeout", held, f"{seconds(held, EXIT_TIMEOUT):g} s"),
        ("metrics", metrics, "on" if boolean(metrics, True) else "off"),
        ("payload limit", limit, f"{whole_number(limit, _default_payload())} bytes"),
        ("SIGTERM", term, "sends" if boolean(term, False) else "not handled"),
    ):
        yield Setting(what, shown, option.source if option else "default")
    sampler = os.environ.get("OTEL_TRACES_SAMPLER", "").strip()
    argument = os.environ.get("OTEL_TRACES_SAMPLER_ARG", "").strip()
    yield Setting(
        "sampler",
        f"{sampler} {argument}".strip() or "parentbased_always_on",
        "OTEL_TRACES_SAMPLER" if sampler else "default",
    )


def _default_payload() -> int:
    names = chosen_backends(given(None, "backend"), given(None, "file"))
    return TEMPO_PAYLOAD if TEMPO in names else PAYLOAD_LIMIT


def _of(place: Destination) -> Iterator[Setting]:
    for target in (place.traces, place.metrics):
        if target is None or place.backend == CONSOLE:
            continue
        yield Setting(
            f"{place.backend} {target.signal}", f"{target.shown} ({target.protocol})", target.source
        )
    target = place.traces
    if target.headers:
        shown = ", ".join(f"{name}=***" for name in target.headers)
        yield Setting(f"{place.backend} headers", shown, "values are not shown")
    if target.certificate or target.client_certificate:
        files = ", ".join(filter(None, (target.certificate, target.client_certificate)))
        yield Setting(f"{place.backend} TLS", files, "OTEL_EXPORTER_OTLP_…CERTIFICATE")


def _try(place: Destination, timeout: float) -> Iterator[Check]:
    if place.backend == CONSOLE:
        yield Check(CONSOLE, "traces", "standard error", True, "prints as calls end")
        return
    trace_id, request = _test_span()
    if place.rewrite is not None:
        place.rewrite(request)
    yield _send(place, place.traces, request.SerializeToString(), timeout, trace_id)
    if place.metrics is not None:
        yield _send(place, place.metrics, b"", timeout, None)


def _send(place: Destination, target: Target, body: bytes, timeout: float, trace_id: str | None) -> Check:
    started = monotonic()
    sender = sender_for(target)
    try:
        refused = sender.send(body, min(timeout, target.timeout))
    except SendFailed as failure:
        refused = failure.reason
    finally:
        sender.close()
    took = f"{(monotonic() - started) * 1000:.0f} ms"
    done = "written" if target.protocol == FILE else "acknowledged"
    told = f"{done} in {took}" if refused is None else f"{refused} (after {took})"
    return Check(place.backend, target.signal, target.shown, refused is None, told, trace_id)


def _test_span() -> tuple[str, Any]:
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.sampling import ALWAYS_ON
    from opentelemetry.trace import format_trace_id

    name = given(None, "service_name")
    resource = Resource.create({"service.name": name.value} if name else {})
    tracer = TracerProvider(ALWAYS_ON, resource, shutdown_on_exit=False).get_tracer("acrux_otel.doctor")
    span = tracer.start_span("acrux-otel doctor")
    span.end()
    assert isinstance(span, ReadableSpan)
    return format_trace_id(span.get_span_context().trace_id), encode_spans([span])
