# SPDX-License-Identifier: Apache-2.0
"""The work that is timed: a tool's call as we record it, and the same call under bare OpenTelemetry."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult, PeriodicExportingMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON

import acrux_otel as acrux
from acrux_otel.settings import settings

Run = Callable[[], Any]

# What our own span carries; bare OpenTelemetry sets the same six.
ATTRIBUTES = {
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": "weather",
    "gen_ai.tool.type": "function",
    "gen_ai.tool.description": "Tells the weather.",
    "executorType": "client",
    "acrux.tool.outcome": "ok",
}


class Discard(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.SUCCESS


class DiscardMetrics(MetricExporter):
    def export(self, metrics_data: Any, timeout_millis: float = 0, **_: Any) -> MetricExportResult:
        return MetricExportResult.SUCCESS

    def shutdown(self, timeout_millis: float = 0, **_: Any) -> None: ...

    def force_flush(self, timeout_millis: float = 0) -> bool:
        return True


def weather(city: str) -> dict[str, Any]:
    """Tells the weather."""
    return {"temp": 18}


def declared(city: str) -> dict[str, Any]:
    """Tells the weather."""
    return acrux.ToolResult.error("location_not_found", "no coordinates for 'Atlantis Prime'")


def warned(city: str) -> dict[str, Any]:
    """Tells the weather."""
    return acrux.ToolResult.warn("ambiguous_city", "matches India, Pakistan", {"temp": 31})


def deep(frames: int) -> None:
    if frames == 0:
        raise ValueError("no such city")
    deep(frames - 1)


def raising(city: str) -> None:
    """Tells the weather."""
    deep(9)


def provider(sampler: Any = ALWAYS_ON) -> TracerProvider:
    made = TracerProvider(sampler=sampler)
    made.add_span_processor(BatchSpanProcessor(Discard()))
    return made


def bare(tracer: trace.Tracer, body: Callable[[str], Any] = weather) -> Run:
    def call() -> Any:
        with tracer.start_as_current_span("execute_tool weather", attributes=ATTRIBUTES):
            return body("Pune")

    return quiet(call) if body is raising else call


def ours(body: Callable[[str], Any] = weather, **options: Any) -> Run:
    tool = acrux.tool(name="weather", **options)(body)

    def call() -> Any:
        return tool("Pune")

    return quiet(call) if body is raising else call


def quiet(call: Run) -> Run:
    def caught() -> None:
        with contextlib.suppress(ValueError):
            call()

    return caught


class Case:
    """A row of the table: ``ours`` and ``bare`` share one provider; ``goal`` is their ratio at most."""

    def __init__(self, name: str, goal: float, make: Callable[[], tuple[Run, Run]]) -> None:
        self.name, self.goal, self.make = name, goal, make


def _recorded(
    body: Callable[[str], Any] = weather, against: Callable[[str], Any] = weather, **options: Any
) -> Any:
    def make() -> tuple[Run, Run]:
        settings.tracer_provider = made = provider()
        return ours(body, **options), bare(made.get_tracer("bare"), against)

    return make


def _unsampled() -> tuple[Run, Run]:
    settings.tracer_provider = made = provider(ALWAYS_OFF)
    return ours(), bare(made.get_tracer("bare"))


def _no_sdk() -> tuple[Run, Run]:
    settings.tracer_provider = None
    return ours(), bare(trace.get_tracer("bare"))


def _metered() -> tuple[Run, Run]:
    settings.tracer_provider = made = provider()
    reader = PeriodicExportingMetricReader(DiscardMetrics(), export_interval_millis=1000)
    settings.meter_provider = MeterProvider([reader])
    return ours(), bare(made.get_tracer("bare"))


CASES = [
    Case("recorded call, ok", 0.90, _recorded()),
    Case("recorded call, declared error", 1.2, _recorded(declared)),
    Case("recorded call, declared warning", 1.2, _recorded(warned)),
    Case('recorded call with `capture="full"`', 1.5, _recorded(capture="full")),
    Case("recorded call that raises from ten frames deep", 0.40, _recorded(raising, raising)),
    Case("unsampled call", 0.62, _unsampled),
    Case("no SDK configured", 0.35, _no_sdk),
    Case("the same ok call with a MeterProvider", 1.3, _metered),
]
