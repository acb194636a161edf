# SPDX-License-Identifier: Apache-2.0
"""The backends that are no plain OTLP endpoint: AcruxCore, a file, the terminal; and poisoned values."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from otlp_receivers import Received, Request, grpc_receiver, http_receiver, run_program, value_of
from poisons import hostile, poison, swallow

import acrux_otel as acrux
from acrux_otel.export.console import Console
from acrux_otel.export.repair import repaired

pytestmark = pytest.mark.usefixtures("clean_outlets")


@pytest.fixture
def provider() -> TracerProvider:
    return TracerProvider(shutdown_on_exit=False)


@acrux.tool
def find(city: str) -> dict[str, Any]:
    """Find a city."""
    if city == "Atlantis":
        return acrux.ToolResult.error("location_not_found", "no such city")
    if city == "Hyderabad":
        return acrux.ToolResult.warn("ambiguous_city", "two of them", result={"city": city})
    return {"city": city}


# Poison


@pytest.mark.parametrize("receiver", [http_receiver, grpc_receiver])
def test_every_poisoned_span_arrives(
    receiver: Any, provider: TracerProvider, caplog: pytest.LogCaptureFixture
) -> None:
    """Surrogates, NaN, huge ints, cycles, 5 MB: one bad value costs neither the batch nor its own span."""
    with receiver() as received:
        acrux.configure(tracer_provider=provider, endpoint=received.url)
        names = poison(provider.get_tracer("program"))
        for value in hostile():
            swallow(value)
        names += ["execute_tool swallow"] * len(hostile())
        provider.get_tracer("program").start_span("innocent").end()
        assert acrux.flush(15)
    assert sorted(received.names()) == sorted([*names, "innocent"])
    told = {span.name: span for span in received.spans()}
    assert told["surrogate in status"].status.message == "bad ? text"
    assert told["surrogate in event"].events[0].name == "bad ? event"
    attributes = {p.key: value_of(p.value) for p in told["surrogate in attribute"].attributes}
    assert attributes == {"text": "bad ? text", "texts": ["good", "bad ?"], "key ?": "value"}
    assert {p.key: value_of(p.value) for p in told["large integer"].attributes}["int"] == hex(2**70)
    assert not caplog.records  # repaired, and so nothing to complain about


def test_a_sound_span_is_not_copied() -> None:
    """Repair costs a look at the values and nothing else where nothing is wrong."""
    span = ReadableSpan("plain", attributes={"text": "é", "list": (1, 2.5, True, "x"), "bytes": b"x"})
    assert repaired(span) is span


# AcruxCore


class AcruxCore:
    """Refuses what a running server was seen to refuse: a None in a list, a NUL, too many spans, no key."""

    def __call__(self, request: Request) -> tuple[int, bytes]:
        if request.path != "/api/v1/traces/otlp":
            return 404, b'{"error": {"code": "NOT_FOUND"}}'
        if request.headers.get("authorization") != "Bearer acx_sk_test":
            return 401, b'{"error": {"code": "UNAUTHORIZED"}}'
        spans = [
            span
            for resource in ExportTraceServiceRequest.FromString(request.body).resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]
        if len(spans) > 100:
            return 413, b""
        values = [pair.value for span in spans for pair in span.attributes]
        if any(self._poison(value) for value in values):
            return 500, b""
        return 200, b"{}"

    def _poison(self, value: Any) -> bool:
        kind = value.WhichOneof("value")
        if kind == "array_value":
            items = value.array_value.values
            return any(item.WhichOneof("value") is None or self._poison(item) for item in items)
        if kind == "kvlist_value":
            return any(self._poison(pair.value) for pair in value.kvlist_value.values)
        return kind == "string_value" and "\0" in value.string_value


@pytest.fixture
def acruxcore(monkeypatch: pytest.MonkeyPatch) -> Iterator[Received]:
    with http_receiver(AcruxCore()) as received:
        monkeypatch.setenv("ACRUXCORE_BASE_URL", f"{received.url}/api/v1")
        monkeypatch.setenv("ACRUXCORE_API_KEY", "acx_sk_test")
        yield received


def attributes_of(span: Any) -> dict[str, Any]:
    return {pair.key: value_of(pair.value) for pair in span.attributes}


def test_acruxcore_gets_its_kinds_payloads_and_warning_map(
    acruxcore: Received, provider: TracerProvider
) -> None:
    """What only that backend needs is on its copy of the span only."""
    with http_receiver() as plain:
        acrux.configure(tracer_provider=provider, backend="acruxcore", capture="full")
        acrux.configure(tracer_provider=provider, endpoint=plain.url)
        with acrux.run("agent"):
            find("Hyderabad")
        assert acrux.flush(10)
    tool, run = (attributes_of(span) for span in acruxcore.spans())
    assert (tool["openinference.span.kind"], run["openinference.span.kind"]) == ("TOOL", "AGENT")
    assert (tool["input.value"], tool["output.value"]) == ('{"city":"Hyderabad"}', '{"city":"Hyderabad"}')
    assert tool["warning"] == {"type": "ambiguous_city", "message": "two of them"}
    assert tool["warning.type"] == "ambiguous_city"
    other = attributes_of(plain.spans()[0])
    assert set(tool) - set(other) == {"openinference.span.kind", "input.value", "output.value", "warning"}


def test_acruxcore_gets_no_payload_that_was_not_captured(
    acruxcore: Received, provider: TracerProvider
) -> None:
    """capture='verdict' means no arguments and results there either."""
    acrux.configure(tracer_provider=provider, backend="acruxcore")
    find("Paris")
    assert acrux.flush(10)
    assert not {"input.value", "output.value", "warning"} & set(attributes_of(acruxcore.spans()[0]))


def test_acruxcore_gets_small_batches_without_poison(
    acruxcore: Received, provider: TracerProvider, caplog: pytest.LogCaptureFixture
) -> None:
    """At most 100 spans a request, no None in a list, no NUL: the server takes everything."""
    acrux.configure(tracer_provider=provider, backend="acruxcore")
    tracer = provider.get_tracer("program")
    for number in range(250):
        span = tracer.start_span(f"span {number}")
        span.set_attribute("list", ["a", None, "b\0c"])
        span.end()
    assert acrux.flush(15)
    assert len(acruxcore.spans()) == 250
    assert attributes_of(acruxcore.spans()[0])["list"] == ["a", "b�c"]
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_wrong_key_is_said_without_the_key(
    acruxcore: Received,
    provider: TracerProvider,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """401 with the URL, once."""
    monkeypatch.setenv("ACRUXCORE_API_KEY", "acx_sk_wrong")
    acrux.configure(tracer_provider=provider, backend="acruxcore")
    find("Paris")
    assert not acrux.flush(5)
    (record,) = caplog.records
    assert "/api/v1/traces/otlp: HTTP 401" in record.getMessage()
    assert "acx_sk" not in caplog.text


def test_netrc_does_not_replace_the_key(
    acruxcore: Received, provider: TracerProvider, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """requests would send a matching ~/.netrc entry instead of the header that was configured."""
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password other\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    acrux.configure(tracer_provider=provider, backend="acruxcore")
    find("Paris")
    assert acrux.flush(10)
    assert len(acruxcore.spans()) == 1


# Tempo


def test_tempo_gets_payloads_that_it_does_not_cut(provider: TracerProvider) -> None:
    """Its default is 2,048 bytes an attribute: cut by us, the JSON still parses."""
    with http_receiver() as received:
        acrux.configure(tracer_provider=provider, backend="tempo", endpoint=received.url, capture="full")
        find("x" * 10_000)
        assert acrux.flush(10)
    arguments = attributes_of(received.spans()[0])["gen_ai.tool.call.arguments"]
    assert len(arguments.encode()) <= 2048
    assert json.loads(arguments)


# A file


def test_a_file_holds_one_otlp_request_on_each_line(provider: TracerProvider, tmp_path: Path) -> None:
    """OTLP's JSON mapping: ids in hex, enums as numbers; and it reads back as the same request."""
    from google.protobuf.json_format import ParseDict

    path = tmp_path / "spans.jsonl"
    acrux.configure(tracer_provider=provider, file=path)
    with acrux.run("agent") as run:
        find("Atlantis")
    assert acrux.flush(10)
    find("Paris")
    assert acrux.flush(10)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(lines) == 2
    tool, agent = lines[0]["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert (tool["traceId"], tool["parentSpanId"]) == (run.trace_id, agent["spanId"])
    assert len(tool["spanId"]) == 16
    assert (tool["status"]["code"], tool["kind"]) == (2, 1)
    for span in (tool, agent):
        for key in ("traceId", "spanId", "parentSpanId"):
            span.pop(key, None)
    read = ParseDict(lines[0], ExportTraceServiceRequest())
    assert read.resource_spans[0].scope_spans[0].spans[0].name == "execute_tool find"


def test_a_file_that_cannot_be_written_is_said_once(
    provider: TracerProvider, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The program goes on."""
    path = tmp_path / "spans.jsonl"
    acrux.configure(tracer_provider=provider, backend="file", file=str(path))
    path.mkdir()
    for _ in range(2):
        find("Paris")
        assert not acrux.flush(5)
    assert [record.getMessage() for record in caplog.records] == [
        f"cannot send traces to {path}: Is a directory; the program is not affected"
    ]


# The terminal


def test_the_console_shows_each_call_as_it_ends() -> None:
    """On standard error, plain in a pipe: run, trace colour so far, tool, verdict."""
    done = run_program(
        """
        acrux.configure(backend="console")
        with acrux.run("weather"):
            find("Paris")
            find("Atlantis")
            find("Paris")
        find("Paris")
        """
    )
    assert (done.returncode, done.stdout) == (0, "")
    header, *rows = [line.split() for line in done.lines]
    assert header == ["run", "trace", "tool", "outcome", "errorType", "errorCode", "errorDetail"]
    assert rows[0] == ["weather", "green", "find", "ok", "-", "-", "-"]
    assert rows[1][:6] == ["weather", "red", "find", "error", "tool_declared", "location_not_found"]
    assert rows[2][:4] == ["weather", "red", "find", "ok"]
    assert rows[3][1:4] == ["green", "find", "ok"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("plain", [False, True])
def test_the_console_has_colours_on_a_terminal_only(
    provider: TracerProvider, monkeypatch: pytest.MonkeyPatch, plain: bool
) -> None:
    """NO_COLOR is respected, and control characters of a service never reach the terminal."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    if plain:
        monkeypatch.setenv("NO_COLOR", "1")
    terminal = Terminal()
    provider.add_span_processor(Console(terminal))
    acrux.configure(tracer_provider=provider)
    find("Hyderabad")
    provider.get_tracer("x").start_span(
        "x",
        attributes={
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "evil\x1b[2J",
            "acrux.tool.outcome": "ok",
        },
    ).end()
    shown = terminal.getvalue()
    assert ("\x1b[33mamber\x1b[0m" in shown) is not plain
    assert "\x1b[2J" not in shown


def test_a_closed_terminal_does_not_fail_a_call(provider: TracerProvider) -> None:
    """Writing to a stream that is gone is no reason to fail a tool."""
    gone = io.StringIO()
    gone.close()
    provider.add_span_processor(Console(gone))
    acrux.configure(tracer_provider=provider)
    assert find("Paris") == {"city": "Paris"}
