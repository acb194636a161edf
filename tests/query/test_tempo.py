# SPDX-License-Identifier: Apache-2.0
"""Tempo's API as its documentation has it, spoken by a stand-in: Tempo itself is not run here."""

from __future__ import annotations

import json
import threading
import urllib.parse
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from google.protobuf import json_format
from otlp_corpus import Run, request

from acrux_otel.query import FilterError, TargetError, parse
from acrux_otel.query.tempo import Tempo


class StandIn(ThreadingHTTPServer):
    """Answers every search with all of its runs, as a Tempo would whose query is too wide."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.runs: list[Run] = []
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.status = 200


class _Handler(BaseHTTPRequestHandler):
    server: StandIn

    def do_GET(self) -> None:
        parts = urllib.parse.urlsplit(self.path)
        self.server.asked.append((parts.path, dict(urllib.parse.parse_qsl(parts.query))))
        answer: dict[str, Any] | None
        if parts.path == "/api/search":
            answer = {"traces": [{"traceID": run.trace_id.lstrip("0")} for run in self.server.runs]}
        else:
            wanted = parts.path.rpartition("/")[2].rjust(32, "0")
            found = [run for run in self.server.runs if run.trace_id == wanted]
            # Protobuf's own JSON, as Tempo writes it: ids in base64, enums by name.
            answer = {"trace": json_format.MessageToDict(request(*found))} if found else None
        text = json.dumps(answer).encode() if answer is not None else b"trace not found"
        self.send_response(self.server.status if answer is not None else 404)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@pytest.fixture
def server() -> Iterator[StandIn]:
    made = StandIn()
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join(5)


@pytest.fixture
def tempo(server: StandIn) -> Tempo:
    red = Run("red", trace_id="00" * 4 + "ab" * 12)
    red.call(
        "weather", "error", "location_not_found", given={"acrux.tool.attempts": 3, "share": 0.5, "ok": True}
    )
    amber = Run("amber", ago=30)
    amber.call("weather", "warning", "ambiguous_city")
    server.runs = [red, amber]
    return Tempo(f"http://127.0.0.1:{server.server_port}/")


def test_what_is_asked_and_what_comes_of_it(server: StandIn, tempo: Tempo) -> None:
    """The search has TraceQL, limit and window; each run that it names is read whole and judged."""
    answer = tempo.find(parse("error_code:location_not_found since:1h"), 20)
    assert [line.name for line in answer.runs] == ["red"]
    assert (answer.runs[0].status, answer.runs[0].failed, answer.runs[0].tools) == ("error", 1, ("weather",))
    assert answer.notes == []
    path, query = server.asked[0]
    assert (path, query["q"], query["limit"]) == (
        "/api/search",
        '{ span.errorCode = "location_not_found" }',
        "20",
    )
    assert int(query["end"]) - int(query["start"]) == pytest.approx(3600, abs=5)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("attempts:>2", ["red"]),
        ("tag.share:0.5", ["red"]),
        ("tag.ok:true", ["red"]),
        ("warning:yes", ["amber"]),
        ("tool:weather", ["amber", "red"]),
        ("service:shop", ["amber", "red"]),
        ("status:error", ["red"]),
    ],
)
def test_runs_are_read_with_their_types(tempo: Tempo, text: str, names: list[str]) -> None:
    """Numbers, truth values, times and ids come out of Tempo's JSON as what they were."""
    assert [line.name for line in tempo.find(parse(text), 20).runs] == names


def test_what_a_reader_must_know_is_said(tempo: Tempo) -> None:
    """A window that was not asked for, and an answer that stopped at its limit."""
    notes = tempo.find(parse("tool:weather"), 2).notes
    assert "last 24 hours" in notes[0]
    assert "stopped at 2 runs" in notes[1]


def test_one_run_is_asked_for_by_its_id(server: StandIn, tempo: Tempo) -> None:
    """No search is needed, and an unknown id is nothing found."""
    assert [line.name for line in tempo.find(parse(f"run:{server.runs[0].trace_id}"), 5).runs] == ["red"]
    assert tempo.find(parse(f"run:{'1' * 32}"), 5).runs == []
    assert all(path.startswith("/api/v2/traces/") for path, _ in server.asked)


def test_what_cannot_be_said_is_not_sent(server: StandIn, tempo: Tempo) -> None:
    """An error before any request."""
    with pytest.raises(FilterError, match="TraceQL cannot say"):
        tempo.find(parse("status:ok"), 5)
    assert server.asked == []


def test_a_refusal_is_told_in_its_own_words(server: StandIn, tempo: Tempo) -> None:
    """The status and the beginning of the answer."""
    server.status = 500
    with pytest.raises(TargetError, match=r"Tempo at http://127.* answered 500: "):
        tempo.find(parse("status:error"), 5)
