# SPDX-License-Identifier: Apache-2.0
"""agent.yaml before gateways, as it ships: traces stay whole, and an outage behind a queue loses nothing."""

from __future__ import annotations

import time
import urllib.request
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Final

import pytest
import yaml
from backends.conftest import StartCollector
from backends.servers import Collector, free_ports
from otlp_receivers import run_program

from .conftest import CONFIGS, OWN_PORTS, StartGateway
from .foreign import post

pytestmark = [pytest.mark.backends, pytest.mark.timeout(180)]

TRACES: Final = 60
TOOLS: Final = 3

# A list of gateways instead of a DNS name: two addresses of one name cannot be had on one machine.
LISTED: Final = """
exporters:
  load_balancing:
    resolver:
      dns: null
      static:
        hostnames: [{}]
"""

# A backend that is nothing but a file.
BACKEND: Final = """
exporters:
  file:
    path: ${env:COLLECTOR_SPANS_FILE}
    append: true
    flush_interval: 50ms
extensions:
  health_check:
    endpoint: 127.0.0.1:${env:COLLECTOR_HEALTH_PORT}
receivers:
  otlp:
    protocols:
      grpc:
        endpoint: 127.0.0.1:${env:COLLECTOR_OTLP_GRPC_PORT}
service:
  extensions: [health_check]
  pipelines:
    traces:
      receivers: [otlp]
      exporters: [file]
  telemetry:
    metrics:
      level: none
"""

StartAgent = Callable[..., Collector]


def port_of(server: Collector) -> str:
    return server.grpc_endpoint.rpartition(":")[2]


@pytest.fixture
def agent(collector: StartCollector) -> StartAgent:
    """Starts agents: the stock config as it is; `over` is merged over it."""

    def start(*over: str, **env: str) -> Collector:
        (telemetry,) = free_ports(1)
        variables = {
            "ACRUX_CONFIG_FOLDER": str(CONFIGS),
            "ACRUX_GATEWAYS": "127.0.0.1",
            "ACRUX_TELEMETRY_PORT": str(telemetry),
            "ACRUX_RETRY_INTERVAL": "200ms",
        }
        return collector(configs=[CONFIGS / "agent.yaml", *over, OWN_PORTS], env={**variables, **env})

    return start


def piece(trace: int, span: int, service: str) -> dict[str, Any]:
    """One span of a run in a request of its own: span 1 is the run, the others are its tool calls."""
    now = time.time_ns()
    kind = "AGENT" if span == 1 else "TOOL"
    encoded = {
        "traceId": f"{trace * 2654435761 % 2**32:08x}{trace:024x}",
        "spanId": f"{trace * 100 + span:016x}",
        "parentSpanId": "" if span == 1 else f"{trace * 100 + 1:016x}",
        "name": kind.lower(),
        "kind": 1,
        "startTimeUnixNano": str(now),
        "endTimeUnixNano": str(now + 1000),
        "attributes": [{"key": "openinference.span.kind", "value": {"stringValue": kind}}],
    }
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": service}}]}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": [encoded]}]}]}


def test_the_spans_of_a_trace_meet_at_one_gateway(gateway: StartGateway, agent: StartAgent) -> None:
    """Spans of many runs, sent one by one in any order: each run is whole at one of two gateways."""
    gateways = [gateway(CONFIGS / "toolverdict.yaml", ACRUX_WAIT="3s") for _ in range(2)]
    hosts = ", ".join(f'"127.0.0.1:{port_of(server)}"' for server in gateways)
    first = agent(LISTED.format(hosts))
    for span in (2, 3, 1, 4):
        for trace in range(1, TRACES + 1):
            post(first.http_endpoint, piece(trace, span, "tiers"))
    deadline = time.monotonic() + 30
    found: list[list[Any]] = []
    while sum(map(len, found)) < TRACES * (TOOLS + 1) and time.monotonic() < deadline:
        found = [server.spans() for server in gateways]
        time.sleep(0.2)
    for server in (first, *gateways):
        server.stop()
    where: dict[str, set[int]] = defaultdict(set)
    for number, spans in enumerate(found):
        assert len(spans) > TRACES // 4, "both gateways have a share"
        for span in spans:
            where[span.trace_id].add(number)
    assert len(where) == TRACES
    assert {len(places) for places in where.values()} == {1}
    roots = [span for spans in found for span in spans if span.name == "agent"]
    assert {root.attributes["acrux.tool.calls"] for root in roots} == {TOOLS}
    assert not [root for root in roots if "acrux.trace.partial" in root.attributes]


