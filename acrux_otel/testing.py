# SPDX-License-Identifier: Apache-2.0
"""For the tests of people who decorate tools: which calls were made, and how each came out.

No SDK and no exporter are needed::

    def test_unknown_city(acrux_calls):
        get_weather_brief("Atlantis Prime")
        assert acrux_calls.last.verdict.code == "location_not_found"

The fixture ``acrux_calls`` comes with the package; :func:`record_calls` is the same without pytest.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from acrux_otel.seam import Call, observe, unobserve
from acrux_otel.verdict import Outcome, Verdict

__all__ = ["RecordedCall", "RecordedCalls", "record_calls"]


@dataclasses.dataclass(frozen=True)
class RecordedCall:
    """One finished tool call."""

    name: str
    arguments: Mapping[str, Any]
    verdict: Verdict
    id: str | None
    attempts: int

    @property
    def outcome(self) -> Outcome:
        """Short for ``verdict.outcome``."""
        return self.verdict.outcome


class RecordedCalls(list[RecordedCall]):
    """The calls in the order in which they ended."""

    @property
    def last(self) -> RecordedCall:
        """The call that ended last.

        Raises:
            AssertionError: no tool was called.
        """
        if not self:
            raise AssertionError("no decorated tool was called inside record_calls()")
        return self[-1]

    def of(self, name: str) -> list[RecordedCall]:
        """The calls of one tool."""
        return [call for call in self if call.name == name]

    def failed(self) -> list[RecordedCall]:
        """The calls with outcome ``error``."""
        return [call for call in self if call.outcome is Outcome.ERROR]


@contextmanager
def record_calls() -> Iterator[RecordedCalls]:
    """Collect every tool call that ends inside the ``with``, in any thread or task of this process.

    Yields:
        A list that grows as calls end.
    """
    calls = RecordedCalls()

    def closed(call: Call, verdict: Verdict) -> None:
        calls.append(RecordedCall(call.site.name, dict(call.arguments()), verdict, call.id, call.attempts))

    observe(closed=closed)
    try:
        yield calls
    finally:
        unobserve(closed=closed)


try:
    import pytest
except ImportError:  # the context manager needs no pytest
    pass
else:

    @pytest.fixture
    def acrux_calls() -> Iterator[RecordedCalls]:
        """The tool calls that the test makes."""
        with record_calls() as calls:
            yield calls
