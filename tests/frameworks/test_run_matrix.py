# SPDX-License-Identifier: Apache-2.0
"""What the matrix runs, leaves out, and calls a failure."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.frameworks import run_matrix


def said_by(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    monkeypatch.setattr(sys, "argv", ["run_matrix", *arguments])
    code = run_matrix.main()
    return code, capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(("failed", "code"), [(0, 0), (1, 1)])
def test_over_the_budget_only_the_first_six_are_begun(
    failed: int, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first six always run, what was left out is named, and one failure fails the whole run."""
    ran: list[str] = []

    def run(framework: str, *_: object) -> tuple[int, int, int]:
        ran.append(framework)
        return 2, failed if framework == "mcp" else 0, 1

    monkeypatch.setattr(run_matrix, "run", run)
    got, lines = said_by(monkeypatch, capsys, "--versions", "newest", "--budget", "-1")
    assert dict.fromkeys(ran) == dict.fromkeys(run_matrix.ALWAYS)
    assert got == code
    left_out = [line for line in lines if line.startswith("left out")]
    assert len(left_out) == len(run_matrix.ENVIRONMENTS) - len(run_matrix.ALWAYS)
    assert lines[-1] == f"{2 * len(ran)} passed, {failed * ran.count('mcp')} failed, {len(ran)} skipped"


def test_what_cannot_be_installed_is_tried_again_and_then_a_failure_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The line says which environment, and what the installer said; nothing half made is kept."""
    monkeypatch.setattr(run_matrix, "OURS", ())
    monkeypatch.setattr(run_matrix, "AGAIN_AFTER", 0)
    monkeypatch.setenv("ACRUX_OTEL_CACHE", str(tmp_path))
    missing = f"nothing @ file://{tmp_path}/nothing-1-py3-none-any.whl"
    monkeypatch.setattr(run_matrix, "ENVIRONMENTS", {"mcp": {"newest": (missing,)}})
    code, lines = said_by(monkeypatch, capsys, "--only", "mcp")
    again, failure, closing = lines
    assert again.startswith("again in 0 s: mcp cannot be installed:")
    assert failure.startswith("FAILED mcp newest") and "tried twice" in failure and "nothing" in failure
    assert (code, closing) == (1, "0 passed, 1 failed, 0 skipped")
    assert not list(tmp_path.rglob(".complete"))


def test_an_environment_whose_tests_are_all_skipped_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A framework that its rig no longer finds must not look like one that works."""
    folder = tmp_path / "tests" / "frameworks"
    folder.mkdir(parents=True)
    for part in ("cases", "definitions"):
        (folder / f"test_{part}.py").write_text(
            "import pytest\n\n\ndef test_nothing():\n    pytest.skip('not there')\n"
        )
    monkeypatch.setattr(run_matrix, "ROOT", tmp_path)
    monkeypatch.setattr(run_matrix, "environment", lambda *_: Path(sys.executable))
    assert run_matrix.run("mcp", "newest", (), verbose=False) == (0, 1, 2)
