# SPDX-License-Identifier: Apache-2.0
"""A folder of a user's, in which the command is run as they run it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any, NamedTuple

from acrux_otel.catalog import SqlCatalog

__all__ = ["Done", "Terminal"]


class Done(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Terminal:
    """A folder of a user's, in which commands are run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        ours = ("ACRUX", "OTEL_")
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}

    def write(self, path: str, source: str) -> None:
        target = self.folder / path
        target.parent.mkdir(exist_ok=True)
        target.write_text(textwrap.dedent(source))

    def run(self, *words: str) -> Done:
        done = subprocess.run(
            [sys.executable, "-c", "from acrux_otel.cli import main; main()", *words],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert "Traceback" not in done.stderr
        return Done(done.returncode, done.stdout, done.stderr)

    def catalog(self) -> SqlCatalog:
        return SqlCatalog(f"sqlite:///{self.folder}/.acrux/acrux.db")