def test_an_agent_loses_nothing_while_its_gateway_is_away(gateway: StartGateway, agent: StartAgent) -> None:
    """No gateway answers and the agent is killed: what it took is on disk, and arrives once both are back."""
    server = gateway()
    before = agent(ACRUX_GATEWAY_PORT=port_of(server))
    server.stop()
    for trace in range(1, TRACES + 1):
        post(before.http_endpoint, piece(trace, 2, "away"))
    before.kill()
    assert server.spans() == []
    before.start()
    time.sleep(1)
    server.start()
    server.wait_for_spans(lambda span: True, count=TRACES, timeout=30)
    before.stop()
    server.stop()
    spans = server.spans()
    assert len({span.trace_id for span in spans}) == TRACES


def test_a_gateway_loses_nothing_while_its_backend_is_away(
    gateway: StartGateway, collector: StartCollector
) -> None:
    """The backend is down and the gateway is stopped: what it kept arrives once both are back."""
    backend = collector(configs=[BACKEND])
    address = backend.grpc_endpoint.removeprefix("http://")
    backend.stop()
    server = gateway(CONFIGS / "to_tempo.yaml", ACRUX_TEMPO_ENDPOINT=address, ACRUX_RETRY_INTERVAL="200ms")
    for trace in range(1, TRACES + 1):
        post(server.http_endpoint, piece(trace, 2, "backend"))
    server.wait_for_spans(lambda span: True, count=TRACES)
    server.stop()
    server.start()
    assert backend.spans() == []
    backend.start()
    backend.wait_for_spans(lambda span: True, count=TRACES, timeout=30)
    server.stop()
    backend.stop()
    assert len({span.trace_id for span in backend.spans()}) == TRACES


METRICS: Final = """
acrux.configure("tiers", endpoint=sys.argv[1])
find("Paris")
"""


def test_an_agent_hands_metrics_on(gateway: StartGateway, agent: StartAgent) -> None:
    """Program -> agent -> gateway, found by DNS name: the calls are counted where Prometheus asks."""
    server = gateway()
    first = agent(ACRUX_GATEWAY_PORT=port_of(server))
    done = run_program(METRICS, first.http_endpoint)
    assert (done.returncode, done.stderr) == (0, "")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline, text = time.monotonic() + 20, ""
    while "acrux_tool_calls_total{" not in text and time.monotonic() < deadline:
        with opener.open(server.prometheus_endpoint, timeout=5) as answer:
            text = answer.read().decode()
        time.sleep(0.2)
    first.stop()
    server.stop()
    (line,) = [line for line in text.splitlines() if line.startswith("acrux_tool_calls_total{")]
    assert 'gen_ai_tool_name="find"' in line
    assert 'job="tiers"' in line


def test_every_queue_on_disk_is_offered_until_it_is_taken() -> None:
    """No exporter with a queue on disk gives up after the default 5 minutes."""
    for name in ("agent", "to_jaeger", "to_tempo"):
        for exporter in yaml.safe_load((CONFIGS / f"{name}.yaml").read_text("utf-8"))["exporters"].values():
            assert exporter["sending_queue"].endswith("pieces/sending_queue.yaml}")
            assert exporter["retry_on_failure"].endswith("pieces/retry.yaml}")
    retry = yaml.safe_load((CONFIGS / "pieces" / "retry.yaml").read_text("utf-8"))
    assert retry["enabled"] is True, "the balancing exporter does not retry unless told to"
    assert retry["max_elapsed_time"] == "0s"
