# SPDX-License-Identifier: Apache-2.0
"""The tools that frameworks have described, remembered for the catalog. Imports nothing of ours."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from acrux_otel.seam import ToolSite

__all__ = ["described_sites", "listen", "remember"]

_lock = threading.RLock()  # a finaliser may call a tool in the middle of it
_sites: list[weakref.ref[ToolSite]] = []
_pruned_at = 64
_listener: Callable[[ToolSite], None] | None = None


def remember(site: ToolSite) -> None:
    """A tool was called for the first time; its site lives as long as its framework's tool does."""
    global _pruned_at
    with _lock:
        if len(_sites) >= _pruned_at:
            _sites[:] = [each for each in _sites if each() is not None]
            _pruned_at = max(64, 2 * len(_sites))
        _sites.append(weakref.ref(site))
    if _listener is not None:
        _listener(site)


def described_sites() -> list[ToolSite]:
    """The tools that are still alive, in the order of their first calls."""
    with _lock:
        refs = list(_sites)
    return [site for site in (ref() for ref in refs) if site is not None]


def listen(listener: Callable[[ToolSite], None] | None) -> None:
    """Tell ``listener`` of each tool from now on; None ends it."""
    global _listener
    _listener = listener


def _after_fork() -> None:
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
