# SPDX-License-Identifier: Apache-2.0
"""Ten real processes at one catalog."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from acrux_otel.catalog import Ref, SqlCatalog

PROCESSES = 10
# One interpreter imports everything and becomes ten: what is tried is the catalog, not the import.
_SYNC = """
    import json, os, sys
    from acrux_otel.catalog import Definition, SqlCatalog

    url, processes, rounds, folder = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    gate, opener = os.pipe()

    def work(number):
        os.close(opener)
        os.read(gate, 1)
        catalog = SqlCatalog(url)
        told = []
        for turn in range(rounds):
            result = catalog.sync(Definition("tool", {"type": "object", "title": str(turn)}, "One."))
            told.append([result.tool_id, result.version_number, result.version_id, result.committed])
        own = catalog.sync(Definition(f"own_{number}", {"type": "object"}))
        with open(f"{folder}/{number}", "w") as file:
            json.dump([told, own.version_number], file)

    children = []
    for number in range(processes):
        child = os.fork()
        if child == 0:
            try:
                work(number)
            except BaseException as error:
                print(f"{number}: {error!r}", file=sys.stderr, flush=True)
                os._exit(1)
            os._exit(0)
        children.append(child)
    os.close(opener)
    sys.exit(sum(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children))
"""
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def _at_once(url: str, rounds: int, folder: Path) -> list[list[list[object]]]:
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(_SYNC), url, str(PROCESSES), str(rounds), str(folder)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (done.stderr, done.returncode) == ("", 0)
    answers = [json.loads((folder / str(number)).read_text()) for number in range(PROCESSES)]
    assert [own for _, own in answers] == [1] * PROCESSES
    return [told for told, _ in answers]


def test_ten_processes_that_sync_one_name_make_one_version(database_url: str, tmp_path: Path) -> None:
    """Also the first ones, which find no table yet: one is committed, and all are told the same version."""
    answers = [told[0] for told in _at_once(database_url, 1, tmp_path / "told")]
    assert [committed for *_, committed in answers].count(True) == 1
    assert len({tuple(answer[:3]) for answer in answers}) == 1
    catalog = SqlCatalog(database_url)
    tool = catalog.tool("tool")
    assert catalog.versions(tool.id).total == 1
    assert [each.action for each in catalog.history(tool.id)] == ["commit"]
    assert catalog.tools(limit=100).total == PROCESSES + 1
    catalog.close()


def test_versions_are_numbered_without_a_gap_however_many_processes_write(
    database_url: str, tmp_path: Path
) -> None:
    """They go through five definitions at once, some behind others; whatever wins, the record is whole."""
    answers = _at_once(database_url, 5, tmp_path / "told")
    committed = sorted(number for told in answers for _, number, _, new in told if new)
    assert committed == list(range(1, len(committed) + 1))
    catalog = SqlCatalog(database_url)
    tool = catalog.tool("tool")
    assert tool.version_count == tool.latest_version == len(committed)
    assert catalog.resolve([Ref("tool")])[0].version_number == tool.aliases["production"]
    assert catalog.history(tool.id, limit=100).total == len(committed)
    catalog.close()


def test_two_threads_share_one_catalog(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    from acrux_otel.catalog import Definition

    catalog = SqlCatalog(f"sqlite:///{tmp_path}/c.db")
    same = Definition("tool", {"type": "object"})
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: catalog.sync(same), range(40)))
    assert [each.committed for each in results].count(True) == 1
    assert {each.version_id for each in results} == {results[0].version_id}
    catalog.close()
