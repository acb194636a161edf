# SPDX-License-Identifier: Apache-2.0
"""Zero config: `opentelemetry-instrument` and `acrux-otel run` record tools without `configure()`."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path

import pytest
from otlp_receivers import Program, black_hole, closed_port, grpc_receiver, http_receiver, run_program

from acrux_otel.cli.run import command_line, environment

BIN = Path(sys.executable).parent
ACRUX_OTEL = str(BIN / "acrux-otel")
INSTRUMENT = str(BIN / "opentelemetry-instrument")

APP = """
import sys, time
import acrux_otel as acrux

@acrux.tool
def find(city: str) -> dict:
    if city == "Atlantis":
        return acrux.ToolResult.error("location_not_found", "no such city")
    return {"city": city}

for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 1):
    find("Atlantis")
"""
# The SDK's exit handlers are older than the program and run after its own, so what tells for how long the
# end was held is what goes last of all.
ENDED = """
import os
class AtTheEnd:
    def __init__(self):
        self.begun, self.now, self.write = time.monotonic(), time.monotonic, os.write
    def __del__(self):
        self.write(1, b"held %.2f" % (self.now() - self.begun))
sys.at_the_end = AtTheEnd()
"""


@pytest.fixture
def app(tmp_path: Path) -> Path:
    script = tmp_path / "weather_app.py"
    script.write_text(APP)
    return script


def run(*arguments: str, command: str = ACRUX_OTEL, folder: Path | None = None, **env: str) -> Program:
    # The instrumentations that happen to be installed here have tests of their own.
    env = {"OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": "*", **env}
    return run_program("", *arguments, command=[command], env=env, folder=folder)


def test_opentelemetry_instrument_records_decorated_tools(app: Path) -> None:
    """`opentelemetry-instrument python app.py`, beside opentelemetry-distro and its own exporters."""
    with http_receiver() as received:
        done = run(
            sys.executable,
            str(app),
            command=INSTRUMENT,
            OTEL_EXPORTER_OTLP_ENDPOINT=received.url,
            OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf",
            OTEL_SERVICE_NAME="plain",
        )
    assert done.returncode == 0, done.stderr
    ((resource, span),) = received.spans_with_resources()
    assert (resource["service.name"], span.name) == ("plain", "execute_tool find")
    assert "acrux.tool.calls" in [metric.name for _, metric in received.metrics()]


def test_opentelemetry_instrument_takes_our_exporter_by_name(
    app: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OTEL_TRACES_EXPORTER=acrux_otel: the standard way to AcruxCore and the other backends."""
    with http_receiver() as received:
        done = run(
            sys.executable,
            str(app),
            command=INSTRUMENT,
            OTEL_TRACES_EXPORTER="acrux_otel",
            OTEL_METRICS_EXPORTER="none",
            ACRUX_OTEL_BACKEND="acruxcore",
            ACRUXCORE_BASE_URL=f"{received.url}/api/v1",
            ACRUXCORE_API_KEY="acx_sk_test",
        )
    assert (done.returncode, done.stderr) == (0, "")
    assert [request.path for request in received] == ["/api/v1/traces/otlp"]
    assert "TOOL" in [pair.value.string_value for pair in received.spans()[0].attributes]


def test_run_records_decorated_tools_and_names_the_service(app: Path) -> None:
    """`acrux-otel run app.py`: OTLP over HTTP, the service is named after the script, nothing is said."""
    with http_receiver() as received:
        done = run("run", str(app), "3", OTEL_EXPORTER_OTLP_ENDPOINT=received.url)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    found = received.spans_with_resources()
    assert [span.name for _, span in found] == ["execute_tool find"] * 3
    assert {resource["service.name"] for resource, _ in found} == {"weather_app"}
    assert "acrux.tool.calls" in [metric.name for _, metric in received.metrics()]


def test_run_speaks_grpc_too(app: Path) -> None:
    """By the endpoint's form, as configure() would."""
    with grpc_receiver() as received:
        done = run("run", "--endpoint", received.url, "--service-name", "named", str(app))
    assert (done.returncode, done.stderr) == (0, "")
    ((resource, _),) = received.spans_with_resources()
    assert resource["service.name"] == "named"


