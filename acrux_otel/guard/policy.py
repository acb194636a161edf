# SPDX-License-Identifier: Apache-2.0
"""Which tools may be called at all. Asked before a body runs; a denial is final."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from acrux_otel.verdict import warn_once

if TYPE_CHECKING:
    from acrux_otel.call import Call

__all__ = ["Allowed", "Policy"]

Allowed = Collection[str] | Callable[[str, Mapping[str, Any]], bool]


class Policy:
    """Names of allowed tools, or a function that is asked for each call.

    Args:
        allowed: names; or ``fn(name, arguments) -> bool``. Where the function raises or answers with
            anything but a bool, a tool annotated ``read_only=True`` runs, with one warning, and any other
            is denied.

    Raises:
        ValueError: neither.
    """

    def __init__(self, allowed: Allowed) -> None:
        if isinstance(allowed, str) or not (callable(allowed) or _are_names(allowed)):
            raise ValueError(
                f"Guard(allowed=) is {allowed!r:.60}; expected names of tools, or fn(name, arguments) -> bool"
            )
        self._ask = allowed if callable(allowed) else None
        self._names = frozenset() if callable(allowed) else frozenset(allowed)

    def denial(self, call: Call) -> str | None:
        """Why the call may not be made; None where it may."""
        name = call.site.name
        if self._ask is None:
            return None if name in self._names else f"{name} is not among the allowed tools."
        try:
            answer: object = self._ask(name, call.arguments())
        except Exception as error:
            answer = error
        if answer is True:
            return None
        if answer is False:
            return f"{name} is not allowed with these arguments."
        warn_once(
            f"policy:{type(answer).__name__}",
            "Guard(allowed=) answered with %s instead of True or False; only read-only tools run",
            type(answer).__name__,
        )
        if call.site.definition.annotations.read_only:
            return None
        return f"{name} is not allowed: the policy gave no answer, and the tool may change something."


def _are_names(allowed: object) -> bool:
    return isinstance(allowed, Collection) and all(isinstance(each, str) for each in allowed)
