# SPDX-License-Identifier: Apache-2.0
"""What is remembered from one turn of a conversation to the next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from acrux_otel.batch.calls import ToolCall
from acrux_otel.batch.results import BatchResult
from acrux_otel.verdict import Outcome

__all__ = ["Ran", "ToolSession"]


class Ran(NamedTuple):
    """When a call ran, in seconds of one clock, and what came of it."""

    name: str
    writes: bool
    began: float
    ended: float
    outcome: Outcome


class ToolSession:
    """One conversation: hand the same one to each turn's `run_tool_calls`.

    It knows which call failed only because it did not wait for another of its turn: the failed one overlapped
    the other in time, the other writes, and succeeded afterwards. When the model asks for both tools again in
    the next turn, they run in that order, in that turn only. Nothing else is retried or held back.

    Args:
        after: tools by the name of the tool that may depend on them, ``{"read_order": ["create_order"]}``:
            the named ones count as writing for it. It changes no order by itself; for that, give a call its
            own ``after``.

    Attributes:
        results: of the latest turn, one for each call in the order asked; there also when the turn was
            cancelled or interrupted, so that the conversation can go on.

    Raises:
        TypeError: ``after`` is no mapping.
    """

    def __init__(self, *, after: Mapping[str, str | Iterable[str]] | None = None) -> None:
        if after is not None and not isinstance(after, Mapping):
            raise TypeError(
                f"ToolSession(after=) is a {type(after).__name__}; expected tool names by tool name"
            )
        self.results: list[BatchResult] = []
        self._after = {
            name: {others} if isinstance(others, str) else set(others)
            for name, others in (after or {}).items()
        }
        self._pairs: frozenset[tuple[str, str]] = frozenset()

    @property
    def dependencies(self) -> frozenset[tuple[str, str]]:
        """Pairs (earlier tool, later tool) that the next turn runs in order if it asks for both."""
        return self._pairs

    def remembered(self, calls: Sequence[ToolCall]) -> list[tuple[int, int]]:
        """The places (earlier, later) of calls that repeat a pair of the last turn."""
        if not self._pairs:
            return []
        places: dict[str, list[int]] = {}
        for index, call in enumerate(calls):
            places.setdefault(call.name, []).append(index)
        return [
            (earlier, later)
            for first, then in sorted(self._pairs)
            for earlier in places.get(first, ())
            for later in places.get(then, ())
            if earlier != later and (first != then or earlier < later)
        ]

    def learn(self, ran: Sequence[Ran]) -> None:
        """Take a turn's dependency failures for the next one, in place of what was known."""
        found = set()
        for failed in ran:
            if failed.outcome is not Outcome.ERROR:
                continue
            for other in ran:
                if (
                    other is not failed
                    and other.outcome in (Outcome.OK, Outcome.WARNING)
                    and (other.writes or other.name in self._after.get(failed.name, ()))
                    and other.began < failed.ended <= other.ended
                ):
                    found.add((other.name, failed.name))
        self._pairs = frozenset(found)
