# SPDX-License-Identifier: Apache-2.0
"""The distribution's list of parts is kept three times, for three tools: they say the same."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import yaml

from .conftest import required, thorough

FOLDER: Final = Path(__file__).parents[2] / "collector-config" / "distribution"
KINDS: Final = ("receivers", "processors", "exporters", "connectors", "extensions")


def parts() -> dict[str, list[dict[str, Any]]]:
    """builder-config.yaml: kind -> its modules, in order."""
    config: dict[str, list[dict[str, Any]]] = yaml.safe_load(
        (FOLDER / "builder-config.yaml").read_text("utf-8")
    )
    return {kind: config[kind] for kind in (*KINDS, "providers")}


def test_the_program_has_the_parts_of_the_builder_config_in_its_order() -> None:
    """components.go makes a factory of each module of builder-config.yaml, in the same order."""
    source = (FOLDER / "components.go").read_text("utf-8")
    for kind in KINDS:
        made = re.search(rf"\t{kind}, {kind}Err := .*?\(\n(.*?)\n\t\)", source, re.DOTALL)
        assert made is not None, kind
        found = re.findall(r"(\w+)\.NewFactory\(\)", made[1])
        assert found == [part["gomod"].split()[0].rpartition("/")[2] for part in parts()[kind]], kind


def test_modules_are_taken_from_where_the_builder_config_says() -> None:
    """go.mod replaces what builder-config.yaml does: local modules by `path`, others by `replaces`."""
    manifest = (FOLDER / "go.mod").read_text("utf-8")
    replaced = dict(re.findall(r"^replace (\S+) => (.+)$", manifest, re.MULTILINE))
    local = {
        part["gomod"].split()[0]: part["path"] for kind in parts().values() for part in kind if "path" in part
    }
    assert local, "the processor of this project is a part"
    config = yaml.safe_load((FOLDER / "builder-config.yaml").read_text("utf-8"))
    others = dict(line.split(" => ") for line in config["replaces"])
    assert replaced == local | others


@thorough
def test_the_builder_takes_the_config_as_it_is(tmp_path: Path) -> None:
    """The command at the head of builder-config.yaml writes the program of the same parts."""
    for name in ("distribution", "toolverdictprocessor"):
        shutil.copytree(FOLDER.parent / name, tmp_path / "collector-config" / name)
    said = re.search(
        r"^#   go (run \S+ --config \S+)$", (FOLDER / "builder-config.yaml").read_text("utf-8"), re.M
    )
    assert said is not None
    command = [required("go", "Go 1.26 or newer"), *said[1].split(), "--skip-compilation"]
    done = subprocess.run(
        command,
        cwd=tmp_path / "collector-config" / "distribution",
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    written = (tmp_path / "build" / "components.go").read_text("utf-8")
    made = set(re.findall(r"(\w+)\.NewFactory\(\)", written))
    wanted = {part["gomod"].split()[0].rpartition("/")[2] for kind in KINDS for part in parts()[kind]}
    assert wanted <= made
