# SPDX-License-Identifier: Apache-2.0
"""Text -> Filter: what is read, and what each mistake is told."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acrux_otel.query import Filter, FilterError, parse
from acrux_otel.query.fields import FIELDS
from acrux_otel.query.parser import LONGEST

NOW = 1_800_000_000_000_000_000
HOUR = 3_600_000_000_000


def read(text: str) -> list[tuple[str, str, str | int, bool]]:
    return [(term.label, term.operator, term.value, term.negated) for term in parse(text, NOW)]


def outcome(text: str) -> tuple[Filter, FilterError | None]:
    try:
        return parse(text, NOW), None
    except FilterError as error:
        return Filter(text, ()), error


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("", []),
        ("   ", []),
        (
            "error_type:tool_declared status:error",
            [("error_type", "=", "tool_declared", False), ("status", "=", "error", False)],
        ),
        ("error_code:Location_Not_Found", [("error_code", "=", "Location_Not_Found", False)]),
        ("warning:yes", [("warning", "=", "yes", False)]),
        ("warning:no", [("warning", "=", "yes", True)]),
        ("-warning:no", [("warning", "=", "yes", False)]),
        ('tool:"get weather"', [("tool", "=", "get weather", False)]),
        (r'tool:"a \"b\" \\ \n"', [("tool", "=", r'a "b" \ \n', False)]),
        ("-tool:billing", [("tool", "=", "billing", True)]),
        ("attempts:>2", [("attempts", ">", 2, False)]),
        ("attempts:3", [("attempts", "=", 3, False)]),
        (
            "duration:>1s duration:<=1500ms",
            [("duration", ">", 10**9, False), ("duration", "<=", 15 * 10**8, False)],
        ),
        ("duration:>=0.25s", [("duration", ">=", 250_000_000, False)]),
        ("duration:<2m", [("duration", "<", 120 * 10**9, False)]),
        ("tag.http.response.status_code:503", [("tag.http.response.status_code", "=", "503", False)]),
        ("tag:declared", [("tag", "=", "declared", False)]),
        ("run:0123456789ABCDEF0123456789abcdef", [("run", "=", "0123456789abcdef0123456789abcdef", False)]),
        (
            "trace:01234567-89ab-cdef-0123-456789abcdef",
            [("trace", "=", "0123456789abcdef0123456789abcdef", False)],
        ),
        ("since:1h", [("since", "=", NOW - HOUR, False)]),
        ("until:2026-11-30T18:00Z", [("until", "=", 1_796_061_600_000_000_000, False)]),
        ("Atlantis -Kathmandu", [("text", "=", "Atlantis", False), ("text", "=", "Kathmandu", True)]),
        ('"status:error"', [("text", "=", "status:error", False)]),
        ("12:30", [("text", "=", "12:30", False)]),
        ("service:weather-brief", [("service", "=", "weather-brief", False)]),
    ],
)
def test_what_is_read(text: str, terms: list[tuple[str, str, str | int, bool]]) -> None:
    """Keys, quotes, negation, comparisons, units and times each have one meaning."""
    assert read(text) == terms


@pytest.mark.parametrize(
    ("text", "marked", "said"),
    [
        ("status:error eror_type:x", "eror_type", "did you mean error_type:?"),
        ("Status:error", "Status", "did you mean status:?"),
        ("colour:red", "colour", "expected status, error_type, error_code"),
        ("http://host", "http", "put it in quotes"),
        ("status:Error", "Error", "expected error or ok; did you mean status:error?"),
        ("status:warning", "warning", "warning:yes"),
        ("error_type:tool_declard", "tool_declard", "did you mean error_type:tool_declared?"),
        ("outcome:failed", "failed", "expected ok, warning, error"),
        ("tool:", "tool:", "wants a value right after it"),
        ("tool: x", "tool:", "wants a value right after it"),
        ("tag.:x", "tag.:", "tag.KEY:VALUE"),
        ("duration:1s", "1s", "a length of time after >"),
        ("duration:>fast", "fast", "such as >1s"),
        ("attempts:>two", "two", "a whole number"),
        ("attempts:>-1", "-1", "a whole number"),
        ("run:abc", "abc", "32 hexadecimal digits"),
        ("since:yesterday", "yesterday", "how long ago, such as 30m"),
        ("-since:1h", "-since:", "cannot be negated"),
        ('a "open', '"open', "the quote is not closed"),
        ('tool:a"b"', '"', "put the whole value in quotes"),
        ('"a"b', "b", "a space must stand after a closing quote"),
        ('""', '""', "nothing to search for"),
        ("a -", "-", "stands before a term"),
        ("tool:a OR tool:b", "OR", "there is no OR"),
        ("NOT a", "NOT", "negate a term with -"),
        ("tool:a tool:b", "tool:b", "was given before, at column 1; one span has one"),
        ("status:ok status:error", "status:error", "one run has one"),
    ],
)
def test_what_is_wrong_is_marked_and_said(text: str, marked: str, said: str) -> None:
    """An error names the part that is meant, by its position, and what was expected."""
    with pytest.raises(FilterError) as caught:
        parse(text)
    error = caught.value
    assert text[error.start : error.end] == marked
    assert said in error.problem
    first, shown, arrows = error.pointed().splitlines()
    assert f"column {error.start + 1}" in first
    assert shown[arrows.index("^") : arrows.rindex("^") + 1] == marked


def test_a_filter_longer_than_a_person_types_is_refused() -> None:
    """The limit is said; what is as long as the limit is read."""
    assert parse("a" * LONGEST).terms[0].value == "a" * LONGEST
    with pytest.raises(FilterError, match="at most 4096"):
        parse("a" * (LONGEST + 1))


def test_a_time_without_a_zone_is_this_computers() -> None:
    """`since:2026-11-30T18:00` means what the clock on the wall says."""
    wall = datetime.datetime(2026, 11, 30, 18, 0).astimezone()
    assert parse("since:2026-11-30T18:00").since == int(wall.timestamp()) * 10**9


def test_a_term_is_taken_out_as_it_was_typed() -> None:
    """What is left of a filter after one chip is removed is the rest of its text."""
    filter = parse('status:error  tool:"get weather" -tag:silent')
    assert filter.without(filter.terms[0]) == 'tool:"get weather" -tag:silent'
    assert filter.without(filter.terms[1]) == "status:error -tag:silent"


@given(st.text(max_size=60))
def test_any_text_is_a_filter_or_a_marked_mistake(text: str) -> None:
    """Nothing else comes out of the parser, and every term's source reads to the same term again."""
    filter, mistake = outcome(text)
    if mistake is not None:
        assert 0 <= mistake.start <= mistake.end <= len(text)
        return
    for term in filter:
        (again,) = parse(term.source, NOW).terms
        assert (again.key, again.name, again.operator, again.value, again.negated) == (
            term.key,
            term.name,
            term.operator,
            term.value,
            term.negated,
        )


_FRAGMENTS = st.sampled_from(
    [*(f"{key}:" for key in FIELDS), "-", '"', "\\", " ", "tag.a:", "error", "yes", ">", "1s", "2", "x"]
)


@given(st.lists(_FRAGMENTS, max_size=12).map("".join))
def test_any_mixture_of_what_the_language_is_made_of_is_read_or_marked(text: str) -> None:
    """The parser never fails in another way, close to valid filters too."""
    _, mistake = outcome(text)
    assert mistake is None or mistake.pointed().count("\n") == 2
