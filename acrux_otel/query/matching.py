# SPDX-License-Identifier: Apache-2.0
"""Whether a run meets a filter, judged on all of its spans: what every target must agree with."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from acrux_otel.query.terms import Filter, Term
from acrux_otel.query.trace import Span, Trace

__all__ = ["COMPARISONS", "as_text", "has_attribute", "has_text", "matches", "texts"]

COMPARISONS: Final[dict[str, Callable[[int, int], bool]]] = {
    "=": operator.eq,
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}


def matches(filter: Filter, trace: Trace) -> bool:
    """Whether ``trace`` meets every term."""
    if not all(_holds_on_run(term, trace) != term.negated for term in filter.on_run):
        return False
    if not all(_in_window(term, trace.start) for term in filter if term.key in ("since", "until")):
        return False
    wanted, unwanted = filter.on_span, filter.not_on_span
    if wanted:
        return any(
            all(_holds_on_span(term, span) for term in wanted)
            and not any(_holds_on_span(term, span) for term in unwanted)
            for span in trace.spans
        )
    return not any(_holds_on_span(term, span) for term in unwanted for span in trace.spans)


def _holds_on_run(term: Term, trace: Trace) -> bool:
    return _ON_RUN[term.key](term, trace)


_ON_RUN: Final[dict[str, Callable[[Term, Trace], bool]]] = {
    "status": lambda term, trace: any(span.is_error for span in trace.spans) == (term.value == "error"),
    "service": lambda term, trace: any(span.service == term.value for span in trace.spans),
    "tag": lambda term, trace: any(term.value in span.tags for span in trace.spans),
    "run": lambda term, trace: trace.trace_id == term.value,
    "trace": lambda term, trace: trace.trace_id == term.value,
    "text": lambda term, trace: any(has_text(span, term.text) for span in trace.spans),
    "attribute": lambda term, trace: any(has_attribute(span, term.name, term.text) for span in trace.spans),
}


def _holds_on_span(term: Term, span: Span) -> bool:
    return _ON_SPAN[term.key](term, span)


def _compares(term: Term, value: int | None) -> bool:
    return value is not None and COMPARISONS[term.operator](value, term.number)


_ON_SPAN: Final[dict[str, Callable[[Term, Span], bool]]] = {
    "error_type": lambda term, span: span.error_type == term.value,
    "error_code": lambda term, span: span.error_code == term.value,
    "warning": lambda term, span: span.warned,
    "tool": lambda term, span: span.tool == term.value,
    "outcome": lambda term, span: span.outcome == term.value,
    "attempts": lambda term, span: _compares(term, span.attempts),
    "duration": lambda term, span: _compares(term, span.duration),
}


def _in_window(term: Term, start: int) -> bool:
    return start >= term.number if term.key == "since" else start <= term.number


def has_attribute(span: Span, key: str, value: str) -> bool:
    """Whether the span, or what sent it, has this attribute with this value as text."""
    return any(key in each and as_text(each[key]) == value for each in (span.attributes, span.resource))


def as_text(value: Any) -> str:
    """An attribute's value as it is typed in a filter: ``true``, ``503``, ``0.5``; lists as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    if isinstance(value, float):
        return repr(value).removesuffix(".0")
    if isinstance(value, bytes):
        return value.hex()
    return (
        str(value)
        if isinstance(value, int)
        else json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=as_text)
    )


def has_text(span: Span, text: str) -> bool:
    """Whether any text of the span holds ``text``, small and capital letters being the same."""
    wanted = text.lower()
    return any(wanted in each.lower() for each in texts(span))


def texts(span: Span) -> Iterator[str]:
    """Every text of a span: its name, its message, and the text in its attributes, events and resource."""
    yield span.name
    yield span.message
    yield from _texts(span.attributes)
    for event in span.events:
        yield event.name
        yield from _texts(event.attributes)
    yield from _texts(span.resource)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _texts(each)
