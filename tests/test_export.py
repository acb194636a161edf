# SPDX-License-Identifier: Apache-2.0
"""`configure()` and `flush()`: what is set up, what is joined, and that everything arrives."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import logging
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import NoOpTracerProvider
from otlp_receivers import (
    Received,
    Request,
    black_hole,
    closed_port,
    eventually,
    grpc_receiver,
    http_receiver,
    run_program,
)

import acrux_otel as acrux

pytestmark = pytest.mark.usefixtures("clean_outlets")


@pytest.fixture
def provider() -> TracerProvider:
    return TracerProvider(shutdown_on_exit=False)


@acrux.tool
def find(city: str) -> dict[str, Any]:
    """Find a city."""
    if city == "Atlantis":
        return acrux.ToolResult.error("location_not_found", "no such city")
    return {"city": city}


@pytest.fixture(params=["http", "grpc"])
def receiver(request: pytest.FixtureRequest) -> Iterator[Received]:
    with http_receiver() if request.param == "http" else grpc_receiver() as received:
        yield received


def test_spans_arrive_over_both_protocols(receiver: Received, provider: TracerProvider) -> None:
    """A tool's verdict is at the receiver when flush() says True."""
    acrux.configure(tracer_provider=provider, endpoint=receiver.url, headers="x-key=a%20b")
    find("Atlantis")
    assert acrux.flush(10)
    (span,) = receiver.spans()
    assert span.name == "execute_tool find"
    assert {pair.key: pair.value.string_value for pair in span.attributes}[
        "errorCode"
    ] == "location_not_found"
    assert receiver[0].headers["x-key"] == "a b"
    assert receiver[0].headers["user-agent"].startswith("acrux-otel/")


@pytest.mark.parametrize("compression", ["gzip", "deflate"])
def test_requests_are_compressed_when_asked(
    monkeypatch: pytest.MonkeyPatch, provider: TracerProvider, compression: str
) -> None:
    """OTEL_EXPORTER_OTLP_COMPRESSION works."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", compression)
    with http_receiver() as received:
        acrux.configure(tracer_provider=provider, endpoint=received.url)
        find("Paris")
        assert acrux.flush(10)
    assert received[0].headers["content-encoding"] == compression
    assert received.names() == ["execute_tool find"]


def test_tls_trusts_the_configured_certificate(
    monkeypatch: pytest.MonkeyPatch,
    provider: TracerProvider,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """With OTEL_EXPORTER_OTLP_CERTIFICATE a private authority is trusted; without it nothing is sent."""
    certificate, key = _certificate(tmp_path)
    with http_receiver(tls=_server(certificate, key)) as received:
        acrux.configure(tracer_provider=provider, endpoint=received.url)
        find("Paris")
        assert not acrux.flush(10)
        assert "TLS failed" in caplog.text
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", str(certificate))
        acrux.configure(tracer_provider=TracerProvider(shutdown_on_exit=False), endpoint=received.url)
        find("Paris")
        acrux.flush(10)
    assert received.names() == ["execute_tool find"]


def test_mutual_tls_presents_our_certificate(
    monkeypatch: pytest.MonkeyPatch, provider: TracerProvider, tmp_path: Path
) -> None:
    """OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and …_CLIENT_KEY satisfy a server that asks for one."""
    certificate, key = _certificate(tmp_path)
    server = _server(certificate, key)
    server.load_verify_locations(certificate)
    server.verify_mode = ssl.CERT_REQUIRED
    for name, file in (
        ("CERTIFICATE", certificate),
        ("CLIENT_CERTIFICATE", certificate),
        ("CLIENT_KEY", key),
    ):
        monkeypatch.setenv(f"OTEL_EXPORTER_OTLP_{name}", str(file))
    with http_receiver(tls=server) as received:
        acrux.configure(tracer_provider=provider, endpoint=received.url)
        find("Paris")
        assert acrux.flush(10)
    assert received.names() == ["execute_tool find"]


def test_grpc_speaks_tls(
    monkeypatch: pytest.MonkeyPatch,
    provider: TracerProvider,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """https:// means TLS; a plain-text server behind it is said to be one."""
    import grpc

    certificate, key = _certificate(tmp_path)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", str(certificate))
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    credentials = grpc.ssl_server_credentials([(key.read_bytes(), certificate.read_bytes())])
    with grpc_receiver(tls=credentials) as received:
        acrux.configure(tracer_provider=provider, endpoint=received.url)
        find("Paris")
        assert acrux.flush(10)
        assert received.names() == ["execute_tool find"]
    with grpc_receiver() as plain:
        acrux.configure(
            tracer_provider=TracerProvider(shutdown_on_exit=False), endpoint=f"https://{plain.url}"
        )
        find("Paris")
        assert not acrux.flush(1)
    assert f"cannot send traces to https://{plain.url}: TLS failed" in caplog.text


