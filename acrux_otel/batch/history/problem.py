# SPDX-License-Identifier: Apache-2.0
"""A thing that an API would refuse, and the answer that is made up for a call that has none."""

from __future__ import annotations

import dataclasses
from typing import Final

__all__ = ["CANCELLED", "HistoryProblem"]

CANCELLED: Final = "Not executed: the turn was cancelled before this call finished."


@dataclasses.dataclass(frozen=True)
class HistoryProblem:
    """One reason why an API would refuse a conversation.

    Attributes:
        place: where, as the API writes it, such as ``messages.2.content.0``.
        why: in the API's words where they are known.
        call_id: the tool call's, where it is about one.
    """

    place: str
    why: str
    call_id: str | None = None

    def __str__(self) -> str:
        return f"{self.place}: {self.why}"
