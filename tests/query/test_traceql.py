# SPDX-License-Identifier: Apache-2.0
"""Filter -> TraceQL: what is sent, what is refused, and Grafana's grammar takes all of it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acrux_otel.query import FilterError, parse, traceql

from .traceql_gate import rejected

QUERIES = {
    "": "{ }",
    "error_type:tool_declared": '{ span.errorType = "tool_declared" }',
    "error_type:tool_declared status:error": '{ span.errorType = "tool_declared" } && { status = error }',
    "error_code:http_503 tool:pay": '{ span.errorCode = "http_503" && span.gen_ai.tool.name = "pay" }',
    "tool:x -error_code:a": '{ span.gen_ai.tool.name = "x" && '
    '(span.errorCode = nil || span.errorCode != "a") }',
    "warning:yes": '{ (span.acrux.tool.outcome = "warning" || span.warning.type != nil) }',
    "tool:x warning:no": '{ span.gen_ai.tool.name = "x" && (span.acrux.tool.outcome = nil || '
    'span.acrux.tool.outcome != "warning") && span.warning.type = nil }',
    "attempts:>2": "{ span.acrux.tool.attempts > 2 }",
    "duration:>1s outcome:error": '{ duration > 1000000000ns && span.acrux.tool.outcome = "error" }',
    "outcome:error -duration:>1s": '{ span.acrux.tool.outcome = "error" && duration <= 1000000000ns }',
    "-status:ok": "{ status = error }",
    "service:shop tag:declared": '{ resource.service.name = "shop" } && { span.acrux.tag.declared = true }',
    'tag:"not found"': '{ span."acrux.tag.not found" = true }',
    "tag.http.response.status_code:503": '{ .http.response.status_code = "503" || '
    ".http.response.status_code = 503 }",
    "tag.ok:true": '{ .ok = "true" || .ok = true }',
    "tag.share:0.5": '{ .share = "0.5" || .share = 0.5 }',
    "run:0123456789abcdef0123456789abcdef": '{ trace:id = "0123456789abcdef0123456789abcdef" }',
    r'tool:"a\"} || {\\"': r'{ span.gen_ai.tool.name = "a\"} || {\\" }',
}


@pytest.mark.parametrize(("text", "query"), QUERIES.items())
def test_what_is_sent(text: str, query: str) -> None:
    """Terms about one span share one spanset; terms about the run have one each."""
    assert traceql(parse(text)) == query


def test_grafanas_grammar_takes_every_query() -> None:
    """@grafana/lezer-traceql finds no error in any of them, and does find those that are there."""
    assert rejected([*QUERIES.values(), "{ span.a = }"]) == ["{ span.a = }"]


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("status:ok", "status:ok"),
        ("tool:x -status:error", "-status:error"),
        ("warning:no", "warning:no"),
        ("status:error -tool:x", "-tool:x"),
        ("-service:shop", "-service:shop"),
        ("-tag:silent", "-tag:silent"),
        ("tool:x Atlantis", "Atlantis"),
    ],
)
def test_what_traceql_cannot_say_is_an_error_that_marks_it(text: str, marked: str) -> None:
    """Absence over a whole run, and free text, have no words in TraceQL: nothing wider is sent instead."""
    with pytest.raises(FilterError, match="TraceQL cannot say") as caught:
        traceql(parse(text))
    assert text[caught.value.start : caught.value.end] == marked


@settings(max_examples=1, deadline=None)
@given(
    st.lists(
        st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12),
        min_size=60,
        max_size=60,
    )
)
def test_no_value_breaks_out_of_its_quotes(values: list[str]) -> None:
    """Whatever the value or the attribute's name holds, the grammar reads one literal."""
    queries = []
    for value in values:
        quoted = value.replace("\\", "\\\\").replace('"', '\\"')
        queries.append(traceql(parse(f'tool:"{quoted}" tag:"{quoted}"')))
    assert rejected(queries) == []