def _server(certificate: Path, key: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context


def _certificate(folder: Path) -> tuple[Path, Path]:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "loopback")])
    now = datetime.datetime.now(datetime.timezone.utc)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        .sign(key, hashes.SHA256())
    )
    bundle, secret = folder / "ca.pem", folder / "key.pem"
    bundle.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return bundle, secret


def test_configuring_twice_sends_nothing_twice(provider: TracerProvider) -> None:
    """The same place is added once, another one beside it."""
    with http_receiver() as first, http_receiver() as second:
        for _ in range(3):
            acrux.configure(tracer_provider=provider, endpoint=first.url)
        acrux.configure(tracer_provider=provider, endpoint=f"{first.url}/v1/traces")
        acrux.configure(tracer_provider=provider, endpoint=second.url)
        find("Paris")
        assert acrux.flush(10)
    assert (first.names(), second.names()) == (["execute_tool find"], ["execute_tool find"])


def test_a_provider_that_takes_no_exporter_is_no_reason_to_fail(caplog: pytest.LogCaptureFixture) -> None:
    """It is said once, and the tool works."""
    acrux.configure(tracer_provider=NoOpTracerProvider(), endpoint="http://127.0.0.1:9")
    assert "a NoOpTracerProvider takes no exporter" in caplog.text
    assert find("Paris") == {"city": "Paris"}
    assert acrux.flush(1)


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503])
def test_a_refusal_is_logged_once_with_url_and_status(
    provider: TracerProvider, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    """A28: once, never the headers, and at most one line for spans and metrics together."""
    with http_receiver(lambda _: (status, b"no")) as received:
        acrux.configure(
            tracer_provider=provider, endpoint=received.url, headers={"authorization": "Bearer acx_sk_secret"}
        )
        for _ in range(3):
            find("Paris")
            acrux.flush(0.3)
    warnings = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert [line for line in warnings if received.url in line] == [
        f"cannot send traces to {received.url}/v1/traces: HTTP {status}; the program is not affected"
    ]


def test_a_transient_refusal_loses_nothing(provider: TracerProvider) -> None:
    """503 with Retry-After is tried again; flush() hurries the next attempt and reports success."""
    answers = iter([(503, b"", {"retry-after": "0.1"}), (429, b"", {"retry-after": "0.1"})])
    with http_receiver(lambda _: next(answers, (200, b""))) as received:
        acrux.configure(tracer_provider=provider, endpoint=received.url)
        find("Paris")
        assert acrux.flush(10)
    assert received.names() == ["execute_tool find"]


def test_a_redirection_is_a_refusal(provider: TracerProvider, caplog: pytest.LogCaptureFixture) -> None:
    """A login page's 302 is not success, and is not followed."""
    with http_receiver(lambda _: (302, b"", {"location": "/login"})) as received:
        acrux.configure(tracer_provider=provider, endpoint=received.url)
        find("Paris")
        assert not acrux.flush(5)
    assert "HTTP 302" in caplog.text


def test_a_partial_success_is_said_once(provider: TracerProvider, caplog: pytest.LogCaptureFixture) -> None:
    """A receiver that took only a part says how much, and so do we."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

    answer = ExportTraceServiceResponse()
    answer.partial_success.rejected_spans = 1
    answer.partial_success.error_message = "too old"
    with http_receiver(lambda _: (200, answer.SerializeToString())) as received:
        acrux.configure(tracer_provider=provider, endpoint=received.url)
        for _ in range(2):
            find("Paris")
            assert acrux.flush(5)
    assert [record.getMessage() for record in caplog.records] == [
        f"{received.url}/v1/traces took only a part of the traces: 1 rejected, too old"
    ]


def test_what_an_endpoint_finds_too_large_is_divided(provider: TracerProvider) -> None:
    """A18: one large span must not cost the batch; alone, its values are cut and it is sent."""

    def at_most(request: Request) -> tuple[int, bytes]:
        return (413 if len(request.body) > 60_000 else 200), b""

    with http_receiver(at_most) as received:
        acrux.configure(tracer_provider=provider, endpoint=received.url)
        tracer = provider.get_tracer("program")
        for number in range(20):
            span = tracer.start_span(f"small {number}")
            span.set_attribute("text", "x" * 10_000)
            span.end()
        tracer.start_span("large", attributes={"text": "y" * 5_000_000}).end()
        assert acrux.flush(10)
    assert sorted(received.names()) == sorted([f"small {n}" for n in range(20)] + ["large"])


@pytest.mark.parametrize("kind", ["closed", "black hole"])
def test_flush_is_bounded_whatever_the_endpoint_does(provider: TracerProvider, kind: str) -> None:
    """flush(timeout) returns False within its time, again and again, and leaves no threads behind."""
    with closed_port() if kind == "closed" else black_hole() as port:
        acrux.configure(tracer_provider=provider, endpoint=f"http://127.0.0.1:{port}")
        find("Paris")
        assert not acrux.flush(0.2)
        threads = threading.active_count()
        for _ in range(5):
            begun = time.monotonic()
            assert not acrux.flush(0.2)
            assert time.monotonic() - begun < 0.6
        assert eventually(lambda: threading.active_count() <= threads, 5)


def test_flush_without_anything_to_send_is_true_at_once() -> None:
    """Nothing configured, nothing queued: nothing to wait for."""
    begun = time.monotonic()
    assert acrux.flush(5)
    assert time.monotonic() - begun < 1


def test_flush_never_raises() -> None:
    """Also not for a timeout that is none."""
    assert acrux.flush(None) is False  # type: ignore[arg-type]


def test_flush_waits_for_a_joined_provider_and_bounds_it() -> None:
    """The SDK's own processor ignores its timeout; ours does not."""
    from opentelemetry.sdk.trace import SpanProcessor

    class Endless(SpanProcessor):
        asked = threading.Event()
        ended = threading.Event()

        def force_flush(self, timeout_millis: int = 30000) -> bool:
            self.asked.set()
            return self.ended.wait(20)

    joined = TracerProvider(shutdown_on_exit=False)
    joined.add_span_processor(Endless())
    acrux.configure(tracer_provider=joined)
    begun = time.monotonic()
    assert not acrux.flush(0.3)
    assert time.monotonic() - begun < 1
    assert Endless.asked.is_set()
    Endless.ended.set()
    assert acrux.flush(5)


def test_a_block_and_a_function_flush_at_their_end(provider: TracerProvider) -> None:
    """`flushing()` is a context manager and a decorator, sync and async, also when the body raises."""
    with http_receiver() as received:
        acrux.configure(tracer_provider=provider, endpoint=received.url)

        with acrux.flushing(5):
            find("block")
        assert len(received.spans()) == 1

        @acrux.flushing(timeout=5)
        def handler(event: str) -> dict[str, Any]:
            return find(event)

        assert handler("function") == {"city": "function"}
        assert len(received.spans()) == 2

        @acrux.flushing(5)
        async def fails(event: str) -> None:
            find(event)
            raise KeyError(event)

        with pytest.raises(KeyError):
            asyncio.run(fails("async"))
        assert len(received.spans()) == 3

        async def block() -> None:
            async with acrux.flushing(5):
                find("async block")

        asyncio.run(block())
        assert len(received.spans()) == 4


def test_an_async_flush_leaves_the_loop_free(provider: TracerProvider) -> None:
    """While one task flushes against a black hole, another one runs, and the loop closes at once."""

    async def main() -> int:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0.01)

        other = asyncio.create_task(tick())
        async with acrux.flushing(0.5):
            find("Paris")
        other.cancel()
        return ticks

    with black_hole() as port:
        acrux.configure(tracer_provider=provider, endpoint=f"http://127.0.0.1:{port}")
        begun = time.monotonic()
        assert asyncio.run(main()) > 10
        assert time.monotonic() - begun < 2


