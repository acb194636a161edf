# SPDX-License-Identifier: Apache-2.0
"""OTLP over HTTP at the running server: what is taken, what is refused and how; nothing else is lost."""

from __future__ import annotations

import base64
import concurrent.futures
import gzip
import json
import socket
import urllib.parse
import zlib
from typing import Any

import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from otlp_corpus import Run, request

from acrux_otel.local.store import Store
from acrux_otel.query import RunLine, Trace, parse

from .server import PROTOBUF, Up

JSON = "application/json"


def stored(up: Up, run: Run) -> Trace:
    store = Store(up.home / "acrux.db", create=False)
    trace = store.trace(run.trace_id)
    store.close()
    assert trace is not None
    return trace


def line(up: Up, run: Run) -> RunLine:
    store = Store(up.home / "acrux.db", create=False)
    (found,) = store.find(parse(f"run:{run.trace_id}"), 2).runs
    store.close()
    return found


def failing() -> Run:
    run = Run("agent", tags=["declared"])
    run.call("weather", "error", "location_not_found", detail="no city is called Atlantis")
    return run


def as_json(run: Run, **changes: Any) -> dict[str, Any]:
    """The request as OTLP's JSON: ids in hexadecimal digits."""
    made = json_format.MessageToDict(request(run), use_integers_for_enums=True)
    for span in made["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        for key in ("traceId", "spanId", "parentSpanId"):
            if key in span:
                span[key] = base64.b64decode(span[key]).hex()
        span.update(changes)
    return made


class TestTaken:
    """What OTLP allows."""

    @pytest.mark.parametrize(
        ("encoding", "packed"),
        [
            ("", bytes),
            ("identity", bytes),
            ("gzip", gzip.compress),
            ("deflate", zlib.compress),
            ("gzip", lambda body: gzip.compress(body[:50]) + gzip.compress(body[50:])),
        ],
    )
    def test_protobuf(self, up: Up, encoding: str, packed: Any) -> None:
        """Each content encoding, and the answer is an empty success message."""
        run = failing()
        headers = {"Content-Encoding": encoding} if encoding else {}
        answer = up.send(packed(request(run).SerializeToString()), **headers)
        assert (answer.status, answer.headers["content-type"], answer.body) == (200, PROTOBUF, b"")
        trace = stored(up, run)
        assert [span.name for span in trace.spans] == ["invoke_agent agent", "execute_tool weather"]
        assert trace.spans[1].attributes["errorDetail"] == "no city is called Atlantis"
        assert trace.spans[1].resource == {"service.name": "shop"}
        assert trace.spans[1].scope == "by-hand"

    @pytest.mark.parametrize("kind", [JSON, "application/json; charset=utf-8"])
    def test_json(self, up: Up, kind: str) -> None:
        """JSON with ids in hexadecimal digits gives the same spans as protobuf does."""
        run = failing()
        answer = up.send(json.dumps(as_json(run)).encode(), kind)
        assert (answer.status, answer.json) == (200, {})
        again = failing()
        up.send(request(again).SerializeToString())
        by_json, by_protobuf = stored(up, run).spans[1], stored(up, again).spans[1]
        assert by_json.span_id == run.spans[1].span_id.hex()
        assert by_json.attributes == by_protobuf.attributes
        assert (by_json.status, by_json.message) == (by_protobuf.status, by_protobuf.message)

    def test_json_of_a_newer_protocol(self, up: Up) -> None:
        """Fields that this version does not know are ignored, as the specification wants."""
        run = failing()
        assert up.send(json.dumps(as_json(run, somethingNew={"a": 1})).encode(), JSON).status == 200
        assert len(stored(up, run).spans) == 2

    @pytest.mark.parametrize(("kind", "body"), [(PROTOBUF, b""), (JSON, b"{}")])
    def test_an_empty_request(self, up: Up, kind: str, body: bytes) -> None:
        """No span is no error."""
        assert up.send(body, kind).status == 200

    @pytest.mark.parametrize("signal", ["metrics", "logs"])
    @pytest.mark.parametrize(
        ("kind", "body", "status"), [(PROTOBUF, b"", 200), (JSON, b"{}", 200), (PROTOBUF, b"\xff", 400)]
    )
    def test_metrics_and_logs_are_no_error(
        self, up: Up, signal: str, kind: str, body: bytes, status: int
    ) -> None:
        """A program that sends all its signals to one endpoint is not told of a fault that is none."""
        assert up.send(body, kind, f"/v1/{signal}").status == status

    def test_many_senders_at_once(self, up: Up) -> None:
        """Eight senders: every batch is answered 200 and every span is there once."""
        runs = [failing() for _ in range(80)]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda run: up.send(request(run).SerializeToString()).status, runs))
        assert answers == [200] * 80
        assert {line(up, run).spans for run in runs} == {2}


