# SPDX-License-Identifier: Apache-2.0
"""How one definition differs from another: what kind of change it is, and what changed where."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from acrux_otel.catalog.containment import gaps
from acrux_otel.catalog.model import Change, Definition
from acrux_otel.catalog.nullable import nullable_spelt_out
from acrux_otel.definition.fingerprint import canonical, contract

if TYPE_CHECKING:
    from acrux_otel.definition import ToolDefinition

__all__ = ["Drift", "Edit", "compare", "drift"]

_ABSENT: Final[Any] = object()
_SHOWN: Final = 400
# What a tool no longer promises breaks those who relied on it.
_PROMISES: Final = {"read_only": True, "idempotent": True, "destructive": False, "open_world": False}


@dataclasses.dataclass(frozen=True)
class Edit:
    """One place that differs; ``before`` or ``after`` is None where there is nothing, else JSON text."""

    path: str
    before: str | None
    after: str | None


@dataclasses.dataclass(frozen=True)
class Drift:
    """The difference between two definitions.

    Attributes:
        change: its kind.
        breaking: why it is breaking, one line for each reason.
        edits: every place that differs.
    """

    change: Change
    breaking: tuple[str, ...]
    edits: tuple[Edit, ...]


def compare(old: Definition | ToolDefinition, new: Definition | ToolDefinition) -> Change:
    """What kind of change it is to go from one definition to another.

    Arguments by the rules of JSON Schema: whatever the old one took, the new one must take, else the change
    is breaking; a parameter that is gone is breaking too. Results the other way round: whatever the new one
    gives, the old one must have allowed. An annotation that promises less is breaking. A new definition
    without a description keeps the old one's.

    Args:
        old, new: of a catalog, or as `acrux_otel.definition_of` answers.
    """
    return drift(old, new).change


def drift(old: Definition | ToolDefinition, new: Definition | ToolDefinition) -> Drift:
    """Like `compare`, with the reasons and the places."""
    before = old if isinstance(old, Definition) else Definition.of(old)
    after = (new if isinstance(new, Definition) else Definition.of(new)).keeping(before)
    edits = tuple(_edits(_document(before), _document(after), ""))
    if not edits:
        return Drift(Change.NONE, (), ())
    if _same_contract(before, after):
        return Drift(Change.DESCRIPTION, (), edits)
    reasons = (
        *gaps(_arguments(after), _arguments(before), "parameters", arguments=True),
        *gaps(_result(before), _result(after), "result", arguments=False),
        *_broken_promises(before.annotations, after.annotations),
    )
    return Drift(Change.BREAKING if reasons else Change.COMPATIBLE, reasons, edits)


def _arguments(one: Definition) -> Any:
    """Arguments are an object, whether or not their schema says so."""
    return {"type": "object", **nullable_spelt_out(one.parameters)}


def _result(one: Definition) -> Any:
    return True if one.result is None else nullable_spelt_out(one.result)


def _same_contract(before: Definition, after: Definition) -> bool:
    try:
        return _contract(before) == _contract(after)
    except Exception:  # a catalog takes any object as a schema
        return False


def _contract(one: Definition) -> str:
    made = [contract(dict(one.parameters)), contract(None if one.result is None else dict(one.result))]
    return canonical([*made, one.severity, one.executor, one.annotations])


def _document(one: Definition) -> dict[str, Any]:
    document = {
        "description": one.description,
        "executor": one.executor,
        "parameters": one.parameters,
        "result": one.result,
        "severity": one.severity,
        "annotations": one.annotations,
    }
    return {key: value for key, value in document.items() if value is not None and value != {}}


def _broken_promises(old: Mapping[str, bool], new: Mapping[str, bool]) -> Iterator[str]:
    for name, promised in _PROMISES.items():
        if old.get(name) is promised and new.get(name) is not promised:
            now = _text(new[name]) if name in new else "not said"
            yield f"annotations.{name}: {_text(promised)} -> {now}"


def _edits(old: Any, new: Any, path: str) -> Iterator[Edit]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted({*old, *new}):
            yield from _edits(
                old.get(key, _ABSENT), new.get(key, _ABSENT), f"{path}.{key}" if path else str(key)
            )
        return
    before, after = _text(old), _text(new)
    if before != after:
        yield Edit(path, before, after)


def _text(value: Any) -> Any:
    if value is _ABSENT:
        return None
    made = canonical(value)
    return made if len(made) <= _SHOWN else f"{made[:_SHOWN]}…"
