# SPDX-License-Identifier: Apache-2.0
"""Default texts that differ only in the order of their parts, as a text joined from a set does."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Any, Final

from acrux_otel.catalog.model import Definition
from acrux_otel.definition.fingerprint import children

__all__ = ["has_joined_default", "reordered_defaults"]

_SEPARATOR: Final = re.compile(r"[\s,;|]+")


def has_joined_default(definition: Definition) -> bool:
    """Whether a parameter has a default text of more than one part."""
    return any(len(_parts(text)) > 1 for _, text in _defaults(definition.parameters, ""))


def reordered_defaults(live: Definition, ours: Definition) -> list[str]:
    """The parameters whose default texts have another order, where nothing else differs; else empty."""
    ours = ours.keeping(live)
    if ours.fingerprint == live.fingerprint or _ordered(ours).fingerprint != _ordered(live).fingerprint:
        return []
    before = dict(_defaults(live.parameters, ""))
    return [path for path, text in _defaults(ours.parameters, "") if before.get(path) != text]


def _parts(text: str) -> list[str]:
    return _SEPARATOR.split(text.strip())


def _defaults(schema: Any, path: str) -> Iterator[tuple[str, str]]:
    if not isinstance(schema, dict):
        return
    if isinstance(schema.get("default"), str):
        yield path, schema["default"]
    for place, child in children(schema):
        name = place.rpartition("/")[2] if place.startswith("properties/") else place
        yield from _defaults(child, f"{path}.{name}" if path else name)


def _ordered(definition: Definition) -> Definition:
    return dataclasses.replace(definition, parameters=_with_ordered_defaults(definition.parameters))


def _with_ordered_defaults(schema: Any) -> Any:
    """A copy whose default texts are sorted; only for comparing, since a list stands in each one's place."""
    if isinstance(schema, list):
        return [_with_ordered_defaults(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: _with_ordered_defaults(one) for key, one in schema.items()}
    if isinstance(schema.get("default"), str):
        made["default"] = sorted(_parts(schema["default"]))
    return made
