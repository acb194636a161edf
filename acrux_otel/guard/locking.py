# SPDX-License-Identifier: Apache-2.0
"""The one lock of the guard's shared state, and what a fork does to it. Imports nothing of ours.

It is held for a few instructions only. A fork waits for it, so that a child never inherits a state that
another thread was half-way through changing, nor a lock that nobody in the child will release. It is
re-entrant because a signal handler or a finalizer may run a tool while this thread holds it.
"""

from __future__ import annotations

import os
import threading
from typing import Final

__all__ = ["LOCK", "forks"]

LOCK: Final = threading.RLock()
_forks = 0


def forks() -> int:
    """How often this process is a fork: what another process has in flight is not in flight here."""
    return _forks


def _in_child() -> None:
    global _forks
    _forks += 1
    LOCK.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=LOCK.acquire, after_in_parent=LOCK.release, after_in_child=_in_child)
