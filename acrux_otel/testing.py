# SPDX-License-Identifier: Apache-2.0
"""For the tests of people who decorate tools: which calls were made, and how each came out.

No SDK and no exporter are needed::

    def test_unknown_city(acrux_calls):
        get_weather_brief("Atlantis Prime")
        assert acrux_calls.last.verdict.code == "location_not_found"

The fixture ``acrux_calls`` comes with the package; :func:`record_calls` is the same without pytest.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

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
    given: WeakKeyDictionary[Call, Mapping[str, Any]] = WeakKeyDictionary()

    def opened(call: Call) -> None:
        given[call] = _copied(call.arguments())  # before the tool can change them

    def closed(call: Call, verdict: Verdict) -> None:
        arguments = given.pop(call, None) or _copied(call.arguments())
        calls.append(RecordedCall(call.site.name, arguments, verdict, call.id, call.attempts))

    observe(opened, closed)
    try:
        yield calls
    finally:
        unobserve(opened, closed)


def _copied(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _copy(value) for name, value in arguments.items()}


def _copy(value: Any) -> Any:
    try:
        return copy.deepcopy(value)
    except Exception:  # a lock, a connection: it is what it is
        return value


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
