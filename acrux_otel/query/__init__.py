# SPDX-License-Identifier: Apache-2.0
"""One filter language over runs: `parse` it once, ask any target, `matches` judges a run in memory.

The targets are `acrux_otel.local.store.Store`, `acrux_otel.query.jaeger.Jaeger` and
`acrux_otel.query.tempo.Tempo`.
"""

from acrux_otel.query.matching import matches
from acrux_otel.query.parser import parse
from acrux_otel.query.target import Answer, Target, TargetError
from acrux_otel.query.terms import Filter, FilterError, Term
from acrux_otel.query.trace import Event, RunLine, Span, Trace
from acrux_otel.query.traceql import traceql

__all__ = [
    "Answer",
    "Event",
    "Filter",
    "FilterError",
    "RunLine",
    "Span",
    "Target",
    "TargetError",
    "Term",
    "Trace",
    "matches",
    "parse",
    "traceql",
]
