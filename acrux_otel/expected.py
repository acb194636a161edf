# SPDX-License-Identifier: Apache-2.0
"""A call that somebody outside asks for, names and stops waiting for, as the batch runner does.

Imports nothing of ours.
"""

from __future__ import annotations

import threading
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from acrux_otel.call import Call
    from acrux_otel.verdict import Verdict

__all__ = ["EXPECTED", "Expected"]

EXPECTED: Final[ContextVar[Expected | None]] = ContextVar("acrux_otel.expected", default=None)


class Expected:
    """The next call that is opened to be read in this context; set `EXPECTED` to one before it.

    Attributes:
        id: the model's id of the call.
        resend: the model asks again for what failed because another call was not done yet.
        call: the call, once it is open.
        begun: whether the tool was let run.
    """

    __slots__ = ("_lock", "_over", "begun", "call", "id", "resend")

    def __init__(self, call_id: str | None, *, resend: bool = False) -> None:
        self.id, self.resend = call_id, resend
        self.call: Call | None = None
        self.begun = False
        self._over: Verdict | None = None
        self._lock = threading.Lock()

    def begin(self) -> bool:
        """Whether the tool may be run: not when nobody waits any more. Asked once, just before it."""
        with self._lock:
            self.begun = self._over is None
            return self.begun

    def opened(self, call: Call) -> None:
        """The call is open; calls that its body makes are not the one meant."""
        if self.call is not None:
            return
        if self.id is not None:
            call.identify(self.id)
        with self._lock:
            self.call, over = call, self._over
        if over is not None:
            call.close(over)

    def give_up(self, verdict: Verdict) -> bool:
        """Nobody waits any more: the call ends with ``verdict`` now, and what comes later is dropped.

        May be called from any thread, before or after the call is open.

        Returns:
            Whether the tool was begun; where it was not, it never will be.
        """
        with self._lock:
            self._over = verdict
            call, begun = self.call, self.begun
        if call is not None:
            call.close(verdict)
        return begun

    @property
    def over(self) -> bool:
        """Whether nobody waits any more: a guard need not try again."""
        return self._over is not None
