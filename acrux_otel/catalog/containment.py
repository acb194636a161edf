# SPDX-License-Identifier: Apache-2.0
"""Whether one JSON Schema accepts everything that another accepts.

Only what can be proved counts: a keyword that is not understood here must be the same on both sides.
Defaults and wording do not matter. That a schema does not forbid other properties is no promise: it says
nothing about a property that nobody has named yet. Only an argument that names none takes any.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from acrux_otel.definition.fingerprint import canonical

__all__ = ["gaps"]

_SILENT: Final = frozenset(
    ("title", "description", "examples", "example", "default", "deprecated", "readOnly", "writeOnly")
) | frozenset(("$comment", "$id", "$schema", "$anchor", "$defs", "definitions", "nullable"))
_TYPES: Final = ("null", "boolean", "integer", "number", "string", "array", "object")
_OF_TYPE: Final = {
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "string": ("minLength", "maxLength", "pattern", "format", "contentEncoding", "contentMediaType"),
    "array": (
        "minItems",
        "maxItems",
        "uniqueItems",
        "contains",
        "minContains",
        "maxContains",
        "unevaluatedItems",
    ),
    "object": (
        *("minProperties", "maxProperties", "patternProperties", "propertyNames", "dependentRequired"),
        *("dependentSchemas", "dependencies", "unevaluatedProperties"),
    ),
}
_ANY_TYPE: Final = ("not", "if", "then", "else", "$dynamicRef", "$recursiveRef", "contentSchema")
# keyword -> (what its absence means, whether a smaller value accepts more)
_BOUNDS: Final = {
    "minLength": (0, True),
    "minItems": (0, True),
    "minProperties": (0, True),
    "maxLength": (float("inf"), False),
    "maxItems": (float("inf"), False),
    "maxProperties": (float("inf"), False),
}
_STEPS: Final = 20_000
_DEPTH: Final = 60
_SHOWN: Final = 80
_TOO_LARGE: Final = "too large or too deep to compare"


def gaps(wide: Any, narrow: Any, where: str, *, arguments: bool) -> list[str]:
    """Why ``wide`` may refuse something that ``narrow`` accepts; empty where it accepts it all.

    Args:
        wide: for arguments the new schema, for results the old one.
        narrow: the other.
        where: how the lines name the root.
        arguments: whether it is about arguments, where a named property that is gone is a gap too.

    Returns:
        Lines that tell the change, old value before new.
    """
    try:
        comparison = _Comparison(wide, narrow, where, arguments)
        return list(dict.fromkeys(comparison.gaps(wide, narrow, where, 0)))
    except _NotComparable as why:
        return [f"{where}: {why}"]
    except Exception:  # a catalog takes any object as a schema
        return [f"{where}: not a JSON Schema that can be compared"]


class _NotComparable(Exception):
    pass


class _Comparison:
    def __init__(self, wide: Any, narrow: Any, where: str, arguments: bool) -> None:
        self._wide, self._narrow, self._where, self._arguments = wide, narrow, where, arguments
        self._assumed: set[tuple[int, int]] = set()
        self._kept: list[Any] = []  # keeps the ids in `_assumed` from being used again
        self._texts: dict[int, tuple[Any, str]] = {}  # the schema keeps its id from being used again
        self._same_definitions: bool | None = None
        self._steps = 0

    def gaps(self, wide: Any, narrow: Any, path: str, depth: int) -> list[str]:
        self._steps += 1
        if self._steps > _STEPS or depth > _DEPTH:
            raise _NotComparable(_TOO_LARGE)
        pair = (id(wide), id(narrow))
        if pair in self._assumed:
            return []  # a recursive schema meets itself: as good as what is found outside of it
        if self._text(wide) == self._text(narrow) and self._same_references(self._text(wide)):
            return []
        self._assumed.add(pair)
        self._kept += (wide, narrow)
        try:
            return self._compare(
                _resolved(wide, self._wide), _resolved(narrow, self._narrow), path, depth + 1
            )
        finally:
            self._assumed.discard(pair)

    def _compare(self, wide: Any, narrow: Any, path: str, depth: int) -> list[str]:
        if wide is True or wide == {} or narrow is False:
            return []
        if wide is False:
            return [self._told(path, "", "nothing", "something")]
        if narrow is True:
            narrow = {}
        values = _values(narrow)
        if values is not None:
            return self._refused_values(wide, values, path)
        narrower = self._split(narrow)
        if narrower is not None:
            return [gap for one in narrower for gap in self.gaps(wide, one, path, depth)]
        if "allOf" in narrow:
            merged = _merged(narrow, self._narrow)
            if merged is not None:
                return self.gaps(wide, merged, path, depth)
            parts = [*narrow["allOf"], _without(narrow, "allOf")]
            return min((self.gaps(wide, one, path, depth) for one in parts), key=len)
        if "allOf" in wide:
            merged = _merged(wide, self._wide)
            if merged is not None:
                return self.gaps(merged, narrow, path, depth)
        return self._compare_parts(wide, narrow, path, depth)

    def _compare_parts(self, wide: Any, narrow: Any, path: str, depth: int) -> list[str]:
        found: list[str] = []
        for one in wide.get("allOf", ()):
            found += self.gaps(one, narrow, path, depth)
        for keyword in ("anyOf", "oneOf"):
            if keyword in wide:
                exclusive = keyword == "oneOf" and "discriminator" not in wide
                found += self._alternatives(wide[keyword], exclusive, narrow, path, depth)
        accepted = _listed(wide)
        if accepted is not None:
            return [*found, self._told(path, "", f"one of {_short(accepted)}", _kind(narrow))]
        found += self._types(wide, narrow, path)
        kind = narrow.get("type")
        for group, keywords in _OF_TYPE.items():
            if kind is None or kind == group or (kind == "integer" and group == "number"):
                for keyword in keywords:
                    found += self._keyword(keyword, wide, narrow, path)
        for keyword in _ANY_TYPE:
            found += self._keyword(keyword, wide, narrow, path)
        if kind in (None, "array"):
            found += self._items(wide, narrow, path, depth)
        if kind in (None, "object"):
            found += self._properties(wide, narrow, path, depth)
        return found

    # -- taking schemas apart ------------------------------------------------------------------------

    def _split(self, narrow: Mapping[str, Any]) -> list[Any] | None:
        """The schemas of which a value matches one, where that is how ``narrow`` says it."""
        for keyword in ("anyOf", "oneOf"):
            if keyword in narrow:
                rest = _without(_without(narrow, keyword), "discriminator")
                return [{"allOf": [one, rest]} if rest else one for one in narrow[keyword]]
        kinds = narrow.get("type")
        if isinstance(kinds, list):
            return [{**narrow, "type": kind} for kind in kinds]
        return None

    def _alternatives(
        self, branches: list[Any], exclusive: bool, narrow: Any, path: str, depth: int
    ) -> list[str]:
        tried = [self.gaps(one, narrow, path, depth) for one in branches]
        if all(tried):
            closest = min(tried, key=len, default=[])
            return closest if len(branches) == 1 else [self._told(path, "", *self._named(branches, narrow))]
        if exclusive and (sum(not gap for gap in tried) > 1 or self._overlaps(branches)):
            return [f"{path}: more than one alternative of oneOf may match"]
        return []

    def _named(self, branches: list[Any], narrow: Any) -> tuple[str, str]:
        kinds = [_kind(_resolved(one, self._wide)) for one in branches]
        return " or ".join(dict.fromkeys(kinds)), _kind(narrow)

    def _overlaps(self, branches: list[Any]) -> bool:
        plain = [_resolved(one, self._wide) for one in branches]
        return any(
            not _disjoint(one, other, self._wide)
            for index, one in enumerate(plain)
            for other in plain[index + 1 :]
        )

    # -- one kind of keyword each ----------------------------------------------------------------------

    def _refused_values(self, wide: Any, values: list[Any], path: str) -> list[str]:
        refused = [value for value in values if not self._accepts(wide, value)]
        if not refused:
            return []
        if self._arguments:
            return [f"{path}: {_short(refused)} no longer accepted"]
        return [f"{path}: {_short(refused)} may be given now"]

    def _accepts(self, schema: Any, value: Any) -> bool:
        import jsonschema
        import referencing.jsonschema

        root = jsonschema.Draft202012Validator(self._wide, registry=referencing.jsonschema.EMPTY_REGISTRY)
        try:
            return root.evolve(schema=schema).is_valid(value)
        except Exception:
            return False

    def _types(self, wide: Any, narrow: Any, path: str) -> list[str]:
        if "type" not in wide:
            return []
        accepted = wide["type"] if isinstance(wide["type"], list) else [wide["type"]]
        kind = narrow.get("type")
        if kind in accepted or (kind == "integer" and "number" in accepted):
            return []
        if kind is None and {*_TYPES} - {"integer"} <= {*accepted}:
            return []
        return [self._told(path, "", " or ".join(map(str, accepted)), kind or "anything")]

    def _keyword(self, keyword: str, wide: Any, narrow: Any, path: str) -> list[str]:
        if keyword not in wide:
            return []
        mine, theirs = wide[keyword], narrow.get(keyword)
        if (
            keyword in narrow
            and canonical(mine) == canonical(theirs)
            and self._same_references(canonical(mine))
        ):
            return []
        if _looser(keyword, mine, theirs, narrow):
            return []
        return [self._told(path, keyword, _short(mine), "none" if theirs is None else _short(theirs))]

    def _text(self, schema: Any) -> str:
        """The schema's canonical text, made once for each object."""
        kept = self._texts.get(id(schema))
        if kept is None:
            kept = self._texts[id(schema)] = (schema, canonical(schema))
        return kept[1]

    def _same_references(self, text: str) -> bool:
        if '"$ref"' not in text:
            return True
        if self._same_definitions is None:
            ours, theirs = canonical(_definitions(self._wide)), canonical(_definitions(self._narrow))
            self._same_definitions = ours == theirs and '"$ref":"#"' not in text
        return self._same_definitions

    def _items(self, wide: Any, narrow: Any, path: str, depth: int) -> list[str]:
        if not {"items", "prefixItems"} & {*wide}:
            return []
        mine, theirs = wide.get("prefixItems", []), narrow.get("prefixItems", [])
        longest = narrow.get("maxItems", float("inf"))
        found = []
        for index in range(max(len(mine), len(theirs))):
            if index < longest:
                found += self.gaps(
                    mine[index] if index < len(mine) else wide.get("items", True),
                    theirs[index] if index < len(theirs) else narrow.get("items", True),
                    f"{path}[{index}]",
                    depth,
                )
        if longest > max(len(mine), len(theirs)):
            found += self.gaps(wide.get("items", True), narrow.get("items", True), f"{path}[]", depth)
        return found

    def _properties(self, wide: Any, narrow: Any, path: str, depth: int) -> list[str]:
        found = []
        if self._arguments and path != self._where and _takes_any_names(narrow):
            narrow = {**narrow, "additionalProperties": True}
        required = {*narrow.get("required", ())}
        mine, theirs = wide.get("properties", {}), narrow.get("properties", {})
        for name in sorted({*wide.get("required", ())} - required, key=str):
            if self._arguments:
                found.append(f"{path}.{name}: now required")
            elif name in theirs or name not in mine:
                found.append(f"{path}.{name}: no longer always there")
        others = wide.get("additionalProperties", True)
        for name in sorted({*mine, *theirs}, key=str):
            there = f"{path}.{name}"
            if name not in theirs:
                if narrow.get("additionalProperties", False) is not False:
                    found += self.gaps(mine[name], narrow["additionalProperties"], there, depth)
                elif not self._arguments:
                    found.append(f"{there}: removed")
            elif name in mine:
                found += self.gaps(mine[name], theirs[name], there, depth)
            elif self._arguments and (others is False or _names_all(wide)):
                found.append(f"{there}: removed")
            else:
                found += self.gaps(others, theirs[name], there, depth)
        if "additionalProperties" in wide and ("additionalProperties" in narrow or not self._arguments):
            rest = narrow.get("additionalProperties", True)
            if others is False and rest is not False:
                found.append(
                    f"{path}: other names {'no longer accepted' if self._arguments else 'may come now'}"
                )
            else:
                found += self.gaps(others, rest, f"{path}.*", depth)
        return found

    def _told(self, path: str, keyword: str, wide: str, narrow: str) -> str:
        old, new = (narrow, wide) if self._arguments else (wide, narrow)
        return f"{path}: {keyword} {old} -> {new}" if keyword else f"{path}: {old} -> {new}"


