# SPDX-License-Identifier: Apache-2.0
"""Programs as a user starts them: nobody decorated anything, and their tools have verdicts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("mcp")
pytest.importorskip("langchain_core")
pytest.importorskip("opentelemetry.distro")

BIN = Path(sys.executable).parent
AGENT = """
import asyncio
from langchain_core.tools import tool
from mcp import Client
from mcp.server.mcpserver import MCPServer

@tool
def divide(a: int, b: int) -> float:
    "Divide."
    return a / b

async def forecast(city: str) -> str:
    raise LookupError("there is no " + city)

async def main() -> None:
    server = MCPServer("weather")
    server.add_tool(forecast)
    async with Client(server) as client:
        await client.call_tool("forecast", {"city": "Nowhere"})

print("quotient", divide.invoke({"a": 6, "b": 3}))
asyncio.run(main())
"""
BY_HAND = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
trace.set_tracer_provider(TracerProvider())
trace.get_tracer_provider().add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter()))
import acrux_otel_instrumentation
"""
INSTRUMENT = "print('instrumented', *acrux_otel_instrumentation.instrument())\n"
VERDICTS = [
    ("divide", "ok", None, "UNSET"),
    ("forecast", "error", "lookup_error", "ERROR"),
]


class Ran(NamedTuple):
    spans: list[dict[str, Any]]
    out: str
    err: str

    @property
    def verdicts(self) -> list[tuple[Any, ...]]:
        return sorted(
            (
                span["attributes"]["gen_ai.tool.name"],
                span["attributes"]["acrux.tool.outcome"],
                span["attributes"].get("errorCode"),
                span["status"]["status_code"],
            )
            for span in self.spans
            if "acrux.tool.outcome" in span["attributes"]
        )


def run(folder: Path, program: str, *before: str, **variables: str) -> Ran:
    """Run ``program`` to its end, spans to its standard output."""
    (folder / "agent.py").write_text(program)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "ACRUX"))}
    exporters = {f"OTEL_{signal}_EXPORTER": "none" for signal in ("METRICS", "LOGS")}
    done = subprocess.run(
        [*before, str(folder / "agent.py")],
        env={**kept, **exporters, "OTEL_TRACES_EXPORTER": "console", **variables},
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert done.returncode == 0, done.stderr
    spans, decoder, text = [], json.JSONDecoder(), done.stdout
    while (start := text.find("{\n")) >= 0:
        span, length = decoder.raw_decode(text[start:])
        spans.append(span)
        text = text[start + length :]
    return Ran(spans, done.stdout, done.stderr)


PYTHON = (sys.executable,)
INSTRUMENTED = (str(BIN / "opentelemetry-instrument"), sys.executable)
RUN = (str(BIN / "acrux-otel"), "run")


@pytest.mark.parametrize(
    ("program", "command"),
    [
        pytest.param(AGENT, INSTRUMENTED, id="opentelemetry-instrument"),
        pytest.param(AGENT, RUN, id="acrux-otel run"),
        pytest.param(BY_HAND + INSTRUMENT + AGENT, PYTHON, id="instrument() before the imports"),
        pytest.param(
            BY_HAND + AGENT.replace("print(", INSTRUMENT + "print("), PYTHON, id="instrument() after them"
        ),
    ],
)
def test_each_way_to_start_a_program_records_its_tools(
    program: str, command: tuple[str, ...], tmp_path: Path
) -> None:
    """The same verdicts, one for each call, and not a word on standard error from us."""
    ran = run(tmp_path, program, *command)
    assert ran.verdicts == VERDICTS
    assert "quotient 2.0" in ran.out
    # MCP's server draws the stack of what a tool raised, in which our frames are.
    assert "acrux" not in "".join(line for line in ran.err.splitlines() if "│" not in line)


@pytest.mark.parametrize(
    ("disabled", "left"),
    [("acrux_langchain", VERDICTS[1:]), ("acrux_mcp,acrux_fastmcp", VERDICTS[:1]), ("*", [])],
)
def test_instrumentations_can_be_left_out(disabled: str, left: list[Any], tmp_path: Path) -> None:
    """OTEL_PYTHON_DISABLED_INSTRUMENTATIONS works, by names and for all."""
    ran = run(tmp_path, AGENT, *INSTRUMENTED, OTEL_PYTHON_DISABLED_INSTRUMENTATIONS=disabled)
    assert ran.verdicts == left


def test_instrument_heeds_what_is_left_out(tmp_path: Path) -> None:
    """The variable holds for `instrument()` too, and it says what it did."""
    ran = run(
        tmp_path,
        BY_HAND + INSTRUMENT + AGENT,
        *PYTHON,
        OTEL_PYTHON_DISABLED_INSTRUMENTATIONS="acrux_langchain",
    )
    assert ran.verdicts == VERDICTS[1:]
    said = next(line for line in ran.out.splitlines() if line.startswith("instrumented"))
    assert "acrux_mcp" in said and "acrux_langchain" not in said


@pytest.mark.parametrize(
    ("program", "command"),
    [
        pytest.param(AGENT, INSTRUMENTED, id="opentelemetry-instrument"),
        pytest.param(BY_HAND + INSTRUMENT + AGENT, PYTHON, id="instrument()"),
    ],
)
def test_an_unsupported_framework_is_one_warning_and_the_others_are_recorded(
    program: str, command: tuple[str, ...], tmp_path: Path
) -> None:
    """It names the package, the version that was found and the versions that are supported."""
    found = tmp_path / "old" / "langchain_core-0.1.7.dist-info"
    found.mkdir(parents=True)
    (found / "METADATA").write_text("Metadata-Version: 2.1\nName: langchain-core\nVersion: 0.1.7\n")
    ran = run(tmp_path, program, *command, PYTHONPATH=str(found.parent))
    assert ran.verdicts == VERDICTS[1:]
    (warning,) = [line for line in ran.err.splitlines() if "langchain" in line]
    for part in ("langchain-core 0.1.7", "not supported", ">=0.3.60", "<2"):
        assert part in warning


def test_a_framework_that_is_asked_for_and_missing_is_one_warning(tmp_path: Path) -> None:
    """It says which package, and for which versions its calls are recorded; the program goes on."""
    program = BY_HAND + "acrux_otel_instrumentation.instrument('acrux_smolagents', 'acrux_mcp')\n" + AGENT
    ran = run(tmp_path, program, *PYTHON)
    assert ran.verdicts == VERDICTS[1:]
    (warning,) = [line for line in ran.err.splitlines() if "smolagents" in line]
    assert "smolagents is not installed" in warning and ">=1.20" in warning
