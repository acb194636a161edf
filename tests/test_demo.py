# SPDX-License-Identifier: Apache-2.0
"""`make demo`: the example as its user runs it, in a process of its own."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from demo_servers import ChatCompletions, OtlpReceiver, Proxy, attributes
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

EXAMPLES = Path(__file__).parents[1] / "examples"
SCRIPT = EXAMPLES / "report_a_tool_failure.py"
COLUMNS = ["run", "trace", "tool", "outcome", "errorType", "errorCode", "errorDetail"]
TOOL = "get_weather_brief"
SECONDS = 60  # that one run may take on a busy machine

GREEN = ["green", TOOL, "ok", "-", "-", "-"]
RED = ["red", TOOL, "error", "tool_declared", "location_not_found", "no city is called Atlantis Prime"]
AMBER = ["amber", TOOL, "warning", "tool_declared", "ambiguous_city", "matches India, Pakistan"]
SILENT = [["silent ok", *GREEN], ["silent not-found", *GREEN], ["silent ambiguous", *GREEN]]
DECLARED = [["declared ok", *GREEN], ["declared not-found", *RED], ["declared ambiguous", *AMBER]]


def environment(**more: str) -> dict[str, str]:
    """This process's, without what would change the demo."""
    ours = ("OTEL_", "ACRUX", "OPENAI_", "NO_COLOR", "FORCE_COLOR", "PYTHONPATH", "TERM", "COLUMNS", "LINES")
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(ours) and not name.lower().endswith("_proxy")
    }
    return {**kept, "TERM": "xterm", **more}


def run(*options: str, cwd: Path | None = None, **more: str) -> subprocess.CompletedProcess[str]:
    """The demo's end, with plain pipes around it."""
    return subprocess.run(
        [sys.executable, str(SCRIPT), *options],
        env=environment(**more),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=SECONDS,
    )


def rows(output: str) -> list[list[str]]:
    """The table's rows, of every table in the output, cut where the header's columns begin."""
    found: list[list[str]] = []
    starts: list[int] = []
    for line in output.splitlines():
        if line.split() == COLUMNS:
            starts = [line.index(column) for column in COLUMNS]
        elif not line:
            starts = []
        elif starts and set(line) != {"-", " "}:
            ends = [*starts[1:], len(line)]
            found.append([line[start:end].strip() for start, end in zip(starts, ends, strict=True)])
    return found


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess[str]:
    """One run of both forms, from a directory that has nothing to do with the checkout."""
    return run(cwd=tmp_path_factory.mktemp("elsewhere"))


def test_six_verdicts(both: subprocess.CompletedProcess[str]) -> None:
    """Silent, three green calls; declared, a green one, a red one and an amber one."""
    assert rows(both.stdout) == SILENT + DECLARED
    assert both.returncode == 0


def test_every_run_is_a_trace_of_its_own(both: subprocess.CompletedProcess[str]) -> None:
    """Each of the six answers names its trace, and no two share one."""
    traces = re.findall(r"^  trace ([0-9a-f]{32})$", both.stdout, re.MULTILINE)
    assert len(traces) == len(set(traces)) == 6


def test_answers_come_from_the_tool(both: subprocess.CompletedProcess[str]) -> None:
    """The user reads what the tool found, told to be simulated, or why there is nothing to read."""
    assert both.stdout.count("Kathmandu, Nepal: partly cloudy, 16.1 °C (simulated).") == 2
    assert both.stdout.count("I cannot say: no city is called Atlantis Prime.") == 2
    assert both.stdout.count("Hyderabad, India: ") == 2


def test_pipe_is_plain_and_quiet(both: subprocess.CompletedProcess[str]) -> None:
    """In a pipe there is no colour code, and without an endpoint nothing warns."""
    assert "\x1b" not in both.stdout
    assert both.stderr == ""


def test_only_the_silent_form() -> None:
    """`--silent` leaves the declared form out."""
    ended = run("--silent")
    assert (rows(ended.stdout), ended.stderr, ended.returncode) == (SILENT, "", 0)


@pytest.mark.parametrize("options", [["--nonsense"], ["--silent", "--declared"]])
def test_a_wrong_command_line_is_refused(options: list[str]) -> None:
    """A wrong option ends in the usage, what was wrong, and exit code 2."""
    ended = run(*options)
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert ended.stderr.startswith("usage: report_a_tool_failure.py")
    assert options[-1] in ended.stderr.splitlines()[-1]


