# SPDX-License-Identifier: Apache-2.0
"""A parsed filter as plain values, and the error of one that cannot be parsed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Final

from acrux_otel.query.fields import ATTRIBUTE_PREFIX, FIELDS, Scope

__all__ = ["Filter", "FilterError", "Term"]

TEXT: Final = "text"
ATTRIBUTE: Final = "attribute"


class FilterError(ValueError):
    """What is wrong with a filter, and where.

    Attributes:
        problem: one line without the position.
        start, end: the part of `filter` that is meant, in characters from 0.
    """

    def __init__(self, problem: str, filter: str, start: int, end: int) -> None:
        super().__init__(f"{problem} (column {start + 1})")
        self.problem, self.filter, self.start, self.end = problem, filter, start, end

    def pointed(self) -> str:
        """The problem with the filter below it and the part marked."""
        line = "".join(char if char.isprintable() else " " for char in self.filter)
        return f"{self}\n  {line}\n  {' ' * self.start}{'^' * max(1, self.end - self.start)}"


@dataclasses.dataclass(frozen=True)
class Term:
    """One condition.

    Attributes:
        key: a key of `FIELDS`, `attribute` for ``tag.KEY:``, or `text` for free text.
        value: text; a whole number for attempts; nanoseconds for duration, since and until.
        name: the attribute's name where key is `attribute`.
        operator: ``=``, ``>``, ``>=``, ``<`` or ``<=``.
        negated: with a ``-`` before it.
        source: as typed, for a person.
        start, end: where in the filter, in characters from 0.
    """

    key: str
    value: str | int
    source: str
    start: int = 0
    end: int = 0
    name: str = ""
    operator: str = "="
    negated: bool = False

    @property
    def scope(self) -> Scope:
        field = FIELDS.get(self.key)
        return field.scope if field is not None else Scope.RUN

    @property
    def label(self) -> str:
        """The key as typed."""
        return ATTRIBUTE_PREFIX + self.name if self.key == ATTRIBUTE else self.key

    @property
    def text(self) -> str:
        """The value, where it is one of text."""
        assert isinstance(self.value, str)
        return self.value

    @property
    def number(self) -> int:
        """The value, where it is a number."""
        assert isinstance(self.value, int)
        return self.value


@dataclasses.dataclass(frozen=True)
class Filter:
    """All the conditions that a run must meet.

    Terms about one span belong together: `on_span` must hold, and `not_on_span` must not, on the same span.
    Where nothing but `not_on_span` is given, no span of the run may meet any of them.
    """

    source: str
    terms: tuple[Term, ...]

    def __iter__(self) -> Iterator[Term]:
        return iter(self.terms)

    @property
    def on_span(self) -> list[Term]:
        return [term for term in self.terms if term.scope is Scope.SPAN and not term.negated]

    @property
    def not_on_span(self) -> list[Term]:
        return [term for term in self.terms if term.scope is Scope.SPAN and term.negated]

    @property
    def on_run(self) -> list[Term]:
        """The terms about the run, `text` and `attribute` among them."""
        return [term for term in self.terms if term.scope is Scope.RUN]

    @property
    def since(self) -> int | None:
        """The earliest beginning of a run, in nanoseconds since 1970."""
        return self._moment("since")

    @property
    def until(self) -> int | None:
        """The latest beginning of a run, in nanoseconds since 1970."""
        return self._moment("until")

    @property
    def trace_id(self) -> str | None:
        """The one run that is asked for."""
        return next(
            (term.text for term in self.terms if term.key in ("run", "trace") and not term.negated), None
        )

    @property
    def reads_attributes(self) -> bool:
        """Whether free text or any attribute is asked for, for which no store has an index of ours."""
        return any(term.key in (TEXT, ATTRIBUTE) for term in self.terms)

    def without(self, dropped: Term) -> str:
        """The filter as typed, without one of its terms."""
        return " ".join(term.source for term in self.terms if term is not dropped)

    def _moment(self, key: str) -> int | None:
        return next((term.number for term in self.terms if term.key == key), None)
