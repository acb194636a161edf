# SPDX-License-Identifier: Apache-2.0
"""Values -> what a person reads: times, lengths of time, sentences of a verdict, bars of a waterfall."""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from acrux_otel import attributes as names
from acrux_otel.query.matching import as_text
from acrux_otel.query.trace import Span, Trace

__all__ = ["FAILURES", "Row", "bytes_of", "clock", "day", "failure", "length", "money", "percent", "rows"]

FAILURES: Final = {
    "transport": "The connection to the service failed with {code}",
    "http_status": "The service answered with the failure {code}",
    "tool_declared": "The tool reported a failure {code}",
    "schema_mismatch": "The arguments or the result did not fit the schema: {code}",
    "transform": "The tool could not read the data that it got: {code}",
    "provider_error": "The model's provider reported a failure {code}",
}
_UNITS: Final = ((60_000_000_000, "min"), (1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"), (1, "ns"))
_WIDTH: Final = 1000  # of a waterfall, in its own units
_TOLD: Final = {
    names.ATTEMPTS: "Attempts",
    names.STOP_REASON: "Stopped because",
    names.RETRYABLE: "May be tried again",
    names.HTTP_STATUS: "HTTP status",
    names.FALLBACK_ERROR_CODE: "A fallback answered for",
    names.NOT_EXECUTED_REASON: "Not executed",
    names.EXECUTOR_TYPE: "Executor",
    names.TOOL_CALL_ID: "Call id",
}
_PAYLOADS: Final = {names.TOOL_ARGUMENTS: "Arguments", names.TOOL_RESULT: "Result"}


def failure(span: Span) -> str | None:
    """One sentence on why a failed span is red; None where it is not."""
    code = span.error_code or "unspecified"
    if span.failed:
        return FAILURES.get(span.error_type or "", "The call failed").format(code=code)
    return "The span ended with an error" if span.is_error else None


def clock(nanoseconds: int) -> str:
    """A time of this computer's clock, to the millisecond."""
    moment = _moment(nanoseconds)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03d}"


def day(nanoseconds: int) -> str:
    """The same in ISO 8601 with its zone, for machines."""
    return _moment(nanoseconds).isoformat(timespec="milliseconds")


def _moment(nanoseconds: int) -> datetime.datetime:
    seconds, rest = divmod(max(0, nanoseconds), 1_000_000_000)
    moment = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).astimezone()
    return moment.replace(microsecond=rest // 1000)


def length(nanoseconds: int) -> str:
    """A length of time in the largest unit of which there is one: ``1.5 s``."""
    for unit, name in _UNITS:
        if nanoseconds >= unit:
            value = nanoseconds / unit
            return f"{value:.0f} {name}" if value >= 100 else f"{value:.3g} {name}"
    return "0 ns"


def money(cost: float | None) -> str:
    """US dollars; empty where not known."""
    return "" if cost is None else f"${cost:.4f}" if cost < 1 else f"${cost:,.2f}"


def percent(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "–"


def bytes_of(size: int) -> str:
    """``1.2 GB``."""
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if size >= unit:
            return f"{size / unit:.3g} {name}"
    return f"{size} bytes"


@dataclasses.dataclass(frozen=True)
class Row:
    """One span in the waterfall; `left` and `width` are of a thousand.

    Attributes:
        facts: what is worth a row of its own, by its title.
        payloads: arguments and result, by their titles, laid out.
        others: every other attribute.
    """

    span: Span
    depth: int
    left: float
    width: float
    failure: str | None
    facts: Sequence[tuple[str, str]]
    payloads: Sequence[tuple[str, str]]
    others: Sequence[tuple[str, str]]


def rows(trace: Trace, first: int, count: int) -> list[Row]:
    """Some rows of a trace's waterfall, in the order of its tree."""
    start, whole = trace.start, max(1, trace.end - trace.start)
    made = []
    for number, (depth, span) in enumerate(trace.tree()):
        if number >= first + count:
            break
        if number >= first:
            made.append(_row(span, depth, start, whole))
    return made


def _row(span: Span, depth: int, start: int, whole: int) -> Row:
    width = max(3.0, span.duration / whole * _WIDTH)
    left = min(_WIDTH - 3.0, max(0.0, (span.start - start) / whole * _WIDTH))
    given: Mapping[str, Any] = span.attributes
    told = {*_TOLD, *_PAYLOADS, names.ERROR_DETAIL, names.WARNING_MESSAGE, names.TOOL_VERSION_ID}
    return Row(
        span,
        min(depth, 12),
        round(left, 2),
        round(min(width, _WIDTH - left), 2),
        failure(span),
        [(title, as_text(given[key])) for key, title in _TOLD.items() if key in given],
        [(title, _laid_out(given[key])) for key, title in _PAYLOADS.items() if key in given],
        [(key, as_text(value)) for key, value in sorted(given.items()) if key not in told],
    )


def _laid_out(value: Any) -> str:
    text = as_text(value)
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text
