# SPDX-License-Identifier: Apache-2.0
"""A meter provider of our own, with an end that is bounded and a fresh start in forked children."""

from __future__ import annotations

import os
from collections.abc import Sequence
from inspect import signature
from time import monotonic
from typing import Final

from opentelemetry.metrics import Meter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.metrics.view import ExplicitBucketHistogramAggregation, View
from opentelemetry.sdk.resources import Resource

from acrux_otel import attributes as names
from acrux_otel.export import exit as exiting
from acrux_otel.export.delivery import METRICS_PATIENCE, Delivery
from acrux_otel.export.otlp import MetricExport
from acrux_otel.metrics import _BUCKETS as DURATION_BUCKETS
from acrux_otel.settings import settings

__all__ = ["Readings"]

_OURS: Final = frozenset((names.SCOPE,))


class Readings:
    """Providers that send what is measured to the same places; an `Outlet`.

    Args:
        exporters: one for each place.
        resource: what the measurements are of.

    Attributes:
        provider: the one to make the global one.
    """

    def __init__(self, exporters: Sequence[MetricExport], resource: Resource) -> None:
        self._exporters, self._resource = list(exporters), resource
        self._inherited: list[MetricExport] = []
        self._all: list[tuple[MeterProvider, exiting.Blocking]] = []
        self.provider = self._make()
        exiting.reset_in_children(self)

    def _make(self) -> MeterProvider:
        readers = [PeriodicExportingMetricReader(exporter) for exporter in self._exporters]
        made = MeterProvider(readers, resource=self._resource, shutdown_on_exit=False, views=_views())
        self._all.append((made, exiting.Blocking(made.force_flush)))
        return made

    def flush_by(self, deadline: float) -> bool:
        """See `Outlet`."""
        lost = self._lost()
        for exporter in self._exporters:
            exporter.delivery.hurry()
        done = [flushing.done_by(deadline) for _, flushing in self._all]
        return all(done) and self._lost() == lost

    def _lost(self) -> int:
        return sum(exporter.lost for exporter in self._exporters)

    def end_by(self, deadline: float) -> None:
        """See `Outlet`."""
        for exporter in (*self._inherited, *self._exporters):
            exporter.delivery.end_by(deadline)

    def ended_by(self, deadline: float) -> None:
        """See `Outlet`."""
        for provider, _ in self._all:
            try:
                # Its readers' threads make the last collection, and are waited for this long.
                provider.shutdown(timeout_millis=max(0.0, deadline - monotonic()) * 1000)
            except Exception:
                pass  # the delivery has said what there is to say

    def after_fork(self) -> None:
        """Let tool calls be counted anew in a child; what it inherits, its parent sends."""
        inherited, self._exporters = (
            self._exporters,
            [MetricExport(Delivery(each.delivery.target, METRICS_PATIENCE)) for each in self._exporters],
        )
        for exporter in inherited:
            exporter.leave_out(_OURS)
        self._inherited += inherited
        if settings.meter_provider in (None, *(provider for provider, _ in self._all)):
            settings.meter_provider = self._make()


def _views() -> list[View]:
    """The convention's buckets, for an API in which an instrument cannot ask for them itself."""
    asks = "explicit_bucket_boundaries_advisory" in signature(Meter.create_histogram).parameters
    preferred = os.environ.get("OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION", "").strip().lower()
    if asks or preferred == "base2_exponential_bucket_histogram":
        return []
    buckets = ExplicitBucketHistogramAggregation(DURATION_BUCKETS)
    return [View(instrument_name=names.DURATION_METRIC, meter_name=names.SCOPE, aggregation=buckets)]
