# SPDX-License-Identifier: Apache-2.0
"""`configure()`, `flush()` and `flushing()`: spans and metrics to any OTLP endpoint."""

from __future__ import annotations

from acrux_otel.export.configuring import configure
from acrux_otel.export.flushing import flush, flushing

__all__ = ["configure", "flush", "flushing"]
