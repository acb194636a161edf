# SPDX-License-Identifier: Apache-2.0
"""Runs the framework tests, one environment for each framework and version.

The environments are kept in the user's cache (``ACRUX_OTEL_CACHE``, else ``XDG_CACHE_HOME``, else
``~/.cache``), named by what is in them, so that only a change of versions makes a new one. Nothing of this
checkout is installed in them.

    python tests/frameworks/run_matrix.py                         # everything
    python tests/frameworks/run_matrix.py --versions newest --only mcp langchain
    python tests/frameworks/run_matrix.py --budget 1500           # after 25 minutes only the first six
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
AGAIN_AFTER = 5
INSTALL_TIMEOUT, TEST_TIMEOUT = 600, 900
ALWAYS = ("mcp", "langchain", "pydantic_ai", "anthropic", "openai_agents", "fastmcp")

# What acrux-otel and its instrumentations need, and the tests.
OURS = (
    "opentelemetry-api",
    "opentelemetry-sdk",
    "opentelemetry-exporter-otlp-proto-http",
    "opentelemetry-instrumentation",
    "pydantic>=2.7",
    "docstring-parser>=0.16",
    "jsonschema>=4.20",
    "sqlalchemy>=2.0.30",
    "httpx>=0.27",
    "typing-extensions>=4.12",
    "wrapt>=1.16",
    "packaging",
    "pytest>=8.3",
    "pytest-asyncio>=0.24",
    "pytest-timeout>=2.3",
)

# framework -> which of its versions -> what to install. The first six first.
ENVIRONMENTS: dict[str, dict[str, tuple[str, ...]]] = {
    "mcp": {
        "oldest": ("mcp==1.20.0", "pydantic<2.12"),
        "newest 1.x": ("mcp==1.30.0",),
        "newest": ("mcp==2.3.0",),
    },
    "langchain": {
        "oldest": ("langchain-core==0.3.60", "langgraph==0.4.5"),
        "newest": ("langchain-core==1.8.3", "langgraph==1.2.24"),
    },
    "pydantic_ai": {
        "oldest": ("pydantic-ai-slim==1.80.0",),
        "newest": ("pydantic-ai-slim==2.68.0",),
    },
    "anthropic": {
        "oldest": ("anthropic==1.10.0",),
        "newest": ("anthropic==2.14.0",),
    },
    "openai_agents": {
        "oldest": ("openai-agents==0.12.0", "openai<2.30"),
        "newest": ("openai-agents==0.24.0",),
    },
    "fastmcp": {
        "oldest": ("fastmcp==3.0.0",),
        "newest": ("fastmcp==4.2.3",),
    },
    "google_adk": {
        "oldest": ("google-adk==2.0.0",),
        "newest": ("google-adk==2.13.0",),
    },
    "claude_agent_sdk": {
        "oldest": ("claude-agent-sdk==0.2.180",),
        "newest": ("claude-agent-sdk==0.2.189",),
    },
    "strands": {
        "newest": ("strands-agents==1.62.0",),
    },
    "crewai": {
        "oldest": ("crewai==1.15.10",),
        "newest": ("crewai==1.15.30",),
    },
    "llama_index": {
        "oldest": ("llama-index-core==0.14.22",),
        "newest": ("llama-index-core==0.14.25",),
    },
    "smolagents": {
        "oldest": ("smolagents==1.20.0",),
        "newest": ("smolagents==1.26.0",),
    },
    "autogen": {
        "oldest": ("autogen-core==0.7.0",),
        "newest": ("autogen-core==0.7.5",),
    },
    "agent_framework": {
        "oldest": ("agent-framework-core==1.20.0",),
        "newest": ("agent-framework-core==1.23.0",),
    },
    "haystack": {
        "oldest": ("haystack-ai==2.20.0",),
        "newest": ("haystack-ai==3.4.1",),
    },
}

# Another vendor's instrumentation, beside ours on the newest version.
BESIDE: dict[str, tuple[str, ...]] = {"langchain": ("openinference-instrumentation-langchain==0.1.80",)}


def cache() -> Path:
    """Where environments are kept, outside of any checkout."""
    given = os.environ.get("ACRUX_OTEL_CACHE")
    if given:
        return Path(given) / "frameworks"
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "acrux-otel" / "frameworks"


def uv() -> str:
    beside = Path(sys.executable).with_name("uv")
    found = str(beside) if beside.exists() else shutil.which("uv")
    if found is None:
        sys.exit("run_matrix: uv is not installed; run `make setup`")
    return found


def environment(framework: str, packages: tuple[str, ...]) -> Path:
    """The Python of an environment with ``packages``; made if it is not there, tried twice.

    Raises:
        CannotInstall: what the installer said in the end.
    """
    wanted = (sys.version.split()[0], *OURS, *packages)
    key = hashlib.sha256("\n".join(wanted).encode()).hexdigest()[:16]
    folder = cache() / f"{framework}-{key}"
    python = folder / "bin" / "python"
    if (folder / ".complete").exists():
        return python
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        _install(folder, python, packages)
    except CannotInstall as error:
        print(f"again in {AGAIN_AFTER} s: {framework} cannot be installed: {error}", flush=True)
        time.sleep(AGAIN_AFTER)
        _install(folder, python, packages)
    (folder / ".complete").touch()
    return python


def _install(folder: Path, python: Path, packages: tuple[str, ...]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    for command in (
        [uv(), "venv", "--quiet", "--python", sys.executable, str(folder)],
        [uv(), "pip", "install", "--quiet", "--python", str(python), *OURS, *packages],
    ):
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_TIMEOUT)
        except subprocess.TimeoutExpired:
            raise CannotInstall(f"no end after {INSTALL_TIMEOUT} s") from None
        if done.returncode != 0:
            said = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
            raise CannotInstall(said if len(said) <= 400 else f"{said[:250]} … {said[-150:]}")


class CannotInstall(Exception):
    """The packages of an environment cannot be had."""


def run(framework: str, version: str, packages: tuple[str, ...], verbose: bool) -> tuple[int, int, int]:
    """Run one environment's tests; returns passed, failed and skipped."""
    python = environment(framework, packages + (BESIDE.get(framework, ()) if version == "newest" else ()))
    own = ROOT / "tests" / "frameworks" / f"test_{framework}.py"
    done = subprocess.run(
        [
            str(python),
            "-m",
            "pytest",
            *(f"tests/frameworks/test_{part}.py" for part in ("cases", "definitions")),
            *([str(own)] if own.exists() else []),
            "-rf",
            "--no-header",
            "--tb=short",
            "--disable-warnings",
        ],
        cwd=ROOT,
        env={
            **os.environ,
            "ACRUX_TEST_FRAMEWORK": framework,
            "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "instrumentation" / "src"))),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTEST_PLUGINS": "pytest_asyncio.plugin,pytest_timeout",
        },
        capture_output=True,
        text=True,
        timeout=TEST_TIMEOUT,
    )
    counts = {
        word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|skipped|error)", done.stdout)
    }
    failed = counts.get("failed", 0) + counts.get("error", 0) + (not counts.get("passed"))
    if done.returncode != 0 or verbose:
        print(done.stdout[-6000:], done.stderr[-3000:], sep="\n", flush=True)
    return counts.get("passed", 0), failed or int(done.returncode != 0), counts.get("skipped", 0)


