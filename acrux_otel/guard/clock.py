# SPDX-License-Identifier: Apache-2.0
"""Time as the guard sees it; a simulation brings its own. Imports nothing of ours."""

from __future__ import annotations

import asyncio
import time
from typing import Final

__all__ = ["SYSTEM", "Clock"]


class Clock:
    """The monotonic clock, and sleeping on it; subclass it to simulate."""

    def now(self) -> float:
        """Seconds from some fixed moment; never goes back."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait in this thread."""
        time.sleep(seconds)

    async def asleep(self, seconds: float) -> None:
        """Wait in this task, on asyncio or trio; a cancellation ends it at once."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            import trio

            await trio.sleep(seconds)
        else:
            await asyncio.sleep(seconds)


SYSTEM: Final = Clock()
