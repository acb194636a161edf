# SPDX-License-Identifier: Apache-2.0
"""The product end to end: decorated tool, our exporters, the real collector, the real Jaeger, its search."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

import pytest
from otlp_receivers import Program, run_program

from .conftest import StartCollector
from .servers import Collector, Jaeger

pytestmark = pytest.mark.backends

PROTOCOLS = ["http/protobuf", "grpc"]

AGENT = """
class ServiceUnavailable(Exception):
    status_code = 503

@acrux.tool
def bill(order: str) -> dict:
    raise ServiceUnavailable("billing is down")

@acrux.tool
def brief(city: str) -> dict:
    return acrux.ToolResult.warn("ambiguous_city", "two of them", result={"city": city})

for name in ("good", "declared", "raised", "warned"):
    with acrux.run(name) as run:
        if name == "declared":
            find("Atlantis")
        elif name == "raised":
            try:
                bill("o1")
            except ServiceUnavailable:
                pass
        elif name == "warned":
            brief("Hyderabad")
        else:
            find("Paris")
    print(name, run.trace_id)
"""


@pytest.fixture
def service() -> str:
    """A service name that no other test has."""
    return f"product-{uuid4().hex[:8]}"


def endpoint(server: Collector | Jaeger, protocol: str) -> str:
    return server.grpc_endpoint if protocol == "grpc" else server.http_endpoint


def traces_of(done: Program) -> dict[str, str]:
    assert (done.returncode, done.stderr) == (0, "")
    return dict(line.split() for line in done.stdout.splitlines())


def ids(found: Sequence[object]) -> set[str]:
    return {trace.trace_id for trace in found}  # type: ignore[attr-defined]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_jaeger_finds_the_failing_calls(
    jaeger: Jaeger, collector: StartCollector, service: str, protocol: str
) -> None:
    """A29: tool -> SDK -> collector -> Jaeger; each query returns the failing trace and no other."""
    started = collector(jaeger=jaeger)
    done = run_program(
        f"acrux.configure({service!r}, endpoint=sys.argv[1], protocol=sys.argv[2])" + AGENT,
        endpoint(started, protocol),
        protocol,
    )
    runs = traces_of(done)
    find = jaeger.api.find

    assert ids(find(service, count=4)) == set(runs.values())
    queries = [
        ({"errorType": "tool_declared", "acrux.tool.outcome": "error"}, "declared"),
        ({"errorCode": "location_not_found"}, "declared"),
        ({"errorType": "http_status"}, "raised"),
        ({"errorCode": "http_503", "gen_ai.tool.name": "bill"}, "raised"),
        ({"http.response.status_code": "503"}, "raised"),
        ({"warning.type": "ambiguous_city"}, "warned"),
        ({"gen_ai.tool.name": "brief"}, "warned"),
        ({"acrux.tool.outcome": "ok"}, "good"),
    ]
    for tags, name in queries:
        assert ids(find(service, tags=tags, timeout=5)) == {runs[name]}, tags
    (failed,) = find(service, tags={"errorType": "http_status"})
    (span,) = failed.tagged(errorType="http_status")
    assert span.tags["error"] is True, "the status is ERROR, not only an attribute"
    assert span.tags["http.response.status_code"] == 503
    assert span.tags["error.type"] == "http_status"
    (warned,) = find(service, tags={"warning.type": "ambiguous_city"})
    assert not warned.tagged(error=True)
    started.stop()


def test_jaeger_itself_is_a_backend(jaeger: Jaeger, service: str) -> None:
    """backend="jaeger": spans arrive without a collector, and no metrics are sent that it would refuse."""
    done = run_program(
        f"acrux.configure({service!r}, backend='jaeger', endpoint=sys.argv[1])" + AGENT, jaeger.http_endpoint
    )
    runs = traces_of(done)
    assert ids(jaeger.api.find(service, tags={"errorCode": "location_not_found"})) == {runs["declared"]}


def test_a_plain_endpoint_may_be_jaeger(jaeger: Jaeger, service: str) -> None:
    """Without the preset its 404 to metrics is no reason to warn."""
    done = run_program(f"acrux.configure({service!r}, endpoint=sys.argv[1])" + AGENT, jaeger.http_endpoint)
    assert len(traces_of(done)) == 4
    assert len(jaeger.api.find(service, count=4)) == 4


def test_zero_config_reaches_jaeger(
    jaeger: Jaeger, collector: StartCollector, service: str, tmp_path: Path
) -> None:
    """`acrux-otel run` with the standard variables only."""
    script = tmp_path / "agent.py"
    script.write_text(
        "import acrux_otel as acrux\n"
        "@acrux.tool\n"
        "def find(city: str) -> dict:\n"
        "    return acrux.ToolResult.error('location_not_found', 'no such city')\n"
        "find('Atlantis')\n"
    )
    started = collector(jaeger=jaeger)
    done = run_program(
        "",
        "run",
        str(script),
        command=[str(Path(sys.executable).parent / "acrux-otel")],
        env={"OTEL_EXPORTER_OTLP_ENDPOINT": started.http_endpoint, "OTEL_SERVICE_NAME": service},
    )
    assert done.returncode == 0, done.stderr
    (trace,) = jaeger.api.find(service, tags={"errorCode": "location_not_found"})
    assert [span.name for span in trace.spans] == ["execute_tool find"]
    started.stop()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_poisoned_span_reaches_the_collectors_file(
    collector: StartCollector, service: str, protocol: str
) -> None:
    """Surrogates, NaN, 2**70, a cycle, 5 MB: every span is at the other end, the innocent one too."""
    started = collector()
    done = run_program(
        f"""
        sys.path.insert(0, {str(Path(__file__).parents[1])!r})
        from opentelemetry import trace
        from poisons import hostile, poison, swallow
        acrux.configure({service!r}, endpoint=sys.argv[1], protocol=sys.argv[2], metrics=False)
        tracer = trace.get_tracer("program")
        for name in poison(tracer): print(name)
        for value in hostile():
            swallow(value)
            print("execute_tool swallow")
        tracer.start_span("innocent").end()
        print("innocent")
        """,
        endpoint(started, protocol),
        protocol,
    )
    assert (done.returncode, done.stderr) == (0, "")
    names = done.stdout.splitlines()
    found = started.wait_for_spans(
        lambda span: span.resource["service.name"] == service, count=len(names), timeout=20
    )
    assert sorted(span.name for span in found) == sorted(names)
    started.stop()


CALLS = """
acrux.configure(sys.argv[2], endpoint=sys.argv[1], metrics=False)
longest = 0.0
print("ready", flush=True)
end = time.monotonic() + float(sys.argv[3])
made = 0
while time.monotonic() < end:
    begun = time.perf_counter()
    find(f"{made}")
    longest = max(longest, time.perf_counter() - begun)
    made += 1
    time.sleep(0.01)
    if made == 100: print("away", flush=True)
