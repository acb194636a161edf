# SPDX-License-Identifier: Apache-2.0
"""The plain SDK through the real collector to the real Jaeger: what the product's tests stand on."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import Status, StatusCode

from .conftest import StartCollector
from .servers import Collector, Jaeger

pytestmark = pytest.mark.backends

PROTOCOLS = ["http/protobuf", "grpc"]
Send = Callable[..., str]


def exporter_to(server: Collector | Jaeger, protocol: str) -> SpanExporter:
    if protocol == "grpc":
        return GrpcExporter(endpoint=server.grpc_endpoint, insecure=True, timeout=5)
    return HttpExporter(endpoint=f"{server.http_endpoint}/v1/traces", timeout=5)


@pytest.fixture
def service() -> str:
    """A service name that no other test has."""
    return f"plain-sdk-{uuid4().hex[:8]}"


@pytest.fixture
def send(service: str) -> Iterator[Send]:
    """Send one failed tool span with these attributes, delivered on return; gives its trace id."""
    providers: list[TracerProvider] = []

    def send_span(server: Collector | Jaeger, protocol: str, **attributes: Any) -> str:
        provider = TracerProvider(resource=Resource.create({"service.name": service}))
        providers.append(provider)
        provider.add_span_processor(BatchSpanProcessor(exporter_to(server, protocol)))
        with provider.get_tracer("plain").start_as_current_span("execute_tool get_weather") as span:
            span.set_attributes(attributes)
            span.set_status(Status(StatusCode.ERROR, "the city does not exist"))
            trace_id = f"{span.get_span_context().trace_id:032x}"
        assert provider.force_flush(10_000)
        return trace_id

    yield send_span
    for provider in providers:
        provider.shutdown()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_span_sent_to_jaeger_is_found_by_its_tags(
    jaeger: Jaeger, send: Send, service: str, protocol: str
) -> None:
    """Jaeger takes both protocols, and its search matches text and integer tags of one span exactly."""
    trace_id = send(jaeger, protocol, errorType="http_status", **{"http.response.status_code": 503})

    found = jaeger.api.find(service, tags={"errorType": "http_status", "http.response.status_code": "503"})

    assert [trace.trace_id for trace in found] == [trace_id]
    (span,) = found[0].tagged(errorType="http_status")
    assert span.tags["http.response.status_code"] == 503
    assert span.tags["error"] is True
    assert span.tags["otel.status_description"] == "the city does not exist"
    assert service in jaeger.api.services()
    assert jaeger.api.find(service, tags={"errorType": "http"}, count=0) == []


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_span_goes_through_the_collector_to_jaeger_and_into_its_file(
    jaeger: Jaeger, collector: StartCollector, send: Send, service: str, protocol: str
) -> None:
    """SDK, collector and Jaeger agree on one span: the same ids, the same attributes, the same status."""
    started = collector(jaeger=jaeger)
    trace_id = send(started, protocol, errorType="tool_declared", codes=["a", "b"], retryable=False)

    (in_jaeger,) = jaeger.api.find(service, tags={"errorType": "tool_declared"})
    (in_file,) = started.wait_for_spans(lambda span: span.resource["service.name"] == service)

    assert in_jaeger.trace_id == in_file.trace_id == trace_id
    assert [span.span_id for span in jaeger.api.trace(trace_id).spans] == [in_file.span_id]
    assert in_file.attributes == {"errorType": "tool_declared", "codes": ["a", "b"], "retryable": False}
    assert (in_file.name, in_file.status) == ("execute_tool get_weather", "ERROR")
    assert in_file.description == "the city does not exist"
    assert in_file.scope == "plain"
    started.stop()


def test_a_collector_comes_back_on_its_ports_and_keeps_its_file(
    collector: StartCollector, send: Send, service: str
) -> None:
    """A collector stopped and started again in the middle of a run takes spans at the same endpoint."""
    started = collector()
    before = send(started, "http/protobuf", errorType="transport")
    first_pid = started.pid
    started.stop()
    assert not started.running
    started.start()
    after = send(started, "grpc", errorType="transport")

    found = started.wait_for_spans(lambda span: span.resource["service.name"] == service, count=2)

    assert [span.trace_id for span in found] == [before, after]
    assert started.pid != first_pid
    started.stop()


def test_a_config_that_is_wrong_is_reported_with_the_collectors_own_words(collector: StartCollector) -> None:
    """A test whose config is wrong ends at once, and says what the collector said."""
    with pytest.raises(RuntimeError, match=r"(?s)ended with exit code 1.*nonsense"):
        collector(configs=["receivers:\n  nonsense:\n"])


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_backends_listen_on_loopback_only(jaeger: Jaeger, collector: StartCollector) -> None:
    """Neither Jaeger nor the collector opens a port that another machine could reach."""
    started = collector(jaeger=jaeger)
    for server, least in ((jaeger, 5), (started, 3)):
        addresses = listening_addresses(server.pid)
        assert len(addresses) >= least
        assert set(addresses) == {"0100007F"}, "127.0.0.1 as /proc/net/tcp writes it"
    started.stop()


def listening_addresses(pid: int) -> list[str]:
    """The local addresses, in hexadecimal, of the TCP sockets on which the process listens."""
    links = [Path(f"/proc/{pid}/fd/{fd.name}") for fd in Path(f"/proc/{pid}/fd").iterdir()]
    inodes = {str(link.readlink()) for link in links if link.is_symlink()}
    addresses = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *_, inode = line.split()[:10]
            if state == "0A" and f"socket:[{inode}]" in inodes:
                addresses.append(local.split(":")[0])
    return addresses
