# SPDX-License-Identifier: Apache-2.0
"""One server for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .server import Up


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """A running `acrux-otel up` with an empty store."""
    with Up(Path(tmp_path_factory.mktemp("home"))) as server:
        yield server
