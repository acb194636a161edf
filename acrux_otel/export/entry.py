# SPDX-License-Identifier: Apache-2.0
"""For `opentelemetry-instrument`: ``OTEL_TRACES_EXPORTER=acrux_otel`` sends where `configure` would.

The providers are then the SDK's, so the end of the process is bounded from in here.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult, MetricsData
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from acrux_otel.export import exit as exiting
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
from acrux_otel.export.delivery import METRICS_PATIENCE, PATIENCE, Delivery, require
from acrux_otel.export.options import boolean, given, seconds
from acrux_otel.export.otlp import MetricExport, SpanExport
from acrux_otel.settings import settings

if TYPE_CHECKING:
    from acrux_otel.export.console import Console

__all__ = ["MetricEntry", "SpanEntry", "destinations"]

_log: Final = logging.getLogger("acrux_otel")


def destinations() -> list[Destination]:
    """What the environment says.

    Raises:
        ValueError: a variable that cannot be used.
        ImportError: an optional package is missing.
    """
    exiting.set_exit_timeout(seconds(given(None, "exit_timeout"), exiting.exit_timeout()))
    names = chosen_backends(given(None, "backend"), given(None, "file")) or [OTLP]
    places = [destination(name, alone=len(names) == 1) for name in names if name != NONE]
    for place in places:
        require(place.traces)
    return places


def _usable() -> list[Destination]:
    try:
        exiting.flush_at_end_of_workers()
        if boolean(given(None, "handle_sigterm"), False):
            exiting.handle_sigterm()
        places = destinations()
        if TEMPO in [place.backend for place in places] and given(None, "payload_limit") is None:
            settings.payload_limit = TEMPO_PAYLOAD
        return places
    except (ValueError, ImportError) as error:
        _log.error("nothing is exported: %s", error)
        return []


class SpanEntry(SpanExporter):
    """Sends spans to every backend that the environment names."""

    def __init__(self) -> None:
        self._exporters: list[SpanExport] = []
        self._console: Console | None = None
        for place in _usable():
            if place.backend == CONSOLE:
                from acrux_otel.export.console import Console

                self._console = Console()
            else:
                delivery = Delivery(place.traces, PATIENCE, watch_exit=True)
                self._exporters.append(SpanExport(delivery, place.rewrite, place.most))

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send ``spans``; never raises."""
        if self._console is not None:
            for span in spans:
                self._console.on_end(span)
        results = [exporter.export(spans) for exporter in self._exporters]
        failed = SpanExportResult.FAILURE in results
        return SpanExportResult.FAILURE if failed else SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        """Free the connections."""
        for exporter in self._exporters:
            exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Nothing is buffered here."""
        return True


class MetricEntry(MetricExporter):
    """Sends metrics to every backend that takes them."""

    def __init__(self) -> None:
        targets = [place.metrics for place in _usable() if place.metrics is not None]
        self._exporters = [
            MetricExport(Delivery(target, METRICS_PATIENCE, watch_exit=True)) for target in targets
        ]
        if self._exporters:
            first = self._exporters[0]
            super().__init__(first._preferred_temporality, first._preferred_aggregation)
        else:
            super().__init__()

    def export(
        self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: object
    ) -> MetricExportResult:
        """Send one collection; never raises."""
        results = [exporter.export(metrics_data) for exporter in self._exporters]
        failed = MetricExportResult.FAILURE in results
        return MetricExportResult.FAILURE if failed else MetricExportResult.SUCCESS

    def shutdown(self, timeout_millis: float = 30_000, **kwargs: object) -> None:
        """Free the connections."""
        for exporter in self._exporters:
            exporter.shutdown()

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        """Nothing is buffered here."""
        return True
