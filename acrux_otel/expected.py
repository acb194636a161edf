# SPDX-License-Identifier: Apache-2.0
"""A call that somebody outside has asked for, names, and stops waiting for: what the batch runner needs of one.

Imports `acrux_otel.verdict` only.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from acrux_otel.verdict import Outcome

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
    """

    __slots__ = ("_over", "call", "id", "resend")

    def __init__(self, call_id: str | None, *, resend: bool = False) -> None:
        self.id, self.resend = call_id, resend
        self.call: Call | None = None
        self._over: Verdict | None = None

    def opened(self, call: Call) -> None:
        """The call is open; calls that its body makes are not the one meant."""
        if self.call is not None:
            return
        self.call = call
        if self.id is not None:
            call.identify(self.id)
        if self._over is not None:
            self._end(call, self._over)

    def give_up(self, verdict: Verdict) -> None:
        """Nobody waits any more: the call ends with ``verdict`` now, and what comes later is dropped.

        May be called from any thread, before or after the call is open.
        """
        # Set before the look at `call`, as `opened` does it the other way round: one of them sees both.
        self._over = verdict
        if self.call is not None:
            self._end(self.call, verdict)

    @property
    def over(self) -> bool:
        """Whether nobody waits any more: a guard need not try again."""
        return self._over is not None

    @staticmethod
    def _end(call: Call, verdict: Verdict) -> None:
        if verdict.outcome is Outcome.NOT_EXECUTED:
            call.executed = False
        call.close(verdict)
