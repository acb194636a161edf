# SPDX-License-Identifier: Apache-2.0
"""The keys of the filter language, as data. May import `verdict` and nothing above it."""

from __future__ import annotations

import dataclasses
import enum
from typing import Final

from acrux_otel.verdict import ErrorType, Outcome

__all__ = ["ATTRIBUTE_PREFIX", "FIELDS", "Field", "Kind", "Scope"]

ATTRIBUTE_PREFIX: Final = "tag."


class Scope(enum.Enum):
    """What a term speaks of."""

    RUN = "the run: any of its spans"
    SPAN = "one span: all such terms hold on the same one"
    WINDOW = "when the run began"


class Kind(enum.Enum):
    """How a value is read."""

    TEXT = "text"
    CHOICE = "one of a list"
    TRACE_ID = "32 hexadecimal digits"
    COUNT = "a whole number, perhaps after > >= < <="
    DURATION = "a length of time after > >= < <=, such as >1s or <=250ms"
    MOMENT = "how long ago, such as 30m, 1h, 7d, or a time such as 2026-11-30T18:00"


@dataclasses.dataclass(frozen=True)
class Field:
    """One key.

    Attributes:
        key: as typed before the colon.
        scope: what it speaks of.
        kind: how its value is read.
        help: one line for a person.
        values: every value there is, of a `Kind.CHOICE`.
        once: a run, or a span, has one value, so that two would never match.
    """

    key: str
    scope: Scope
    kind: Kind
    help: str
    values: tuple[str, ...] = ()
    once: bool = False


FIELDS: Final = {
    field.key: field
    for field in (
        Field(
            "status", Scope.RUN, Kind.CHOICE, "any span of the run is ERROR, or none", ("error", "ok"), True
        ),
        Field(
            "error_type",
            Scope.SPAN,
            Kind.CHOICE,
            "which kind of check caught it",
            tuple(each.value for each in ErrorType),
            True,
        ),
        Field("error_code", Scope.SPAN, Kind.TEXT, "the tool's own code, exact and case-sensitive", (), True),
        Field("warning", Scope.SPAN, Kind.CHOICE, "the call deserves a look", ("yes", "no"), True),
        Field("tool", Scope.SPAN, Kind.TEXT, "the tool's name", (), True),
        Field(
            "outcome",
            Scope.SPAN,
            Kind.CHOICE,
            "how the call ended",
            tuple(each.value for each in Outcome),
            True,
        ),
        Field("attempts", Scope.SPAN, Kind.COUNT, "attempts of a guarded call"),
        Field("duration", Scope.SPAN, Kind.DURATION, "how long the span took"),
        Field("service", Scope.RUN, Kind.TEXT, "a service that took part"),
        Field("tag", Scope.RUN, Kind.TEXT, "a tag that the run was given"),
        Field("run", Scope.RUN, Kind.TRACE_ID, "the run's trace id", (), True),
        Field("trace", Scope.RUN, Kind.TRACE_ID, "the same as run:", (), True),
        Field("since", Scope.WINDOW, Kind.MOMENT, "the run began at this time or later", (), True),
        Field("until", Scope.WINDOW, Kind.MOMENT, "the run began at this time or earlier", (), True),
    )
}
