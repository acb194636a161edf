# SPDX-License-Identifier: Apache-2.0
"""The loopback APIs of the examples, and what a hang leaves behind."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))


def tool_threads() -> list[threading.Thread]:
    """Threads that the batch runner started and that still run."""
    return [each for each in threading.enumerate() if each.name.startswith("acrux-otel-")]


def gone(seconds: float = 5.0) -> bool:
    """Whether no such thread is left, soon."""
    limit = time.monotonic() + seconds
    while tool_threads():
        if time.monotonic() > limit:
            return False
        time.sleep(0.01)
    return True


@pytest.fixture
def release() -> Iterator[threading.Event]:
    """What hanging tools wait for; set at the test's end at the latest, and then no thread may be left."""
    event = threading.Event()
    yield event
    event.set()
    assert gone(), tool_threads()
