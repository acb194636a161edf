# SPDX-License-Identifier: Apache-2.0
"""Metrics made of spans: what is counted, and how many series that can make."""

from __future__ import annotations

import os
import re
import time
import urllib.request
from typing import Any, Final

import pytest
import yaml
from backends.servers import Collector
from google.protobuf.message import Message
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    Metric,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span
from otlp_receivers import run_program

from .conftest import CONFIGS, StartGateway
from .foreign import ERROR, Foreign, otlp, post

pytestmark = [pytest.mark.backends, pytest.mark.timeout(120)]

LIMIT: Final = 2000  # as docs/scale.md says
BAD: Final = "~BAD"


def points(server: Collector, metric: str) -> dict[frozenset[tuple[str, str]], float]:
    """The series of one metric that Prometheus would scrape now: labels -> value."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(server.prometheus_endpoint, timeout=10) as answer:
        text = answer.read().decode()
    found = {}
    for labels, value in re.findall(rf"^{metric}{{(.*)}} (\S+)", text, re.MULTILINE):
        found[frozenset(re.findall(r'(\w+)="([^"]*)"', labels))] = float(value)
    return found


def counted(server: Collector, metric: str, calls: int) -> dict[frozenset[tuple[str, str]], float]:
    """The same, once all calls are in it."""
    deadline = time.monotonic() + 20
    found: dict[frozenset[tuple[str, str]], float] = {}
    while sum(found.values()) < calls and time.monotonic() < deadline:
        time.sleep(0.2)
        found = points(server, metric)
    return found


def post_bytes(server: Collector, signal: str, message: Message) -> None:
    """An OTLP request as protobuf, in which BAD is bytes that are no UTF-8: JSON could not carry them."""
    body = message.SerializeToString().replace(BAD.encode(), b"\xff\xfe\xc3\xff")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    headers = {"Content-Type": "application/x-protobuf"}
    with opener.open(
        urllib.request.Request(f"{server.http_endpoint}/v1/{signal}", body, headers), timeout=10
    ):
        pass


def key_values(attributes: dict[str, str]) -> list[KeyValue]:
    return [KeyValue(key=key, value=AnyValue(string_value=value)) for key, value in attributes.items()]


def span_of(service: dict[str, str], attributes: dict[str, str]) -> ExportTraceServiceRequest:
    span = Span(
        trace_id=os.urandom(16),
        span_id=os.urandom(8),
        name="bad",
        attributes=key_values({"gen_ai.operation.name": "execute_tool", **attributes}),
    )
    resource = Resource(attributes=key_values(service))
    return ExportTraceServiceRequest(
        resource_spans=[ResourceSpans(resource=resource, scope_spans=[ScopeSpans(spans=[span])])]
    )


def counter_of(service: dict[str, str], attributes: dict[str, str]) -> ExportMetricsServiceRequest:
    point = NumberDataPoint(as_int=1, attributes=key_values(attributes), time_unix_nano=time.time_ns())
    total = Sum(data_points=[point], aggregation_temporality=2, is_monotonic=True)
    scope = ScopeMetrics(metrics=[Metric(name="acrux.tool.calls", sum=total)])
    resource = Resource(attributes=key_values(service))
    return ExportMetricsServiceRequest(
        resource_metrics=[ResourceMetrics(resource=resource, scope_metrics=[scope])]
    )


def declared(tool: str, code: str) -> tuple[str, Foreign]:
    said: dict[str, Any] = {"gen_ai.tool.name": tool, "errorType": "tool_declared", "errorCode": code}
    return "genai", Foreign(said, ERROR)


@pytest.mark.parametrize("what", ["errorCode", "gen_ai.tool.name"])
def test_past_the_limit_calls_are_counted_under_one_overflow_label(gateway: StartGateway, what: str) -> None:
    """A program with too many label sets costs a bounded number of series, and no call is lost."""
    calls = LIMIT + 500
    server = gateway()
    for begin in range(0, calls, 500):
        numbers = range(begin, begin + 500)
        many = {
            f"s{n}": declared(f"t{n}", "c") if what == "gen_ai.tool.name" else declared("t", f"c{n}")
            for n in numbers
        }
        post(server.http_endpoint, otlp(many, "many"))
    post(server.http_endpoint, otlp({"one": declared("t", "c")}, "few"))
    found = counted(server, "acrux_span_calls_total", calls + 1)
    of = {
        name: {labels: value for labels, value in found.items() if ("job", name) in labels}
        for name in ("many", "few")
    }
    assert sum(of["many"].values()) == calls
    assert len(of["many"]) <= LIMIT + 1
    overflow = [value for labels, value in of["many"].items() if ("otel_metric_overflow", "true") in labels]
    assert overflow == [calls - LIMIT]
    (few,) = of["few"]
    assert not [name for name, _ in few if name == "otel_metric_overflow"]
    durations = points(server, "acrux_span_duration_seconds_count")
    assert sum(durations.values()) == calls + 1
    assert len(durations) <= LIMIT + 2
    server.stop()


SPAN_METRICS: Final = yaml.safe_load((CONFIGS / "pieces" / "span_metrics.yaml").read_text("utf-8"))
FORGETTING: Final = {**SPAN_METRICS, "aggregation_cardinality_limit": 3, "series_expiration": "1s"}


def test_label_sets_without_calls_make_room_for_others(gateway: StartGateway) -> None:
    """A program that goes on calling is not past the limit for ever: what it calls no more is forgotten."""
    assert SPAN_METRICS["series_expiration"] == "1h", "as docs/runbook.md says"
    server = gateway(yaml.safe_dump({"connectors": {"span_metrics/calls": FORGETTING}}))
    post(server.http_endpoint, otlp({f"s{n}": declared("t", f"c{n}") for n in range(5)}, "busy"))
    assert len(counted(server, "acrux_span_calls_total", 5)) == 4, "three and the overflow"
    deadline, codes = time.monotonic() + 20, set[str]()
    while "later" not in codes and time.monotonic() < deadline:
        post(server.http_endpoint, otlp({"s": declared("t", "later")}, "busy"))
        time.sleep(0.3)
        codes = {dict(labels).get("errorCode", "") for labels in points(server, "acrux_span_calls_total")}
    assert "later" in codes
    server.stop()


def test_a_call_that_did_not_run_and_a_layer_are_no_calls(gateway: StartGateway) -> None:
    """One call in three spans counts once, and a call that never ran not at all."""
    server = gateway()
    spans = {
        "ran": ("genai", Foreign()),
        "refused": ("genai", Foreign({"acrux.tool.outcome": "not_executed"})),
        "layer": ("mcp", Foreign({"acrux.tool.outcome": "ok", "acrux.tool.layer_of": "00000000000000aa"})),
    }
    post(server.http_endpoint, otlp(spans, "calls"))
    server.wait_for_spans(lambda span: True, count=3)
    found = counted(server, "acrux_span_calls_total", 1)
    time.sleep(0.5)
    assert list(points(server, "acrux_span_calls_total").values()) == [1.0]
    ((labels, _),) = found.items()
    assert {("gen_ai_tool_name", "search"), ("acrux_tool_outcome", "ok"), ("job", "calls")} <= labels
    server.stop()


def test_processes_of_one_program_are_counted_together(gateway: StartGateway) -> None:
    """Resources that differ in what is no label make one series, and do not overwrite each other in it."""
    server = gateway()
    for pid, calls in ((1, 5), (2, 1), (1, 1), (2, 1)):
        post(
            server.http_endpoint,
            otlp(
                {f"s{n}": declared("t", "c") for n in range(calls)},
                "java",
                process_pid=pid,
                service_instance_id=f"i{pid}",
            ),
        )
        time.sleep(0.4)
    ((labels, calls),) = counted(server, "acrux_span_calls_total", 8).items()
    assert calls == 8
    assert "instance" not in dict(labels), "Prometheus writes the gateway there"
    server.stop()


def test_refusals_of_an_open_circuit_have_an_outcome_of_their_own(gateway: StartGateway) -> None:
    """What our guard refused never ran: it is no failure of the tool, and no latency of it."""
    server = gateway()
    refused = {"errorType": "transport", "errorCode": "circuit_open", "acrux.tool.outcome": "error"}
    spans = {"ran": declared("t", "c"), "refused": ("genai", Foreign(refused, ERROR))}
    post(server.http_endpoint, otlp(spans, "guarded"))
    outcomes = {dict(labels)["acrux_tool_outcome"] for labels in counted(server, "acrux_span_calls_total", 2)}
    assert outcomes == {"error", "refused"}
    server.stop()


def test_labels_are_bounded_and_known(gateway: StartGateway) -> None:
    """A name of any length is cut, and an outcome or a type that is none is `other`."""
    server = gateway()
    ours = {"acrux.tool.outcome": "error", "errorType": "oops", "errorCode": "c"}
    spans = {
        "long": ("genai", Foreign({"gen_ai.tool.name": "x" * 100_000})),
        "odd": ("genai", Foreign({"acrux.tool.outcome": "nonsense"})),
        "type": ("genai", Foreign(ours)),
        "trace": ("genai", Foreign({"acrux.trace.outcome": "nonsense", "acrux.trace.partial": "nonsense"})),
    }
    post(server.http_endpoint, otlp(spans, "odd"))
    labels = [dict(each) for each in counted(server, "acrux_span_calls_total", 4)]
    assert {label["acrux_tool_outcome"] for label in labels} == {"ok", "error", "other"}
    assert {label.get("errorType", "") for label in labels} == {"", "other"}
    assert sorted({len(label["gen_ai_tool_name"]) for label in labels}) == [len("search"), 256]
    (trace,) = [dict(each) for each in counted(server, "acrux_trace_calls_total", 1)]
    assert (trace["acrux_trace_outcome"], trace["acrux_trace_partial"]) == ("other", "false")
    server.stop()


def test_bytes_that_are_no_text_are_counted_too(gateway: StartGateway) -> None:
    """Whichever label they are in, of a span or of a program's own metric, no series is left out."""
    server = gateway()
    labels = ["gen_ai.tool.name", "acrux.tool.outcome", "errorType", "errorCode"]
    for label in labels:
        post_bytes(
            server, "traces", span_of({"service.name": "bytes"}, {"acrux.tool.outcome": "ok", label: BAD})
        )
        post_bytes(server, "metrics", counter_of({"service.name": "bytes"}, {label: BAD}))
    for label in ("service.name", "service.namespace"):
        service = {"service.name": "bytes", "host.name": BAD, label: BAD}
        post_bytes(server, "traces", span_of(service, {}))
        post_bytes(server, "metrics", counter_of(service, {}))
    traces = ["acrux.trace.outcome", "acrux.trace.partial", "acrux.trace.storm_tool"]
    for label in traces:
        post_bytes(
            server, "traces", span_of({"service.name": "bytes"}, {"acrux.trace.outcome": "ok", label: BAD})
        )
    calls = len(labels) + 2 + len(traces)
    assert sum(counted(server, "acrux_span_calls_total", calls).values()) == calls
    assert sum(counted(server, "acrux_trace_calls_total", len(traces)).values()) == len(traces)
    assert sum(counted(server, "acrux_tool_calls_total", len(labels) + 2).values()) == len(labels) + 2
    server.stop()


