# SPDX-License-Identifier: Apache-2.0
"""One filter, one answer: judged in memory, by the local store, and by a real Jaeger."""

from __future__ import annotations

import secrets
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from backends.conftest import jaeger, jaeger_binary  # noqa: F401
from backends.servers import Jaeger as JaegerServer
from otlp_corpus import MS, Run, request

from acrux_otel.local.store import Store
from acrux_otel.query import Filter, Trace, matches, parse
from acrux_otel.query.jaeger import Jaeger

# Unique, because one Jaeger serves the whole session.
MARK = secrets.token_hex(4)


def runs() -> dict[str, tuple[Run, str]]:
    """Runs by the names that the tests use, and the service that sent them."""
    made: dict[str, tuple[Run, str]] = {}

    def add(name: str, service: str = "shop", ago: float = 60, tags: tuple[str, ...] = ()) -> Run:
        run = Run(f"{name}-{MARK}", ago=ago, tags=tags)
        made[name] = (run, f"{service}-{MARK}")
        return run

    add("green", tags=("declared", "ok")).call("weather")
    add("red", tags=("declared",)).call("weather", "error", "location_not_found", detail='no city "Atlantis"')
    add("amber", tags=("declared",)).call("weather", "warning", "ambiguous_city", detail="matches India")
    both = add("both", "billing")
    both.call(
        "pay",
        "error",
        "http_503",
        "http_status",
        given={"http.response.status_code": 503, "acrux.tool.attempts": 3},
    )
    both.call("weather", "warning", "ambiguous_city")
    slow = add("slow", "billing")
    slow.call("pay", took=4000)
    slow.call("weather", "error", "Location_Not_Found")
    twice = add("twice")
    twice.call("pay", "error", "http_503", "http_status", given={"acrux.tool.attempts": 2})
    twice.call("pay", "error", "http_500", "http_status")
    add("skipped").call("pay", "not_executed")
    add("old", ago=7200).call("weather", "error", "location_not_found")
    broken = add("broken")  # red, and no tool failed
    broken.span(
        "chat", 20, 5, {"gen_ai.request.model": "m-1", "ratio": 0.5, "flag": True}, error="overloaded"
    )
    broken.call("weather", given={"gen_ai.tool.call.arguments": '{"city": "Zürich"}'})
    events = add("events")
    events.span(
        "chat", 20, 5, {"list": ["Alpha", "Beta"]}, events={"exception": {"exception.message": "Boom at Sea"}}
    )
    return made


FILTERS = {
    "": "green red amber both slow twice skipped old broken events",
    "error_type:tool_declared": "red amber both slow old",
    "error_type:tool_declared status:error": "red both slow old",
    "error_type:tool_declared -status:error": "amber",
    "status:ok": "green amber skipped events",
    "error_code:location_not_found": "red old",
    "error_code:Location_Not_Found": "slow",
    "error_code:location_not": "",
    "error_code:http_503 tool:pay": "both twice",
    "error_code:http_503 tool:weather": "",  # not on one span
    "error_type:http_status -error_code:http_503": "twice",
    "-error_code:http_503": "green red amber slow skipped old broken events",
    "warning:yes": "amber both",
    "warning:no": "green red slow twice skipped old broken events",
    "warning:yes status:error": "both",
    "tool:weather warning:no": "green red slow old broken",
    "tool:pay -outcome:ok": "both twice skipped",
    "-tool:weather": "twice skipped events",
    "outcome:not_executed": "skipped",
    "attempts:>2": "both",
    "attempts:2": "twice",
    "attempts:>=2 error_code:http_503": "both twice",
    "attempts:<1": "",
    "duration:>1s": "slow",
    "tool:weather duration:>1s": "",
    "tool:pay -duration:<1s": "slow",
    f"service:billing-{MARK}": "both slow",
    f"-service:billing-{MARK}": "green red amber twice skipped old broken events",
    f"service:shop-{MARK} tool:pay": "twice skipped",
    "tag:declared": "green red amber",
    "-tag:declared": "both slow twice skipped old broken events",
    "tag:declared tag:ok": "green",
    "tag.http.response.status_code:503": "both",
    "tag.gen_ai.request.model:m-1": "broken",
    "tag.ratio:0.5": "broken",
    "tag.flag:true": "broken",
    'tag.list:"[\\"Alpha\\",\\"Beta\\"]"': "events",
    f"tag.gen_ai.agent.name:red-{MARK}": "red",
    "-tag.flag:true tool:weather": "green red amber both slow old",
    "since:1h error_code:location_not_found": "red",
    "until:1h error_code:location_not_found": "old",
    "atlantis": "red",
    '"no city \\"Atlantis\\""': "red",
    "ZÜRICH": "broken",
    "boom": "events",
    "alpha": "events",
    "-atlantis error_type:tool_declared": "amber both slow old",
    "overloaded weather": "broken",
}


