# SPDX-License-Identifier: Apache-2.0
"""The collector processor's own tests, which are Go's, as part of this suite."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from .conftest import CONFIGS, required, thorough

PROCESSOR: Final = CONFIGS / "toolverdictprocessor"

pytestmark = pytest.mark.timeout(600)


def run(*command: str, folder: Path = PROCESSOR, **variables: str) -> str:
    """What a Go command prints; its failure is the test's."""
    program = required(command[0], "Go 1.26 or newer")
    done = subprocess.run(
        [program, *command[1:]],
        cwd=folder,
        env=os.environ
        | {"GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly -buildvcs=false", "GOWORK": "off"}
        | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=580,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.parametrize("folder", ["toolverdictprocessor", "distribution", "benchmarks"])
def test_the_source_is_formatted(folder: str) -> None:
    """gofmt would change no file."""
    assert run("gofmt", "-l", ".", folder=CONFIGS / folder) == ""


def test_the_rules_hold() -> None:
    """Every Go test passes, those of fuzzing with the inputs that are kept."""
    run("go", "test", "-count=1", "./...")


@thorough
@pytest.mark.parametrize("folder", ["toolverdictprocessor", "distribution", "benchmarks"])
def test_vet_finds_nothing(folder: str) -> None:
    """go vet has nothing to say; it also compiles the benchmarks."""
    run("go", "vet", "./...", folder=CONFIGS / folder)


@thorough
@pytest.mark.skipif(shutil.which("gcc") is None, reason="the race detector needs a C compiler")
def test_nothing_races() -> None:
    """Every Go test passes under the race detector."""
    run("go", "test", "-race", "-count=1", "./...", CGO_ENABLED="1")


@thorough
@pytest.mark.parametrize("name", ["FuzzNormalise", "FuzzRollup"])
def test_hostile_input_is_borne(name: str) -> None:
    """A bounded search finds no input that panics, loses a span or changes on a second run."""
    out = run(
        "go", "test", "-run=^$", f"-fuzz=^{name}$", "-fuzztime=5000x", "-fuzzminimizetime=10x", "-parallel=1"
    )
    assert "PASS" in out
