# SPDX-License-Identifier: Apache-2.0
"""Which calls of a turn wait for which, and whose failure keeps whom from running. Plain data, no running."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal

from acrux_otel.batch.calls import ToolCall

__all__ = ["ORDERS", "Order", "Plan", "checked_after", "plan"]

Order = Literal["auto", "parallel", "sequential"]
ORDERS: Final = ("auto", "parallel", "sequential")


@dataclasses.dataclass
class Plan:
    """For each call, by its place among those asked.

    Attributes:
        waits: the calls that must be over before it starts.
        needs: those among them that must have succeeded.
        sequence: in which order calls start that are free to.
    """

    waits: list[set[int]]
    needs: list[set[int]]
    sequence: list[int]


def plan(
    calls: Sequence[ToolCall],
    writes: Sequence[bool],
    order: Order,
    after: Sequence[set[int]],
    remembered: Iterable[tuple[int, int]] = (),
) -> Plan:
    """What `order` means for `calls`.

    Args:
        writes: whether a call's tool is annotated as one that writes.
        after: for each call the ones that it was said to depend on.
        remembered: pairs (earlier, later) that failed together last turn. One that contradicts what was said,
            or another pair, is left out.

    Raises:
        ValueError: `after` goes round in a circle.
    """
    needs = [set(each) for each in after]
    for members in _toolsets(calls):
        for earlier, later in itertools.pairwise(members):
            needs[later].add(earlier)
    sequence = _sorted(needs)
    if sequence is None:
        raise ValueError("after= makes calls wait for each other in a circle")
    for earlier, later in remembered:
        needs[later].add(earlier)
        longer = _sorted(needs)
        if longer is None:
            needs[later].discard(earlier)
        else:
            sequence = longer
    waits = [set(each) for each in needs]
    if order == "sequential":
        for earlier, later in itertools.pairwise(sequence):
            waits[later].add(earlier)
            needs[later].add(earlier)
    elif order == "auto":
        _set_writers_apart(sequence, writes, waits, needs)
    return Plan(waits, needs, sequence)


def _toolsets(calls: Sequence[ToolCall]) -> Iterable[list[int]]:
    """The actions of each toolset, which are a sequence whatever else is asked."""
    members: dict[str, list[int]] = {}
    for index, call in enumerate(calls):
        if call.toolset is not None:
            members.setdefault(call.toolset, []).append(index)
    return members.values()


def _set_writers_apart(
    sequence: Sequence[int], writes: Sequence[bool], waits: list[set[int]], needs: list[set[int]]
) -> None:
    """Each writer runs alone in its place, and its failure stops the rest."""
    writer: int | None = None
    since: list[int] = []
    for index in sequence:
        if writer is not None:
            waits[index].add(writer)
            needs[index].add(writer)
        if writes[index]:
            waits[index].update(since)
            writer, since = index, []
        else:
            since.append(index)


def _sorted(needs: Sequence[set[int]]) -> list[int] | None:
    """The calls in the order asked, each behind what it needs; None where that goes round in a circle."""
    done: list[bool] = [False] * len(needs)
    if not any(needs):
        return list(range(len(needs)))
    sequence: list[int] = []
    waiting = list(range(len(needs)))
    while waiting:
        left = []
        for index in waiting:
            if all(done[each] for each in needs[index]):
                done[index] = True
                sequence.append(index)
            else:
                left.append(index)
        if len(left) == len(waiting):
            return None
        waiting = left
    return sequence


def checked_after(
    calls: Sequence[ToolCall], after: Mapping[str, str | Iterable[str]] | None
) -> list[set[int]]:
    """For each call the places of those it was said to depend on, by itself or by ``after``.

    Raises:
        ValueError: an id that is not among the calls, or is the call's own.
    """
    places: dict[str, int] = {}
    for index, call in enumerate(calls):
        if call.id is not None:
            places.setdefault(call.id, index)
    if after is not None:
        for each in after:
            if each not in places:
                raise ValueError(f"after= names the call {each!r}, which is not among the calls of this turn")
    found = []
    for index, call in enumerate(calls):
        more = (after or {}).get(call.id or "", ())
        ids = (*call.after, *((more,) if isinstance(more, str) else more))
        for each in ids:
            if each not in places or places[each] == index:
                what = "itself" if each in places else f"{each!r}, which is not among the calls of this turn"
                raise ValueError(f"call {call.id!r} is to run after {what}")
        found.append({places[each] for each in ids})
    return found
