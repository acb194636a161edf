# SPDX-License-Identifier: Apache-2.0
"""Where telemetry goes, by argument and variable; and what somebody who mistypes one is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from acrux_otel.export import configure
from acrux_otel.export.backends import BACKENDS, chosen_backends, destination, standard_backends
from acrux_otel.export.endpoints import target
from acrux_otel.export.options import Given, header_map, masked_url

pytestmark = pytest.mark.usefixtures("clean_environment")


@pytest.mark.parametrize(
    ("endpoint", "traces", "metrics"),
    [
        ("http://h:4318", "http://h:4318/v1/traces", "http://h:4318/v1/metrics"),
        ("http://h:4318/", "http://h:4318/v1/traces", "http://h:4318/v1/metrics"),
        ("http://h:4318/v1/traces", "http://h:4318/v1/traces", "http://h:4318/v1/metrics"),
        ("http://h:4318/v1/traces/", "http://h:4318/v1/traces", "http://h:4318/v1/metrics"),
        ("https://h/otlp", "https://h/otlp/v1/traces", "https://h/otlp/v1/metrics"),
        ("https://h/otlp/v1/metrics?k=v", "https://h/otlp/v1/traces?k=v", "https://h/otlp/v1/metrics?k=v"),
        ("http://[::1]:4318", "http://[::1]:4318/v1/traces", "http://[::1]:4318/v1/metrics"),
        ("  http://h:4318 ", "http://h:4318/v1/traces", "http://h:4318/v1/metrics"),
    ],
)
@pytest.mark.parametrize("how", ["argument", "ACRUX_OTEL_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"])
def test_a_base_url_gets_each_signals_path_exactly_once(
    monkeypatch: pytest.MonkeyPatch, endpoint: str, traces: str, metrics: str, how: str
) -> None:
    """A28: every form of a base URL leads to /v1/traces once, whoever named it."""
    argument = endpoint if how == "argument" else None
    if argument is None:
        monkeypatch.setenv(how, endpoint)
    assert target("traces", argument).url == traces
    assert target("metrics", argument).url == metrics
    assert target("traces", argument).protocol == "http/protobuf"


def test_a_signals_own_endpoint_is_used_verbatim_and_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    """The specification: OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is no base URL; without a path it gets '/'."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://general:4318")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://h:4318/custom")
    assert target("traces").url == "http://h:4318/custom"
    assert target("metrics").url == "http://general:4318/v1/metrics"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://h:4318")
    assert target("traces").url == "http://h:4318/"


def test_the_nearer_source_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    """argument > ACRUX_OTEL_… > OTEL_… > default, and an empty variable says nothing."""
    assert target("traces").url == "http://localhost:4318/v1/traces"
    assert target("traces").implicit
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://otel:1")
    assert target("traces").url == "http://otel:1/v1/traces"
    monkeypatch.setenv("ACRUX_OTEL_ENDPOINT", "http://ours:1")
    assert target("traces").url == "http://ours:1/v1/traces"
    made = target("traces", "http://argument:1")
    assert (made.url, made.source, made.implicit) == ("http://argument:1/v1/traces", "endpoint", False)
    monkeypatch.setenv("ACRUX_OTEL_ENDPOINT", "  ")
    assert target("traces").source == "OTEL_EXPORTER_OTLP_ENDPOINT"


