# SPDX-License-Identifier: Apache-2.0
"""`acrux-otel doctor` tells what is configured, from where, and whether a span arrives."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from otlp_receivers import Program, closed_port, grpc_receiver, http_receiver, run_program

ACRUX_OTEL = str(Path(sys.executable).parent / "acrux-otel")


def doctor(*arguments: str, **env: str) -> Program:
    return run_program("", "doctor", *arguments, command=[ACRUX_OTEL], env=env)


def found(**env: str) -> tuple[int, dict[str, Any]]:
    done = doctor("--json", **env)
    return done.returncode, json.loads(done.stdout)


@pytest.mark.parametrize("receiver", [http_receiver, grpc_receiver])
def test_a_test_span_is_sent_and_acknowledged(receiver: Any) -> None:
    """Exit code 0, and the trace id under which the span is at the other end."""
    with receiver() as received:
        code, told = found(ACRUX_OTEL_ENDPOINT=received.url, OTEL_SERVICE_NAME="weather")
    assert (code, told["works"], told["error"]) == (0, True, None)
    ((resource, span),) = received.spans_with_resources()
    (check,) = [each for each in told["checks"] if each["signal"] == "traces"]
    assert check["trace_id"] == span.trace_id.hex()
    assert check["told"].startswith("acknowledged in ")
    assert (resource["service.name"], span.name) == ("weather", "acrux-otel doctor")


def test_an_endpoint_that_does_not_answer_is_exit_code_1() -> None:
    """The reason is there."""
    with closed_port() as port:
        code, told = found(OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{port}")
    assert (code, told["works"]) == (1, False)
    assert "connection refused" in told["checks"][0]["told"]


def test_an_endpoint_that_refuses_is_exit_code_1() -> None:
    """401 is not an acknowledgement."""
    with http_receiver(lambda _: (401, b"")) as received:
        code, told = found(OTEL_EXPORTER_OTLP_ENDPOINT=received.url)
    assert code == 1
    assert "HTTP 401" in told["checks"][0]["told"]


def test_a_backend_that_takes_no_metrics_works() -> None:
    """Spans decide; that metrics are not taken is said."""
    with http_receiver(lambda request: (404 if request.is_metrics else 200, b"")) as received:
        done = doctor(OTEL_EXPORTER_OTLP_ENDPOINT=received.url)
    assert done.returncode == 0
    assert "takes no metrics: HTTP 404" in done.stdout
    assert "works: every test span was taken" in done.stdout


def test_settings_come_with_their_source_and_without_secrets() -> None:
    """Every value says which variable gave it; header values, users and passwords are masked."""
    with http_receiver() as received:
        address = received.url.replace("http://", "http://me:secret@")
        done = doctor(
            OTEL_EXPORTER_OTLP_ENDPOINT=address,
            ACRUX_OTEL_HEADERS="authorization=Bearer%20secret",
            ACRUX_OTEL_EXIT_TIMEOUT="1.5",
            ACRUX_OTEL_CAPTURE="none",
        )
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    shown = address.replace("me:secret", "***")
    assert f"otlp traces {shown}/v1/traces (http/protobuf) (OTEL_EXPORTER_OTLP_ENDPOINT)" in lines
    assert "otlp headers authorization=*** (values are not shown)" in lines
    assert "exit timeout 1.5 s (ACRUX_OTEL_EXIT_TIMEOUT)" in lines
    assert "capture none (ACRUX_OTEL_CAPTURE)" in lines
    assert "service name unknown_service (default; set OTEL_SERVICE_NAME)" in lines
    assert "secret" not in done.stdout + done.stderr


def test_versions_and_known_conflicts_are_listed() -> None:
    """A mistyped variable, a timeout in milliseconds, a sampler that drops everything."""
    with http_receiver() as received:
        _, told = found(
            OTEL_EXPORTER_OTLP_ENDPOINT=received.url,
            OTEL_EXPORTER_OTLP_TIMEOUT="10000",
            OTEL_TRACES_SAMPLER="always_off",
            ACRUX_OTEL_ENDPIONT="http://h",
        )
    assert told["versions"]["opentelemetry-sdk"][0].isdigit()
    assert told["conflicts"][0] == "ACRUX_OTEL_ENDPIONT is not a variable of acrux-otel"
    assert any("OTEL_EXPORTER_OTLP_TIMEOUT=10000" in line for line in told["conflicts"])
    assert any("always_off" in line for line in told["conflicts"])


@pytest.mark.parametrize(
    ("env", "code", "message"),
    [
        ({"ACRUX_OTEL_PROTOCOL": "udp"}, 2, "ACRUX_OTEL_PROTOCOL is 'udp'; expected"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "h:x"}, 2, "OTEL_EXPORTER_OTLP_ENDPOINT is 'h:x'; expected"),
        ({"ACRUX_OTEL_BACKEND": "acruxcore"}, 2, "set ACRUXCORE_BASE_URL"),
        ({"OTEL_SDK_DISABLED": "true"}, 1, "no span is sent anywhere"),
        ({"ACRUX_OTEL_BACKEND": "none"}, 1, "no span is sent anywhere"),
    ],
)
def test_what_cannot_work_is_said_in_the_last_line(env: dict[str, str], code: int, message: str) -> None:
    """2: a setting cannot be used; 1: nothing would be sent."""
    done = doctor(**env)
    assert done.returncode == code
    last = done.stdout.strip().splitlines()[-1]
    assert last.startswith("does not work: ")
    assert message in last
    assert "Traceback" not in done.stderr


def test_a_file_and_the_console_are_checked_too(tmp_path: Path) -> None:
    """Several backends: each has its line."""
    path = tmp_path / "spans.jsonl"
    code, told = found(ACRUX_OTEL_BACKEND="console,file", ACRUX_OTEL_FILE=str(path))
    assert code == 0
    assert [check["backend"] for check in told["checks"]] == ["console", "file"]
    assert "acrux-otel doctor" in path.read_text()
