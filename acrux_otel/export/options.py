# SPDX-License-Identifier: Apache-2.0
"""One configured value and where it came from: argument, then `ACRUX_OTEL_…`, then `OTEL_…`."""

from __future__ import annotations

import os
import re
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from acrux_otel.settings import OFF, ON

__all__ = ["Given", "boolean", "given", "header_map", "masked_url", "seconds", "whole_number"]

_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+\Z").match
_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*\Z").match


class Given(NamedTuple):
    """A value, and the argument or variable that gave it."""

    value: Any
    source: str


def given(argument: object, name: str, *standard: str) -> Given | None:
    """What was said about ``name``; an empty variable says nothing (OpenTelemetry's rule).

    Args:
        argument: `configure`'s own; None where it was left out.
        name: the argument's name, which also names its ``ACRUX_OTEL_…`` variable.
        standard: ``OTEL_…`` variables, the first that is set wins.
    """
    if argument is not None:
        return Given(argument, name)
    for variable in (f"ACRUX_OTEL_{name.upper()}", *standard):
        value = os.environ.get(variable, "").strip()
        if value:
            return Given(value, variable)
    return None


def boolean(option: Given | None, default: bool) -> bool:
    """A switch.

    Raises:
        ValueError: neither a bool nor one of the usual words.
    """
    if option is None:
        return default
    if isinstance(option.value, bool):
        return option.value
    word = option.value.lower() if isinstance(option.value, str) else ""
    if word not in (*ON, *OFF):
        raise ValueError(f"{option.source} is {option.value!r}; expected true or false")
    return word in ON


def seconds(option: Given | None, default: float) -> float:
    """A duration of zero or more seconds.

    Raises:
        ValueError: not a finite number, or negative.
    """
    if option is None:
        return default
    try:
        value = float(option.value)
    except (TypeError, ValueError):
        value = -1.0
    if not 0 <= value < 1e6:
        raise ValueError(f"{option.source} is {option.value!r}; expected seconds, such as 3 or 0.5")
    return value


def whole_number(option: Given | None, default: int | None) -> int | None:
    """A positive whole number.

    Raises:
        ValueError: anything else.
    """
    if option is None:
        return default
    text = str(option.value)
    if isinstance(option.value, bool) or not text.isdecimal() or int(text) == 0:
        raise ValueError(f"{option.source} is {option.value!r}; expected a positive whole number")
    return int(text)


def header_map(option: Given | None) -> dict[str, str]:
    """Headers from a mapping, or from ``name=value,name=value`` with URL-encoded values.

    Raises:
        ValueError: a malformed header; the text names it and never shows a value.
    """
    if option is None:
        return {}
    pairs = option.value.items() if hasattr(option.value, "items") else _split(option)
    made: dict[str, str] = {}
    for name, value in pairs:
        if not isinstance(name, str) or not _TOKEN(name):
            raise ValueError(f"{option.source} has a header named {name!r}; expected name=value,name=value")
        if not isinstance(value, str) or not _VALUE(value):
            raise ValueError(
                f"{option.source}: the value of {name!r} (not shown) cannot be sent as a header; "
                "expected printable text on one line, URL-encoded where needed"
            )
        made[name.lower()] = value
    return made


def _split(option: Given) -> list[tuple[str, str]]:
    if not isinstance(option.value, str):
        raise ValueError(f"{option.source} is a {type(option.value).__name__}; expected a dict or text")
    pairs = []
    for position, part in enumerate(option.value.split(","), 1):
        name, equals, value = part.partition("=")
        if not part.strip():
            continue
        if not equals:
            raise ValueError(
                f"{option.source}: part {position} (not shown) has no '='; expected name=value,name=value"
            )
        pairs.append((unquote(name.strip()), unquote(value.strip())))
    return pairs


def masked_url(url: str) -> str:
    """``url`` as it may be shown: without user, password and the query's values."""
    without_user = re.sub(r"(^|//)[^/?#]*@", r"\1***@", url)
    return re.sub(r"(?<=[?&])([^=&#]*)=[^&#]*", r"\1=***", without_user)
