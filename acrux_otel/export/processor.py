# SPDX-License-Identifier: Apache-2.0
"""The SDK's batch processor with waits that keep their bounds, also on a provider that is not ours."""

from __future__ import annotations

from time import monotonic

from opentelemetry.sdk.trace.export import BatchSpanProcessor

from acrux_otel.export import exit as exiting
from acrux_otel.export.otlp import SpanExport

__all__ = ["SpanQueue"]


class SpanQueue(BatchSpanProcessor):
    """Queues ended spans and exports them in the background."""

    def __init__(self, exporter: SpanExport) -> None:
        super().__init__(exporter)
        self._export = exporter

    def drain(self) -> bool:
        """Export what is queued; blocks as long as that takes."""
        lost = self._export.lost
        return super().force_flush() is not False and self._export.lost == lost

    def finish(self) -> None:
        """Export what is queued and stop; blocks as long as that takes."""
        super().shutdown()  # type: ignore[no-untyped-call]

    def force_flush(self, timeout_millis: int | None = None) -> bool:
        """`drain`, for at most ``timeout_millis`` (default: 30 s)."""
        pipe = exiting.Pipe(self.drain)
        return pipe.flush_by(monotonic() + (30_000 if timeout_millis is None else timeout_millis) / 1000)

    def shutdown(self) -> None:
        """`finish`, for at most the exit timeout: a joined provider's end is not held longer by us."""
        exiting.close(exiting.Pipe(self.drain, self.finish, self._export.delivery))
