# SPDX-License-Identifier: Apache-2.0
"""Text -> Filter. The only parser of the filter language."""

from __future__ import annotations

import difflib
import re
import time
from collections.abc import Iterable
from typing import Final

from acrux_otel.query import values
from acrux_otel.query.fields import ATTRIBUTE_PREFIX, FIELDS, Field, Kind, Scope
from acrux_otel.query.terms import ATTRIBUTE, TEXT, Filter, FilterError, Term

__all__ = ["LONGEST", "parse"]

LONGEST: Final = 4096  # characters; a filter is typed by a person
_KEY: Final = re.compile(r"([A-Za-z_][\w./@-]*):")
_OPERATOR: Final = re.compile(r">=|<=|>|<|=")
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.)*)"')
_BARE: Final = re.compile(r"\S+")
_JOINERS: Final = {
    "AND": "terms are joined by AND as they are",
    "OR": "there is no OR",
    "NOT": "negate a term with - before it",
}
_COMPARED: Final = (Kind.COUNT, Kind.DURATION)


def parse(text: str, now: int | None = None) -> Filter:
    """Read a filter.

    Args:
        text: such as ``error_type:tool_declared status:error``.
        now: nanoseconds since 1970, to which ``since:1h`` refers; the clock by default.

    Raises:
        FilterError: with the position and what was expected.
    """
    return _Parser(text, time.time_ns() if now is None else now).filter()


