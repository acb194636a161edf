# SPDX-License-Identifier: Apache-2.0
"""The store's file: what survives, what is dropped, what is refused."""

from __future__ import annotations

import sqlite3
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from otlp_corpus import Run, request

from acrux_otel.local.retention import Limits
from acrux_otel.local.schema import STEPS, StoreError
from acrux_otel.local.store import Store
from acrux_otel.query import parse

from .server import Up

HOUR = 3_600_000_000_000


def filled(path: Path, runs: int, limits: Limits | None = None) -> Store:
    store = Store(path, limits=limits)
    for _ in range(runs):
        run = Run("agent", tags=["declared"])
        run.call("weather", "error", "location_not_found", detail="x" * 2000)
        store.add(request(run))
    return store


@pytest.mark.slow
def test_nothing_that_was_acknowledged_is_lost_by_kill_9(tmp_path: Path) -> None:
    """Killed in the middle of a stream of batches, three times: every acknowledged span is there, once."""
    server = Up(tmp_path / "home")
    acknowledged: list[Run] = []
    for _ in range(3):
        server.start()
        stop = threading.Event()

        def send(stop: threading.Event = stop) -> None:
            while not stop.is_set():
                run = Run("agent")
                for number in range(50):
                    run.call(f"tool_{number % 5}", "error", "code")
                try:
                    answer = server.send(request(run).SerializeToString())
                except OSError:
                    return
                if answer.status == 200:
                    acknowledged.append(run)

        senders = [threading.Thread(target=send) for _ in range(3)]
        for sender in senders:
            sender.start()
        time.sleep(1.0)
        server.kill()
        stop.set()
        for sender in senders:
            sender.join(20)

    store = Store(tmp_path / "home" / "acrux.db", create=False)
    assert len(acknowledged) > 20
    for run in acknowledged:
        trace = store.trace(run.trace_id)
        assert trace is not None
        assert len(trace.spans) == 51
        assert store.find(parse(f"run:{run.trace_id}"), 2).runs == [trace.line()]
    store.close()


class TestRetention:
    """What is over the limits goes, the longest unheard of first, and the store says so."""

    def test_by_age(self, tmp_path: Path) -> None:
        """A run goes when nothing was heard of it for that long, whatever times its spans bear."""
        store = filled(tmp_path / "acrux.db", 5, Limits(age=HOUR))
        future = Run("from 2262")
        future.spans[0].start_time_unix_nano = 2**63 - 1
        past = Run("from 1970")
        past.spans[0].start_time_unix_nano = 1
        store.add(request(future, past))
        assert store.keep() == 0
        assert store.counts() == (7, 12)
        _received(store.path, "UPDATE acrux_runs SET received = received - ? WHERE id <= 5", 2 * HOUR)
        assert store.keep() == 5
        assert store.counts() == (2, 2)
        assert (store.dropped.runs, store.dropped.spans) == (5, 10)
        assert store.dropped.at > time.time_ns() - HOUR
        assert store.find(parse("error_code:location_not_found"), 5).runs == []
        assert store.find(parse("tag:declared"), 5).runs == []
        assert store.seen("tool") == []
        store.close()

    def test_by_size(self, tmp_path: Path) -> None:
        """The oldest go until what is in use fits; free pages are used again, so the file stops growing."""
        store = filled(tmp_path / "acrux.db", 1500)
        newest = Run("newest")
        store.add(request(newest))
        limit = store.used() // 2
        store.close()

        store = Store(tmp_path / "acrux.db", limits=Limits(size=limit))
        assert 200 <= store.keep() < 1500
        assert store.used() <= limit
        assert store.trace(newest.trace_id) is not None
        assert store.counts()[0] == 1501 - store.dropped.runs
        store.close()
        filled(tmp_path / "acrux.db", 500, Limits(size=limit)).close()
        before = (tmp_path / "acrux.db").stat().st_size
        store = filled(tmp_path / "acrux.db", 200, Limits(size=limit))
        store.keep()
        store.close()
        assert (tmp_path / "acrux.db").stat().st_size <= before * 1.1

    def test_a_dropped_sender_is_known_again(self, tmp_path: Path) -> None:
        """The source of runs that went is made anew when it sends again."""
        store = filled(tmp_path / "acrux.db", 2, Limits(age=HOUR))
        _received(store.path, "UPDATE acrux_runs SET received = received - ?", 2 * HOUR)
        assert store.keep() == 2
        run = Run("again")
        store.add(request(run))
        assert store.find(parse("service:shop"), 5).runs[0].services == ("shop",)
        store.close()

    def test_the_page_says_that_runs_were_let_go(self, tmp_path: Path) -> None:
        """A person reads what is kept, what went, and where to keep more."""
        home = tmp_path / "home"
        filled(home / "acrux.db", 3).close()
        _received(home / "acrux.db", "UPDATE acrux_runs SET received = received - ?", 48 * HOUR)
        with Up(home, "--keep", "1d", "--max-size", "50MB") as up:
            for _ in range(100):
                shown = up.get("/traces").text
                if "let go" in shown:
                    break
                time.sleep(0.05)
        text = " ".join(shown.split())
        assert "it has let go 3 runs with 6 spans" in text
        assert "Jaeger, Grafana Tempo or AcruxCore" in text