def chosen(only: list[str], versions: str) -> list[tuple[str, str, tuple[str, ...]]]:
    """Framework, version and packages of each environment, those that always run first."""
    return [
        (framework, version, packages)
        for framework in ENVIRONMENTS
        if framework in only
        for version, packages in ENVIRONMENTS[framework].items()
        if versions == "all" or version.startswith(versions)
    ]


def measured(
    framework: str, version: str, packages: tuple[str, ...], verbose: bool
) -> tuple[tuple[int, int, int], str]:
    """What came of one environment, as numbers and as words; what cannot run is a failure."""
    try:
        passed, failed, skipped = counts = run(framework, version, packages, verbose)
    except CannotInstall as error:
        return (0, 1, 0), f"cannot be installed, tried twice: {error}"
    except subprocess.TimeoutExpired:
        return (0, 1, 0), f"its tests did not end after {TEST_TIMEOUT} s"
    return counts, f"{passed} passed, {failed} failed, {skipped} skipped"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=sorted(ENVIRONMENTS), default=list(ENVIRONMENTS))
    parser.add_argument("--versions", choices=("oldest", "newest", "all"), default="all")
    parser.add_argument("--budget", type=float, help="seconds after which no new environment is begun")
    parser.add_argument("--verbose", action="store_true", help="print what pytest prints")
    options = parser.parse_args()
    began, total, left_out = time.monotonic(), [0, 0, 0], []
    for framework, version, packages in chosen(options.only, options.versions):
        name = f"{framework} {version} ({', '.join(packages)})"
        spent = time.monotonic() - began
        if options.budget is not None and spent > options.budget and framework not in ALWAYS:
            left_out.append(name)
            continue
        counts, told = measured(framework, version, packages, options.verbose)
        total = [sum(pair) for pair in zip(total, counts, strict=True)]
        mark, seconds = "FAILED" if counts[1] else "ok    ", time.monotonic() - began - spent
        print(f"{mark} {name}: {told} in {seconds:.0f} s", flush=True)
    for name in left_out:
        print(f"left out, {options.budget:.0f} s are over: {name}")
    print(f"{total[0]} passed, {total[1]} failed, {total[2]} skipped")
    return 1 if total[1] or not total[0] else 0


if __name__ == "__main__":
    sys.exit(main())
