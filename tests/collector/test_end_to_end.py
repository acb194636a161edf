# SPDX-License-Identifier: Apache-2.0
"""Programs -> the gateway as it ships -> the real Jaeger, found there by query; and what sampling keeps."""

from __future__ import annotations

import time
from hashlib import md5
from uuid import uuid4

import pytest
from backends.servers import Jaeger
from otlp_receivers import run_program

from .conftest import CONFIGS, StartGateway
from .foreign import ERROR, Foreign, otlp, post

pytestmark = [pytest.mark.backends, pytest.mark.timeout(120)]

AGENT = """
@acrux.tool
def brief(city: str) -> dict:
    return acrux.ToolResult.warn("ambiguous_city", "two of them", result={"city": city})

for name, call in (("good", find), ("failed", find), ("warned", brief)):
    with acrux.run(name) as run:
        call("Atlantis" if name == "failed" else "Paris")
    print(name, run.trace_id)
"""

# A program that has never heard of us: OpenInference's names on plain OpenTelemetry spans.
FOREIGN = """
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider(resource=Resource({"service.name": sys.argv[2]}))
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(sys.argv[1] + "/v1/traces")))
tracer = provider.get_tracer("openinference.instrumentation.demo")
for name in ("good", "failed"):
    with tracer.start_as_current_span(name, attributes={"openinference.span.kind": "AGENT"}) as root:
        for city in ("Oslo", "Atlantis" if name == "failed" else "Paris"):
            try:
                with tracer.start_as_current_span("lookup", attributes={"openinference.span.kind": "TOOL"}):
                    if city == "Atlantis":
                        raise ConnectionRefusedError(111, "refused")
            except ConnectionRefusedError:
                pass
    print(name, format(root.get_span_context().trace_id, "032x"))
provider.shutdown()
"""


@pytest.fixture
def service() -> str:
    """A service name that no other test has."""
    return f"gateway-{uuid4().hex[:8]}"