RUN_IN_RUN: Final = """
acrux.configure("nested", endpoint=sys.argv[1])
with acrux.run("outer"):
    with acrux.run("inner"):
        find("Paris")
    find("Atlantis")
"""


def test_a_trace_of_several_runs_is_one_trace(gateway: StartGateway) -> None:
    """With toolverdict a trace is counted once, by what was found of all of it."""
    server = gateway(CONFIGS / "toolverdict.yaml")
    done = run_program(RUN_IN_RUN, server.http_endpoint)
    assert (done.returncode, done.stderr) == (0, "")
    found = counted(server, "acrux_trace_calls_total", 1)
    time.sleep(0.5)
    assert list(points(server, "acrux_trace_calls_total").values()) == [1.0]
    ((labels, _),) = found.items()
    assert ("acrux_trace_outcome", "error") in labels
    server.stop()


def test_both_connectors_have_the_limit_that_the_docs_name() -> None:
    """The limit is on for calls and for traces."""
    for piece in ("span_metrics", "trace_metrics"):
        config = yaml.safe_load((CONFIGS / "pieces" / f"{piece}.yaml").read_text("utf-8"))
        assert config["aggregation_cardinality_limit"] == LIMIT
    assert "At most 2,000 label sets" in (CONFIGS.parent / "docs" / "scale.md").read_text("utf-8")
