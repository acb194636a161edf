# SPDX-License-Identifier: Apache-2.0
"""What docs/backends.md and `doctor` say about the settings is complete."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

import acrux_otel as acrux
from acrux_otel.export.backends import BACKENDS
from acrux_otel.export.conflicts import conflicts

PAGE = (Path(__file__).parents[1] / "docs" / "backends.md").read_text(encoding="utf-8")
IN_CODE_ONLY = {"redact", "queue_backlog", "tracer_provider", "meter_provider", "guard"}


def test_every_argument_of_configure_has_its_variable_in_the_docs() -> None:
    """Arguments that are no functions or objects have an ACRUX_OTEL_ variable, which the page names."""
    for name in inspect.signature(acrux.configure).parameters:
        assert f"`{name}`" in PAGE, name
        if name not in IN_CODE_ONLY:
            assert f"`ACRUX_OTEL_{name.upper()}`" in PAGE, name


def test_doctor_knows_every_variable(clean_environment: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """None of them is called a mistake."""
    for name in inspect.signature(acrux.configure).parameters:
        if name not in IN_CODE_ONLY:
            monkeypatch.setenv(f"ACRUX_OTEL_{name.upper()}", "1")
    for name in ("CATALOG_KEY", "HOME", "UP_KEY"):
        monkeypatch.setenv(f"ACRUX_OTEL_{name}", "1")
    assert not [line for line in conflicts() if "is not a variable" in line]


def test_every_backend_is_in_the_docs() -> None:
    """By its name."""
    for name in BACKENDS:
        assert f"ACRUX_OTEL_BACKEND={name}" in PAGE or name == "file"
