# SPDX-License-Identifier: Apache-2.0
"""What may come next in a filter that is being typed."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable
from typing import Final

from acrux_otel.query.fields import FIELDS, Kind

__all__ = ["Completion", "complete", "quoted"]

_LISTED: Final = 20
_TERM: Final = re.compile(r'(?:"(?:[^"\\]|\\.)*"?|[^\s"])+\Z')
_PLAIN: Final = re.compile(r'[^\s"]+').fullmatch
_SUGGESTED: Final = {
    Kind.MOMENT: ("15m", "1h", "24h", "7d"),
    Kind.DURATION: (">100ms", ">1s", ">10s"),
    Kind.COUNT: (">1", ">2"),
}

Seen = Callable[[str, str], Iterable[str]]


@dataclasses.dataclass(frozen=True)
class Completion:
    """One proposal: put `text` in place of the filter's characters from `start` to `end`."""

    text: str
    help: str
    start: int
    end: int


def complete(filter: str, at: int, seen: Seen) -> list[Completion]:
    """Proposals for the term before the caret.

    Args:
        filter: what is in the box.
        at: the caret, in characters.
        seen: gives the values of ``error_code``, ``tool``, ``service`` or ``tag`` that begin with a text.
    """
    match = _TERM.search(filter[:at])
    term = match[0] if match else ""
    start = at - len(term)
    dash = "-" if term.startswith("-") else ""
    key, colon, value = term[len(dash) :].partition(":")
    if not colon:
        return [
            Completion(f"{dash}{field.key}:", field.help, start, at)
            for field in FIELDS.values()
            if field.key.startswith(key.lower())
        ]
    return [
        Completion(f"{dash}{key}:{quoted(each)} ", "", start, at)
        for each in _values(key, value.strip('"'), seen)
    ][:_LISTED]


def _values(key: str, begun: str, seen: Seen) -> Iterable[str]:
    field = FIELDS.get(key)
    if field is None:
        return ()
    if field.key in ("error_code", "tool", "service", "tag"):
        return seen(field.key, begun)
    known = field.values or _SUGGESTED.get(field.kind, ())
    return [each for each in known if each.startswith(begun)]


def quoted(value: str) -> str:
    """A value as it is typed: in quotes where it must be."""
    if _PLAIN(value):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