class _Parser:
    def __init__(self, text: str, now: int) -> None:
        self._text, self._now, self._at = text, now, 0

    def filter(self) -> Filter:
        if len(self._text) > LONGEST:
            raise self._error(
                f"the filter has {len(self._text)} characters; at most {LONGEST} are read", LONGEST, LONGEST
            )
        terms: list[Term] = []
        while self._skip_spaces():
            term = self._term()
            self._contradicts(term, terms)
            terms.append(term)
        return Filter(self._text, tuple(terms))

    def _skip_spaces(self) -> bool:
        while self._at < len(self._text) and self._text[self._at].isspace():
            self._at += 1
        return self._at < len(self._text)

    def _term(self) -> Term:
        start = self._at
        negated = self._text[start] == "-"
        self._at += negated
        if self._at == len(self._text) or self._text[self._at].isspace():
            raise self._error("- stands before a term that it negates", start, self._at)
        key = _KEY.match(self._text, self._at)
        term = self._free_text(start, negated) if key is None else self._field(start, key, negated)
        if not (self._at == len(self._text) or self._text[self._at].isspace()):
            raise self._error("a space must stand after a closing quote", self._at, self._at + 1)
        return term

    def _free_text(self, start: int, negated: bool) -> Term:
        at = self._at
        quoted = self._text[at] == '"'
        text = self._value()
        if not quoted and text in _JOINERS:
            raise self._error(
                f'{_JOINERS[text]}; to search for the word, put it in quotes: "{text}"', at, self._at
            )
        if not text:
            raise self._error("the quotes hold nothing to search for", at, self._at)
        return self._made(TEXT, text, start, negated)

    def _field(self, start: int, key: re.Match[str], negated: bool) -> Term:
        name = key[1]
        self._at = key.end()
        if name.startswith(ATTRIBUTE_PREFIX):
            if name == ATTRIBUTE_PREFIX:
                raise self._error("tag. wants an attribute's name: tag.KEY:VALUE", key.start(), key.end())
            return self._made(
                ATTRIBUTE, self._value_of(name, key), start, negated, name=name[len(ATTRIBUTE_PREFIX) :]
            )
        field = FIELDS.get(name)
        if field is None:
            raise self._unknown_key(name, key.start(1), key.end(1))
        if negated and field.scope is Scope.WINDOW:
            raise self._error(f"{name}: cannot be negated; use since: and until:", start, key.end())
        operator = self._operator(field)
        at = self._at
        value = self._read(field, self._value_of(name, key), operator, at)
        if field.key == "warning" and value == "no":
            value, negated = "yes", not negated
        return self._made(field.key, value, start, negated, operator=operator)

    def _operator(self, field: Field) -> str:
        match = _OPERATOR.match(self._text, self._at)
        if match is None or field.kind not in _COMPARED:
            return "="
        self._at = match.end()
        return match[0]

    def _value_of(self, name: str, key: re.Match[str]) -> str:
        if self._at == len(self._text) or self._text[self._at].isspace():
            field = FIELDS.get(name)
            expected = f": {_expected(field)}" if field is not None else ""
            raise self._error(f"{name}: wants a value right after it{expected}", key.start(), self._at)
        return self._value()

    def _value(self) -> str:
        if self._text[self._at] == '"':
            match = _QUOTED.match(self._text, self._at)
            if match is None:
                raise self._error("the quote is not closed", self._at, len(self._text))
            self._at = match.end()
            return re.sub(r'\\(["\\])', r"\1", match[1])
        match = _BARE.match(self._text, self._at)
        assert match is not None
        quote = match[0].find('"')
        if quote >= 0:
            at = self._at + quote
            raise self._error("a quote inside a word; put the whole value in quotes", at, at + 1)
        self._at = match.end()
        return match[0]

    def _read(self, field: Field, text: str, operator: str, at: int) -> str | int:
        read: str | int | None = text
        if field.kind is Kind.CHOICE:
            read = text if text in field.values else None
        elif field.kind is Kind.TRACE_ID:
            read = values.trace_id(text)
        elif field.kind is Kind.COUNT:
            read = values.count(text)
        elif field.kind is Kind.DURATION:
            read = values.duration(text) if operator != "=" else None
        elif field.kind is Kind.MOMENT:
            read = values.moment(text, self._now)
        if read is None:
            raise self._error(
                f"{field.key}: is {text!r}; expected {_expected(field)}{_hint(field, text)}", at, self._at
            )
        return read

    def _made(
        self, key: str, value: str | int, start: int, negated: bool, *, name: str = "", operator: str = "="
    ) -> Term:
        return Term(key, value, self._text[start : self._at], start, self._at, name, operator, negated)

    def _contradicts(self, term: Term, earlier: Iterable[Term]) -> None:
        """A span has one tool, a run one id: two different ones would never be found, and say nothing."""
        field = FIELDS.get(term.key)
        if field is None or not field.once or term.negated:
            return
        same = {"run", "trace"} if term.key in ("run", "trace") else {term.key}
        for other in earlier:
            if other.key in same and not other.negated:
                whose = "one span" if term.scope is Scope.SPAN else "one run"
                raise self._error(
                    f"{term.key}: was given before, at column {other.start + 1}; {whose} has one",
                    term.start,
                    term.end,
                )

    def _unknown_key(self, name: str, start: int, end: int) -> FilterError:
        near = _nearest(name.lower(), FIELDS)
        hint = f"did you mean {near}:?" if near else f"expected {', '.join(FIELDS)} or tag.KEY."
        return self._error(
            f"unknown key {name!r}; {hint} To search for the text, put it in quotes", start, end
        )

    def _error(self, problem: str, start: int, end: int) -> FilterError:
        return FilterError(problem, self._text, start, end)


def _expected(field: Field) -> str:
    if not field.values:
        return field.kind.value
    return f"{', '.join(field.values[:-1])} or {field.values[-1]}"


def _hint(field: Field, text: str) -> str:
    if field.key == "status" and text in ("warning", "amber", "warned"):
        return "; for runs that carry a warning: warning:yes"
    near = _nearest(text.lower(), field.values)
    return f"; did you mean {field.key}:{near}?" if near else ""


def _nearest(text: str, known: Iterable[str]) -> str | None:
    return next(iter(difflib.get_close_matches(text, list(known), n=1, cutoff=0.6)), None)
