# SPDX-License-Identifier: Apache-2.0
"""Build the pinned Jaeger and the collector distribution, each once, into a cache folder of the user.

Standard library only, POSIX (the build lock is a file lock). Nothing is written into the checkout.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

__all__ = ["BACKENDS", "Backend", "BuildError", "build", "main"]

HERE = Path(__file__).resolve().parent
KEPT_BUILDS = 3
ERROR_LINES = 12


class BuildError(Exception):
    """A build that cannot go on; its text is what the user reads."""


@dataclass(frozen=True, slots=True)
class Backend:
    """One binary to build.

    Args:
        name: what it is called on the command line, and the file name of the binary.
        module: the folder of the Go module that pins it.
        package: the main package, as seen from that module.
        versioned_by: the required module whose version is the version of the binary.
        version_variable: a Go variable that takes the version, where the program does not know it.
    """

    name: str
    module: Path
    package: str
    versioned_by: str
    version_variable: str | None = None

    @property
    def version(self) -> str:
        """The pinned version, without the leading v, read from go.mod."""
        pinned = re.search(
            rf"^\s*(?:require\s+)?{re.escape(self.versioned_by)} v(\S+)",
            (self.module / "go.mod").read_text(encoding="utf-8"),
            re.MULTILINE,
        )
        if pinned is None:
            raise BuildError(f"{self.module / 'go.mod'} does not require {self.versioned_by}")
        return pinned[1]

    @property
    def path(self) -> Path:
        """Where the binary is, or will be."""
        return cache_folder() / f"{self.name}-{self.version}-{self.digest()}" / self.name

    @property
    def label(self) -> str:
        return f"{self.name} {self.version}"

    @property
    def linker_flags(self) -> str:
        stripped = "-s -w"
        if self.version_variable is None:
            return stripped
        return f"{stripped} -X {self.version_variable}=v{self.version}"

    def digest(self) -> str:
        """Hash of the module's files, the local modules that it is given, the flags and the platform."""
        digest = hashlib.sha256(f"{sys.platform} {platform.machine()} {self.linker_flags}".encode())
        for number, folder in enumerate([self.module, *local_modules(self.module)]):
            for file in module_files(folder):
                digest.update(f"\0{number}/{file.relative_to(folder).as_posix()}\0".encode())
                digest.update(file.read_bytes())
        return digest.hexdigest()[:12]


def local_modules(module: Path) -> list[Path]:
    """The folders that `replace … => ./path` and `=> ../path` lines of a go.mod name."""
    text = (module / "go.mod").read_text(encoding="utf-8")
    return [(module / path).resolve() for path in re.findall(r"=>\s*(\.{1,2}/\S+)", text)]


def module_files(folder: Path) -> list[Path]:
    """What a build of the module reads: manifests, sources without tests, and the files that those embed."""
    files = {folder / "go.mod", folder / "go.sum"}
    for source in folder.rglob("*.go"):
        if source.name.endswith("_test.go") or "testdata" in source.parts:
            continue
        files.add(source)
        for patterns in re.findall(r"^//go:embed (.+)$", source.read_text(encoding="utf-8"), re.MULTILINE):
            for pattern in patterns.split():
                files.update(source.parent.glob(pattern.strip('"`')))
    return sorted(path for path in files if path.is_file())


def cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "acrux-otel" / "backends"


BACKENDS = {
    backend.name: backend
    for backend in (
        Backend(
            name="jaeger",
            module=HERE / "backends" / "jaeger",
            package="github.com/jaegertracing/jaeger/cmd/jaeger",
            versioned_by="github.com/jaegertracing/jaeger",
            version_variable="github.com/jaegertracing/jaeger/internal/version.latestVersion",
        ),
        Backend(
            name="collector",
            module=HERE / "distribution",
            package=".",
            versioned_by="go.opentelemetry.io/collector/otelcol",
        ),
    )
}


class Progress:
    """One line that is rewritten on a terminal; a line every half minute elsewhere."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.started = time.monotonic()
        self._terminal = sys.stderr.isatty()
        self._every = 1.0 if self._terminal else 30.0
        self._next = self.started

    def show(self, what: str, *, now: bool = False, last: bool = False) -> None:
        """Say what is going on, if it is time to, or `now`; `last` ends the line."""
        moment = time.monotonic()
        if not (now or last) and moment < self._next:
            return
        self._next = moment + self._every
        line = f"{self.label}: {what} ({moment - self.started:.0f} s)"
        if self._terminal:
            sys.stderr.write(f"\r\033[K{line}" + ("\n" if last else ""))
        else:
            sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


def find_go(backend: Backend) -> str:
    """Path of a Go that is new enough for the module.

    Raises:
        BuildError: there is no Go, or it is older than the module's go line.
    """
    wanted = re.search(
        r"^go (\d+)\.(\d+)", (backend.module / "go.mod").read_text(encoding="utf-8"), re.MULTILINE
    )
    if wanted is None:
        raise BuildError(f"{backend.module / 'go.mod'} has no go line")
    least = (int(wanted[1]), int(wanted[2]))
    needed = f"{backend.label} needs Go {least[0]}.{least[1]} or newer"
    go = shutil.which("go")
    if go is None:
        raise BuildError(
            f"{needed}, and there is no `go` on the PATH: install Go, or do without the backends"
        )
    # Asked inside the module, because GOTOOLCHAIN may choose another Go there.
    answer = subprocess.run(
        [go, "env", "GOVERSION"],
        cwd=backend.module,
        env=go_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode:
        raise BuildError(f"{needed}; {go} says: {' '.join(answer.stderr.split())}")
    found = re.search(r"go(\d+)\.(\d+)", answer.stdout)
    if found is None or (int(found[1]), int(found[2])) < least:
        raise BuildError(f"{needed}; {go} is {answer.stdout.strip() or 'of an unknown version'}")
    return go


def go_environment() -> dict[str, str]:
    """The caller's environment (GOCACHE, GOPROXY, …) without a surrounding workspace."""
    return {**os.environ, "GOWORK": "off"}


