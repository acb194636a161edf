# SPDX-License-Identifier: Apache-2.0
"""The collector processor's own tests, which are Go's, as part of this suite."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

FOLDER: Final = Path(__file__).parents[2] / "collector-config" / "toolverdictprocessor"
GO: Final = shutil.which("go")

pytestmark = [
    pytest.mark.skipif(GO is None, reason="Go is not installed: the collector processor is not tested"),
    pytest.mark.timeout(600),
]


def run(*command: str) -> str:
    """What a Go command prints; its failure is the test's."""
    done = subprocess.run(
        command,
        cwd=FOLDER,
        env=os.environ | {"GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly -buildvcs=false"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=580,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_the_source_is_formatted() -> None:
    """gofmt would change no file."""
    assert run("gofmt", "-l", ".") == ""


def test_vet_finds_nothing() -> None:
    """go vet has nothing to say."""
    run("go", "vet", "./...")


def test_the_rules_hold() -> None:
    """Every Go test passes, with the race detector off for want of a C compiler everywhere."""
    run("go", "test", "-count=1", "./...")


@pytest.mark.parametrize("name", ["FuzzNormalise", "FuzzRollup"])
def test_hostile_input_is_borne(name: str) -> None:
    """A bounded search finds no input that panics, loses a span or changes on a second run."""
    out = run(
        "go", "test", "-run=^$", f"-fuzz=^{name}$", "-fuzztime=2000x", "-fuzzminimizetime=10x", "-parallel=1"
    )
    assert "PASS" in out
