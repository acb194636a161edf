# SPDX-License-Identifier: Apache-2.0
"""A catalog's tools in a turn: stamped with their version, checked by their schema, and never written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

PUBLISH = """
import acrux_otel as acrux

@acrux.tool(result_schema={"type": "object", "required": ["charged"]}, result_severity="error")
def charge(amount: float) -> dict:
    "Charge a card."
    return {"charged": amount}

acrux.sync([charge])
"""

RUN = """
import json
import acrux_otel as acrux
from acrux_otel.catalog import automatic
from acrux_otel.settings import settings
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

spans = InMemorySpanExporter()
settings.tracer_provider = TracerProvider()
settings.tracer_provider.add_span_processor(SimpleSpanProcessor(spans))

def pay(amount: float) -> dict:
    return {"paid": amount}

def turn(number):
    return acrux.run_tool_calls(
        [acrux.ToolCall(number, "charge", {"amount": 3})], [], client_tools={"charge": pay}
    )

turn("1")
assert not automatic.pending(20)
(result,) = turn("2")
print(json.dumps({
    "version": spans.get_finished_spans()[-1].attributes.get("toolVersionId"),
    "code": result.verdict.code,
    "outcome": result.verdict.outcome,
}))
"""

LIST = """
import json
from acrux_otel.catalog import open_catalog

print(json.dumps([[tool.name, tool.version_count] for tool in open_catalog().tools()]))
"""


def program(code: str, home: Path) -> Any:
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith(("OTEL_", "ACRUX"))},
        "ACRUX_OTEL_CATALOG": f"sqlite:///{home}/catalog.db",
    }
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=100, env=environment, cwd=home
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) if done.stdout.startswith(("{", "[")) else done.stdout


def test_a_client_tool_follows_the_catalog_without_writing(tmp_path: Path) -> None:
    """The batch runner starts the look-up; the span names the version, whose result schema then holds."""
    program(PUBLISH, tmp_path)
    said = program(RUN, tmp_path)
    assert said["version"]
    assert (said["outcome"], said["code"]) == ("error", "invalid_result")
    assert program(LIST, tmp_path) == [["charge", 1]]
