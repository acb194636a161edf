# SPDX-License-Identifier: Apache-2.0
"""JSON values in one canonical form, and the hashes of a schema's contract and of its wording.

Imports the standard library only.
"""

from __future__ import annotations

import collections.abc
import enum
import hashlib
import json
from collections.abc import Callable, Iterator
from typing import Any, Final

__all__ = ["as_json", "canonical", "children", "contract", "digest", "name_definitions", "wording"]

_WORDING: Final = frozenset({"title", "description", "examples", "example", "$comment"})
_NAMED: Final = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
_LISTED: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
_SINGLE: Final = (
    *("items", "additionalProperties", "unevaluatedProperties", "unevaluatedItems", "contains"),
    *("contentSchema", "propertyNames", "not", "if", "then", "else"),
)
_UNORDERED: Final = frozenset({"anyOf", "oneOf", "allOf", "enum", "required", "type"})
_PLACES: Final = ("$defs", "definitions")


def as_json(value: Any) -> Any:
    """A value as JSON carries it, by value: an enum member is its value, a set is a sorted list.

    Raises:
        Exception: of any kind, for what JSON cannot carry. Iterators are refused, not consumed.
    """
    if value is None or isinstance(value, enum.Enum):
        return None if value is None else as_json(value.value)
    if isinstance(value, (bool, int, float, str)):
        return value if type(value) in (bool, int, float, str) else _plain_scalar(value)
    if isinstance(value, dict):
        return {_key(key): as_json(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_json(one) for one in value]
    if isinstance(value, collections.abc.Set):
        return sorted((as_json(one) for one in value), key=canonical)
    if isinstance(value, collections.abc.Iterator):
        raise TypeError(f"{type(value).__name__} is an iterator")
    import pydantic_core

    return pydantic_core.to_jsonable_python(value)


def canonical(value: Any) -> str:
    """Canonical JSON text: keys sorted, no spaces; NaN and infinities raise ValueError."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(value: Any) -> str:
    """The SHA-256 of a JSON value's canonical text, in hex."""
    return hashlib.sha256(canonical(value).encode("utf-8", "surrogatepass")).hexdigest()


def children(schema: Any) -> Iterator[tuple[str, Any]]:
    """The direct subschemas of a schema, each with its place in it, keys in sorted order."""
    if not isinstance(schema, dict):
        return
    for keyword in sorted(schema):
        held = schema[keyword]
        if keyword in _NAMED and isinstance(held, dict):
            yield from ((f"{keyword}/{name}", held[name]) for name in sorted(held))
        elif keyword in _LISTED and isinstance(held, list):
            yield from ((f"{keyword}/{index}", one) for index, one in enumerate(held))
        elif keyword in _SINGLE and isinstance(held, dict):
            yield keyword, held


def name_definitions(schema: dict[str, Any], name_of: Callable[[str, Any, int], str]) -> dict[str, Any]:
    """The same schema with its ``$defs`` renamed in the order in which a sorted walk meets them.

    Args:
        schema: a schema whose definitions are at the root; it is not changed.
        name_of: the new name, from the old one, the definition and its position. A name that is taken
            gets a number.
    """
    schema = _copy(schema)
    place = next((place for place in _PLACES if isinstance(schema.get(place), dict)), None)
    if place is None:
        return schema
    old = schema.pop(place)
    new: dict[str, Any] = {}
    renamed: dict[str, str] = {}

    def visit(node: Any) -> None:
        for _, child in children(node):
            visit(child)
        reference = node.get("$ref") if isinstance(node, dict) else None
        prefix = f"#/{place}/"
        if isinstance(reference, str) and reference.startswith(prefix):
            name = reference[len(prefix) :].replace("~1", "/").replace("~0", "~")
            if name in old:
                node["$ref"] = prefix + take(name).replace("~", "~0").replace("/", "~1")
        mapping = _mapping(node)
        for value, target in sorted(mapping.items()):
            if isinstance(target, str) and target.startswith(prefix) and target[len(prefix) :] in old:
                mapping[value] = prefix + take(target[len(prefix) :])

    def take(name: str) -> str:
        if name not in renamed:
            wanted = found = name_of(name, old[name], len(renamed))
            taken = set(renamed.values())
            number = 2
            while found in taken:
                found, number = f"{wanted}_{number}", number + 1
            renamed[name] = found
            visit(old[name])
            new[found] = old[name]
        return renamed[name]

    visit(schema)
    for name in sorted(old):
        take(name)
    schema[place] = new
    return schema


def contract(schema: dict[str, Any] | None) -> Any:
    """What a schema demands, in one form for all schemas that demand the same: no wording, sets sorted."""
    if schema is None:
        return None
    return _bare(name_definitions(schema, lambda _name, _definition, position: f"d{position}"))


def wording(schema: dict[str, Any] | None) -> list[list[Any]]:
    """Every text of a schema that a model or a person reads, with the place where it stands."""
    if schema is None:
        return []
    found: list[list[Any]] = []

    def visit(node: Any, path: str) -> None:
        if isinstance(node, dict):
            found.extend([path, keyword, node[keyword]] for keyword in sorted(_WORDING & node.keys()))
        for pointer, child in children(node):
            visit(child, f"{path}/{pointer}")

    visit(name_definitions(schema, lambda _name, _definition, position: f"d{position}"), "")
    return found


def _bare(node: Any) -> Any:
    if not isinstance(node, dict):
        return node
    node = {keyword: held for keyword, held in node.items() if keyword not in _WORDING}
    for keyword in _NAMED:
        if isinstance(node.get(keyword), dict):
            node[keyword] = {name: _bare(one) for name, one in node[keyword].items()}
    for keyword in _LISTED:
        if isinstance(node.get(keyword), list):
            node[keyword] = [_bare(one) for one in node[keyword]]
    for keyword in _SINGLE:
        if keyword in node:
            node[keyword] = _bare(node[keyword])
    if "const" in node:
        node["enum"] = [node.pop("const")]
    for keyword in _UNORDERED & node.keys():
        if isinstance(node[keyword], list):
            node[keyword] = sorted(node[keyword], key=canonical)
    if node.get("required") == []:
        del node["required"]
    return node


def _mapping(node: Any) -> dict[str, Any]:
    found = node.get("discriminator") if isinstance(node, dict) else None
    found = found.get("mapping") if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(one) for key, one in value.items()}
    return [_copy(one) for one in value] if isinstance(value, list) else value


def _plain_scalar(value: bool | int | float | str) -> Any:
    kind: Any = next(kind for kind in (bool, int, float, str) if isinstance(value, kind))
    return kind.__str__(value) if kind is str else kind(value)


def _key(key: Any) -> str:
    plain = as_json(key)
    return plain if isinstance(plain, str) else json.dumps(plain)
