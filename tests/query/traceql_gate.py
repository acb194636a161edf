# SPDX-License-Identifier: Apache-2.0
"""Grafana's own TraceQL grammar, @grafana/lezer-traceql, run by node: a syntax gate and no more."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

__all__ = ["rejected"]

PACKAGES = ("@grafana/lezer-traceql@1.0.0", "@lezer/lr@1.4.2", "@lezer/common@1.2.3")
PROGRAM = """
import {parser} from '@grafana/lezer-traceql';
import {readFileSync} from 'fs';
const bad = JSON.parse(readFileSync(0, 'utf8')).filter(query => {
  let wrong = false;
  parser.parse(query).iterate({enter(node) { if (node.type.isError) wrong = true; }});
  return wrong;
});
console.log(JSON.stringify(bad));
"""


def _unavailable(reason: str) -> None:
    if os.environ.get("ACRUX_OTEL_REQUIRE_BACKENDS") == "1":
        pytest.fail(f"{reason} (ACRUX_OTEL_REQUIRE_BACKENDS=1 forbids to skip)", pytrace=False)
    pytest.skip(reason)


def _folder() -> Path:
    """The grammar, installed once into the user's cache."""
    if not (shutil.which("node") and shutil.which("npm")):
        _unavailable("the TraceQL grammar needs node and npm")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "acrux-otel" / "lezer-traceql-1.0.0"
    if not (folder / "node_modules" / "@grafana" / "lezer-traceql" / "index.es.js").exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text('{"private": true, "type": "module"}')
        done = subprocess.run(
            ["npm", "install", "--no-fund", "--no-audit", "--no-save", "--ignore-scripts", *PACKAGES],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        if done.returncode:
            _unavailable(f"npm could not install the TraceQL grammar: {done.stderr.strip()[-200:]}")
    return folder


def rejected(queries: Sequence[str]) -> list[str]:
    """Those that the grammar does not accept; skips the test where it cannot be had."""
    folder = _folder()
    program = folder / "gate.mjs"
    program.write_text(PROGRAM)
    done = subprocess.run(
        ["node", str(program)],
        input=json.dumps(list(queries)),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    bad: list[str] = json.loads(done.stdout)
    return bad