def test_an_outage_loses_only_what_the_queue_cannot_hold(
    monkeypatch: pytest.MonkeyPatch, provider: TracerProvider, caplog: pytest.LogCaptureFixture
) -> None:
    """Down for a while, the endpoint gets everything that fits into the queue; beyond, the oldest go."""
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "50")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "10")
    down = threading.Event()
    down.set()
    with http_receiver(lambda _: (503 if down.is_set() else 200, b"")) as received:
        acrux.configure(tracer_provider=provider, endpoint=received.url)
        for _ in range(40):
            find("kept")
        assert not acrux.flush(0.3)
        down.clear()
        assert acrux.flush(15)
        assert len(received.spans()) == 40
        down.set()
        for _ in range(200):
            find("many")
        acrux.flush(0.3)
        down.clear()
        assert acrux.flush(15)
        assert 50 <= len(received.spans()) - 40 <= 60
    said = [record.getMessage() for record in caplog.records]
    assert len([line for line in said if "OTEL_BSP_MAX_QUEUE_SIZE" in line]) == 1


# What concerns the whole process runs in one of its own.


def test_one_call_sets_everything_up() -> None:
    """configure(service_name=, endpoint=) makes both global providers; spans and metrics arrive at exit."""
    with http_receiver() as received:
        done = run_program(
            """
            acrux.configure(service_name="weather", endpoint=sys.argv[1], queue_backlog=lambda: 3)
            from opentelemetry import trace
            with trace.get_tracer("program").start_as_current_span("own"):
                find("Atlantis")
            """,
            received.url,
        )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert sorted(received.names()) == ["execute_tool find", "own"]
    for resource, _ in [*received.spans_with_resources(), *received.metrics()]:
        assert resource["service.name"] == "weather"
        assert resource["service.instance.id"]
    metrics = {metric.name: metric for _, metric in received.metrics()}
    assert metrics["acrux.run.backlog"].gauge.data_points[0].as_int == 3
    assert metrics["acrux.tool.calls"].sum.data_points[0].as_int == 1
    assert metrics["gen_ai.execute_tool.duration"].histogram.data_points[0].count == 1
    bounds = metrics["gen_ai.execute_tool.duration"].histogram.data_points[0].explicit_bounds
    assert (bounds[0], bounds[-1]) == (0.01, 81.92)