print("back", flush=True)
assert acrux.flush(30)
print(made, longest)
"""


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_collector_that_restarts_in_the_middle_of_a_run_loses_nothing(
    collector: StartCollector, service: str, protocol: str
) -> None:
    """The queue holds 2,048 spans and a batch is tried for 60 s; the program never notices."""
    started = collector()
    finished: list[Program] = []

    def program() -> None:
        address = endpoint(started, protocol)
        finished.append(
            run_program(
                CALLS,
                address,
                service,
                "6",
                env={"OTEL_BSP_SCHEDULE_DELAY": "200", "OTEL_EXPORTER_OTLP_PROTOCOL": protocol},
                timeout=90,
            )
        )

    running = threading.Thread(target=program)
    running.start()
    started.wait_for_spans(lambda span: span.resource["service.name"] == service, count=10, timeout=20)
    started.stop()
    time.sleep(2)
    started.start()
    running.join(90)
    (done,) = finished
    assert done.returncode == 0, done.stderr
    made, longest = done.stdout.splitlines()[-1].split()
    found = started.wait_for_spans(
        lambda span: span.resource["service.name"] == service, count=int(made), timeout=20
    )
    assert len({span.span_id for span in found}) == int(made)
    assert float(longest) < 0.5
    assert len(done.lines) == 1
    started.stop()


def test_an_outage_beyond_the_queue_loses_the_oldest(collector: StartCollector, service: str) -> None:
    """What is lost is what the documented bounds say: the queue and the batch under way are kept."""
    started = collector()
    started.stop()
    begun = threading.Timer(4, started.start)
    begun.start()
    done = run_program(
        """
        acrux.configure(sys.argv[2], endpoint=sys.argv[1], metrics=False)
        for number in range(500):
            find(f"{number}")
            if number == 20: time.sleep(1)
        print(acrux.flush(30))
        """,
        started.http_endpoint,
        service,
        env={"OTEL_BSP_MAX_QUEUE_SIZE": "50", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "10"},
    )
    begun.join()
    assert (done.returncode, done.stdout) == (0, "True\n")
    assert len(done.lines) == 2, "one line for the endpoint, one for the queue"
    found = started.wait_for_spans(lambda span: span.resource["service.name"] == service, count=60)
    assert len(found) == 60
    started.stop()


TAIL_SAMPLING = """
processors:
  tail_sampling:
    decision_wait: 1s
    policies:
      - {name: failed, type: status_code, status_code: {status_codes: [ERROR]}}
service:
  pipelines:
    traces:
      processors: [tail_sampling]
"""


def test_a_tail_sampler_that_keeps_errors_keeps_the_failing_trace(
    collector: StartCollector, service: str
) -> None:
    """A29: the sampler looks at the status, which is really ERROR."""
    started = collector(configs=[Path(__file__).with_name("collector.yaml"), TAIL_SAMPLING])
    done = run_program(f"acrux.configure({service!r}, endpoint=sys.argv[1])" + AGENT, started.http_endpoint)
    runs = dict(line.split() for line in done.stdout.splitlines())
    found = started.wait_for_spans(lambda span: span.resource["service.name"] == service, count=4, timeout=15)
    assert {span.trace_id for span in found} == {runs["declared"], runs["raised"]}
    started.stop()