class TestRefused:
    """What cannot be taken gets the answer that OTLP wants, and the server goes on."""

    @pytest.fixture(autouse=True)
    def goes_on(self, up: Up) -> Any:
        """After whatever came, the next batch is taken."""
        yield
        run = failing()
        assert up.send(request(run).SerializeToString()).status == 200
        assert len(stored(up, run).spans) == 2

    @pytest.mark.parametrize(
        ("body", "kind", "encoding", "status"),
        [
            (b"not protobuf at all", PROTOBUF, "", 400),
            (b"\x0a\xff\xff\xff\xff\x0f", PROTOBUF, "", 400),
            (b"\x0a\x04\x0a\x02\xff\xfe", PROTOBUF, "", 400),
            (b"{", JSON, "", 400),
            (b"[]", JSON, "", 400),
            (b'{"resourceSpans": 7}', JSON, "", 400),
            (b'{"resourceSpans": [7]}', JSON, "", 400),
            (b'{"resourceSpans": [{"scopeSpans": {"a": 1}}]}', JSON, "", 400),
            (b'{"resourceSpans": [{"resource": {"attributes": [{"key": 7}]}}]}', JSON, "", 400),
            (b"[" * 100_000, JSON, "", 400),
            (b"\xff\xfe", JSON, "", 400),
            (b"plain", PROTOBUF, "gzip", 400),
            (gzip.compress(b"x" * 100, mtime=0)[:-10], PROTOBUF, "gzip", 400),
            (b"plain", PROTOBUF, "br", 400),
            (b"", "text/plain", "", 415),
            (b"", "application/x-www-form-urlencoded", "", 415),
        ],
    )
    def test_malformed(self, up: Up, body: bytes, kind: str, encoding: str, status: int) -> None:
        """A status that senders do not retry, with a google.rpc.Status that says why in the body."""
        headers = {"Content-Encoding": encoding} if encoding else {}
        answer = up.send(body, kind, **headers)
        assert answer.status == status
        if kind == JSON:
            assert answer.json["code"] == 3
            assert answer.json["message"]
        else:
            assert answer.headers["content-type"] == PROTOBUF
            assert answer.body[:2] == b"\x08\x03"

    def test_a_gzip_bomb(self, up: Up) -> None:
        """A quarter of a gigabyte of zeros in 300 kB is refused once it passes the limit."""
        packer = zlib.compressobj(9, zlib.DEFLATED, 31)
        bomb = b"".join(packer.compress(bytes(1 << 20)) for _ in range(256)) + packer.flush()
        assert len(bomb) < 300_000
        answer = up.send(bomb, **{"Content-Encoding": "gzip"})
        assert answer.status == 413
        assert b"unpacks to more" in answer.body

    def test_a_hundred_megabytes(self, up: Up) -> None:
        """A body over the limit is refused by its length, before it is sent."""
        host, port = urllib.parse.urlsplit(up.url).netloc.split(":")
        with socket.create_connection((host, int(port)), timeout=20) as connection:
            connection.sendall(
                b"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-protobuf\r\n"
                b"Content-Length: 100000000\r\n\r\n"
            )
            assert connection.recv(4096).startswith(b"HTTP/1.1 413 ")

    def test_a_hundred_megabytes_without_a_length(self, up: Up) -> None:
        """A chunked body is refused when it passes the limit, and is never held whole."""
        host, port = urllib.parse.urlsplit(up.url).netloc.split(":")
        with socket.create_connection((host, int(port)), timeout=20) as connection:
            connection.sendall(
                b"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-protobuf\r\n"
                b"Transfer-Encoding: chunked\r\n\r\n"
            )
            chunk = b"100000\r\n" + bytes(1 << 20) + b"\r\n"
            try:
                for _ in range(100):
                    connection.sendall(chunk)
            except (BrokenPipeError, ConnectionResetError):
                pass  # it stopped listening, which is what it should do
            else:
                pytest.fail("the server read a hundred megabytes")

    @pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
    def test_other_methods(self, up: Up, method: str) -> None:
        """Only POST sends."""
        assert up.ask(method, "/v1/traces").status == 405


