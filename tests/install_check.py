# SPDX-License-Identifier: Apache-2.0
"""Builds the wheels and installs them in clean environments, as a user would. ``make install-check``.

With pip 23.2 and with uv; plain and with each extra; each resolution within a minute; ``pip check`` clean.
It needs a package index, so it is no part of the test suite.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
UV = str(ROOT / ".venv" / "bin" / "uv")
MINUTE = 60.0
PROBE = (
    "import acrux_otel as acrux\n"
    "@acrux.tool\n"
    "def f(x: int) -> dict: return acrux.ToolResult.error('bad', 'x is bad')\n"
    "answer = f.call(1)\n"
    "assert answer.verdict.code == 'bad', answer\n"
    "assert acrux.definition_of(f).parameters['required'] == ['x']\n"
)
# What instrumentation/README.md begins with, on a framework whose tools need no model.
AGENT = (
    "from langchain_core.tools import tool\n"
    "@tool\n"
    "def search(q: str) -> str:\n"
    "    'Search.'\n"
    "    raise LookupError(q)\n"
    "search.run('x')\n"
)
RUN = ("acrux-otel", "run", "agent.py")
STARTS = (RUN, ("opentelemetry-instrument", "python", "agent.py"))


def run(*command: str, env: dict[str, str] | None = None) -> None:
    result = subprocess.run(command, env={**os.environ, **(env or {})}, capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"{' '.join(command)}\n{result.stdout[-2000:]}{result.stderr[-2000:]}")


def check_contents(wheel: Path) -> None:
    """A wheel holds the package and its licence, and nothing that belongs to the checkout."""
    names = zipfile.ZipFile(wheel).namelist()
    package = "acrux_otel_instrumentation" if "instrumentation" in wheel.name else "acrux_otel"
    strangers = [n for n in names if not n.startswith((f"{package}/", f"{package}-"))]
    strangers += [n for n in names if n.endswith((".pyc", ".db")) or "/tests/" in n]
    if strangers or f"{package}/py.typed" not in names:
        sys.exit(
            f"{wheel.name}: unexpected {strangers[:5]}, py.typed there: {f'{package}/py.typed' in names}"
        )
    if not any(n.endswith("LICENSE") for n in names):
        sys.exit(f"{wheel.name}: no LICENSE")
    print(f"{wheel.name}: {len(names)} files, {wheel.stat().st_size // 1024} KiB")


def extras_of(wheel: Path) -> list[str]:
    """The extras that a wheel's metadata names."""
    with zipfile.ZipFile(wheel) as archive:
        metadata = next(name for name in archive.namelist() if name.endswith("METADATA"))
        lines = archive.read(metadata).decode().splitlines()
    return [line.partition(": ")[2] for line in lines if line.startswith("Provides-Extra")]


def install(wheel: Path, extra: str, installer: str, home: Path) -> None:
    """One clean environment; stops the script with the installer's words where it does not work."""
    run(sys.executable, "-m", "venv", str(home))
    python = str(home / "bin" / "python")
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "pip==23.2")
    wanted = f"{wheel}[{extra}]" if extra else str(wheel)
    begun = time.monotonic()
    if installer == "pip":
        run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wanted)
    else:
        run(UV, "pip", "install", "--quiet", wanted, env={"VIRTUAL_ENV": str(home)})
    seconds = time.monotonic() - begun
    run(python, "-m", "pip", "check", "--disable-pip-version-check")
    run(python, "-c", PROBE)
    print(f"{installer:4} {extra or 'plain':10} {seconds:5.1f} s", flush=True)
    if seconds > MINUTE:
        sys.exit(f"{installer} took {seconds:.0f} s for {wanted}; at most {MINUTE:.0f} s are allowed")


def instrument(core: Path, instrumentation: Path, home: Path) -> None:
    """Two lines, and an agent's failing tool is in the terminal; stops the script where it is not."""
    home.mkdir()
    (home / "agent.py").write_text(AGENT)
    run(sys.executable, "-m", "venv", str(home / "env"))
    environment = {"VIRTUAL_ENV": str(home / "env"), "PATH": f"{home / 'env' / 'bin'}:{os.environ['PATH']}"}
    run(UV, "pip", "install", "--quiet", str(core), str(instrumentation), "langchain-core", env=environment)
    for start in STARTS:
        done = subprocess.run(
            start,
            cwd=home,
            env={
                **os.environ,
                **environment,
                "OTEL_TRACES_EXPORTER": "console",
                "OTEL_METRICS_EXPORTER": "none",
            },
            capture_output=True,
            text=True,
            timeout=MINUTE,
        )
        if done.returncode == 0 or '"errorCode": "lookup_error"' not in done.stdout:
            sys.exit(f"{' '.join(start)}: the failing call is not told\n{done.stdout}{done.stderr}")
        print(f"{' '.join(start)}: the failing call is told", flush=True)
    silent = {**os.environ, **environment, "ACRUX_OTEL_BACKEND": "none"}
    done = subprocess.run(RUN, cwd=home, env=silent, capture_output=True, text=True, timeout=MINUTE)
    if "opentelemetry" in done.stderr or done.stdout:
        sys.exit(f"{' '.join(RUN)} with ACRUX_OTEL_BACKEND=none is not silent\n{done.stdout}{done.stderr}")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        dist = Path(folder) / "dist"
        for source in (ROOT, ROOT / "instrumentation"):
            run(UV, "build", "--quiet", "--wheel", "--out-dir", str(dist), str(source))
        wheels = sorted(dist.glob("*.whl"))
        for wheel in wheels:
            check_contents(wheel)
        core = next(wheel for wheel in wheels if "instrumentation" not in wheel.name)
        extras = extras_of(core)
        cases = [(extra, "uv") for extra in ("", *extras)] + [("", "pip"), ("all", "pip")]
        for number, (extra, installer) in enumerate(cases):
            install(core, extra, installer, Path(folder) / str(number))
        instrument(core, next(wheel for wheel in wheels if wheel is not core), Path(folder) / "instrumented")


if __name__ == "__main__":
    main()
