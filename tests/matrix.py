# SPDX-License-Identifier: Apache-2.0
"""Runs the core's tests on the oldest and the newest Python and OpenTelemetry SDK that are supported.

Environments are made by uv below the user's cache folder and kept; Pythons are those that the machine
has. Call it with ``make test-matrix``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "acrux-otel" / "matrix"
UV = ROOT / ".venv" / "bin" / "uv"
OLDEST_SDK = "1.27.0"
# Newest first; only those that are installed count.
PYTHONS = ["3.14", "3.13", "3.12", "3.11", "3.10"]
TESTS = [
    "tests/core",
    "tests/test_definition.py",
    "tests/test_signature.py",
    "tests/test_sanitize.py",
    "tests/http_tool",
]
PACKAGES = [
    "pytest",
    "pytest-asyncio",
    "pytest-timeout",
    "hypothesis",
    "httpx",
    "httpx2",
    "requests",
    "aiohttp",
    "openai",
    "anthropic",
    "mcp",
    "acruxcore",
    "numpy",
    "jmespath",
    "sqlalchemy",
]


def found(version: str) -> str | None:
    """An interpreter of that version: on the path, or one that pyenv keeps."""
    command = [str(UV), "python", "find", "--no-project", "--no-python-downloads", version]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode == 0:
        return result.stdout.strip()
    kept = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python"))
    return str(kept[-1]) if kept else None


def environment(python: str, version: str, sdk: str | None) -> Path:
    """A virtual environment with the package, its test packages and one SDK."""
    home = CACHE / f"py{version}-sdk{sdk or 'newest'}"
    if not home.exists():
        subprocess.run([str(UV), "venv", "--quiet", "--python", python, str(home)], check=True)
    pins = [f"opentelemetry-sdk=={sdk}", f"opentelemetry-exporter-otlp-proto-http=={sdk}"] if sdk else []
    upgrade = [] if sdk else ["--upgrade-package", "opentelemetry-sdk"]
    command = [str(UV), "pip", "install", "--quiet", *upgrade, "-e", str(ROOT), *PACKAGES, *pins]
    subprocess.run(command, check=True, env={**os.environ, "VIRTUAL_ENV": str(home)})
    return home


def main() -> int:
    installed = [(version, path) for version in PYTHONS if (path := found(version))]
    ends = [installed[0], installed[-1]] if len(installed) > 1 else installed
    failed = []
    for version, python in ends:
        for sdk in (OLDEST_SDK, None):
            name = f"Python {version}, SDK {sdk or 'newest'}"
            print(f"== {name}", flush=True)
            home = environment(python, version, sdk)
            result = subprocess.run([str(home / "bin" / "python"), "-m", "pytest", *TESTS], cwd=ROOT)
            if result.returncode:
                failed.append(name)
    print(f"failed on {'; '.join(failed)}" if failed else f"passed on {len(ends) * 2} combinations")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