def runs_of(program: str, *arguments: str) -> dict[str, str]:
    done = run_program(program, *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return dict(line.split() for line in done.stdout.splitlines())


def to_jaeger(jaeger: Jaeger) -> dict[str, str]:
    return {"ACRUX_JAEGER_ENDPOINT": jaeger.grpc_endpoint.removeprefix("http://")}


def test_a_run_is_found_by_what_became_of_it(gateway: StartGateway, jaeger: Jaeger, service: str) -> None:
    """SDK -> gateway with toolverdict -> Jaeger: each outcome finds its run, warnings show as warnings."""
    server = gateway(CONFIGS / "toolverdict.yaml", CONFIGS / "to_jaeger.yaml", **to_jaeger(jaeger))
    runs = runs_of(f"acrux.configure({service!r}, endpoint=sys.argv[1])" + AGENT, server.http_endpoint)
    assert len(jaeger.api.find(service, count=3)) == 3
    for outcome, run in (("ok", "good"), ("error", "failed"), ("warning", "warned")):
        found = jaeger.api.find(service, tags={"acrux.trace.outcome": outcome})
        assert [trace.trace_id for trace in found] == [runs[run]], outcome
    (failed,) = jaeger.api.find(service, tags={"errorCode": "location_not_found"})
    assert failed.trace_id == runs["failed"]
    (warned,) = jaeger.api.find(service, tags={"warning.type": "ambiguous_city"})
    assert [span.warnings for span in warned.spans if span.warnings] == [["ambiguous_city: two of them"]]
    server.stop()


def test_a_program_that_nobody_touched_is_found_too(
    gateway: StartGateway, jaeger: Jaeger, service: str
) -> None:
    """Foreign spans -> toolverdict -> Jaeger: the run with the failed tool is found by its root."""
    server = gateway(CONFIGS / "toolverdict.yaml", CONFIGS / "to_jaeger.yaml", **to_jaeger(jaeger))
    runs = runs_of(FOREIGN, server.http_endpoint, service)
    assert len(jaeger.api.find(service, count=2)) == 2
    (found,) = jaeger.api.find(service, tags={"acrux.trace.outcome": "error"})
    assert found.trace_id == runs["failed"]
    (root,) = found.tagged(**{"acrux.trace.outcome": "error"})
    assert root.tags["acrux.tool.calls"] == 2
    assert root.tags["acrux.tool.failed"] == 1
    assert root.tags["acrux.tool.first_failed.name"] == "lookup"
    assert root.tags["acrux.tool.first_failed.error_code"] == "connection_refused"
    server.stop()


def test_the_stock_gateway_makes_foreign_failures_findable(
    gateway: StartGateway, jaeger: Jaeger, service: str
) -> None:
    """Foreign spans -> stock gateway -> Jaeger: the failed call is found by its errorType."""
    server = gateway(CONFIGS / "to_jaeger.yaml", **to_jaeger(jaeger))
    runs = runs_of(FOREIGN, server.http_endpoint, service)
    assert len(jaeger.api.find(service, count=2)) == 2
    (found,) = jaeger.api.find(service, tags={"errorType": "transport"})
    assert found.trace_id == runs["failed"]
    server.stop()


def test_a_warning_without_text_shows_its_code(gateway: StartGateway, jaeger: Jaeger, service: str) -> None:
    """Jaeger's Warnings section has the code and the text, or the code alone where nothing was captured."""
    server = gateway(CONFIGS / "to_jaeger.yaml", **to_jaeger(jaeger))
    verdict = {"acrux.tool.outcome": "warning", "errorType": "tool_declared", "errorCode": "stale"}
    spans = {
        "bare": ("genai", Foreign(verdict)),
        "no code": ("genai", Foreign({**verdict, "errorCode": None})),
        "no code, text": ("genai", Foreign({**verdict, "errorCode": None, "errorDetail": "a day old"})),
        "empty": ("genai", Foreign({**verdict, "errorDetail": ""})),
        "both": ("genai", Foreign({**verdict, "errorDetail": "a day old"})),
    }
    post(server.http_endpoint, otlp(spans, service))
    shown = {trace.spans[0].name: trace.spans[0].warnings for trace in jaeger.api.find(service, count=5)}
    assert shown == {
        "bare": ["stale"],
        "no code": ["warning"],
        "no code, text": ["a day old"],
        "empty": ["stale"],
        "both": ["stale: a day old"],
    }
    server.stop()


def failing(tool: str) -> tuple[str, Foreign]:
    return "genai", Foreign({"gen_ai.tool.name": tool}, ERROR, exception="ValueError")


def test_failures_and_warnings_survive_where_successes_do_not(gateway: StartGateway) -> None:
    """With no share for traces that went well, the failed and the warned one are kept, and nothing else."""
    server = gateway(ACRUX_OK_PERCENT="0")
    said = {"warning.type": "stale_data", "warning.message": "a day old"}
    warned = Foreign(said)
    no_tool = Foreign({**said, "gen_ai.operation.name": "chat"})
    spans = {f"ok-{number}": ("genai", Foreign()) for number in range(50)}
    post(server.http_endpoint, otlp({**spans, "failed": failing("search"), "warned": ("genai", warned)}))
    post(server.http_endpoint, otlp({"warned, no tool": ("genai", no_tool)}))
    server.wait_for_spans(lambda span: True, count=3)
    time.sleep(0.5)
    server.stop()
    assert {span.name for span in server.spans()} == {"failed", "warned", "warned, no tool"}


def test_a_share_of_what_went_well_is_kept(gateway: StartGateway) -> None:
    """Of 1,000 traces that went well some 30 % are kept where that is asked for."""
    server = gateway(ACRUX_OK_PERCENT="30")
    for begin in (0, 500):
        post(server.http_endpoint, otlp({f"ok-{number}": ("genai", Foreign()) for number in range(500)}))
        server.wait_for_spans(lambda span: True, count=100 + begin // 5)
    time.sleep(1)
    server.stop()
    assert 230 <= len(server.spans()) <= 370


def test_more_traces_than_the_sampler_holds_are_waited_for(gateway: StartGateway) -> None:
    """At num_traces the sampler waits for decisions: no failed trace is thrown away undecided."""
    server = gateway(ACRUX_OK_PERCENT="0", ACRUX_NUM_TRACES="10", ACRUX_DECISION_WAIT="1s")
    post(server.http_endpoint, otlp({f"failed-{number}": failing("search") for number in range(25)}))
    server.wait_for_spans(lambda span: True, count=25, timeout=30)
    server.stop()


def test_a_flood_of_one_tools_failures_does_not_hide_another(gateway: StartGateway) -> None:
    """Past the rate the flood is cut, and the one failure of a quiet tool is kept by its floor."""
    first_digit = {tool: int(md5(tool.encode()).hexdigest()[0], 16) // 2 for tool in ("search", "refund")}
    assert first_digit["search"] != first_digit["refund"], "the two are in different groups"
    limits = {
        "ACRUX_OK_PERCENT": "0",
        "ACRUX_FLOOR_SPANS_PER_SECOND": "1",
        "ACRUX_FAILED_SPANS_PER_SECOND": "1",
        "ACRUX_BURST_SPANS": "10",
    }
    server = gateway(**limits)
    flood = {f"flood-{number}": failing("search") for number in range(300)}
    post(server.http_endpoint, otlp({**flood, "quiet": failing("refund")}))
    server.wait_for_spans(lambda span: span.name == "quiet")
    time.sleep(0.5)
    server.stop()
    kept = [span.name for span in server.spans()]
    assert kept.count("quiet") == 1
    assert 21 <= len(kept) <= 31, "two bursts of 10, the quiet one, and what trickles in meanwhile"
