# SPDX-License-Identifier: Apache-2.0
"""A run and its spans as plain values, whatever place they were read from."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from acrux_otel import attributes as names
from acrux_otel.verdict import Outcome

__all__ = ["COSTS", "Event", "RunLine", "Span", "Trace", "number"]

# Where instrumentations say what a model call cost, in US dollars; the first that is there counts.
COSTS: Final = ("gen_ai.usage.cost", "llm.cost.total", "gen_ai.usage.total_cost", "operation.cost")


@dataclasses.dataclass(frozen=True)
class Event:
    """Something that happened during a span."""

    name: str
    time: int
    attributes: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Span:
    """One span; times in nanoseconds since 1970, ids in hexadecimal digits, `parent_id` empty for a root.

    Attributes:
        status: ``unset``, ``ok`` or ``error``.
        message: the status's description.
        resource: attributes of what sent it.
    """

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    start: int
    end: int
    status: str
    message: str
    attributes: Mapping[str, Any]
    resource: Mapping[str, Any]
    events: Sequence[Event] = ()
    kind: int = 1
    scope: str = ""

    @property
    def duration(self) -> int:
        """Nanoseconds; never negative, whatever the clocks said."""
        return max(0, self.end - self.start)

    @property
    def service(self) -> str:
        return self.text("service.name", self.resource)

    @property
    def tool(self) -> str | None:
        return self.text(names.TOOL_NAME) or None

    @property
    def outcome(self) -> str | None:
        return self.text(names.OUTCOME) or None

    @property
    def error_type(self) -> str | None:
        return self.text(names.ERROR_TYPE) or None

    @property
    def error_code(self) -> str | None:
        return self.text(names.ERROR_CODE) or None

    @property
    def attempts(self) -> int | None:
        value = self.attributes.get(names.ATTEMPTS)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    @property
    def is_error(self) -> bool:
        return self.status == "error"

    @property
    def warned(self) -> bool:
        """Whether the span carries a warning, ours or another vocabulary's."""
        return self.outcome == Outcome.WARNING.value or bool(self.text(names.WARNING_TYPE))

    @property
    def failed(self) -> bool:
        """Whether it is a tool call that failed."""
        return self.tool is not None and (self.outcome == Outcome.ERROR.value or self.is_error)

    @property
    def cost(self) -> float | None:
        """US dollars, where known."""
        return next((cost for key in COSTS if (cost := number(self.attributes.get(key))) is not None), None)

    @property
    def tags(self) -> list[str]:
        """Names of the tags that `run(tags=)` gave it."""
        prefix = names.TAG_PREFIX
        return [
            key[len(prefix) :]
            for key, value in self.attributes.items()
            if key.startswith(prefix) and value is True
        ]

    def text(self, key: str, attributes: Mapping[str, Any] | None = None) -> str:
        """An attribute's value where it is text, else the empty string."""
        value = (self.attributes if attributes is None else attributes).get(key)
        return value if isinstance(value, str) else ""


def number(value: Any) -> float | None:
    """A finite number that is no bool, else None."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
        return None
    return float(value) if abs(value) < 1e15 else None


@dataclasses.dataclass(frozen=True)
class RunLine:
    """A run as one line of a list; times in nanoseconds, cost in US dollars.

    Attributes:
        status: ``error`` (red), ``warning`` (amber) or ``ok`` (green).
        failed, warned: calls by outcome.
        spans: how many spans are known of it.
    """

    trace_id: str
    name: str
    status: str
    start: int
    duration: int
    tools: tuple[str, ...]
    failed: int
    warned: int
    spans: int
    cost: float | None
    tags: tuple[str, ...]
    services: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Trace:
    """One run: every span that is known of it, in the order in which they began."""

    trace_id: str
    spans: Sequence[Span]

    @functools.cached_property
    def root(self) -> Span:
        """The earliest span without a parent, else the earliest of all."""
        return min(self.spans, key=lambda span: (bool(span.parent_id), span.start))

    @property
    def name(self) -> str:
        return self.root.text(names.AGENT_NAME) or self.root.name

    @property
    def start(self) -> int:
        return min(span.start for span in self.spans)

    @property
    def end(self) -> int:
        return max(max(span.start, span.end) for span in self.spans)

    @property
    def status(self) -> str:
        """``error`` if any span is ERROR, ``warning`` if none is but one carries a warning, else ``ok``."""
        if any(span.is_error for span in self.spans):
            return Outcome.ERROR.value
        return Outcome.WARNING.value if any(span.warned for span in self.spans) else Outcome.OK.value

    @property
    def tools(self) -> list[str]:
        return list(dict.fromkeys(span.tool for span in self.spans if span.tool))

    @property
    def tags(self) -> list[str]:
        return list(dict.fromkeys(tag for span in self.spans for tag in span.tags))

    @property
    def failed(self) -> int:
        return sum(span.failed for span in self.spans)

    @property
    def warned(self) -> int:
        return sum(span.warned for span in self.spans)

    @property
    def cost(self) -> float | None:
        costs = [cost for span in self.spans if (cost := span.cost) is not None]
        return sum(costs) if costs else None

    def tree(self) -> Iterator[tuple[int, Span]]:
        """Every span once, with its depth, children after their parent by time.

        A span whose parent is not here stands at depth 0, and so does the first of a cycle of parents.
        """
        ordered = sorted(self.spans, key=lambda each: (each.start, -each.end))
        here = {span.span_id for span in ordered}
        children: dict[str, list[Span]] = {}
        for span in ordered:
            children.setdefault(span.parent_id, []).append(span)
        told: set[int] = set()
        for span in ordered:
            if span.parent_id not in here:
                yield from _below(span, children, told)
        for span in ordered:
            if id(span) not in told:
                yield from _below(span, children, told)

    def line(self) -> RunLine:
        """The run as one line of a list."""
        return RunLine(
            trace_id=self.trace_id,
            name=self.name,
            status=self.status,
            start=self.start,
            duration=self.end - self.start,
            tools=tuple(self.tools),
            failed=self.failed,
            warned=self.warned,
            spans=len(self.spans),
            cost=self.cost,
            tags=tuple(self.tags),
            services=tuple(dict.fromkeys(span.service for span in self.spans if span.service)),
        )


def _below(top: Span, children: Mapping[str, Sequence[Span]], told: set[int]) -> Iterator[tuple[int, Span]]:
    stack = [(0, top)]
    while stack:
        depth, span = stack.pop()
        if id(span) in told:
            continue
        told.add(id(span))
        yield depth, span
        stack.extend((depth + 1, child) for child in reversed(children.get(span.span_id, ())))