def _resolved(schema: Any, root: Any) -> Any:
    """The schema without its reference and without what constrains nothing."""
    for _ in range(_DEPTH):
        if not isinstance(schema, Mapping):
            return schema
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return {key: value for key, value in schema.items() if key not in _SILENT}
        target = _lookup(reference, root)
        rest = {key: value for key, value in schema.items() if key not in _SILENT and key != "$ref"}
        if not rest:
            schema = target
            continue
        return {"allOf": [target, rest]}
    raise _NotComparable(_TOO_LARGE)


def _merged(schema: Mapping[str, Any], root: Any) -> dict[str, Any] | None:
    """The parts of an ``allOf`` as one schema; None where they speak of the same thing differently."""
    made: dict[str, Any] = {}
    for part in (*schema["allOf"], _without(schema, "allOf")):
        part = _resolved(part, root)
        if not isinstance(part, Mapping):
            if part is False:
                return {"enum": []}
            continue
        for keyword, value in part.items():
            if keyword not in made or canonical(made[keyword]) == canonical(value):
                made[keyword] = value
            elif keyword == "required":
                made[keyword] = [*made[keyword], *value]
            elif keyword == "properties" and not set(made[keyword]) & set(value):
                made[keyword] = {**made[keyword], **value}
            else:
                return None
    return made


