# SPDX-License-Identifier: Apache-2.0
"""The SDK's exporter interfaces on top of a `Delivery`. Encoding is OpenTelemetry's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult, MetricsData
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from acrux_otel.export import instance
from acrux_otel.export.delivery import Delivery, SendFailed
from acrux_otel.export.repair import repaired
from acrux_otel.verdict import warn_once

__all__ = ["MetricExport", "SpanExport"]

# Beyond what gRPC servers take by default (4 MiB), with room for framing.
_MOST_BYTES: Final = 4_000_000
_SHORT: Final = 16_384  # characters of each text of a span that is too large


class SpanExport(SpanExporter):
    """Encodes and delivers spans; never raises.

    Args:
        delivery: where to.
        rewrite: changes an encoded request for a backend's sake.
        most: spans in one request.
    """

    def __init__(
        self, delivery: Delivery, rewrite: Callable[[Any], None] | None = None, most: int = 512
    ) -> None:
        self.delivery = delivery
        self.lost = 0
        self._rewrite = rewrite
        self._most = most

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send ``spans``, in as many requests as the endpoint's limits need."""
        taken = True
        for start in range(0, len(spans), self._most):
            taken &= self._send(spans[start : start + self._most])
        return SpanExportResult.SUCCESS if taken else SpanExportResult.FAILURE

    def _send(self, spans: Sequence[ReadableSpan]) -> bool:
        try:
            body = b"" if self.delivery.over else self._encode(spans)
            if len(body) <= _MOST_BYTES:
                return (body != b"" and self.delivery.send(body)) or self._lose(spans)
        except SendFailed:
            pass  # too large for this endpoint
        except Exception as error:
            if len(spans) == 1:
                kind = type(error).__name__
                warn_once(f"export:encode:{kind}", "a span could not be encoded and is lost (%s)", kind)
                return self._lose(spans)
        if len(spans) == 1:
            return self._send_shortened(spans[0])
        middle = len(spans) // 2
        first = self._send(spans[:middle])
        return self._send(spans[middle:]) and first

    def _send_shortened(self, span: ReadableSpan) -> bool:
        try:
            return self.delivery.send(self._encode([repaired(span, most=_SHORT)])) or self._lose([span])
        except Exception:
            warn_once("export:large", "a span is too large for its endpoint, also with its texts cut")
            return self._lose([span])

    def _lose(self, spans: Sequence[ReadableSpan]) -> bool:
        self.lost += len(spans)
        return False

    def _encode(self, spans: Sequence[ReadableSpan]) -> bytes:
        request = encode_spans([repaired(span) for span in spans])
        if not instance.at_home():
            for each in request.resource_spans:
                instance.stamp(each.resource)
        if self._rewrite is not None:
            self._rewrite(request)
        body: bytes = request.SerializeToString()
        return body

    def shutdown(self) -> None:
        """Free the connections."""
        self.delivery.close()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Nothing is buffered here."""
        return True


class MetricExport(MetricExporter):
    """Encodes and delivers metrics; never raises. The standard variables choose the temporality."""

    def __init__(self, delivery: Delivery) -> None:
        # Only for the preferences that it reads from the environment.
        official = OTLPMetricExporter(endpoint=delivery.target.url)
        super().__init__(official._preferred_temporality, official._preferred_aggregation)
        official.shutdown()
        self.delivery = delivery
        self.lost = 0
        self._left_out: frozenset[str] = frozenset()

    def leave_out(self, scopes: frozenset[str]) -> None:
        """Send nothing of these instrumentation scopes from now on."""
        self._left_out = scopes

    def export(
        self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: object
    ) -> MetricExportResult:
        """Send one collection."""
        try:
            body = self._encode(metrics_data)
            taken = body is None or self.delivery.send(body)
        except SendFailed:
            taken = False
        except Exception as error:
            kind = type(error).__name__
            warn_once(f"export:metrics:{kind}", "metrics could not be encoded (%s)", kind)
            taken = False
        if not taken:
            self.lost += 1
        return MetricExportResult.SUCCESS if taken else MetricExportResult.FAILURE

    def _encode(self, metrics_data: MetricsData) -> bytes | None:
        request = encode_metrics(metrics_data)
        measured = False
        for each in request.resource_metrics:
            if not instance.at_home():
                instance.stamp(each.resource)
            for scoped in each.scope_metrics:
                if scoped.scope.name in self._left_out:
                    scoped.ClearField("metrics")
                measured = measured or bool(scoped.metrics)
        body: bytes | None = request.SerializeToString() if measured else None
        return body

    def shutdown(self, timeout_millis: float = 30_000, **kwargs: object) -> None:
        """Free the connections."""
        self.delivery.close()

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        """Nothing is buffered here."""
        return True