@pytest.fixture(scope="module")
def corpus() -> dict[str, tuple[Run, str]]:
    return runs()


@pytest.fixture(scope="module")
def store(corpus: dict[str, tuple[Run, str]], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    made = Store(Path(tmp_path_factory.mktemp("store")) / "acrux.db")
    for run, service in corpus.values():
        made.add(request(run, service=service))
    yield made
    made.close()


@pytest.fixture(scope="module")
def searched(corpus: dict[str, tuple[Run, str]], jaeger: JaegerServer) -> Jaeger:  # noqa: F811
    """A real Jaeger with the same runs."""
    for run, service in corpus.values():
        asked = urllib.request.Request(
            f"{jaeger.http_endpoint}/v1/traces",
            request(run, service=service).SerializeToString(),
            {"Content-Type": "application/x-protobuf"},
        )
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(asked, timeout=10) as answer:
            assert answer.status == 200
    return Jaeger(jaeger.query_endpoint)


EACH_FILTER = pytest.mark.parametrize(
    ("text", "expected"), FILTERS.items(), ids=lambda value: value.replace(MARK, "here")
)


@pytest.fixture(scope="module")
def traces(store: Store, corpus: dict[str, tuple[Run, str]]) -> dict[str, Trace]:
    found = {name: store.trace(run.trace_id) for name, (run, _) in corpus.items()}
    return {name: trace for name, trace in found.items() if trace is not None}


@EACH_FILTER
def test_judged_in_memory(traces: dict[str, Trace], text: str, expected: str) -> None:
    """What each filter means, run by run."""
    assert {name for name, trace in traces.items() if matches(parse(text), trace)} == set(expected.split())


@EACH_FILTER
def test_the_local_store_answers_the_same(
    store: Store, corpus: dict[str, tuple[Run, str]], text: str, expected: str
) -> None:
    """SQL finds exactly the runs that the judgement in memory does, newest first."""
    names = {run.trace_id: name for name, (run, _) in corpus.items()}
    found = store.find(parse(text), 50).runs
    assert {names[line.trace_id] for line in found} == set(expected.split())
    assert [line.start for line in found] == sorted((line.start for line in found), reverse=True)


@pytest.mark.backends
@EACH_FILTER
def test_a_real_jaeger_answers_the_same(
    searched: Jaeger, corpus: dict[str, tuple[Run, str]], text: str, expected: str
) -> None:
    """What Jaeger is asked is never less than the filter, and what it answers is judged to the same runs."""
    names = {run.trace_id: name for name, (run, _) in corpus.items()}
    found = searched.find(parse(text), 1000).runs
    assert {names[line.trace_id] for line in found if line.trace_id in names} == set(expected.split())


def test_lines_are_what_the_spans_say(store: Store, traces: dict[str, Trace]) -> None:
    """The sums that the store keeps are those of the spans, for every run."""
    kept = {line.trace_id: line for line in store.find(parse(""), 50).runs}
    for trace in traces.values():
        assert kept[trace.trace_id] == trace.line()


@pytest.mark.backends
def test_jaeger_lines_are_those_of_the_store(
    searched: Jaeger, store: Store, corpus: dict[str, tuple[Run, str]]
) -> None:
    """A run from Jaeger is the run of the store, in all that a line says; times to the microsecond."""
    kept = {line.trace_id: line for line in store.find(parse(""), 50).runs}
    found = [line for line in searched.find(parse(""), 1000).runs if line.trace_id in kept]
    assert len(found) == len(corpus)
    for line in found:
        ours = kept[line.trace_id]
        assert line.start == ours.start // 1000 * 1000
        for field in ("name", "status", "failed", "warned", "spans", "services"):
            assert getattr(line, field) == getattr(ours, field)
        assert set(line.tools) == set(ours.tools)
        assert set(line.tags) == set(ours.tags)


@pytest.mark.backends
def test_more_runs_than_jaeger_answers_at_once_are_all_found(searched: Jaeger, jaeger: JaegerServer) -> None:  # noqa: F811
    """A window that holds more than one answer is halved until each half fits; the newest come first."""
    service = f"many-{secrets.token_hex(4)}"
    many = [Run("many", ago=300 - number / 2) for number in range(450)]
    for run in many:
        run.call("sweep", "error" if run is many[3] else "ok", "dust")
    asked = urllib.request.Request(
        f"{jaeger.http_endpoint}/v1/traces",
        request(*many, service=service).SerializeToString(),
        {"Content-Type": "application/x-protobuf"},
    )
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(asked, timeout=30) as answer:
        assert answer.status == 200

    everything = searched.find(parse(f"service:{service}"), 1000)
    assert {line.trace_id for line in everything.runs} == {run.trace_id for run in many}
    newest = searched.find(parse(f"service:{service} since:1h"), 5)
    assert [line.trace_id for line in newest.runs] == [run.trace_id for run in many[:-6:-1]]
    assert newest.notes == []
    found = searched.find(parse(f"error_code:dust service:{service}"), 5).runs
    assert [line.trace_id for line in found] == [many[3].trace_id]


@pytest.mark.backends
def test_a_run_is_found_by_its_id(searched: Jaeger, store: Store, corpus: dict[str, tuple[Run, str]]) -> None:
    """`run:` takes the id with dashes too, in each place, and the other terms still count."""
    run, _ = corpus["red"]
    dashed = "-".join(run.trace_id[at : at + 8] for at in (0, 8, 16, 24))
    for target in (searched, store):
        assert [line.trace_id for line in target.find(parse(f"run:{dashed}"), 5).runs] == [run.trace_id]
        assert target.find(parse(f"trace:{run.trace_id} status:ok"), 5).runs == []
        assert target.find(parse(f"run:{'1' * 32}"), 5).runs == []


def test_a_bound_that_was_not_asked_for_is_said(store: Store) -> None:
    """Without `since:`, free text and attributes are looked for in the last day, and the answer says so."""
    for text in ("atlantis", "tag.flag:true"):
        assert "last 24 hours" in store.find(parse(text), 5).notes[0]
        assert store.find(parse(f"{text} since:7d"), 5).notes == []
    assert store.find(parse("error_code:location_not_found"), 5).notes == []


def test_free_text_and_attributes_find_what_is_older_when_asked(tmp_path: Path) -> None:
    """`since:` widens the window that is searched without an index."""
    store = Store(tmp_path / "acrux.db")
    old = Run("old", ago=3 * 86400)
    old.call("weather", "error", "x", detail="Atlantis")
    store.add(request(old))
    assert store.find(parse("atlantis"), 5).runs == []
    assert [line.trace_id for line in store.find(parse("atlantis since:7d"), 5).runs] == [old.trace_id]
    store.close()


def test_what_would_be_sent_can_be_seen(searched_offline: Jaeger, store: Store) -> None:
    """`queries` shows Jaeger's URL with its tags, and the store's SQL with its values bound."""
    (url,) = searched_offline.queries(parse("error_code:x tool:y since:1h"))
    assert urllib.parse.parse_qs(urllib.parse.urlsplit(url).query)["tags"] == [
        '{"errorCode": "x", "gen_ai.tool.name": "y"}'
    ]
    where, values, *_ = store.queries(parse("error_code:x'-- -duration:>1s tool:y"))
    assert where.count("?") == 3
    assert values == f'["x\'--", "y", {1000 * MS}]'


@pytest.fixture
def searched_offline() -> Jaeger:
    return Jaeger("http://127.0.0.1:16686/")


def test_status_is_judged_on_all_spans_not_on_the_root(tmp_path: Path) -> None:
    """The root says nothing of itself: an ERROR anywhere makes the run red."""
    store = Store(tmp_path / "acrux.db")
    run = Run("deep")
    inner = run.span("step", 10, 50)
    run.span("chat", 20, 5, error="x", parent=inner)
    store.add(request(run))
    (line,) = store.find(parse("status:error"), 5).runs
    assert (line.status, line.failed) == ("error", 0)
    store.close()


def test_filters_agree_on_any_mixture(traces: dict[str, Trace], store: Store) -> None:
    """Every pair of this file's filters, joined where they may be, means the same in memory and in SQL."""
    names = {trace.trace_id: name for name, trace in traces.items()}
    joined = 0
    for first in FILTERS:
        for second in FILTERS:
            filter = _joined(first, second)
            if filter is None:
                continue
            expected = {name for name, trace in traces.items() if matches(filter, trace)}
            assert {names[line.trace_id] for line in store.find(filter, 50).runs} == expected, filter.source
            joined += 1
    assert joined > 1000


def _joined(first: str, second: str) -> Filter | None:
    try:
        return parse(f"{first} {second}", time.time_ns())
    except ValueError:
        return None
