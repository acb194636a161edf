# SPDX-License-Identifier: Apache-2.0
"""The values of the filter language: lengths of time, moments, counts, trace ids."""

from __future__ import annotations

import datetime
import re
from typing import Final

__all__ = ["count", "duration", "moment", "trace_id"]

_UNITS: Final = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
    "d": 86_400_000_000_000,
    "w": 604_800_000_000_000,
}
_LENGTH: Final = re.compile(r"([0-9]{1,12})(?:\.([0-9]{1,9}))?([a-zµ]+)").fullmatch
_LARGEST: Final = 2**63 - 1


def duration(text: str) -> int | None:
    """``1.5s`` as nanoseconds; None where ``text`` is no length of time."""
    match = _LENGTH(text)
    unit = _UNITS.get(match[3]) if match else None
    if match is None or unit is None:
        return None
    digits = match[2] or ""
    fraction = int(digits or "0") * unit // int(f"1{'0' * len(digits)}")
    return min(_LARGEST, int(match[1]) * unit + fraction)


def count(text: str) -> int | None:
    """A whole number of at most nine digits, else None."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 9 else None


def moment(text: str, now: int) -> int | None:
    """``1h`` as that long before ``now``, or an ISO 8601 time; in nanoseconds since 1970, else None.

    A time without a zone is in this computer's.
    """
    ago = duration(text)
    if ago is not None:
        return max(0, now - ago)
    try:
        read = datetime.datetime.fromisoformat(
            text.removesuffix("Z") + ("+00:00" if text.endswith("Z") else "")
        )
        seconds = read.timestamp()
    except (ValueError, OverflowError, OSError):
        return None
    return min(_LARGEST, max(0, round(seconds * 1_000_000) * 1_000))


def trace_id(text: str) -> str | None:
    """32 hexadecimal digits in lower case, dashes left out; None where ``text`` is not that."""
    digits = text.replace("-", "").lower()
    return digits if re.fullmatch(r"[0-9a-f]{32}", digits) else None
