# SPDX-License-Identifier: Apache-2.0
"""Debian's Chromium, driven by Playwright; skips with one line where either is missing.

With ACRUX_OTEL_REQUIRE_BACKENDS=1 a missing browser is a failure: a green run means that it ran.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from local.server import Up

CHROMIUM = "/usr/bin/chromium"
# A machine without a network beyond loopback: the browser is not to look for one.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "report_a_tool_failure.py"


def unavailable(reason: str) -> None:
    if os.environ.get("ACRUX_OTEL_REQUIRE_BACKENDS") == "1":
        pytest.fail(f"{reason} (ACRUX_OTEL_REQUIRE_BACKENDS=1 forbids to skip)", pytrace=False)
    pytest.skip(reason)


# Not for the session: while it is open, Playwright keeps an event loop running in the main thread.
@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """One browser for all tests of a module."""
    if not Path(CHROMIUM).exists():
        unavailable(f"the browser tests need Debian's chromium at {CHROMIUM}: apt-get install chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        unavailable("the browser tests need Playwright: pip install playwright")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """`acrux-otel up` with the example run into it, silent and declared, as `make demo UI=1` does."""
    home = Path(tmp_path_factory.mktemp("home"))
    with Up(home, program=["--", sys.executable, str(EXAMPLE)]) as server:
        yield server


def _complains(message: Any) -> bool:
    """Chromium also notes pages that answer 400, as those of a filter with a mistake do."""
    return message.type == "error" and "status of 400" not in message.text


@pytest.fixture
def page(chromium: Any, demo: Up) -> Iterator[Any]:
    """A tab of a fresh profile on the server; whatever the browser complains about fails the test."""
    context = chromium.new_context(base_url=demo.url, viewport={"width": 1200, "height": 900})
    context.set_default_timeout(10_000)
    tab = context.new_page()
    complaints: list[str] = []
    tab.on("console", lambda message: complaints.append(message.text) if _complains(message) else None)
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    foreign: list[str] = []
    tab.on("request", lambda asked: None if asked.url.startswith(demo.url) else foreign.append(asked.url))
    yield tab
    context.close()
    assert complaints == []
    assert foreign == [], "the page works offline"
