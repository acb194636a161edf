#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the screenshots of docs/finding-failures.md and docs/local-page.md, from a store of its own.

    python docs/screenshots/make.py

Needs Debian's chromium and Playwright for Python; runs `acrux-otel up` with the example into it.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

HERE = Path(__file__).resolve().parent
EXAMPLE = HERE.parents[1] / "examples" / "report_a_tool_failure.py"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
FLAGS += ["--disable-background-networking", "--disable-component-update"]
COMMAND = [sys.executable, "-c", "from acrux_otel.cli import main; main()", "up", "--port", "0"]


def picture(page: Any, name: str) -> None:
    page.wait_for_timeout(200)
    page.screenshot(path=HERE / f"{name}.png", full_page=True)


def pictures(page: Any) -> None:
    page.goto("/traces")
    picture(page, "traces")
    page.fill("#q", "error_code:")
    page.keyboard.press("ArrowDown")
    page.wait_for_selector("#proposals li")
    picture(page, "completion")
    page.goto("/traces?q=error_type%3Atool_declared+status%3Aerror")
    picture(page, "filtered")
    page.click("#runs tbody a")
    picture(page, "failed")
    page.goto("/traces?q=warning%3Ayes")
    page.click("#runs tbody a")
    picture(page, "warned")
    page.emulate_media(color_scheme="dark")
    picture(page, "warned-dark")
    page.emulate_media(color_scheme="light")
    page.goto("/tools")
    picture(page, "tools")
    page.goto("/catalog")
    page.click(".list tbody a")
    picture(page, "catalog")


def main() -> None:
    with tempfile.TemporaryDirectory() as home:
        command = [*COMMAND, "--home", home, "--", sys.executable, str(EXAMPLE)]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            said = iter(server.stdout.readline, "Ctrl-C ends it.\n")
            (url,) = [match[1] for line in said if (match := re.match(r"page +(\S+)/traces", line))]
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
                pictures(browser.new_page(base_url=url, viewport={"width": 1200, "height": 600}))
                browser.close()
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(15)


if __name__ == "__main__":
    main()
