# SPDX-License-Identifier: Apache-2.0
"""Filter -> a condition on the local store's tables. Every value is a bound parameter.

The tables are those of `acrux_otel.local.schema`: ``runs r`` and ``spans``. `span_has_text` and
`span_has_attribute` are functions that the store gives to its connections.
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
    """A WHERE clause over ``runs r``, and the values of its parameters."""

    where: str
    parameters: tuple[Any, ...]


def condition(filter: Filter, since: int | None = None) -> Condition:
    """The runs that meet ``filter``.

    Args:
        filter: what is asked for.
        since: nanoseconds since 1970; bounds a filter that does not say ``since:`` itself.
    """
    made = _Built()
    earliest = filter.since if filter.since is not None else since
    if earliest is not None:
        made.add("r.start >= ?", earliest)
    if filter.until is not None:
        made.add("r.start <= ?", filter.until)
    _spans(filter, made)
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


def _spans(filter: Filter, made: _Built) -> None:
    wanted = [_on_span(term) for term in filter.on_span]
    unwanted = [_on_span(term) for term in filter.not_on_span]
    if wanted:
        text = " AND ".join([*(each[0] for each in wanted), *(f"NOT ({each[0]})" for each in unwanted)])
        parameters = [value for each in (*wanted, *unwanted) for value in each[1]]
        made.add(f"r.id IN (SELECT s.run FROM spans s WHERE {text})", *parameters)
        return
    for text, values in unwanted:
        made.add(f"r.id NOT IN (SELECT s.run FROM spans s WHERE {text})", *values)


def _on_span(term: Term) -> tuple[str, tuple[Any, ...]]:
    """A condition that is true or false and never NULL, so that it can be negated."""
    if term.key == "warning":
        return "s.warned = 1", ()
    if term.key in ("attempts", "duration"):
        column = f"s.{term.key}"
        return f"({column} IS NOT NULL AND {column} {_OPERATORS[term.operator]} ?)", (term.value,)
    return f"s.{term.key} IS ?", (term.value,)


Made = tuple[str, tuple[Any, ...]]


def _service(term: Term) -> Made:
    return (
        "r.id IN (SELECT s.run FROM spans s WHERE s.resource IN "
        "(SELECT id FROM resources WHERE service = ?))",
        (term.value,),
    )


def _text(term: Term) -> Made:
    return (
        "EXISTS (SELECT 1 FROM spans s JOIN bodies b ON b.id = s.id WHERE s.run = r.id AND "
        "(span_has_text(b.body, ?) OR s.resource IN "
        "(SELECT id FROM resources WHERE resource_has_text(body, ?))))",
        (term.text.lower(), term.text.lower()),
    )


def _attribute(term: Term) -> Made:
    given = (term.name, term.text)
    return (
        "EXISTS (SELECT 1 FROM spans s JOIN bodies b ON b.id = s.id WHERE s.run = r.id AND "
        "(span_has_attribute(b.body, ?, ?) OR s.resource IN "
        "(SELECT id FROM resources WHERE resource_has_attribute(body, ?, ?))))",
        (*given, *given),
    )


def _trace_id(term: Term) -> Made:
    return "r.trace_id = ?", (bytes.fromhex(term.text),)


_ON_RUN: Final[dict[str, Callable[[Term], Made]]] = {
    "status": lambda term: ("r.errors > 0" if term.value == "error" else "r.errors = 0", ()),
    "service": _service,
    "tag": lambda term: ("r.id IN (SELECT run FROM tags WHERE tag = ?)", (term.value,)),
    "run": _trace_id,
    "trace": _trace_id,
    "text": _text,
    "attribute": _attribute,
}
