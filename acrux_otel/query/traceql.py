# SPDX-License-Identifier: Apache-2.0
"""Filter -> TraceQL, the language of Grafana Tempo. https://grafana.com/docs/tempo/latest/traceql/

What TraceQL cannot say is an error; the window (since:, until:) goes beside the query, as Tempo wants it.
"""

from __future__ import annotations

import re
from typing import Final

from acrux_otel import attributes as names
from acrux_otel.query.terms import Filter, FilterError, Term

__all__ = ["traceql"]

_PLAIN: Final = re.compile(r"[A-Za-z_][\w.]*").fullmatch
_WHOLE: Final = re.compile(r"-?(0|[1-9][0-9]{0,17})").fullmatch
_DECIMAL: Final = re.compile(r"-?(0|[1-9][0-9]{0,14})\.[0-9]{1,15}").fullmatch
_SPAN_ATTRIBUTES: Final = {
    "error_type": names.ERROR_TYPE,
    "error_code": names.ERROR_CODE,
    "tool": names.TOOL_NAME,
    "outcome": names.OUTCOME,
    "attempts": names.ATTEMPTS,
}


def traceql(filter: Filter) -> str:
    """The query.

    Raises:
        FilterError: a term that TraceQL cannot express.
    """
    if not filter.on_span:
        for term in filter.not_on_span:
            raise _cannot(filter, term, "that no span of a run has something")
    groups = [_run_group(filter, term) for term in filter.on_run]
    if filter.on_span:
        conditions = [*map(_condition, filter.on_span), *map(_absent, filter.not_on_span)]
        groups.insert(0, f"{{ {' && '.join(conditions)} }}")
    return " && ".join(groups) or "{ }"


def _run_group(filter: Filter, term: Term) -> str:
    if term.key == "text":
        raise _cannot(filter, term, "free text over all attributes", "use tag.KEY:VALUE")
    if term.key == "status" and (term.value == "ok") != term.negated:
        raise _cannot(
            filter,
            term,
            "that no span of a run is ERROR",
            f"a run's own summary is tag.{names.TRACE_OUTCOME}:ok",
        )
    if term.negated and term.key != "status":
        raise _cannot(filter, term, "that no span of a run has something")
    return f"{{ {_condition(term)} }}"


def _condition(term: Term) -> str:
    if term.key == "status":
        return "status = error"
    if term.key == "warning":
        return f'(span.{names.OUTCOME} = "warning" || span.{names.WARNING_TYPE} != nil)'
    if term.key == "duration":
        return f"duration {term.operator} {term.value}ns"
    if term.key == "attempts":
        return f"span.{names.ATTEMPTS} {term.operator} {term.value}"
    if term.key in ("run", "trace"):
        return f"trace:id = {_quoted(term.text)}"
    if term.key == "service":
        return f"resource.service.name = {_quoted(term.text)}"
    if term.key == "tag":
        return f"{_attribute('span', names.TAG_PREFIX + term.text)} = true"
    if term.key == "attribute":
        return " || ".join(f"{_attribute('', term.name)} = {value}" for value in _typed(term.text))
    return f"span.{_SPAN_ATTRIBUTES[term.key]} = {_quoted(term.text)}"


def _absent(term: Term) -> str:
    """A condition that also holds where the attribute is not there: TraceQL's ``!=`` does not."""
    if term.key == "warning":
        other = f'(span.{names.OUTCOME} = nil || span.{names.OUTCOME} != "warning")'
        return f"{other} && span.{names.WARNING_TYPE} = nil"
    if term.key == "duration":
        return f"duration {_OPPOSITE[term.operator]} {term.value}ns"
    attribute = f"span.{_SPAN_ATTRIBUTES[term.key]}"
    value = str(term.value) if term.key == "attempts" else _quoted(term.text)
    return f"({attribute} = nil || {attribute} {_OPPOSITE[term.operator]} {value})"


_OPPOSITE: Final = {"=": "!=", ">": "<=", ">=": "<", "<": ">=", "<=": ">"}


def _attribute(scope: str, key: str) -> str:
    return f"{scope}.{key}" if _PLAIN(key) else f"{scope}.{_quoted(key)}"


def _typed(text: str) -> list[str]:
    """The literals that ``text`` may stand for: TraceQL compares within one type only."""
    literals = [_quoted(text)]
    if text in ("true", "false") or _WHOLE(text) or _DECIMAL(text):
        literals.append(text)
    return literals


def _quoted(text: str) -> str:
    """A string literal; TraceQL's escapes are Go's."""
    made = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(char if char.isprintable() else _escaped(char) for char in made) + '"'


def _escaped(char: str) -> str:
    point = ord(char)
    return f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"


def _cannot(filter: Filter, term: Term, what: str, instead: str = "") -> FilterError:
    hint = f"; {instead}" if instead else ""
    return FilterError(f"TraceQL cannot say {what}: {term.source}{hint}", filter.source, term.start, term.end)
