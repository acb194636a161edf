# SPDX-License-Identifier: Apache-2.0
"""The outage, without and with a guard, and the page that shows it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

HOUSE = Path(__file__).parents[2]
PAGE = (HOUSE / "docs" / "production.md").read_text()


@pytest.fixture(scope="module")
def printed() -> str:
    done = subprocess.run(
        [sys.executable, str(HOUSE / "examples" / "outage.py")], capture_output=True, text=True, timeout=90
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.strip()


def test_the_guard_ends_the_incident(printed: str) -> None:
    """29 calls, nine minutes and twenty times the money for no answer; with it a few calls and a reason."""
    rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in printed.splitlines()[2:]]
    usual, without, guarded = rows
    assert usual[1:6] == ["1", "1", "2", "0:09", "$0.12"]
    assert without[1:7] == ["18", "11", "29", "9:14", "$2.50", "none: the user has left"]
    assert int(guarded[3]) <= 6
    assert float(guarded[5].strip("$")) < 0.40
    assert guarded[6].startswith("partial")
    assert guarded[7] == "tool_unavailable:circuit_open"


def test_the_page_shows_what_the_example_prints(printed: str) -> None:
    """The table in docs/production.md is the example's."""
    shown = PAGE.partition("<!-- outage -->\n")[2].partition("\n<!-- end of outage -->")[0]
    assert shown == printed


def test_the_page_names_what_exists() -> None:
    """Every attribute and stop reason that it mentions is one."""
    from acrux_otel import attributes
    from acrux_otel.guard import unavailable

    known = {value for value in vars(attributes).values() if isinstance(value, str)}
    for name in set(re.findall(r"`(acrux\.[a-z_.]+[a-z])`", PAGE)):
        assert name in known or name.startswith("acrux.configure") or name.startswith("acrux.record"), name
    reasons = {value for name, value in vars(unavailable).items() if name.isupper() and name[0] != "_"}
    for reason in set(re.findall(r"`((?:tool_failure|tool_unavailable|run_stopped):\w+)`", PAGE)):
        assert reason in reasons, reason
    assert all(f"`{reason}`" in PAGE for reason in reasons if isinstance(reason, str))


@pytest.mark.parametrize("block", re.findall(r"```python\n(.*?)```", PAGE, re.S), ids=lambda text: text[:30])
def test_the_examples_of_the_page_are_valid(block: str) -> None:
    """They parse, and what they import is there."""
    compile(block, "production.md", "exec")
    for line in block.splitlines():
        if line.startswith(("import ", "from ")):
            exec(line)