def _lookup(reference: str, root: Any) -> Any:
    nowhere = _NotComparable(f"cannot be compared: $ref {reference[:_SHOWN]!r} points to nothing in it")
    found = root
    if not reference.startswith("#"):
        raise nowhere
    for part in filter(None, reference[1:].split("/")):
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping) and name in found:
            found = found[name]
        elif isinstance(found, list) and name.isdigit() and int(name) < len(found):
            found = found[int(name)]
        else:
            raise nowhere
    return found


def _definitions(root: Any) -> Any:
    return [root.get("$defs"), root.get("definitions")] if isinstance(root, Mapping) else []


def _listed(schema: Any) -> list[Any] | None:
    if "const" in schema:
        return [schema["const"]]
    return list(schema["enum"]) if isinstance(schema.get("enum"), list) else None


def _values(schema: Any) -> list[Any] | None:
    """All values that can match, where the schema lists them or there are only a few."""
    listed = _listed(schema)
    if listed is not None:
        return listed
    few: dict[object, list[Any]] = {"null": [None], "boolean": [False, True]}
    return few.get(str(schema.get("type")))


def _without(schema: Mapping[str, Any], keyword: str) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key != keyword}


def _disjoint(one: Any, other: Any, root: Any) -> bool:
    if not isinstance(one, Mapping) or not isinstance(other, Mapping):
        return one is False or other is False
    mine, theirs = _values(one), _values(other)
    if mine is not None and theirs is not None:
        return not {canonical(value) for value in mine} & {canonical(value) for value in theirs}
    kinds, other_kinds = _kinds(one), _kinds(other)
    if kinds and other_kinds and not kinds & other_kinds:
        return True
    shared = {*one.get("required", ())} & {*other.get("required", ())}
    return any(
        _disjoint(_resolved(one["properties"][name], root), _resolved(other["properties"][name], root), root)
        for name in shared
        if name in one.get("properties", {})
        and name in other.get("properties", {})
        and _values(_resolved(one["properties"][name], root)) is not None
    )


