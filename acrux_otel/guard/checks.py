# SPDX-License-Identifier: Apache-2.0
"""Refuses settings that can never work, by field and allowed range. Imports nothing of ours."""

from __future__ import annotations

import math

__all__ = ["number"]


def number(
    owner: str,
    field: str,
    value: object,
    least: float,
    most: float,
    *,
    whole: bool = False,
    above: bool = False,
    optional: bool = False,
) -> None:
    """Check one setting.

    Args:
        owner, field: as the user wrote them, for the message.
        least, most: the allowed range, both ends included.
        whole: only integers.
        above: ``least`` itself is excluded.
        optional: None is allowed.

    Raises:
        ValueError: one line with the field, what was given and what is allowed.
    """
    if value is None and optional:
        return
    fits = isinstance(value, int if whole else (int, float)) and not isinstance(value, bool)
    if fits and isinstance(value, (int, float)):
        fits = math.isfinite(value) and least <= value <= most and not (above and value == least)
    if fits:
        return
    kind = "a whole number" if whole else "a number"
    start = f"above {least:g}" if above else f"{least:g}"
    span = f"{start} to {most:g}" if not above else f"{start} and at most {most:g}"
    joint = "" if above else "from "
    raise ValueError(
        f"{owner}({field}=) is {value!r:.60}; expected {kind} {joint}{span}{', or None' if optional else ''}"
    )
