# SPDX-License-Identifier: Apache-2.0
"""Syncing by itself, in programs of their own: it is once per process, for all tools that are loaded."""

from __future__ import annotations

import dataclasses
import json
import os
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from acrux_otel.catalog import Definition, NotFound, SqlCatalog

from .conftest import Served, Stub

WEATHER = Definition(
    "get_weather",
    {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
    "The weather.",
)

# What every program begins with; `told` is what it prints for the test.
_BEGIN = """
    import json, logging, os, sys, time
    logging.basicConfig(level=logging.WARNING, format="%(name)s: %(message)s")
    import acrux_otel as acrux
    from acrux_otel.call import observers
    from acrux_otel.settings import settings
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    kept = InMemorySpanExporter()
    settings.tracer_provider = TracerProvider()
    settings.tracer_provider.add_span_processor(SimpleSpanProcessor(kept))

    def versions():
        return [span.attributes.get("toolVersionId") for span in kept.get_finished_spans()]

    def told(**what):
        print(json.dumps(what), flush=True)

    @acrux.tool
    def get_weather(city: str):
        "The weather."
        return city

    @acrux.tool
    def never_called(n: int): ...
"""


class Ran(NamedTuple):
    told: list[dict[str, Any]]
    warnings: list[str]
    seconds: float


def run(program: str, begin: str = _BEGIN, **environment: str) -> Ran:
    """Run a program to its end; it must end well."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("ACRUX", "OTEL_"))}
    before = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(begin) + textwrap.dedent(program)],
        env={**env, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    seconds = time.monotonic() - before
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    warnings = [line.removeprefix("acrux_otel: ") for line in done.stderr.splitlines()]
    return Ran(lines, warnings, seconds)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/catalog.db"


@pytest.fixture
def catalog(url: str) -> Iterator[SqlCatalog]:
    made = SqlCatalog(url)
    yield made
    made.close()


@pytest.mark.parametrize("how", ["configure", "variable"])
def test_the_first_call_syncs_every_loaded_tool(url: str, catalog: SqlCatalog, how: str) -> None:
    """Also those that are never called; a span names the version if it is known by its end."""
    program = """
        if len(sys.argv) > 1 or os.environ.get("BY_CONFIGURE"):
            acrux.configure(backend="none", catalog=os.environ["BY_CONFIGURE"])
        get_weather("Pune")
        told(flushed=acrux.flush(30), observed=len(observers.opened))
        get_weather("Pune")
        get_weather("Pune")
        told(versions=versions())
    """
    ran = run(program, **{"BY_CONFIGURE" if how == "configure" else "ACRUX_OTEL_CATALOG": url})
    assert ran.warnings == []
    assert ran.told[0] == {"flushed": True, "observed": 0}
    tool = catalog.tool("get_weather")
    version = catalog.version(tool.id, 1)
    assert ran.told[1] == {"versions": [None, version.id, version.id]}
    assert version.definition is not None and version.definition.description == "The weather."
    assert catalog.tool("never_called").version_count == 1


def test_the_batch_runner_syncs_before_any_call(url: str, catalog: SqlCatalog) -> None:
    """It knows the tools: a turn without a call is enough, and `flush` waits for what it began."""
    program = """
        told(results=acrux.run_tool_calls([], [get_weather]))
        told(flushed=acrux.flush(30))
        get_weather("Pune")
        told(versions=versions())
    """
    ran = run(program, ACRUX_OTEL_CATALOG=url)
    assert ran.warnings == []
    version = catalog.version(catalog.tool("get_weather").id, 1)
    assert ran.told == [{"results": []}, {"flushed": True}, {"versions": [version.id]}]
    assert catalog.tool("never_called").version_count == 1


def test_a_call_that_outlasts_the_sync_names_its_version(url: str, catalog: SqlCatalog) -> None:
    """The very first call too: what counts is what is known at its end."""
    program = """
        from acrux_otel.catalog import automatic

        @acrux.tool
        def slow():
            return automatic.pending(30)

        told(pending=slow(), versions=versions())
    """
    ran = run(program, ACRUX_OTEL_CATALOG=url)
    version = catalog.version(catalog.tool("slow").id, 1)
    assert ran.told == [{"pending": False, "versions": [version.id]}]


def test_without_a_catalog_nothing_of_it_is_imported() -> None:
    ran = run(
        """
        get_weather("Pune")
        told(loaded=[name for name in sys.modules if name.startswith(("acrux_otel.catalog", "sqlalchemy"))],
             observed=len(observers.opened))
        """
    )
    assert ran.told == [{"loaded": [], "observed": 0}]


def test_a_program_that_ends_after_one_call_has_synced(url: str, catalog: SqlCatalog) -> None:
    """Its end is held for the sync, as it is for spans, by at most the exit timeout."""
    ran = run("get_weather('Pune')", ACRUX_OTEL_CATALOG=url, ACRUX_OTEL_EXIT_TIMEOUT="40")
    assert ran.warnings == []
    assert catalog.tool("get_weather").version_count == 1


@pytest.mark.parametrize(
    ("timeout", "least", "most"), [("0.2", 0.1, 2.5), ("soon", 2.5, 10), ("-1", 2.5, 10)]
)
def test_the_exit_timeout_is_for_the_sync_too(timeout: str, least: float, most: float) -> None:
    """Also where nobody configured an exporter; what is no time leaves the three seconds."""
    program = """
        import atexit
        from acrux_otel.catalog import automatic

        class Slow:
            label, whole = "slow", True
            def sync(self, definition, **options): time.sleep(120)
            def resolve(self, refs): return []
            def close(self): ...

        atexit.register(lambda: told(
            held=time.monotonic() - ending, exporting="acrux_otel.export.exit" in sys.modules))
        settings.catalog = Slow()
        automatic.arm()
        get_weather("Pune")
        ending = time.monotonic()
    """
    (told,) = run(program, ACRUX_OTEL_EXIT_TIMEOUT=timeout).told
    assert least < told["held"] < most
    assert told["exporting"] is False


@pytest.mark.parametrize("flush", [True, False])
def test_a_catalog_that_is_down_costs_one_warning(flush: bool) -> None:
    program = f"""
        before = time.monotonic()
        told(values=[get_weather(str(n)) for n in range(3)], seconds=time.monotonic() - before)
        {"told(flushed=acrux.flush(20))" if flush else ""}
        told(versions=versions())
    """
    ran = run(program, ACRUX_OTEL_CATALOG="http://127.0.0.1:9/api/v1")
    assert ran.told[0]["values"] == ["0", "1", "2"]
    assert ran.told[-1] == {"versions": [None] * 3}
    assert ran.seconds < 30
    if not flush and not ran.warnings:
        return  # the end came first
    assert len(ran.warnings) == 1
    assert "cannot be reached" in ran.warnings[0] and "tools run as ever" in ran.warnings[0]


def test_a_catalog_that_never_answers_blocks_neither_call_nor_flush_nor_exit() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        program = """
            before = time.monotonic()
            get_weather("Pune")
            called = time.monotonic()
            flushed = acrux.flush(0.5)
            now = time.monotonic()
            told(call=called - before, flushed=flushed, flush=now - called)
        """
        ran = run(program, ACRUX_OTEL_CATALOG=f"http://127.0.0.1:{silent.getsockname()[1]}/api/v1")
    assert ran.told[0]["flushed"] is False
    assert ran.told[0]["call"] < 2
    assert 0.4 < ran.told[0]["flush"] < 4
    assert ran.seconds < 20


@pytest.mark.parametrize(
    ("status", "told"),
    [(401, "answered 401"), (403, "answered 403"), (500, "answered 500"), (200, "not JSON")],
)
def test_every_refusal_costs_one_warning(stub: Stub, status: int, told: str) -> None:
    stub.answer(status, b"<html>")
    ran = run("get_weather('Pune'); acrux.flush(30)", ACRUX_OTEL_CATALOG=stub.url)
    assert len(ran.warnings) == 1
    assert told in ran.warnings[0]


@pytest.mark.parametrize("named", ["nonsense", "sqlite://", "acruxcore"])
def test_a_variable_that_names_no_catalog_costs_one_warning(named: str) -> None:
    ran = run("told(value=get_weather('Pune')); acrux.flush(10)", ACRUX_OTEL_CATALOG=named)
    assert ran.told == [{"value": "Pune"}]
    assert len(ran.warnings) == 1
    assert ran.warnings[0].startswith("the catalog cannot be used, and spans carry no version: ")


def test_configure_refuses_what_names_no_catalog_or_mode() -> None:
    program = """
        for wrong in ({"catalog": "nonsense"}, {"catalog_mode": "write"}, {"catalog": 7}):
            try:
                acrux.configure(backend="none", **wrong)
            except ValueError as error:
                told(error=str(error))
    """
    errors = [each["error"] for each in run(program).told]
    assert errors[0].startswith("catalog is 'nonsense'; expected")
    assert errors[1] == "catalog_mode is 'write'; expected 'sync' or 'resolve'"
    assert errors[2].startswith("catalog is a int; expected")


# -- what is written, and what is not -------------------------------------------------------------------


def test_mode_resolve_writes_nothing_and_stamps_the_version_that_runs(url: str, catalog: SqlCatalog) -> None:
    """In a rolling deployment the old pods say the old version, whatever the alias points at by now."""
    first = catalog.sync(WEATHER)
    program = "get_weather('Pune'); acrux.flush(30); get_weather('Pune'); told(versions=versions())"
    environment = {"ACRUX_OTEL_CATALOG": url, "ACRUX_OTEL_CATALOG_MODE": "resolve"}
    ran = run(program, **environment)
    assert ran.told[0]["versions"][1] == first.version_id
    assert len(ran.warnings) == 1
    assert "no version of never_called as the code has it" in ran.warnings[0]

    catalog.sync(Definition("get_weather", {"type": "object"}, "The next release."))
    assert run(program, **environment).told[0]["versions"][1] == first.version_id
    catalog.delete(first.tool_id)
    catalog.sync(Definition("get_weather", {"type": "object"}, "Something else."))
    ran = run(program, **environment)
    assert ran.told[0]["versions"] == [None, None]
    assert "get_weather, never_called" in ran.warnings[0]
    assert (catalog.tools().total, catalog.tool("get_weather").version_count) == (1, 1)


def test_mode_resolve_works_with_a_key_that_may_only_read(served_sqlite: Served) -> None:
    first = served_sqlite.catalog.sync(WEATHER)
    program = """
        acrux.configure(backend="none", catalog=os.environ["WHERE"], catalog_mode="resolve")
        get_weather("Pune")
        acrux.flush(30)
        get_weather("Pune")
        told(versions=versions())
    """
    ran = run(program, WHERE=served_sqlite.url, ACRUX_OTEL_CATALOG_KEY=served_sqlite.viewer_key)
    assert ran.told[0]["versions"][1] == first.version_id


def test_a_typing_error_in_the_mode_writes_nothing(url: str, catalog: SqlCatalog) -> None:
    ran = run(
        "get_weather('Pune'); acrux.flush(30)",
        ACRUX_OTEL_CATALOG=url,
        ACRUX_OTEL_CATALOG_MODE="resolv",
    )
    assert catalog.tools().total == 0
    assert "ACRUX_OTEL_CATALOG_MODE is 'resolv'; expected 'sync' or 'resolve'" in ran.warnings[0]


@pytest.mark.parametrize("kind", ["sql", "server"])
def test_an_old_process_does_not_move_an_alias_back(served_sqlite: Served, tmp_path: Path, kind: str) -> None:
    """One warning, and its spans still say the version that they ran."""
    catalog = served_sqlite.catalog
    old = catalog.sync(WEATHER)
    catalog.sync(Definition("get_weather", {"type": "object"}, "The next release."))
    where = f"sqlite:///{tmp_path}/catalog.db" if kind == "sql" else served_sqlite.url
    ran = run(
        "get_weather('Pune'); acrux.flush(30); get_weather('Pune'); told(versions=versions())",
        ACRUX_OTEL_CATALOG=where,
        ACRUX_OTEL_CATALOG_KEY=served_sqlite.key,
    )
    assert ran.told[0]["versions"][1] == old.version_id
    assert len(ran.warnings) == 1
    assert "acrux-otel catalog promote get_weather:1 production" in ran.warnings[0]
    assert catalog.tool("get_weather").aliases["production"] == 2


def test_mode_resolve_compares_with_what_acruxcore_keeps(served_sqlite: Served) -> None:
    """It tells no fingerprint and no annotations; an older version is found among its versions."""
    first = served_sqlite.catalog.sync(dataclasses.replace(WEATHER, annotations={"read_only": True}))
    program = "get_weather('Pune'); acrux.flush(30); get_weather('Pune'); told(versions=versions())"
    environment = {
        "ACRUX_OTEL_CATALOG": "acruxcore",
        "ACRUX_OTEL_CATALOG_MODE": "resolve",
        "ACRUXCORE_BASE_URL": served_sqlite.url,
        "ACRUXCORE_API_KEY": served_sqlite.viewer_key,
    }
    assert run(program, **environment).told[0]["versions"][1] == first.version_id
    served_sqlite.catalog.sync(Definition("get_weather", {"type": "object"}, "The next release."))
    assert run(program, **environment).told[0]["versions"][1] == first.version_id


def test_replacing_an_edit_by_hand_costs_one_warning(url: str, catalog: SqlCatalog) -> None:
    first = catalog.sync(Definition("get_weather", {"type": "object"}, "An older release."))
    catalog.commit(first.tool_id, Definition("x", {"type": "object"}, "By hand."), source="dashboard")
    catalog.promote(first.tool_id, "production", 2)
    ran = run("get_weather('Pune'); acrux.flush(30)", ACRUX_OTEL_CATALOG=url)
    assert len(ran.warnings) == 1
    assert "version 3 from code is now 'production' and replaces one that was edited" in ran.warnings[0]


def test_a_tool_that_cannot_be_synced_leaves_the_others(url: str, catalog: SqlCatalog) -> None:
    program = """
        @acrux.tool(name="get weather!")
        def refused(): ...

        def elsewhere():
            @acrux.tool(name="get_time")
            def one(): ...
            return one

        @acrux.tool(name="get_time")
        def two(): ...

        kept_alive = elsewhere()
        told(value=refused())
        acrux.flush(30)
    """
    ran = run(program, ACRUX_OTEL_CATALOG=url)
    assert {each.name for each in catalog.tools()} == {"get_weather", "never_called"}
    syncing = [line for line in ran.warnings if "not synced" in line]
    assert len(syncing) == 2
    assert "try name='get_weather'" in syncing[0]
    assert "tools named 'get_time'" in syncing[1] and "one name is one tool" in syncing[1]


def test_a_tool_with_sync_false_is_followed(url: str, catalog: SqlCatalog) -> None:
    schema = {"type": "object", "required": ["answer"]}
    kept = catalog.sync(Definition("ask", {"type": "object"}, "By others.", result=schema, severity="error"))
    program = """
        @acrux.tool(sync=False)
        def ask(q): return {}

        @acrux.tool(sync=False)
        def absent(): ...

        ask(1)
        acrux.flush(30)
        ask(1)
        span = kept.get_finished_spans()[-1]
        told(version=span.attributes["toolVersionId"], code=span.attributes["errorCode"])
    """
    ran = run(program, ACRUX_OTEL_CATALOG=url)
    assert ran.told == [{"version": kept.version_id, "code": "invalid_result"}]
    assert catalog.tool("ask").version_count == 1
    with pytest.raises(NotFound):
        catalog.tool("absent")
    assert ran.warnings == [f"catalog {url} does not have absent@production; their spans carry no version"]


def test_a_catalog_of_ones_own_is_used_and_may_fail_as_it_likes(url: str) -> None:
    """Its requests are hidden from the program's own instrumentation; what it raises costs one warning."""
    program = """
        from opentelemetry.context import get_value

        class Mine:
            label, whole, closed = "mine", True, False
            def sync(self, definition, **options):
                told(name=definition.name, **options, hidden=get_value("suppress_instrumentation"))
                raise RuntimeError("very private")
            def resolve(self, refs): raise LookupError
            def close(self): self.closed = True

        mine = Mine()
        acrux.configure(backend="none", catalog=mine)
        told(value=get_weather("Pune"))
        told(flushed=acrux.flush(10), closed=mine.closed)
    """
    ran = run(program)
    assert {
        "name": "get_weather",
        "alias": "production",
        "changelog": None,
        "automatic": True,
        "hidden": True,
    } in [each for each in ran.told if "name" in each]
    assert {"value": "Pune"} in ran.told
    assert ran.told[-1] == {"flushed": True, "closed": False}
    assert len(ran.warnings) == 1
    assert "very private" not in ran.warnings[0]


# -- processes ------------------------------------------------------------------------------------------

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@needs_fork
def test_each_forked_worker_syncs_for_itself(url: str, catalog: SqlCatalog) -> None:
    """As gunicorn does it: tools are imported once, and called in the workers."""
    program = """
        for number in range(3):
            child = os.fork()
            if child == 0:
                get_weather("Pune")
                told(flushed=acrux.flush(30))
                get_weather("Pune")
                told(versions=versions()[1:])
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
    """
    ran = run(program, ACRUX_OTEL_CATALOG=url)
    assert catalog.tool("get_weather").version_count == 1
    (version,) = {each["versions"][0] for each in ran.told if "versions" in each}
    assert version == catalog.version(catalog.tool("get_weather").id, 1).id


@needs_fork
def test_a_fork_in_the_middle_of_a_sync_does_not_wait_for_a_thread_that_is_not_there() -> None:
    """The child knows nothing of the thread's end; it does the work itself, at its next call."""
    program = """
        from acrux_otel.catalog import SyncResult, automatic
        import threading

        entered, gate = threading.Event(), threading.Event()
        parent = os.getpid()

        class Slow:
            label, whole = "slow", True
            def sync(self, definition, **options):
                entered.set()
                if os.getpid() == parent:
                    gate.wait(30)
                by_parent = str(os.getpid() == parent)
                return SyncResult(definition.name, "t", 1, True, "production", None, by_parent)
            def resolve(self, refs): return []
            def close(self): ...

        acrux.configure(backend="none", catalog=Slow())
        get_weather("Pune")
        entered.wait(30)
        told(pending=automatic.pending())
        child = os.fork()
        if child == 0:
            before = time.monotonic()
            told(pending=automatic.pending(5), at_once=time.monotonic() - before < 4)
            get_weather("Pune")
            told(flushed=acrux.flush(20))
            get_weather("Pune")
            told(version=versions()[-1])
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        gate.set()
        told(flushed=acrux.flush(20), pending=automatic.pending())
    """
    assert run(program).told == [
        {"pending": True},
        {"pending": False, "at_once": True},
        {"flushed": True},
        {"version": "False"},
        {"flushed": True, "pending": False},
    ]


def test_what_is_not_configured_yet_at_the_first_call_is_synced_from_the_next_on(
    url: str, catalog: SqlCatalog
) -> None:
    program = """
        get_weather("Pune")
        acrux.configure(backend="none", catalog=os.environ["WHERE"])
        get_weather("Pune")
        acrux.flush(30)
        get_weather("Pune")
        told(versions=versions())
    """
    ran = run(program, WHERE=url)
    assert ran.told[0]["versions"][0] is None
    assert ran.told[0]["versions"][2] == catalog.version(catalog.tool("get_weather").id, 1).id


# -- field report A15 -----------------------------------------------------------------------------------

_REPORT = """
    import importlib, json, os, random, sys
    sys.path.insert(0, os.environ["FOLDER"])
    names = ["one", "two", "json", "pydantic", "acrux_otel.catalog"]
    random.Random(int(os.environ["PYTHONHASHSEED"])).shuffle(names)
    for name in names:
        importlib.import_module(name)
    import acrux_otel as acrux, one, two
    from acrux_otel.tool import loaded_tools
    results = acrux.sync(list(loaded_tools()), catalog=os.environ["WHERE"])
    definitions = [acrux.definition_of(f) for f in (one.q, two.save)]
    hashes = [[each.contract_hash, each.text_hash] for each in definitions]
    print(json.dumps([hashes, [[each.name, each.version_number, each.version_id] for each in results]]))
    print(json.dumps(sum(each.committed for each in results)))
"""
_ONE = """
    from typing import Literal
    import acrux_otel as acrux
    FIELDS = {"status", "summary", "labels", "created"}
    @acrux.tool
    def q(fields: frozenset = frozenset(FIELDS), kind: Literal["x", "y"] = "x"):
        "Query."
    @acrux.tool
    def joined(fields: str = ",".join(FIELDS)):
        "Joined."
"""
_TWO = """
    from typing import List, Set, Union
    import pydantic
    import acrux_otel as acrux
    class Rec(pydantic.BaseModel):
        tags: Set[str] = {"b", "a", "c"}
    @acrux.tool
    def save(r: Rec, ids: List[Union[str, int]]) -> List[Union[int, str]]:
        "Save."
"""


def test_a15_the_same_code_is_the_same_version_in_every_process(
    url: str, catalog: SqlCatalog, tmp_path: Path
) -> None:
    """Five interpreters, other hash seeds, shuffled imports: one set of hashes, one order, one version."""
    (tmp_path / "one.py").write_text(textwrap.dedent(_ONE))
    (tmp_path / "two.py").write_text(textwrap.dedent(_TWO))
    answers, committed = set(), []
    for seed in range(5):
        ran = run(_REPORT, "", PYTHONHASHSEED=str(seed), FOLDER=str(tmp_path), WHERE=url)
        answers.add(json.dumps(ran.told[0]))
        committed.append(ran.told[1])
    assert len(answers) == 1
    assert committed == [3, 0, 0, 0, 0]
    assert [name for name, *_ in json.loads(answers.pop())[1]] == ["joined", "q", "save"]
    assert {each.version_count for each in catalog.tools()} == {1}
