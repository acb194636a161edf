# SPDX-License-Identifier: Apache-2.0
"""What docs/catalog.md tells a person to type is typed, and answers what it says."""

from __future__ import annotations

import inspect
import re
import shlex
from pathlib import Path

from otlp_corpus import Run, request

import acrux_otel as acrux
from acrux_otel.catalog import Change, Definition
from acrux_otel.local.store import Store

from .terminal import Terminal

PAGE = (Path(__file__).parents[2] / "docs" / "catalog.md").read_text(encoding="utf-8")
SERVED_FOR_EVER = "acrux-otel catalog serve"  # tests/catalog/test_cli.py serves, and ends it


def _walk() -> list[tuple[list[str], list[str]]]:
    """Every command of the page, with what it prints."""
    steps: list[tuple[list[str], list[str]]] = []
    for block in re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                steps.append((shlex.split(line[2:]), []))
            else:
                steps[-1][1].append(" ".join(line.split()))
    return [step for step in steps if not " ".join(step[0]).startswith(SERVED_FOR_EVER)]


def test_the_guides_commands_print_what_it_shows(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    source = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0]
    terminal.write("shop/__init__.py", "")
    terminal.write("shop/tools.py", source)
    seen = 0
    for words, wanted in _walk():
        assert words[0] == "acrux-otel"
        if "--check" in words:
            changed = re.search(r"`(def get_weather.*?)`", PAGE)
            assert changed is not None
            terminal.write("shop/tools.py", source.replace("def get_weather(city: str) -> dict:", changed[1]))
        done = terminal.run(*words[1:])
        told = [" ".join(line.split()) for line in (done.err + done.out).splitlines()]
        if wanted and wanted[-1].endswith("…"):  # a new key each time
            told[-1] = told[-1][: len(wanted[-1]) - 1] + "…"
        if wanted:
            assert told == wanted, words
        else:
            assert done.code == 0 and done.json["version"]["id"]
        seen += 1
    assert seen == 6


def test_the_guides_filter_finds_the_failures_of_one_version(tmp_path: Path) -> None:
    """Not the runs in which it went well, and not those of the version before."""
    terminal = Terminal(tmp_path)
    catalog = terminal.catalog()
    first, second = (catalog.sync(Definition("get_weather", {"title": title})) for title in ("one", "two"))
    catalog.close()
    failed, well, before = Run("failed"), Run("well"), Run("before")
    failed.call("get_weather", "error", "no_city", given={"toolVersionId": second.version_id})
    well.call("get_weather", given={"toolVersionId": second.version_id})
    well.call("other", "error", "no_city")
    before.call("get_weather", "error", "no_city", given={"toolVersionId": first.version_id})
    store = Store(tmp_path / ".acrux" / "acrux.db")
    store.add(request(failed, well, before))
    store.close()
    told = re.search(r"acrux-otel find '(.*?)'", PAGE)
    assert told is not None
    done = terminal.run("find", told[1].replace("ID", str(second.version_id)), "--json")
    assert [each["name"] for each in done.json] == ["failed"]


def test_the_guide_names_every_kind_of_change() -> None:
    kinds = re.findall(r"^\| `(\w+)` \|", PAGE.partition("## What kind of change")[2], re.MULTILINE)
    assert kinds == [each.value for each in Change]


def test_the_guides_variables_and_options_are_there() -> None:
    assert {"catalog", "on_conflict"} <= set(inspect.signature(acrux.sync).parameters)
    assert "client_tools" in inspect.signature(acrux.run_tool_calls).parameters
    assert {"catalog", "catalog_mode"} <= set(inspect.signature(acrux.configure).parameters)