def _names_all(schema: Mapping[str, Any]) -> bool:
    """Whether an object's properties are all that it is meant to have; alternatives name their own."""
    return not {"additionalProperties", "anyOf", "oneOf", "allOf"} & {*schema}


def _takes_any_names(schema: Mapping[str, Any]) -> bool:
    named = {"properties", "patternProperties", "additionalProperties"} & {*schema}
    return schema.get("type") == "object" and not any(schema[keyword] != {} for keyword in named)


def _kinds(schema: Mapping[str, Any]) -> set[str]:
    kinds = schema.get("type", [])
    made = {kinds} if isinstance(kinds, str) else {*kinds}
    return made | {"integer"} if "number" in made else made


def _looser(keyword: str, wide: Any, narrow: Any, schema: Mapping[str, Any]) -> bool:
    """Whether a keyword's value accepts all that ``schema``, where it has the value ``narrow``, accepts."""
    if keyword in _BOUNDS:
        absent, smaller = _BOUNDS[keyword]
        limit = narrow if isinstance(narrow, (int, float)) else absent
        return isinstance(wide, (int, float)) and (wide <= limit if smaller else wide >= limit)
    if keyword in ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"):
        return _bounded(keyword, wide, schema)
    if keyword == "multipleOf":
        return _divides(wide, narrow, schema.get("type"))
    return keyword == "uniqueItems" and wide is False


def _bounded(keyword: str, limit: Any, narrow: Mapping[str, Any]) -> bool:
    """Whether ``narrow`` stays within one bound of a number."""
    low = keyword in ("minimum", "exclusiveMinimum")
    sign = 1 if low else -1
    if isinstance(limit, bool) or not isinstance(limit, (int, float)):
        return False
    for name in ("minimum", "exclusiveMinimum") if low else ("maximum", "exclusiveMaximum"):
        found = narrow.get(name)
        if isinstance(found, bool) or not isinstance(found, (int, float)):
            continue
        if sign * found > sign * limit:
            return True
        if found == limit and (name.startswith("exclusive") or not keyword.startswith("exclusive")):
            return True
    return False


def _divides(wide: Any, narrow: Any, kind: Any) -> bool:
    if wide == 1 and kind == "integer":
        return True
    return isinstance(wide, int) and isinstance(narrow, int) and wide > 0 and narrow % wide == 0


def _kind(schema: Any) -> str:
    if not isinstance(schema, Mapping):
        return "anything" if schema else "nothing"
    values = _listed(schema)
    if values is not None:
        return f"one of {_short(values)}"
    kinds = schema.get("type", "anything")
    return kinds if isinstance(kinds, str) else " or ".join(map(str, kinds))


def _short(value: Any) -> str:
    made = canonical(value)
    return made if len(made) <= _SHOWN else f"{made[:_SHOWN]}…"