def test_only_the_declared_form_and_nothing_leaves_the_machine() -> None:
    """`--declared` leaves the silent form out; without an endpoint nothing is sent, not even to a default."""
    with Proxy().running() as proxy:
        ended = run("--declared", http_proxy=proxy.url, https_proxy=proxy.url)
    assert (rows(ended.stdout), ended.stderr, ended.returncode) == (DECLARED, "", 0)
    assert proxy.asked_for == []


def test_live_asks_open_meteo_and_says_so_when_it_cannot() -> None:
    """`--live` goes to Open-Meteo; without a way there it ends in one line and exit code 1."""
    with Proxy().running() as proxy:
        ended = run("--live", https_proxy=proxy.url)
    assert proxy.asked_for == ["CONNECT geocoding-api.open-meteo.com:443"]
    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    assert line.startswith("error: https://geocoding-api.open-meteo.com cannot be reached (")


class TestTerminal:
    """What a person at a terminal sees."""

    @staticmethod
    def screen(columns: int, **more: str) -> str:
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        command = [sys.executable, str(SCRIPT), "--declared"]
        child = subprocess.Popen(command, env=environment(**more), stdin=slave, stdout=slave, stderr=slave)
        os.close(slave)
        seen = b""
        with contextlib.suppress(OSError):  # Linux answers EIO once the child has closed its end
            while chunk := os.read(master, 4096):
                seen += chunk
        os.close(master)
        assert child.wait(SECONDS) == 0
        return seen.decode().replace("\r\n", "\n")

    def test_colour_on_a_terminal(self) -> None:
        """The colours of the traces are colours, and the columns stand where they stand without."""
        seen = self.screen(200)
        assert {"\x1b[31mred\x1b[0m", "\x1b[33mamber\x1b[0m", "\x1b[32mgreen\x1b[0m"} <= set(seen.split())
        assert rows(re.sub(r"\x1b\[\d+m", "", seen)) == DECLARED

    def test_narrow_terminal_without_colour(self) -> None:
        """Under NO_COLOR there is no code; where the table would wrap, each cell has a line of its own."""
        seen = self.screen(80, NO_COLOR="1")
        assert "\x1b" not in seen
        assert rows(seen) == []
        assert re.search(r"^errorCode +location_not_found$", seen, re.MULTILINE)
        assert max(map(len, seen.splitlines())) <= 80

    @pytest.mark.parametrize(
        ("given", "coloured"),
        [
            ({"TERM": "xterm"}, True),
            ({"TERM": "xterm", "NO_COLOR": ""}, True),
            ({"TERM": "dumb"}, False),
            ({"TERM": "xterm", "NO_COLOR": "0"}, False),
        ],
    )
    def test_who_gets_colour(
        self, example: Any, monkeypatch: pytest.MonkeyPatch, given: dict[str, str], coloured: bool
    ) -> None:
        """Any NO_COLOR that is not empty, and a dumb terminal, mean plain text."""
        from weather.table import colours_on

        monkeypatch.delenv("NO_COLOR", raising=False)
        for name, value in given.items():
            monkeypatch.setenv(name, value)
        master, slave = pty.openpty()
        with open(slave, "w") as terminal, open(master):
            assert colours_on(terminal) is coloured


