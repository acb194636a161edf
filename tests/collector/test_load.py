# SPDX-License-Identifier: Apache-2.0
"""A bounded load on one real gateway: what goes in comes out, and memory stays where the docs say."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import CONFIGS, thorough

pytestmark = [pytest.mark.backends, pytest.mark.timeout(300), thorough]


def load(binary: Path, *arguments: str) -> dict[str, float]:
    """What benchmarks/load.py says of one run."""
    script = CONFIGS / "benchmarks" / "load.py"
    done = subprocess.run(
        [sys.executable, str(script), str(binary), "--json", *arguments],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, float] = json.loads(done.stdout)
    return result


def check(result: dict[str, float], spans: int) -> None:
    assert result["given_up"] == 0
    assert result["accepted"] == spans
    assert result["came_out"] == spans
    assert result["evicted"] == 0
    assert 0 < result["peak_heap"] <= result["limit"]
    # what pieces/memory_limiter.yaml says a process needs
    assert result["peak_resident"] <= max(result["limit"] * 1.25, result["limit"] + 200)


@pytest.mark.parametrize("config", [(), ("--toolverdict",)], ids=["stock", "toolverdict"])
def test_within_its_limit_a_gateway_loses_nothing(collector_binary: Path, config: tuple[str, ...]) -> None:
    """20,000 spans a second held for 3 s: every span comes out, under the limit."""
    check(load(collector_binary, "--spans", "120000", "--hold", "3", *config), 120_000)


# All that is sent is held, however slow the machine is, and what comes in a second fits into the spike.
# The stock parts hold a span in less.
@pytest.mark.parametrize(
    "config",
    [("--memory", "90", "--spike", "50"), ("--memory", "120", "--spike", "40", "--toolverdict")],
    ids=["stock", "toolverdict"],
)
def test_over_its_limit_a_gateway_refuses_and_loses_nothing(
    collector_binary: Path, config: tuple[str, ...]
) -> None:
    """More than it may hold: it refuses, the sender sends again, every span comes out, under the limit."""
    result = load(collector_binary, "--spans", "180000", "--rate", "6000", "--hold", "30", *config)
    assert result["refusals"] > 0
    check(result, 180_000)