@pytest.mark.parametrize(
    ("arguments", "variables", "service"),
    [
        ("", {"OTEL_SERVICE_NAME": "otel"}, "otel"),
        ("", {"OTEL_SERVICE_NAME": "otel", "ACRUX_OTEL_SERVICE_NAME": "ours"}, "ours"),
        ("'argument'", {"OTEL_SERVICE_NAME": "otel", "ACRUX_OTEL_SERVICE_NAME": "ours"}, "argument"),
        ("", {"OTEL_RESOURCE_ATTRIBUTES": "service.name=listed,service.instance.id=mine"}, "listed"),
    ],
)
def test_the_environment_alone_is_enough(arguments: str, variables: dict[str, str], service: str) -> None:
    """The standard variables name endpoint, service and resource; argument > ours > standard."""
    with http_receiver() as received:
        done = run_program(
            f"acrux.configure({arguments}); find('Paris')",
            env={"OTEL_EXPORTER_OTLP_ENDPOINT": received.url, **variables},
        )
    assert (done.returncode, done.stderr) == (0, "")
    ((resource, _),) = received.spans_with_resources()
    assert resource["service.name"] == service
    if "RESOURCE" in str(variables):
        assert resource["service.instance.id"] == "mine"


def test_sampling_follows_the_standard_variables() -> None:
    """OTEL_TRACES_SAMPLER decides; an unsampled call sends nothing and is still counted."""
    with http_receiver() as received:
        done = run_program(
            "acrux.configure(); find('Paris')",
            env={"OTEL_EXPORTER_OTLP_ENDPOINT": received.url, "OTEL_TRACES_SAMPLER": "always_off"},
        )
    assert (done.returncode, done.stderr, received.spans()) == (0, "", [])
    assert "acrux.tool.calls" in [metric.name for _, metric in received.metrics()]


@pytest.mark.parametrize(
    ("arguments", "variables"),
    [
        ("", {"OTEL_SDK_DISABLED": "true"}),
        ("", {"OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none"}),
        ("backend='none'", {}),
        ("metrics=False, backend='none'", {}),
    ],
)
def test_export_can_be_switched_off(arguments: str, variables: dict[str, str]) -> None:
    """Then nothing is sent, nothing is said and nothing waits."""
    with http_receiver() as received:
        done = run_program(
            f"acrux.configure({arguments}); find('Paris'); print(acrux.flush(1))",
            env={"OTEL_EXPORTER_OTLP_ENDPOINT": received.url, **variables},
        )
    assert (done.returncode, done.stdout, done.stderr, received) == (0, "True\n", "", [])