@pytest.mark.parametrize("arguments", [["-m", "weather_app", "2"], [sys.executable, "weather_app.py", "2"]])
def test_run_takes_modules_and_commands(app: Path, arguments: list[str]) -> None:
    """A script, -m MODULE or any command; arguments and options after it are the program's."""
    with http_receiver() as received:
        done = run("run", *arguments, folder=app.parent, ACRUX_OTEL_ENDPOINT=received.url)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(received.spans()) == 2
    assert received.spans_with_resources()[0][0]["service.name"] == "weather_app"


def test_run_works_beside_configure(app: Path) -> None:
    """A program that configures itself is joined: each call is sent once."""
    app.write_text(APP.replace("@acrux.tool", "acrux.configure()\n\n@acrux.tool"))
    with http_receiver() as received:
        done = run("run", str(app), OTEL_EXPORTER_OTLP_ENDPOINT=received.url)
    assert (done.returncode, done.stderr) == (0, "")
    assert received.names() == ["execute_tool find"]


def test_run_keeps_tempos_limit(app: Path) -> None:
    """A backend's needs are met without configure() too."""
    app.write_text(APP.replace('find("Atlantis")', 'find("x" * 9000)'))
    with http_receiver() as received:
        done = run(
            "run", "--backend", "tempo", "--capture", "full", str(app), ACRUX_OTEL_ENDPOINT=received.url
        )
    assert (done.returncode, done.stderr) == (0, "")
    told = {pair.key: pair.value.string_value for pair in received.spans()[0].attributes}
    assert len(told["gen_ai.tool.call.arguments"]) <= 2048


def test_run_sends_at_sigterm_when_asked(app: Path) -> None:
    """ACRUX_OTEL_HANDLE_SIGTERM: the SDK's own processors are flushed as well."""
    app.write_text(APP + "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\ntime.sleep(10)\n")
    with http_receiver() as received:
        done = run("run", str(app), ACRUX_OTEL_ENDPOINT=received.url, ACRUX_OTEL_HANDLE_SIGTERM="true")
    assert (done.returncode, done.stderr) == (-15, "")
    assert received.names() == ["execute_tool find"]


@pytest.mark.parametrize("spans", ["10", "3000"])
@pytest.mark.parametrize("kind", ["refused", "black hole", "slow", "503"])
def test_the_end_of_a_run_is_bounded(app: Path, kind: str, spans: str) -> None:
    """Exit code 0 within the exit timeout and half a second, one line about the endpoint, no traceback."""
    app.write_text(APP + ENDED)
    with contextlib.ExitStack() as stack:
        if kind == "refused":
            url = f"http://127.0.0.1:{stack.enter_context(closed_port())}"
        elif kind == "black hole":
            url = f"http://127.0.0.1:{stack.enter_context(black_hole())}"
        else:
            wait = 5 if kind == "slow" else 0

            def answer(_: object) -> tuple[int, bytes]:
                time.sleep(wait)
                return (200 if wait else 503), b""

            url = stack.enter_context(http_receiver(answer)).url
        done = run("run", str(app), spans, ACRUX_OTEL_ENDPOINT=url, ACRUX_OTEL_EXIT_TIMEOUT="1")
    assert done.returncode == 0
    assert float(done.stdout.rpartition("held ")[2]) <= 1.5
    assert "Traceback" not in done.stderr
    about_endpoint = [line for line in done.lines if line.startswith("cannot send ")]
    assert len(about_endpoint) == 1
    assert len(done.lines) <= 2


