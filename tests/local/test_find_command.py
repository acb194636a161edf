# SPDX-License-Identifier: Apache-2.0
"""`acrux-otel find` and `acrux-otel codes` as a person types them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from otlp_corpus import Run, request

from acrux_otel.local.store import Store

from .server import COMMAND, Up, environment


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a green, a red and an amber run, the red one the newest."""
    folder = Path(tmp_path_factory.mktemp("home"))
    store = Store(folder / "acrux.db")
    green = Run("brief", ago=30, tags=["ok"])
    green.call("weather")
    amber = Run("brief", ago=20, tags=["ambiguous"])
    amber.call("weather", "warning", "ambiguous_city", detail="matches India")
    red = Run("brief", ago=10, tags=["not-found"])
    red.call("weather", "error", "location_not_found", detail="no city is called \x1b[31mAtlantis[bold]")
    store.add(request(green, amber, red))
    store.close()
    return folder


def run(home: Path | None, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    where = [] if home is None else ["--home", str(home)]
    return subprocess.run(
        [*COMMAND, *arguments, *where],
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_table_of_runs_newest_first(home: Path) -> None:
    """One line a run, whole ids where nobody limits the width, exit code 0."""
    done = run(home, "find", "error_type:tool_declared")
    head, *rows = done.stdout.splitlines()
    assert head.split() == [
        "time",
        "name",
        "status",
        "tools",
        "failed",
        "warned",
        "duration",
        "tags",
        "trace",
    ]
    assert [row.split()[3] for row in rows] == ["error", "warning"]
    assert all(len(row.split()[-1]) == 32 for row in rows)
    assert (done.returncode, done.stderr) == (0, "")


def test_terms_may_be_words_of_the_command_line(home: Path) -> None:
    """With or without quotes around the whole, and with a negation first."""
    assert len(run(home, "find", "error_type:tool_declared", "status:error").stdout.splitlines()) == 2
    done = run(home, "find", "-tag:ok", "-tag:ambiguous")
    assert [row.split()[3] for row in done.stdout.splitlines()[1:]] == ["error"]
    assert len(run(home, "find", "-tag:h").stdout.splitlines()) == 4


def test_for_programs(home: Path) -> None:
    """--json is one list; with --tree each run has its spans."""
    (found,) = json.loads(run(home, "find", "status:error", "--json").stdout)
    assert (found["name"], found["status"], found["failed"], found["tags"]) == (
        "brief",
        "error",
        1,
        ["not-found"],
    )
    (found,) = json.loads(run(home, "find", "status:error", "--json", "--tree").stdout)
    assert [(span["depth"], span["name"]) for span in found["tree"]] == [
        (0, "invoke_agent brief"),
        (1, "execute_tool weather"),
    ]
    assert run(home, "find", "tool:none", "--json").stdout.strip() == "[]"


def test_a_tree_with_verdicts(home: Path) -> None:
    """Spans below their parents, with outcome, type, code and detail; nothing steers the terminal."""
    done = run(home, "find", "status:error", "--tree")
    head, root, call = done.stdout.splitlines()
    assert head.startswith("brief  error")
    assert root.strip().startswith("└── invoke_agent brief")
    assert "└── execute_tool weather" in call
    assert "error tool_declared location_not_found  no city is called  [31mAtlantis[bold]" in call
    assert "\x1b" not in done.stdout


def test_nothing_found_is_exit_code_1(home: Path) -> None:
    """And a code that was seen and looks like the one that was asked for is proposed."""
    done = run(home, "find", "error_code:location_not_fond")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "no run meets the filter; did you mean error_code:location_not_found?\n"
    assert run(home, "find", "tool:none").stderr == "no run meets the filter\n"


def test_a_wrong_filter_is_exit_code_2(home: Path) -> None:
    """The problem, the filter and the marked place."""
    done = run(home, "find", "status:red tool:x")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "error: status: is 'red'; expected error or ok (column 8)\n  status:red tool:x\n         ^^^\n"
    )


def test_a_bound_that_was_not_asked_for_is_said(home: Path) -> None:
    """On standard error, beside the answer."""
    done = run(home, "find", "atlantis")
    assert len(done.stdout.splitlines()) == 2
    assert done.stderr.startswith("note: free text and tag.KEY read every span; the last 24 hours")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--jaeger", "http://127.0.0.1:9"), "Jaeger at http://127.0.0.1:9 does not answer"),
        (("--jaeger", "127.0.0.1:16686"), "expected such as http://"),
        (("--tempo", "http://127.0.0.1:9"), "Tempo at http://127.0.0.1:9 does not answer"),
        (("--jaeger", "http://a", "--tempo", "http://b"), "name one"),
    ],
)
def test_a_place_that_cannot_be_searched_is_one_line(arguments: tuple[str, ...], said: str) -> None:
    """Exit code 2 and a line with the place."""
    done = run(None, "find", "status:error", *arguments)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert said in done.stderr