def run_go(command: list[str], backend: Backend, log: Path, tick: Callable[[str], None]) -> str:
    """Run one go command to its end, calling `tick` with its output about five times a second.

    Returns:
        Standard output.

    Raises:
        BuildError: it failed; the last lines of what it said are in the message.
    """
    out = log.with_suffix(".out")
    with log.open("wb") as errors, out.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=backend.module,
            env=go_environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
        )
        try:
            while process.poll() is None:
                tick(log.read_text(encoding="utf-8", errors="replace"))
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(0.2)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
    said = log.read_text(encoding="utf-8", errors="replace")
    result = out.read_text(encoding="utf-8", errors="replace")
    out.unlink()
    if process.returncode:
        # `go build -v` prints a bare import path for each package; those are no part of the error.
        lines = [line for line in said.splitlines() if ":" in line or " " in line or "\t" in line]
        last = "\n".join(f"    {line}" for line in lines[-ERROR_LINES:])
        verb = " ".join(command[1:2])
        raise BuildError(f"{backend.label}: `go {verb}` failed with exit code {process.returncode}:\n{last}")
    log.unlink()
    return result


@contextlib.contextmanager
def build_lock(progress: Progress) -> Iterator[None]:
    """One build at a time for the whole cache: two together are no faster and need twice the memory."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    with (cache_folder() / "lock").open("w") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                progress.show("waiting for another build to end")
                time.sleep(0.2)
        yield


def build(backend: Backend, *, rebuild: bool = False) -> Path:
    """Build one backend, unless it is in the cache already.

    Args:
        backend: what to build.
        rebuild: build even if the binary is there.

    Returns:
        Path of the binary.

    Raises:
        BuildError: Go is missing or too old, or the build failed.
    """
    target = backend.path
    if target.exists() and not rebuild:
        return target
    go = find_go(backend)
    progress = Progress(backend.label)
    with build_lock(progress):
        if target.exists() and not rebuild:
            return target
        target.parent.mkdir(parents=True, exist_ok=True)
        for leftover in target.parent.iterdir():
            if leftover != target:
                leftover.unlink()
        temporary = target.with_suffix(".tmp")
        try:
            compile_binary(backend, go, temporary, progress)
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
        remove_old_builds(backend)
    progress.show(f"built, {target.stat().st_size / 1e6:.0f} MB, {target}", last=True)
    return target


def compile_binary(backend: Backend, go: str, output: Path, progress: Progress) -> None:
    log = output.with_suffix(".log")
    progress.show("fetching modules", now=True)
    # -mod=readonly on the command line wins over a -mod=mod in GOFLAGS, which would write to the checkout.
    listing = [go, "list", "-mod=readonly", "-deps", backend.package]
    packages = len(run_go(listing, backend, log, lambda _: progress.show("fetching modules")).split())
    command = [go, "build", "-mod=readonly", "-buildvcs=false", "-v", "-ldflags", backend.linker_flags]
    run_go(
        [*command, "-o", str(output), backend.package],
        backend,
        log,
        lambda said: progress.show(f"compiling, {len(said.splitlines())} of at most {packages} packages"),
    )


def remove_old_builds(backend: Backend) -> None:
    """Each change of a module file makes another build of some 100 MB: keep the newest few."""
    # A version starts with a digit, so that no other backend's folder matches.
    builds = [folder for folder in cache_folder().glob(f"{backend.name}-[0-9]*") if folder.is_dir()]
    builds.sort(key=lambda folder: folder.stat().st_mtime, reverse=True)
    for folder in builds[KEPT_BUILDS:]:
        shutil.rmtree(folder, ignore_errors=True)


def on_terminate(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + signal.SIGTERM)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="Build Jaeger and the collector into the user's cache folder."
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"what to build: {', '.join(BACKENDS)} (default: all)"
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--if-missing", action="store_true", help="build only what is not in the cache (the default)"
    )
    how.add_argument("--rebuild", action="store_true", help="build even what is in the cache")
    how.add_argument(
        "--print-path", metavar="NAME", help="print the path of a built binary and build nothing"
    )
    options = parser.parse_args(arguments)

    names = [options.print_path] if options.print_path else options.names or list(BACKENDS)
    unknown = [name for name in names if name not in BACKENDS]
    if unknown:
        parser.error(f"unknown backend {unknown[0]!r}: expected {' or '.join(BACKENDS)}")
    signal.signal(signal.SIGTERM, on_terminate)
    try:
        if options.print_path:
            backend = BACKENDS[options.print_path]
            if not backend.path.exists():
                raise BuildError(f"{backend.label} is not built: run `make backends`")
            print(backend.path)
            return 0
        for name in names:
            path = build(BACKENDS[name], rebuild=options.rebuild)
            print(f"{BACKENDS[name].label}: {path}")
    except BuildError as error:
        print(f"\n{error}" if sys.stderr.isatty() else error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nstopped; nothing was left half built", file=sys.stderr)
        return 128 + signal.SIGINT
    return 0


if __name__ == "__main__":
    sys.exit(main())