@pytest.mark.parametrize("how", ["metrics=False", "ACRUX_OTEL_METRICS"])
def test_metrics_can_be_switched_off_alone(how: str) -> None:
    """Spans go on."""
    argument = how if "=" in how else ""
    with http_receiver() as received:
        done = run_program(
            f"acrux.configure({argument}); find('Paris')",
            env={"OTEL_EXPORTER_OTLP_ENDPOINT": received.url, **({how: "off"} if not argument else {})},
        )
    assert (done.returncode, done.stderr, received.metrics()) == (0, "", [])
    assert received.names() == ["execute_tool find"]


def test_a_backend_without_metrics_is_no_problem() -> None:
    """Jaeger answers 404 to /v1/metrics: spans arrive, and nobody is warned of what nobody asked for."""
    with http_receiver(lambda request: (404 if request.is_metrics else 200, b"")) as received:
        done = run_program(
            """
            acrux.configure(endpoint=sys.argv[1])
            find('Paris'); acrux.flush(5); find('Paris')
            """,
            received.url,
        )
    assert (done.returncode, done.stderr) == (0, "")
    assert len(received.spans()) == 2


def test_nobody_at_the_default_endpoint_is_no_problem() -> None:
    """`configure()` with no endpoint anywhere is quiet and quick where no collector runs."""
    done = run_program(
        """
        import socket
        from acrux_otel.export import endpoints
        with socket.socket() as bound:  # something may listen at the real default here
            bound.bind(("127.0.0.1", 0))
            endpoints._DEFAULTS["http/protobuf"] = f"http://127.0.0.1:{bound.getsockname()[1]}"
            acrux.configure(service_name="quiet")
            find("Paris")
            begun = time.monotonic()
            acrux.flush(5)
            print(time.monotonic() - begun < 1)
        """
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


def test_an_existing_provider_is_joined_and_left_alone() -> None:
    """configure() adds nothing to it, flush() flushes it, and its end stays its owner's."""
    with http_receiver() as received:
        done = run_program(
            """
            from opentelemetry import trace
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            mine = TracerProvider(shutdown_on_exit=False)
            mine.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
            trace.set_tracer_provider(mine)
            acrux.configure()
            find("one")
            assert trace.get_tracer_provider() is mine
            print(acrux.flush(5))
            find("two")  # its owner does not flush it
            """,
            env={"OTEL_EXPORTER_OTLP_ENDPOINT": received.url},
        )
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")
    assert received.names() == ["execute_tool find"]


def test_an_exporter_is_added_to_an_existing_provider_when_asked() -> None:
    """An endpoint named for us is asking; a service name then has no effect, and that is said."""
    with http_receiver() as received:
        done = run_program(
            """
            from opentelemetry import trace
            from opentelemetry.sdk.trace import TracerProvider
            trace.set_tracer_provider(TracerProvider())
            acrux.configure(service_name="late", endpoint=sys.argv[1])
            find("one")
            """,
            received.url,
        )
    assert done.returncode == 0
    assert len(done.lines) == 1
    assert "'late' has no effect" in done.stderr
    assert received.names() == ["execute_tool find"]


def test_a_missing_optional_package_is_named_with_its_command() -> None:
    """gRPC without the extra: one line with the exact command, before anything is set up."""
    done = run_program(
        """
        sys.modules["grpc"] = None
        try:
            acrux.configure(endpoint="h:4317")
        except ImportError as error:
            print(error)
        from opentelemetry import trace
        print(type(trace.get_tracer_provider()).__name__)
        """
    )
    said, provider = done.stdout.splitlines()
    assert 'pip install "acrux-otel[grpc]"' in said
    assert provider == "ProxyTracerProvider"


def test_an_instrumented_http_client_makes_no_spans_of_our_requests() -> None:
    """The export thread suppresses instrumentation."""
    with http_receiver() as received:
        done = run_program(
            """
            from opentelemetry import context, trace
            import requests
            acrux.configure(endpoint=sys.argv[1])
            send = requests.Session.send
            def traced(self, *args, **kwargs):
                if not context.get_value(context._SUPPRESS_INSTRUMENTATION_KEY):
                    trace.get_tracer("http").start_span("POST").end()
                return send(self, *args, **kwargs)
            requests.Session.send = traced
            find("Paris"); acrux.flush(5); find("Paris")
            """,
            received.url,
        )
    assert (done.returncode, done.stderr) == (0, "")
    assert received.names() == ["execute_tool find"] * 2