@pytest.mark.parametrize(
    ("endpoint", "variables", "protocol", "url"),
    [
        ("h:4317", {}, "grpc", "https://h:4317"),
        ("localhost:4317", {}, "grpc", "http://localhost:4317"),
        ("127.0.0.1:9", {}, "grpc", "http://127.0.0.1:9"),
        ("h:4317", {"OTEL_EXPORTER_OTLP_INSECURE": "true"}, "grpc", "http://h:4317"),
        ("http://h:4317", {}, "grpc", "http://h:4317"),
        ("https://h:4317/", {}, "grpc", "https://h:4317"),
        ("http://h:9", {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "grpc", "http://h:9"),
        (None, {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "grpc", "http://localhost:4317"),
        (None, {"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc"}, "grpc", "http://localhost:4317"),
        ("http://h:4317", {"ACRUX_OTEL_PROTOCOL": "http"}, "http/protobuf", "http://h:4317/v1/traces"),
        # opentelemetry-distro sets this variable to grpc for everybody.
        (
            "http://h:4318",
            {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "http/protobuf",
            "http://h:4318/v1/traces",
        ),
        (
            "http://h/v1/traces",
            {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "http/protobuf",
            "http://h/v1/traces",
        ),
    ],
)
def test_the_protocol_is_the_chosen_one_else_what_the_endpoint_implies(
    monkeypatch: pytest.MonkeyPatch, endpoint: str | None, variables: dict[str, str], protocol: str, url: str
) -> None:
    """Named, it is respected; else the registered port or the form of the endpoint decides."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    made = target("traces", endpoint)
    assert (made.protocol, made.url) == (protocol, url)


def test_headers_are_decoded_and_a_signals_own_win(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values in variables are URL-encoded; names are case-insensitive."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Basic%20abc%3D,x=1 , y=a=b,")
    assert target("traces").headers == {"authorization": "Basic abc=", "x": "1", "y": "a=b"}
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "x=2")
    assert target("traces").headers == {"x": "2"}
    assert target("metrics").headers["x"] == "1"
    assert target("traces", headers={"X": "50%"}).headers == {"x": "50%"}


def test_timeout_compression_and_files_come_from_the_standard_variables(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The variables for TLS, compression and timeout are read as the SDK for Python reads them."""
    bundle = tmp_path / "ca.pem"
    bundle.write_text("pem")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "2.5")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "GZIP")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", str(bundle))
    made = target("traces")
    assert (made.timeout, made.compression, made.certificate) == (2.5, "gzip", str(bundle))
    assert target("metrics").certificate is None


@pytest.mark.parametrize(
    ("arguments", "variables", "message"),
    [
        ({"protocol": "udp"}, {}, "protocol is 'udp'; expected 'http/protobuf' or 'grpc'"),
        (
            {},
            {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"},
            "OTEL_EXPORTER_OTLP_PROTOCOL is 'http/json'; expected 'http/protobuf' or 'grpc'",
        ),
        ({"backend": "zipkin"}, {}, f"backend is 'zipkin'; expected one of {', '.join(BACKENDS)}"),
        ({"backend": "jaeger,nope"}, {}, f"backend is 'nope'; expected one of {', '.join(BACKENDS)}"),
        (
            {},
            {"ACRUX_OTEL_BACKEND": "x"},
            f"ACRUX_OTEL_BACKEND is 'x'; expected one of {', '.join(BACKENDS)}",
        ),
        ({"endpoint": "ftp://h"}, {}, "endpoint is 'ftp://h'; expected a URL such as 'http://host:4318'"),
        ({"endpoint": "http://"}, {}, "endpoint is 'http://'; expected a URL such as 'http://host:4318'"),
        (
            {"endpoint": "http://h:x"},
            {},
            "endpoint is 'http://h:x'; expected a URL such as 'http://host:4318'",
        ),
        ({"endpoint": "http://h:99999"}, {}, "endpoint is 'http://h:99999'; expected a URL such as"),
        ({"endpoint": "http://[::1"}, {}, "endpoint is 'http://[::1'; expected a URL such as"),
        ({"endpoint": "h:4318"}, {}, "endpoint is 'h:4318'; expected a URL such as 'http://host:4318'"),
        ({"endpoint": "http://a b"}, {}, "endpoint is 'http://a b'; expected a URL such as"),
        (
            {"endpoint": "h h:4317"},
            {},
            "endpoint is 'h h:4317'; expected 'host:4317' or 'http://host:4317'",
        ),
        ({"endpoint": b"http://h"}, {}, "endpoint is b'http://h'; expected a URL such as 'http://host:4318'"),
        ({"endpoint": "ftp://me:secret@h"}, {}, "endpoint is 'ftp://***@h'; expected a URL such as"),
        ({"endpoint": "me:secret@h:4318"}, {}, "endpoint is '***@h:4318'; expected a URL such as"),
        ({"headers": "authorization"}, {}, "headers: part 1 (not shown) has no '='; expected name=value"),
        (
            {"headers": {"a b": "secret"}},
            {},
            "headers has a header named 'a b'; expected name=value,name=value",
        ),
        (
            {"headers": {"a": "secret\n"}},
            {},
            "headers: the value of 'a' (not shown) cannot be sent as a header",
        ),
        ({"headers": {"a": 1}}, {}, "headers: the value of 'a' (not shown) cannot be sent as a header"),
        ({"headers": 7}, {}, "headers is a int; expected a dict or text"),
        (
            {},
            {"OTEL_EXPORTER_OTLP_COMPRESSION": "br"},
            "OTEL_EXPORTER_OTLP_COMPRESSION is 'br'; expected one of none, gzip, deflate",
        ),
        (
            {},
            {"OTEL_EXPORTER_OTLP_CERTIFICATE": "/there/is/none"},
            "OTEL_EXPORTER_OTLP_CERTIFICATE is '/there/is/none'; expected a file, and there is none",
        ),
        (
            {},
            {"OTEL_EXPORTER_OTLP_TIMEOUT": "soon"},
            "OTEL_EXPORTER_OTLP_TIMEOUT is 'soon'; expected seconds",
        ),
        ({"exit_timeout": -1}, {}, "exit_timeout is -1; expected seconds, such as 3 or 0.5"),
        ({}, {"ACRUX_OTEL_EXIT_TIMEOUT": "nan"}, "ACRUX_OTEL_EXIT_TIMEOUT is 'nan'; expected seconds"),
        ({"capture": "all"}, {}, "capture is 'all'; expected 'none', 'verdict' or 'full'"),
        ({"payload_limit": 0}, {}, "payload_limit is 0; expected a positive whole number"),
        ({"metrics": "perhaps"}, {}, "metrics is 'perhaps'; expected true or false"),
        ({"redact": "x"}, {}, "redact is 'x'; expected a function fn(key, value)"),
        ({"service_name": 5}, {}, "service_name is 5; expected text"),
        (
            {"backend": "file", "file": "/no/such/folder/x"},
            {},
            "file is '/no/such/folder/x'; expected a file in",
        ),
        ({"backend": "file", "file": 5}, {}, "file is 5; expected a path"),
        ({"backend": "acruxcore"}, {}, "backend 'acruxcore' needs its address: set ACRUXCORE_BASE_URL"),
        (
            {"backend": "acruxcore"},
            {"ACRUXCORE_BASE_URL": "http://h/api/v1"},
            "backend 'acruxcore' needs a key: set ACRUXCORE_API_KEY",
        ),
        (
            {"backend": "acruxcore", "protocol": "grpc"},
            {"ACRUXCORE_BASE_URL": "http://h/api/v1", "ACRUXCORE_API_KEY": "k"},
            "backend 'acruxcore' takes OTLP over HTTP; set protocol to 'http/protobuf'",
        ),
        ({}, {"OTEL_BSP_MAX_QUEUE_SIZE": "many"}, "OTEL_BSP_MAX_QUEUE_SIZE is 'many'; expected a positive"),
    ],
)
def test_what_cannot_be_used_is_said_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
    arguments: dict[str, object],
    variables: dict[str, str],
    message: str,
) -> None:
    """The line names the argument or variable, its value with secrets masked, and what was expected."""
    from opentelemetry.sdk.trace import TracerProvider

    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    if "backend" not in arguments and "ACRUX_OTEL_BACKEND" not in variables:
        arguments = {"endpoint": "http://127.0.0.1:9", **arguments}
    with pytest.raises(ValueError) as raised:
        configure(tracer_provider=TracerProvider(shutdown_on_exit=False), **arguments)  # type: ignore[arg-type]
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)
    assert "secret" not in str(raised.value)


def test_backends_can_be_several(monkeypatch: pytest.MonkeyPatch) -> None:
    """One name, several with commas, or a list; a file names its backend; repetition is no second copy."""
    assert chosen_backends(Given("jaeger", "backend"), None) == ["jaeger"]
    assert chosen_backends(Given(" Jaeger, console,jaeger", "backend"), None) == ["jaeger", "console"]
    assert chosen_backends(Given(["tempo", "file"], "backend"), Given("x", "file")) == ["tempo", "file"]
    assert chosen_backends(None, Given("x", "file")) == ["file"]
    assert standard_backends(asked=False) == ["otlp"]
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "none")
    assert standard_backends(asked=False) == []
    assert standard_backends(asked=True) == ["otlp"]
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console,otlp")
    assert standard_backends(asked=False) == ["console", "otlp"]