@pytest.mark.parametrize(
    ("arguments", "env", "code", "message"),
    [
        (["app.py"], {}, 2, "error: there is no file 'app.py'"),
        (["no-such-command"], {}, 127, "error: there is no command 'no-such-command'"),
        (
            ["app.py"],
            {"ACRUX_OTEL_PROTOCOL": "udp"},
            2,
            "error: ACRUX_OTEL_PROTOCOL is 'udp'; expected 'http/protobuf' or 'grpc'",
        ),
        (["--backend", "acruxcore", "app.py"], {}, 2, "error: backend 'acruxcore' needs its address"),
        (["app.py"], {"ACRUX_OTEL_EXIT_TIMEOUT": "x"}, 2, "error: ACRUX_OTEL_EXIT_TIMEOUT is 'x'"),
    ],
)
def test_a_mistake_is_one_line(
    tmp_path: Path, arguments: list[str], env: dict[str, str], code: int, message: str
) -> None:
    """Said before the program runs, and without a traceback."""
    done = run("run", *arguments, folder=tmp_path, **env)
    assert done.returncode == code
    assert len(done.lines) == 1
    assert done.lines[0].startswith(message)


@pytest.mark.parametrize(
    ("line", "given", "expected"),
    [
        (["python", "app.py"], {}, {"OTEL_SERVICE_NAME": "app"}),
        (["/usr/bin/python3", "-u", "src/app.py"], {}, {"OTEL_SERVICE_NAME": "app"}),
        (["python", "agent/__main__.py"], {}, {"OTEL_SERVICE_NAME": "agent"}),
        (["python", "-m", "agent.main"], {}, {"OTEL_SERVICE_NAME": "agent.main"}),
        (["gunicorn", "app:app"], {}, {"OTEL_SERVICE_NAME": "gunicorn"}),
        (["python", "app.py"], {"ACRUX_OTEL_SERVICE_NAME": "ours"}, {"OTEL_SERVICE_NAME": "ours"}),
        (["python", "app.py"], {"OTEL_SERVICE_NAME": "theirs"}, {"OTEL_SERVICE_NAME": None}),
        (["python", "app.py"], {"OTEL_RESOURCE_ATTRIBUTES": "service.name=x"}, {"OTEL_SERVICE_NAME": None}),
        (["python", "app.py"], {"OTEL_TRACES_EXPORTER": "console"}, {"OTEL_TRACES_EXPORTER": None}),
        (["python", "app.py"], {"OTEL_TRACES_EXPORTER": "otlp"}, {"OTEL_TRACES_EXPORTER": "acrux_otel"}),
        (["python", "app.py"], {"ACRUX_OTEL_METRICS": "off"}, {"OTEL_METRICS_EXPORTER": "none"}),
        (["python", "app.py"], {"ACRUX_OTEL_BACKEND": "jaeger"}, {"OTEL_METRICS_EXPORTER": "none"}),
        (["python", "app.py"], {}, {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}),
        (
            ["python", "app.py"],
            {"ACRUX_OTEL_BACKEND": "none"},
            {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"},
        ),
        (["python", "app.py"], {"ACRUX_OTEL_BACKEND": "none"}, {"OTEL_LOGS_EXPORTER": "none"}),
        (["python", "app.py"], {"ACRUX_OTEL_ENDPOINT": "h:4317"}, {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}),
    ],
)
def test_run_sets_standard_variables_that_the_user_has_not(
    monkeypatch: pytest.MonkeyPatch, line: list[str], given: dict[str, str], expected: dict[str, str | None]
) -> None:
    """The service's name, our exporters and the protocol; what is set stays."""
    for name in list(os.environ):
        if name.startswith(("OTEL_", "ACRUX")):
            monkeypatch.delenv(name)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    made = environment(line, dict(os.environ))
    assert {name: made.get(name) for name in expected} == expected


def test_a_script_is_run_by_this_python() -> None:
    """And a module; a command is left as it is."""
    assert command_line(["app.py", "-v"]) == [sys.executable, "app.py", "-v"]
    assert command_line(["-m", "app", "-v"]) == [sys.executable, "-m", "app", "-v"]
    assert command_line(["gunicorn", "app:app"]) == ["gunicorn", "app:app"]


def test_without_the_extra_the_command_says_how_to_install_it(tmp_path: Path) -> None:
    """One line with the exact command."""
    done = run_program("sys.modules['typer'] = None\nfrom acrux_otel.cli import main\nmain()")
    assert done.returncode == 1
    assert done.lines == [
        'acrux-otel needs optional packages; install them with: pip install "acrux-otel[cli]"'
    ]