class TestPartial:
    """Spans that cannot be kept are counted, and the others of their batch are kept."""

    @pytest.mark.parametrize(
        ("trace_id", "span_id"),
        [
            (b"", b"\1" * 8),
            (b"\1" * 15, b"\1" * 8),
            (bytes(16), b"\1" * 8),
            (b"\1" * 16, bytes(8)),
            (b"\1" * 16, b""),
        ],
    )
    def test_ids_that_are_none(self, up: Up, trace_id: bytes, span_id: bytes) -> None:
        """An id of the wrong length or of zeros: one rejected span, named in the answer."""
        run = failing()
        body = request(run)
        body.resource_spans[0].scope_spans[0].spans.add(trace_id=trace_id, span_id=span_id, name="lost")
        answer = up.send(body.SerializeToString())
        told = ExportTraceServiceResponse.FromString(answer.body).partial_success
        assert (answer.status, told.rejected_spans) == (200, 1)
        assert "span id" in told.error_message
        assert len(stored(up, run).spans) == 2

    @pytest.mark.parametrize(
        "broken",
        [
            {"traceId": "xyz"},
            {"traceId": 7},
            {"startTimeUnixNano": "soon"},
            {"startTimeUnixNano": -1},
            {"startTimeUnixNano": 2**70},
            {"attributes": {"a": 1}},
            {"status": 7},
            {"events": [{"timeUnixNano": {}}]},
        ],
    )
    def test_json_spans_that_are_none(self, up: Up, broken: dict[str, Any]) -> None:
        """One span of a JSON batch is not as OTLP says: it is left out and counted."""
        run = failing()
        body = as_json(run)
        spans = body["resourceSpans"][0]["scopeSpans"][0]["spans"]
        spans.append({**spans[1], "spanId": "0102030405060708", **broken})
        answer = up.send(json.dumps(body).encode(), JSON)
        assert answer.status == 200
        assert answer.json["partialSuccess"]["rejectedSpans"] == "1"
        assert len(stored(up, run).spans) == 2


