# SPDX-License-Identifier: Apache-2.0
"""Filter -> a condition on the local store's tables. Every value is a bound parameter.

The tables are those of `acrux_otel.local.schema`, with ``acrux_runs r``. The functions `span_has_text`,
`span_has_attribute` and their like for sources are given to the connection by `acrux_otel.local.store`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Final

from acrux_otel.query.terms import Filter, Term

__all__ = ["Condition", "condition"]

_OPERATORS: Final = {"=": "=", ">": ">", ">=": ">=", "<": "<", "<=": "<="}


@dataclasses.dataclass(frozen=True)
class Condition:
    """A WHERE clause over ``acrux_runs r``, and the values of its parameters."""

    where: str
    parameters: tuple[Any, ...]


def condition(filter: Filter, since: int | None = None, *, run_by_run: bool = False) -> Condition:
    """The runs that meet ``filter``.

    Args:
        filter: what is asked for.
        since: nanoseconds since 1970; bounds a filter that does not say ``since:`` itself.
        run_by_run: look at the spans of each run, which is better where few runs are looked at; otherwise the
            spans are searched by their indexes, and the runs taken from there.
    """
    made = _Built()
    earliest = filter.since if filter.since is not None else since
    if earliest is not None:
        made.add("r.start >= ?", earliest)
    if filter.until is not None:
        made.add("r.start <= ?", filter.until)
    _spans(filter, made, run_by_run)
    for term in filter.on_run:
        text, parameters = _ON_RUN[term.key](term)
        made.add(f"NOT ({text})" if term.negated else text, *parameters)
    return Condition(" AND ".join(made.parts) or "1", tuple(made.parameters))


class _Built:
    def __init__(self) -> None:
        self.parts: list[str] = []
        self.parameters: list[Any] = []

    def add(self, text: str, *parameters: Any) -> None:
        self.parts.append(text)
        self.parameters += parameters


def _spans(filter: Filter, made: _Built, run_by_run: bool) -> None:
    wanted = [_on_span(term) for term in filter.on_span]
    unwanted = [_on_span(term) for term in filter.not_on_span]
    if wanted:
        # IFNULL, because what a span does not have is NULL, and so is its negation.
        absent = [f"NOT IFNULL({each[0]}, 0)" for each in unwanted]
        text = " AND ".join([*(each[0] for each in wanted), *absent])
        parameters = [value for each in (*wanted, *unwanted) for value in each[1]]
        made.add((_EXISTS if run_by_run else _IN).format(text), *parameters)
        return
    for text, values in unwanted:
        made.add(f"NOT {_IN.format(text)}", *values)


_IN: Final = "r.id IN (SELECT s.run FROM acrux_spans s WHERE {})"
_EXISTS: Final = "EXISTS (SELECT 1 FROM acrux_spans s INDEXED BY acrux_spans_id WHERE s.run = r.id AND {})"


def _on_span(term: Term) -> tuple[str, tuple[Any, ...]]:
    if term.key == "warning":
        return "s.warned = 1", ()
    operator = _OPERATORS[term.operator] if term.key in ("attempts", "duration") else "="
    return f"s.{term.key} {operator} ?", (term.value,)


Made = tuple[str, tuple[Any, ...]]


def _text(term: Term) -> Made:
    return (
        "EXISTS (SELECT 1 FROM acrux_spans s JOIN acrux_bodies b ON b.id = s.id WHERE s.run = r.id AND "
        "(span_has_text(b.body, ?) OR s.source IN "
        "(SELECT id FROM acrux_sources WHERE source_has_text(body, ?))))",
        (term.text.lower(), term.text.lower()),
    )


def _attribute(term: Term) -> Made:
    given = (term.name, term.text)
    return (
        "EXISTS (SELECT 1 FROM acrux_spans s JOIN acrux_bodies b ON b.id = s.id WHERE s.run = r.id AND "
        "(span_has_attribute(b.body, ?, ?) OR s.source IN "
        "(SELECT id FROM acrux_sources WHERE source_has_attribute(body, ?, ?))))",
        (*given, *given),
    )


def _trace_id(term: Term) -> Made:
    return "r.trace_id = ?", (bytes.fromhex(term.text),)


_ON_RUN: Final[dict[str, Callable[[Term], Made]]] = {
    "status": lambda term: ("r.errors > 0" if term.value == "error" else "r.errors = 0", ()),
    "service": lambda term: ("r.id IN (SELECT run FROM acrux_services WHERE service = ?)", (term.value,)),
    "tag": lambda term: ("r.id IN (SELECT run FROM acrux_tags WHERE tag = ?)", (term.value,)),
    "run": _trace_id,
    "trace": _trace_id,
    "text": _text,
    "attribute": _attribute,
}
