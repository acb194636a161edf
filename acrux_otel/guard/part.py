# SPDX-License-Identifier: Apache-2.0
"""Something guarded that is not a tool of its own: a part of the tool call that it runs in.

A plain function under a guard is part of the call around it, and a call of its own where there is none; so
is one attempt that runs in a thread and may come too late to speak for the call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from acrux_otel import attributes as names
from acrux_otel.call import CURRENT, Call, Unread
from acrux_otel.returned import DECLARED, kind_of
from acrux_otel.seam import ToolSite
from acrux_otel.verdict import Outcome, Verdict

__all__ = ["Part", "PartSite"]

_HANDED_OVER: Final = (names.FALLBACK_ERROR_TYPE, names.FALLBACK_ERROR_CODE)


class Part(Call):
    """A part of the call ``whole``: nobody is told of it, and what it declares goes to the whole."""

    def __init__(
        self, site: ToolSite, whole: Call | Unread, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> None:
        super().__init__(site, whole, args, kwargs)
        self.whole = whole
        self.read = True  # its end is the moment to hand over

    def ok(self, result: Any) -> Any:
        """As for a call, but a `ToolResult` stays one: the tool around it may return it as its own."""
        if kind_of(result) == DECLARED:
            self._leave_finally()
            self.close(Verdict(Outcome.OK))
            return result
        return super().ok(result)

    def close(self, verdict: Verdict, result: Any = None, exception: BaseException | None = None) -> None:
        if self.verdict is not None:
            return
        self.verdict = verdict
        if self.recorded is not None:
            self.whole.declare(self.recorded)
        noted = self.attributes or {}
        covered: dict[str, Any] = {key: noted[key] for key in _HANDED_OVER if key in noted}
        if covered and isinstance(self.whole, Call):
            self.whole.attributes = {**covered, **(self.whole.attributes or {})}


class PartSite(ToolSite):
    """A guarded function that is no tool."""

    def open(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Call | Unread | None:
        """A part of the call in progress, or a call where there is none."""
        whole = CURRENT.get()
        if whole is None or (isinstance(whole, Call) and whole.verdict is not None):
            return super().open(args, kwargs)
        part = Part(self, whole, args, kwargs)
        CURRENT.set(part)
        return part