def test_a_store_that_is_not_there(tmp_path: Path) -> None:
    """It is not made by searching; the line says what makes it, wherever the home comes from."""
    done = run(tmp_path / "none", "find")
    assert done.returncode == 2
    assert "acrux-otel up makes it" in done.stderr
    assert "acrux-otel up makes it" in run(None, "codes", ACRUX_OTEL_HOME=str(tmp_path)).stderr
    assert list(tmp_path.iterdir()) == []


def test_what_would_be_sent(home: Path) -> None:
    """--print-query shows it for each place, and sends nothing."""
    sql = run(home, "find", "error_code:x", "--print-query").stdout.splitlines()
    assert sql == ["r.id IN (SELECT s.run FROM acrux_spans s WHERE s.error_code = ?)", '["x"]']
    traceql = run(None, "find", "error_code:x", "--tempo", "http://127.0.0.1:9", "--print-query")
    assert traceql.stdout.splitlines()[0] == '{ span.errorCode = "x" }'
    jaeger = run(None, "find", "error_code:x", "--jaeger", "http://127.0.0.1:9", "--print-query").stdout
    assert "/api/traces?service={service}&" in jaeger
    refused = run(None, "find", "x status:ok", "--tempo", "http://127.0.0.1:9", "--print-query")
    assert refused.returncode == 2
    assert "TraceQL cannot say" in refused.stderr


def test_codes(home: Path) -> None:
    """Every code with its type, count, tools, first and last time; none is exit code 1."""
    done = run(home, "codes")
    head, *rows = done.stdout.splitlines()
    assert head.split() == ["error_code", "error_type", "count", "tools", "first", "last"]
    assert [row.split()[:4] for row in rows] == [
        ["ambiguous_city", "tool_declared", "1", "1"],
        ["location_not_found", "tool_declared", "1", "1"],
    ]
    assert [code["code"] for code in json.loads(run(home, "codes", "--json").stdout)] == [
        "ambiguous_city",
        "location_not_found",
    ]
    none = run(home, "codes", "--since", "1ms")
    assert (none.returncode, none.stderr) == (1, "no code was seen\n")
    wrong = run(home, "codes", "--since", "yesterday")
    assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)


def test_a_program_is_run_into_the_server(tmp_path: Path) -> None:
    """`up PROGRAM` hands it the addresses, then says where to look, and goes on serving."""
    program = [
        *COMMAND[:1],
        "-c",
        "import os; print(os.environ['OTEL_EXPORTER_OTLP_ENDPOINT'], os.environ['ACRUX_OTEL_CATALOG'])",
    ]
    with Up(tmp_path, program=["--", *program]) as up:
        assert up.said[0] == f"{up.url} {up.url}/api/v1\n"
        assert up.get("/traces").status == 200
    assert up.process is not None
    assert up.process.returncode in (0, 130, -2)