class TestOdd:
    """Odd and valid: kept, shown and searched like anything else."""

    @pytest.mark.parametrize("start", [0, 1, 2**63 - 1, 2**63, 2**64 - 1])
    def test_a_span_from_1970_or_2262_and_later(self, up: Up, start: int) -> None:
        """Any time that OTLP can write is kept, and the pages show the run."""
        run = failing()
        run.spans[1].start_time_unix_nano = start
        run.spans[1].end_time_unix_nano = min(start + 5, 2**64 - 1)
        assert up.send(request(run).SerializeToString()).status == 200
        assert stored(up, run).spans[0].trace_id == run.trace_id
        assert up.get("/traces").status == 200
        assert up.get(f"/traces/{run.trace_id}").status == 200
        assert up.get("/tools?since=all").status == 200

    def test_a_span_that_ends_before_it_begins(self, up: Up) -> None:
        """A clock that went backwards makes a span of no length."""
        run = failing()
        run.spans[1].end_time_unix_nano = run.spans[1].start_time_unix_nano - 10**9
        assert up.send(request(run).SerializeToString()).status == 200
        assert stored(up, run).spans[1].duration == 0
        assert up.get(f"/traces/{run.trace_id}").status == 200

    def test_the_same_batch_again(self, up: Up) -> None:
        """A sender that missed the answer sends again: nothing counts twice."""
        run = failing()
        for _ in range(3):
            assert up.send(request(run).SerializeToString()).status == 200
        assert (line(up, run).spans, line(up, run).failed) == (2, 1)

    def test_a_span_again_with_another_end(self, up: Up) -> None:
        """The later one of two spans with one id counts, in every sum."""
        run = failing()
        up.send(request(run).SerializeToString())
        run.spans[1].status.code = 0
        del run.spans[1].attributes[:]
        run.spans[1].name = "mended"
        up.send(request(run).SerializeToString())
        found = line(up, run)
        assert (found.spans, found.failed, found.status) == (2, 0, "ok")
        assert [span.name for span in stored(up, run).spans] == ["invoke_agent agent", "mended"]

    def test_two_spans_of_one_id_in_a_batch(self, up: Up) -> None:
        """The later one counts; nothing else of the batch is lost."""
        run = failing()
        run.span("first", span_id="00000000000000aa")
        run.span("second", span_id="00000000000000aa")
        assert up.send(request(run).SerializeToString()).status == 200
        assert sorted(span.name for span in stored(up, run).spans)[-1] == "second"
        assert line(up, run).spans == 3

    def test_a_run_that_comes_in_pieces(self, up: Up) -> None:
        """The root comes last, as it does: name, sums and tags are those of the whole."""
        run = failing()
        first, last = request(run), request(run)
        del first.resource_spans[0].scope_spans[0].spans[0]
        del last.resource_spans[0].scope_spans[0].spans[1]
        up.send(first.SerializeToString())
        assert line(up, run).name == "execute_tool weather"
        up.send(last.SerializeToString())
        assert line(up, run) == stored(up, run).line()
        assert line(up, run).name == "agent"

    def test_parents_in_a_circle(self, up: Up) -> None:
        """Spans that are each other's parents, or their own, are all shown once."""
        run = failing()
        one, two = run.span("one"), run.span("two")
        one.parent_span_id, two.parent_span_id = two.span_id, one.span_id
        own = run.span("own")
        own.parent_span_id = own.span_id
        assert up.send(request(run).SerializeToString()).status == 200
        shown = up.get(f"/traces/{run.trace_id}").text
        assert [shown.count(f">{name}\n") for name in ("one", "two", "own")] == [1, 1, 1]

    def test_every_kind_of_attribute(self, up: Up) -> None:
        """Lists, maps, bytes, nothing and long text are kept and shown."""
        run = failing()
        given = {
            "list": [1, "two", None, [3]],
            "map": {"a": {"b": True}},
            "none": None,
            "long": "x" * 100_000,
        }
        run.span("odd", given=given)
        assert up.send(request(run).SerializeToString()).status == 200
        (span,) = [each for each in stored(up, run).spans if each.name == "odd"]
        assert span.attributes == given
        assert up.get(f"/traces/{run.trace_id}").status == 200


@pytest.mark.slow
def test_a_trace_of_fifty_thousand_spans(up: Up) -> None:
    """It is taken in batches, found at once, and its page shows a part and the way to the rest."""
    run = Run("huge")
    for number in range(50_000):
        if number == 40_000:
            run.call("needle", "error", "found_me")
        else:
            run.span(f"step {number}", 10 + number / 1000, 1)
    spans, run_spans = run.spans, []
    for at in range(0, len(spans), 5000):
        run.spans = spans[at : at + 5000]
        run_spans.append(up.send(request(run).SerializeToString()).status)
    assert set(run_spans) == {200}
    assert line(up, run).spans == 50_002 - 1
    page = up.get(f"/traces/{run.trace_id}")
    assert page.status == 200
    assert len(page.body) < 2_000_000
    assert 'href="?from=' in page.text
    place = page.text.split("needle · found_me")[0].rsplit('href="', 1)[1].split("#")[0]
    assert "found_me" in up.get(f"/traces/{run.trace_id}{place}").text
