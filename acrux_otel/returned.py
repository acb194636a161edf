# SPDX-License-Identifier: Apache-2.0
"""What a value that a tool returned is: plain, a declaration, or work still to be done."""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import types
from collections.abc import Coroutine
from typing import Any, Final

from acrux_otel.verdict import ErrorType, Outcome, ToolResult, Verdict, slug

__all__ = [
    "ASYNC_GENERATOR",
    "AWAITABLE",
    "COROUTINE",
    "DECLARED",
    "FUTURE",
    "GENERATOR",
    "KINDS",
    "OBJECT",
    "PLAIN",
    "kind_of",
    "unwrap",
]

PLAIN: Final = 0
OBJECT: Final = 1  # perhaps a framework's own result
DECLARED: Final = 2
COROUTINE: Final = 3  # this and what follows is not finished yet
GENERATOR: Final = 4
ASYNC_GENERATOR: Final = 5
FUTURE: Final = 6
AWAITABLE: Final = 7

# By type, because it is asked for at every call; bounded, because programs make types as they run.
KINDS: Final[dict[type, int]] = {
    **dict.fromkeys((type(None), bool, int, float, str, bytes, list, tuple, dict, set, frozenset), PLAIN),
    ToolResult: DECLARED,
    types.CoroutineType: COROUTINE,
    types.GeneratorType: GENERATOR,
    types.AsyncGeneratorType: ASYNC_GENERATOR,
}
_LIMIT: Final = 2048


def kind_of(value: object) -> int:
    """The kind of ``value``."""
    kind = KINDS.get(type(value))
    if kind is None:
        kind = _kind_of_type(type(value))
        if len(KINDS) < _LIMIT:
            KINDS[type(value)] = kind
    if kind == GENERATOR and inspect.isawaitable(value):  # made by types.coroutine
        return AWAITABLE
    return kind


def _kind_of_type(kind: type) -> int:
    if issubclass(kind, ToolResult) or _is_acruxcore(kind):
        return DECLARED
    if issubclass(kind, (asyncio.Future, concurrent.futures.Future)):
        return FUTURE
    if issubclass(kind, Coroutine) and not hasattr(kind, "__aenter__"):
        return AWAITABLE  # a compiled coroutine; other awaitable objects are values of their own
    return OBJECT


def _is_acruxcore(kind: type) -> bool:
    return any(
        base.__name__ == "ToolResult" and base.__module__.partition(".")[0] == "acruxcore"
        for base in kind.__mro__
    )


def unwrap(value: Any, kind: int, *, text: bool) -> tuple[Any, Verdict | None]:
    """What the tool's caller gets for ``value``, and the verdict that it declares.

    Args:
        text: the tool is annotated ``-> str``.
    """
    if kind != DECLARED:
        return value, None
    if isinstance(value, ToolResult):
        return value.result_for(text=text), value.verdict
    outcome = Outcome.ERROR if value.level == "error" else Outcome.WARNING
    message = value.message if isinstance(value.message, str) else str(value.message)
    return value.result, Verdict(outcome, ErrorType.TOOL_DECLARED, slug(value.type), message)