@pytest.fixture(scope="module")
def traces() -> list[list[Span]]:
    """The spans that arrived, by trace as the demo printed them, each trace in the order of its starts."""
    with OtlpReceiver().running() as receiver:
        ended = run(OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert receiver.services == {"weather-brief"}
    by_id: dict[str, list[Span]] = {}
    for span in sorted(receiver.spans, key=lambda span: span.start_time_unix_nano):
        by_id.setdefault(span.trace_id.hex(), []).append(span)
    printed = re.findall(r"trace ([0-9a-f]{32})", ended.stdout)
    assert sorted(by_id) == sorted(printed)
    return [by_id[trace_id] for trace_id in printed]


class TestOtlp:
    """What arrives where OTEL_EXPORTER_OTLP_ENDPOINT is set."""

    def test_a_run_has_three_spans_under_it(self, traces: list[list[Span]]) -> None:
        """The run's span is the root of two model spans with the tool's between them."""
        for root, *under in traces:
            assert (root.name, root.parent_span_id) == ("invoke_agent weather-brief", b"")
            assert [span.name for span in under] == ["chat scripted", f"execute_tool {TOOL}", "chat scripted"]
            assert {span.parent_span_id for span in under} == {root.span_id}

    def test_model_spans_follow_the_conventions(self, traces: list[list[Span]]) -> None:
        """A model span is a client's, and tells operation, provider, model and finish reason."""
        for _, first, _, second in traces:
            for span, reason in ((first, "tool_calls"), (second, "stop")):
                assert span.kind == Span.SPAN_KIND_CLIENT
                assert attributes(span.attributes) == {
                    "gen_ai.operation.name": "chat",
                    "gen_ai.provider.name": "scripted",
                    "gen_ai.request.model": "scripted",
                    "gen_ai.response.finish_reasons": [reason],
                }

    def test_runs_carry_their_tags_and_outcome(self, traces: list[list[Span]]) -> None:
        """Each run is tagged with its form and its case, and sums its call up."""
        seen = []
        for root, *_ in traces:
            told = attributes(root.attributes)
            tags = {name.removeprefix("acrux.tag.") for name in told if name.startswith("acrux.tag.")}
            seen.append((tags, told["acrux.trace.outcome"], told["acrux.tool.calls"]))
        assert seen == [
            ({"silent", "ok"}, "ok", 1),
            ({"silent", "not-found"}, "ok", 1),
            ({"silent", "ambiguous"}, "ok", 1),
            ({"declared", "ok"}, "ok", 1),
            ({"declared", "not-found"}, "error", 1),
            ({"declared", "ambiguous"}, "warning", 1),
        ]

    def test_only_the_declared_error_is_an_error(self, traces: list[list[Span]]) -> None:
        """Every span leaves its status unset but the one whose tool said that it failed."""
        statuses = [[span.status.code for span in spans] for spans in traces]
        unset, error = Status.STATUS_CODE_UNSET, Status.STATUS_CODE_ERROR
        green = [unset] * 4
        assert statuses == [green, green, green, green, [unset, unset, error, unset], green]

    def test_the_warning_is_on_the_tool_span(self, traces: list[list[Span]]) -> None:
        """The ambiguous city is a warning with its code and its message."""
        told = attributes(traces[-1][2].attributes)
        assert told["warning.type"] == told["errorCode"] == "ambiguous_city"
        assert told["warning.message"] == told["errorDetail"] == "matches India, Pakistan"
        assert "error.type" not in told


class TestOpenAI:
    """`--model`: a real model by the openai package, here behind a loopback stub of its API."""

    @staticmethod
    def ask(model: ChatCompletions, *options: str, **more: str) -> subprocess.CompletedProcess[str]:
        given = {"OPENAI_BASE_URL": f"{model.url}/v1", "OPENAI_API_KEY": model.key, **more}
        return run("--model", "some-model", *options, **given)

    def test_same_verdicts_and_model_spans(self) -> None:
        """The verdicts are the tool's own, whoever calls it; the model's spans tell what its answer told."""
        with ChatCompletions().running() as model, OtlpReceiver().running() as receiver:
            ended = self.ask(model, OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url)
        assert (rows(ended.stdout), ended.stderr, ended.returncode) == (SILENT + DECLARED, "", 0)
        assert "The tool told me: no city is called Atlantis Prime" in ended.stdout
        told = [attributes(span.attributes) for span in receiver.spans if span.name == "chat some-model"]
        assert len(told) == 12
        assert told[0] == {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": "some-model",
            "gen_ai.response.finish_reasons": ["tool_calls"],
            "gen_ai.response.id": "chatcmpl-1",
            "gen_ai.response.model": "some-model-2026",
            "gen_ai.usage.input_tokens": 40,
            "gen_ai.usage.output_tokens": 2,
        }

    def test_a_model_may_mend_its_call(self) -> None:
        """Broken and wrong arguments are told to the model; a call that reached the tool has a span."""
        with ChatCompletions(('{"city": ', '{"town": "{city}"}', '{"city": "{city}"}')).running() as model:
            ended = self.ask(model, "--declared")
        assert ended.returncode == 0
        assert [row[3:6] for row in rows(ended.stdout)][:2] == [
            ["error", "schema_mismatch", "invalid_arguments"],
            ["ok", "-", "-"],
        ]
        assert "The tool told me: Kathmandu" in ended.stdout

    @pytest.mark.parametrize(
        ("more", "says", "on_the_span"),
        [
            ({"OPENAI_API_KEY": "wrong"}, "Incorrect API key provided", ["AuthenticationError"]),
            (
                {"OPENAI_BASE_URL": "http://127.0.0.1:1/v1"},
                "127.0.0.1:1/v1/ failed: Connection error.",
                ["APIConnectionError"],
            ),
            ({"OPENAI_API_KEY": ""}, "--model needs OPENAI_API_KEY", []),
        ],
    )
    def test_a_model_that_does_not_answer_is_one_line(
        self, more: dict[str, str], says: str, on_the_span: list[str]
    ) -> None:
        """A wrong key, no key and a dead endpoint each end in one line, exit code 1 and a red model span."""
        with ChatCompletions().running() as model, OtlpReceiver().running() as receiver:
            ended = self.ask(model, OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url, **more)
        (line,) = ended.stderr.splitlines()
        assert line.startswith("error: ")
        assert says in line
        assert (ended.returncode, ended.stdout) == (1, "")
        spans = [span for span in receiver.spans if span.name == "chat some-model"]
        assert [attributes(span.attributes)["error.type"] for span in spans] == on_the_span
        assert {span.status.code for span in spans} <= {Status.STATUS_CODE_ERROR}

    def test_without_the_openai_package(self, tmp_path: Path) -> None:
        """Where the package is missing, one line says how to install it."""
        (tmp_path / "openai.py").write_text("raise ModuleNotFoundError(\"No module named 'openai'\")")
        ended = run("--model", "some-model", PYTHONPATH=str(tmp_path), OPENAI_API_KEY="x")
        assert ended.stderr == "error: --model needs the openai package: pip install openai\n"
        assert ended.returncode == 1

    def test_control_c_ends_it_quietly(self) -> None:
        """An interrupt while the model thinks ends the demo at once, with exit code 130 and no traceback."""
        with ChatCompletions(hang=True).running() as model:
            given = environment(OPENAI_BASE_URL=f"{model.url}/v1", OPENAI_API_KEY=model.key)
            command = [sys.executable, str(SCRIPT), "--model", "some-model"]
            child = subprocess.Popen(command, env=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            try:
                assert model.asked.wait(SECONDS)
                child.send_signal(signal.SIGINT)
                out, err = child.communicate(timeout=15)
            finally:
                child.kill()
        assert (child.returncode, out, err) == (130, b"", b"")


def test_a_reader_that_goes_away_is_no_fault() -> None:
    """`... | head -0` ends the demo without a word."""
    command = [sys.executable, str(SCRIPT), "--declared"]
    child = subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.close()
    _, err = child.communicate(timeout=SECONDS)
    assert (child.returncode, err) == (0, b"")


def test_nothing_recorded_is_shown_as_such() -> None:
    """Where the user switched recording off, the table does not pretend to have seen a call."""
    ended = run("--declared", OTEL_TRACES_SAMPLER="always_off")
    assert [row[1:] for row in rows(ended.stdout)] == [["none", *["-"] * 5]] * 3
    assert ended.returncode == 0


@pytest.fixture(scope="module")
def example() -> Iterator[Any]:
    """The example as a module, with its weather from the local server."""
    sys.path.insert(0, str(EXAMPLES))
    try:
        import report_a_tool_failure as module
        import weather

        with weather.local_server() as base:
            module.open_meteo.ask_instead(base)
            yield module, base
    finally:
        sys.path.remove(str(EXAMPLES))


@pytest.fixture(scope="module")
def get(example: Any) -> Any:
    _, base = example
    opened = urllib.request.build_opener(urllib.request.ProxyHandler({})).open

    def get(path: str) -> tuple[int, dict[str, Any]]:
        try:
            with opened(base + path, timeout=10) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as refused:
            return refused.code, json.load(refused)

    return get


class TestGeocoder:
    """The local server speaks as Open-Meteo does, over real places."""

    def test_a_place_has_the_documented_fields(self, get: Any) -> None:
        """A result names the place, where it is, whose it is and how many live there."""
        status, body = get("/v1/search?name=Kathmandu&count=10&language=en&format=json")
        (place,) = body["results"]
        assert status == 200
        assert body["generationtime_ms"] > 0
        assert place.pop("population") > 1_000_000
        assert place == {
            "id": 1283240,
            "name": "Kathmandu",
            "latitude": pytest.approx(27.7, abs=0.1),
            "longitude": pytest.approx(85.3, abs=0.1),
            "country_code": "NP",
            "country_id": 1282988,
            "country": "Nepal",
            "timezone": "Asia/Kathmandu",
        }

    @pytest.mark.parametrize("name", ["Atlantis+Prime", "", "K", "Hyderabad,+Nepal"])
    def test_nothing_found_is_a_success_without_results(self, get: Any, name: str) -> None:
        """An unknown place is 200 and a body that has no `results`: the failure nobody sees."""
        status, body = get(f"/v1/search?name={name}")
        assert (status, list(body)) == (200, ["generationtime_ms"])

    @pytest.mark.parametrize(
        ("query", "countries"),
        [
            ("name=Hyderabad", ["IN", "PK"]),
            ("name=hyderabad", ["IN", "PK"]),
            ("name=Hyderabad&count=1", ["IN"]),
            ("name=Hyderabad,+Pakistan", ["PK"]),
            ("name=Hyderabad&countryCode=PK", ["PK"]),
        ],
    )
    def test_namesakes_by_population(self, get: Any, query: str, countries: list[str]) -> None:
        """Places of one name come with the most populous first, and can be narrowed to a country."""
        _, body = get(f"/v1/search?{query}")
        assert [place["country_code"] for place in body["results"]] == countries
        populations = [place["population"] for place in body["results"]]
        assert populations == sorted(populations, reverse=True)

    def test_longer_names_come_after_the_exact_ones(self, get: Any) -> None:
        """Three letters and more also find names that begin so, after the exact ones."""
        _, body = get("/v1/search?name=paris&count=100")
        exact = [place["name"] == "Paris" for place in body["results"]]
        assert exact == sorted(exact, reverse=True)
        assert set(exact) == {True, False}

    @pytest.mark.parametrize(
        ("path", "status", "named"),
        [
            ("/v1/search", 400, "'name'"),
            ("/v1/search?name=Kathmandu&count=0", 400, "'count'"),
            ("/v1/search?name=Kathmandu&count=many", 400, "'count'"),
            ("/v1/forecast?longitude=1", 400, "'latitude'"),
            ("/v1/forecast?latitude=91&longitude=1", 400, "'latitude'"),
            ("/v1/forecast?latitude=nan&longitude=1", 400, "'latitude'"),
            ("/v2/anything", 404, "/v2/anything"),
        ],
    )
    def test_refusals(self, get: Any, path: str, status: int, named: str) -> None:
        """What cannot be answered is refused as Open-Meteo does, with a reason that names it."""
        answered, body = get(path)
        assert (answered, body["error"]) == (status, True)
        assert named in body["reason"]

    def test_the_forecast_says_that_it_is_simulated(self, get: Any) -> None:
        """The stand-in has Open-Meteo's shape, and nobody can take it for the weather."""
        _, body = get("/v1/forecast?latitude=27.7&longitude=85.3&current=temperature_2m,weather_code")
        assert body["simulated"] is True
        assert body["current"]["temperature_2m"] == pytest.approx(16.1, abs=0.1)
        assert isinstance(body["current"]["weather_code"], int)
        assert body["current_units"]["temperature_2m"] == "°C"


@pytest.mark.parametrize(
    ("city", "outcome", "detail"),
    [
        ("Paris", "warning", "matches France, United States"),
        ("Sao Paulo", "ok", None),
        ("Hyderabad, Pakistan", "ok", None),
        ("Qwertyville", "error", "no city is called Qwertyville"),
    ],
)
def test_the_tool_judges_any_city(example: Any, city: str, outcome: str, detail: str | None) -> None:
    """The verdict comes from the places that bear the name, not from the three questions."""
    from acrux_otel.testing import record_calls

    module, _ = example
    with record_calls() as calls:
        module.declared(city)
    assert (calls.last.verdict.outcome, calls.last.verdict.detail) == (outcome, detail)


def test_both_forms_are_one_tool(example: Any) -> None:
    """The model sees the same tool in both forms, so nothing but the verdict differs."""
    import acrux_otel as acrux

    module, _ = example
    silent, declared = map(acrux.definition_of, (module.silent, module.declared))
    assert silent.name == declared.name == TOOL
    assert silent.contract_hash == declared.contract_hash
    assert silent.text_hash == declared.text_hash