def _received(path: Path, statement: str, by: int) -> None:
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(statement, (by,))
    connection.close()


class TestTheFile:
    """A file that cannot be used is named in one line, and so is what to do."""

    def test_a_newer_file(self, tmp_path: Path) -> None:
        """A file of a later version is refused, and left as it is."""
        filled(tmp_path / "acrux.db", 1).close()
        connection = sqlite3.connect(tmp_path / "acrux.db")
        with connection:
            connection.execute("INSERT INTO acrux_local_schema VALUES (?)", (len(STEPS) + 1,))
        connection.close()
        with pytest.raises(StoreError, match=r"newer acrux-otel \(schema 2, this one knows 1\); upgrade"):
            Store(tmp_path / "acrux.db")

    def test_an_older_file(self, tmp_path: Path) -> None:
        """A file that the catalog alone has used gets the store's tables, and keeps the catalog's."""
        connection = sqlite3.connect(tmp_path / "acrux.db")
        with connection:
            connection.execute("CREATE TABLE acrux_tools (id TEXT)")
            connection.execute("INSERT INTO acrux_tools VALUES ('kept')")
        connection.close()
        store = filled(tmp_path / "acrux.db", 1)
        assert store.counts() == (1, 2)
        store.close()
        connection = sqlite3.connect(tmp_path / "acrux.db")
        assert connection.execute("SELECT id FROM acrux_tools").fetchall() == [("kept",)]
        connection.close()

    def test_a_migration_that_fails_leaves_nothing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A step is done whole or not at all; the next start does it."""
        broken = ((*STEPS[0], "CREATE nonsense"),)
        with monkeypatch.context() as patch:
            patch.setattr("acrux_otel.local.schema.STEPS", broken)
            with pytest.raises(StoreError, match="nonsense"):
                Store(tmp_path / "acrux.db")
        filled(tmp_path / "acrux.db", 1).close()

    def test_a_file_of_something_else(self, tmp_path: Path) -> None:
        """No database: its path and SQLite's word for it."""
        (tmp_path / "acrux.db").write_text("no database at all, and long enough to be looked at" * 10)
        with pytest.raises(StoreError, match=r"acrux\.db: file is not a database"):
            Store(tmp_path / "acrux.db")

    def test_a_file_that_is_not_there(self, tmp_path: Path) -> None:
        """A search does not make a store."""
        with pytest.raises(StoreError, match=r"there is no store at .*; acrux-otel up makes it"):
            Store(tmp_path / "acrux.db", create=False)
        assert list(tmp_path.iterdir()) == []

    def test_a_folder_in_its_place(self, tmp_path: Path) -> None:
        """Something that cannot be opened is named."""
        (tmp_path / "acrux.db").mkdir()
        with pytest.raises(StoreError, match=r"acrux\.db: unable to open"):
            Store(tmp_path / "acrux.db")

    def test_two_processes_on_one_file(self, tmp_path: Path) -> None:
        """Two stores that write to one file take turns; nothing is lost and no id is used twice."""
        stores = [Store(tmp_path / "acrux.db") for _ in range(2)]
        runs = [Run(f"run {number}") for number in range(60)]

        def send(store: Store, mine: list[Run]) -> None:
            for run in mine:
                run.call("weather")
                store.add(request(run, service=f"of {id(store)}"))

        threads = [threading.Thread(target=send, args=(stores[at], runs[at::2])) for at in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert stores[0].counts() == (60, 120)
        for run in runs:
            trace = stores[1].trace(run.trace_id)
            assert trace is not None
            assert [span.trace_id for span in trace.spans] == [run.trace_id] * 2
        for store in stores:
            store.close()


def test_a_search_that_takes_too_long_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line says so, and how to make it shorter; the next search works."""
    store = filled(tmp_path / "acrux.db", 300)
    monkeypatch.setattr("acrux_otel.local.store._SEARCH", 0.0)
    monkeypatch.setattr("acrux_otel.local.connecting._CHECKED_EVERY", 10)
    with pytest.raises(StoreError, match=r"took longer than 0 s and was ended; narrow it, as with since:1h"):
        store.find(parse("nowhere"), 5)
    monkeypatch.undo()
    assert store.find(parse("nowhere"), 5).runs == []
    store.close()


def test_pages_follow_each_other_without_gap_or_repetition(tmp_path: Path) -> None:
    """Runs that began at one moment too are each on one page."""
    store = Store(tmp_path / "acrux.db")
    runs = [Run("agent", ago=60 - number // 4) for number in range(30)]
    for run in runs[1:4]:
        run.spans[0].start_time_unix_nano = runs[0].start
    store.add(request(*runs))
    for text in ("", "duration:>1ms"):
        seen, after = [], None
        while True:
            page = store.page(parse(text), 7, after)
            seen += [line.trace_id for line in page.runs]
            after = page.after
            if after is None:
                break
        assert len(seen) == len(set(seen)) == 30
    store.close()


def test_what_is_rare_is_found_behind_many_newer_runs(tmp_path: Path) -> None:
    """Beyond the newest few thousand runs the spans' indexes take over, with the same answer."""
    store = Store(tmp_path / "acrux.db")
    old = Run("old", ago=90_000)
    old.call("needle", "error", "rare", given={"acrux.tool.attempts": 3}, took=5000)
    store.add(request(old))
    for _ in range(8):
        batch = [Run("new") for _ in range(500)]
        store.add(request(*batch))
    for text in ("error_code:rare", "tool:needle attempts:>2", "duration:>4s", "tool:needle -outcome:ok"):
        assert [line.trace_id for line in store.find(parse(text), 5).runs] == [old.trace_id], text
    store.close()


def test_tools_and_codes_are_counted(tmp_path: Path) -> None:
    """Calls, failures, warnings, percentiles and codes; a call that did not run counts as none."""
    store = Store(tmp_path / "acrux.db")
    run = Run("agent")
    for took in range(1, 101):
        run.call("weather", "error" if took <= 5 else "ok", "no_city", took=took)
    run.call("weather", "warning", "ambiguous_city", took=50)
    run.call("weather", "not_executed")
    run.call("pay", "error", "http_503", "http_status")
    store.add(request(run))
    weather, pay = store.tools()
    assert (weather.name, weather.calls, weather.failed, weather.warned, weather.not_executed) == (
        "weather", 101, 5, 1, 1,
    )  # fmt: skip
    assert (weather.p50, weather.p95) == (50_000_000, 95_000_000)
    assert weather.codes == (("no_city", 5), ("ambiguous_city", 1))
    assert (pay.calls, pay.failed) == (1, 1)
    codes = {code.code: code for code in store.codes()}
    assert {code: (one.error_type, one.count, one.tools) for code, one in codes.items()} == {
        "no_city": ("tool_declared", 5, 1),
        "ambiguous_city": ("tool_declared", 1, 1),
        "http_503": ("http_status", 1, 1),
    }
    assert store.codes(since=time.time_ns()) == []
    assert store.seen("error_code", "no") == ["no_city"]
    assert store.seen("error_code", "%") == []
    store.close()


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
_KNOWN = (
    "gen_ai.tool.name errorType errorCode acrux.tool.outcome acrux.tool.attempts warning.type "
    "gen_ai.usage.cost acrux.tag.x gen_ai.agent.name anything"
)
_KEYS = st.sampled_from(_KNOWN.split())


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(_KEYS, _VALUES, max_size=8))
def test_attributes_of_any_type_are_summed_as_they_are_read(
    tmp_path_factory: pytest.TempPathFactory, given: dict[str, object]
) -> None:
    """Whatever type a known attribute has, the sums of the store are those of the span as it is read back."""
    store = Store(Path(tmp_path_factory.mktemp("store")) / "acrux.db")
    run = Run("agent")
    run.span("odd", given=given)
    store.add(request(run))
    trace = store.trace(run.trace_id)
    assert trace is not None
    assert store.find(parse(""), 2).runs == [trace.line()]
    store.close()