def test_presets_are_what_they_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jaeger takes no metrics; AcruxCore has its own path, key, patience and batches; keys are not shown."""
    assert destination("jaeger").metrics is None
    assert not destination("jaeger").traces.implicit
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=other")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318")
    monkeypatch.setenv("ACRUXCORE_BASE_URL", "https://acrux.example/api/v1/")
    monkeypatch.setenv("ACRUXCORE_API_KEY", "acx_sk_secret")
    made = destination("acruxcore")
    assert made.traces.url == "https://acrux.example/api/v1/traces/otlp"
    assert made.traces.headers == {"authorization": "Bearer acx_sk_secret"}
    assert (made.most, made.traces.timeout, made.metrics) == (100, 30.0, None)
    assert "secret" not in repr(made)
    monkeypatch.setenv("ACRUX_OTEL_ENDPOINT", "http://collector:4318")
    assert destination("acruxcore", alone=False).traces.url == "https://acrux.example/api/v1/traces/otlp"
    assert destination("acruxcore").traces.url == "http://collector:4318/traces/otlp"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://me:secret@h:1/p?token=secret&x=secret", "https://***@h:1/p?token=***&x=***"),
        ("http://h:4318/v1/traces", "http://h:4318/v1/traces"),
    ],
)
def test_a_shown_url_has_no_secrets(url: str, shown: str) -> None:
    """User, password and the query's values are masked."""
    assert masked_url(url) == shown


def test_a_header_value_is_never_in_an_error() -> None:
    """Also where the whole text is the secret."""
    with pytest.raises(ValueError, match="not shown") as raised:
        header_map(Given("acx_sk_secret", "OTEL_EXPORTER_OTLP_HEADERS"))
    assert "secret" not in str(raised.value)
