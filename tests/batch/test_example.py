# SPDX-License-Identifier: Apache-2.0
"""`examples/parallel_tools.py` as its user runs it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "parallel_tools.py"
APIS = ["Anthropic Messages", "OpenAI Chat", "OpenAI Responses"]


def test_the_dependent_call_fails_once_and_then_runs_in_order() -> None:
    """Each API gets three calls with one failure, then the same three without, then ends the conversation."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("OTEL_", "ACRUX"))}
    done = subprocess.run(
        [sys.executable, str(EXAMPLE)],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
        env=environment,
    )
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    rows = [re.split(r"\s{2,}", line)[:4] for line in lines if re.search(r"\s[12]\s{2}", line)]
    expected = [
        [api, turn, tool, outcome]
        for api in APIS
        for turn, outcomes in (("1", ["ok", "error", "ok"]), ("2", ["ok", "ok", "ok"]))
        for tool, outcome in zip(["create_customer", "send_invoice", "exchange_rate"], outcomes, strict=True)
    ]
    assert rows == expected
    assert [line for line in lines if line.endswith("Ada has her invoice of 120 USD.")] == [
        f"{api}: Ada has her invoice of 120 USD." for api in APIS
    ]
    assert lines[2].endswith('{"error": "no customer is called Ada"}')
