# SPDX-License-Identifier: Apache-2.0
"""`make backends`: each binary is built once, from pinned versions, and a failure says what to do."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from .conftest import BUILD_SCRIPT
from .servers import REPOSITORY

DISTRIBUTION = REPOSITORY / "collector-config" / "distribution"


def load_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("build_backends", BUILD_SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


script = load_script()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder; Go's own cache stays where it is."""
    if shutil.which("go") and "GOCACHE" not in os.environ:
        gocache = subprocess.run(["go", "env", "GOCACHE"], capture_output=True, text=True, check=True)
        monkeypatch.setenv("GOCACHE", gocache.stdout.strip())
    folder = tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder


@pytest.fixture
def hello(tmp_path: Path) -> Any:
    """A backend that builds in a second."""
    module = tmp_path / "hello"
    module.mkdir()
    (module / "go.mod").write_text(
        "module example.test/hello\n\ngo 1.21\n\n"
        "require example.test/part v1.2.3\n\nreplace example.test/part => ../part\n"
    )
    (module / "main.go").write_text(
        'package main\n\nimport "example.test/part"\n\nfunc main() { println(part.Text) }\n'
    )
    part = tmp_path / "part"
    part.mkdir()
    (part / "go.mod").write_text("module example.test/part\n\ngo 1.21\n")
    (part / "part.go").write_text(
        'package part\n\nimport _ "embed"\n\n//go:embed words.txt\nvar Text string\n'
    )
    (part / "words.txt").write_text("hello")
    return script.Backend(name="hello", module=module, package=".", versioned_by="example.test/part")


needs_go = pytest.mark.skipif(shutil.which("go") is None, reason="needs Go")


@needs_go
@pytest.mark.backends
def test_two_builds_at_once_give_one_binary_and_leave_nothing_beside_it(cache: Path, hello: Any) -> None:
    """The lock lets one build, the other finds the result; the folder holds the binary alone."""
    with ThreadPoolExecutor(2) as pool:
        paths = list(pool.map(lambda _: script.build(hello), range(2)))

    assert paths[0] == paths[1] == hello.path
    assert [path.name for path in hello.path.parent.iterdir()] == ["hello"]
    ran = subprocess.run([hello.path], capture_output=True, text=True, check=True)
    assert ran.stderr == "hello\n"
    assert sorted(path.name for path in hello.module.iterdir()) == ["go.mod", "main.go"]


@needs_go
@pytest.mark.backends
def test_what_is_built_is_not_built_again_until_asked(cache: Path, hello: Any) -> None:
    """A second build returns at once, even without Go on the PATH; `rebuild` makes it anew."""
    first = script.build(hello).stat().st_ino
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", "")
        assert script.build(hello).stat().st_ino == first
    assert script.build(hello, rebuild=True).stat().st_ino != first


@needs_go
@pytest.mark.backends
def test_a_build_that_fails_says_what_the_compiler_said(cache: Path, hello: Any) -> None:
    """The message names the backend, the command and the compiler's lines; no binary is left."""
    (hello.module / "main.go").write_text("package main\n\nfunc main() { undefined_thing() }\n")

    with pytest.raises(
        script.BuildError, match=r"(?s)hello 1\.2\.3: `go build` failed .*main\.go:3.*undefined_thing"
    ):
        script.build(hello)

    assert not hello.path.exists()


@needs_go
@pytest.mark.backends
def test_only_the_newest_builds_are_kept(cache: Path, hello: Any) -> None:
    """Each change makes another binary; the cache does not grow without end."""
    paths = []
    for number in range(script.KEPT_BUILDS + 2):
        (hello.module.parent / "part" / "words.txt").write_text(f"hello {number}")
        paths.append(script.build(hello))
        os.utime(paths[-1].parent, (number, number))

    assert [path.exists() for path in paths] == [False] * 2 + [True] * script.KEPT_BUILDS


def test_the_key_follows_what_the_build_reads_and_nothing_else(cache: Path, hello: Any) -> None:
    """Sources, manifests, replaced modules and embedded files change the key; tests and configs do not."""
    before = hello.path
    (hello.module / "main_test.go").write_text("package main\n")
    (hello.module / "config.yaml").write_text("a: 1\n")
    assert hello.path == before

    keys = {before}
    for changed in ("hello/main.go", "hello/go.mod", "part/part.go", "part/go.mod", "part/words.txt"):
        with (hello.module.parent / changed).open("a") as file:
            file.write("\n")
        keys.add(hello.path)
    assert len(keys) == 6


def test_without_go_one_line_says_what_is_needed(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No Go: one line with the version that is needed, exit code 1, no traceback."""
    monkeypatch.setenv("PATH", "")
    answer = subprocess.run(
        [sys.executable, str(BUILD_SCRIPT), "jaeger"], capture_output=True, text=True, check=False
    )
    assert answer.returncode == 1
    assert re.fullmatch(
        r"jaeger 1\.76\.0 needs Go 1\.26 or newer, and there is no `go` on the PATH: .*\n", answer.stderr
    )


@needs_go
@pytest.mark.backends
def test_a_go_that_is_too_old_is_named(cache: Path, hello: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that wants a newer Go than this one ends in one line with both versions."""
    monkeypatch.setenv("GOTOOLCHAIN", "local")
    (hello.module / "go.mod").write_text((hello.module / "go.mod").read_text().replace("go 1.21", "go 1.999"))
    with pytest.raises(
        script.BuildError, match=r"^hello 1\.2\.3 needs Go 1\.999 or newer; [^\n]*1\.\d+[^\n]*$"
    ):
        script.build(hello)


def test_a_backend_that_is_not_built_is_one_line_and_exit_code_1(cache: Path) -> None:
    """--print-path names the command that builds it, on standard error."""
    for name in script.BACKENDS:
        answer = subprocess.run(
            [sys.executable, str(BUILD_SCRIPT), "--print-path", name],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (answer.returncode, answer.stdout) == (1, "")
        assert re.fullmatch(rf"{name} [\d.]+ is not built: run `make backends`\n", answer.stderr)


def test_an_unknown_backend_is_refused_with_those_that_exist() -> None:
    """The answer lists what can be built."""
    answer = subprocess.run(
        [sys.executable, str(BUILD_SCRIPT), "tempo"], capture_output=True, text=True, check=False
    )
    assert answer.returncode == 2
    assert answer.stderr.endswith("unknown backend 'tempo': expected jaeger or collector\n")


def test_the_builder_manifest_the_sources_and_go_mod_name_the_same_parts() -> None:
    """A user of the builder gets the parts and versions that `make backends` compiles."""
    manifest = (DISTRIBUTION / "builder-config.yaml").read_text()
    parts = dict(re.findall(r"- gomod: (\S+) (v\S+)", manifest))
    sources = "".join(path.read_text() for path in DISTRIBUTION.glob("*.go"))
    required = dict(re.findall(r"^\t(\S+) (v\S+)$", (DISTRIBUTION / "go.mod").read_text(), re.MULTILINE))

    assert len(parts) >= 19
    assert set(parts) == set(re.findall(r'^\t\w+ "(\S+)"$', sources, re.MULTILINE))
    assert {name: required.get(name) for name in parts} == parts
    version = script.BACKENDS["collector"].version
    assert f"version: {version}\n" in manifest
    assert f'version = "{version}"' in sources
