# SPDX-License-Identifier: Apache-2.0
"""Whether a JSON Schema is one, and whether a result matches it. jsonschema is imported on first use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from acrux_otel.definition.fingerprint import as_json, canonical
from acrux_otel.verdict import warn_once

__all__ = ["check_schema", "mismatch"]

_LIMIT: Final = 500
_SHORT: Final = 80
_KEPT: Final = 256
_TYPES: Final = {
    dict: "object",
    list: "array",
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
}
_validators: dict[int, tuple[Any, Any]] = {}


def check_schema(schema: Any) -> str | None:
    """What is wrong with a JSON Schema (2020-12) given by a user, in one line; None where it is one.

    A ``$ref`` that leaves the schema is wrong: nothing is ever fetched to check a result.
    """
    import jsonschema

    try:
        canonical(schema)
    except (TypeError, ValueError, RecursionError) as error:
        return f"it is not JSON: {_short(error)}"
    try:
        jsonschema.Draft202012Validator.check_schema(schema)
    except jsonschema.SchemaError as error:
        return f"at {_path(error.absolute_path)}: {_short(error.message)}"
    identified = {node["$id"] for node in _nodes(schema) if isinstance(node.get("$id"), str)}
    if identified:
        return None
    for node in _nodes(schema):
        reference = node.get("$ref")
        if isinstance(reference, str) and not _resolves(reference, schema):
            return f"$ref {reference[:_SHORT]!r} points to nothing in it"
    return None


def mismatch(schema: Any, result: Any) -> str | None:
    """Why a result does not match a schema: one line with a path and a reason; None where it does.

    The result is looked at as JSON carries it (models, dataclasses, enums, tuples, dates by their JSON
    form) and is neither changed nor, where it is an iterator, consumed. The line holds no value of the
    result, only property names in its path. A schema that cannot be used (a ``$ref`` to nowhere) matches
    everything, with one warning.
    """
    try:
        plain = as_json(result)
    except Exception as error:
        return f"$: the result is not JSON ({type(error).__name__})"
    try:
        first = next(_validator(schema).iter_errors(plain), None)
        return None if first is None else _line(first)
    except RecursionError:
        return "$: the result is nested too deeply"
    except Exception as error:
        warn_once(
            f"result-schema:{type(error).__name__}:{_short(error)}",
            "a result schema cannot be used and checks nothing (%s: %s)",
            type(error).__name__,
            _short(error),
        )
        return None


def _validator(schema: Any) -> Any:
    kept = _validators.get(id(schema))
    if kept is not None and kept[0] is schema:
        return kept[1]
    import jsonschema
    import referencing.jsonschema

    # An explicit registry, because jsonschema's own default fetches what a $ref names.
    made = jsonschema.Draft202012Validator(schema, registry=referencing.jsonschema.EMPTY_REGISTRY)
    while len(_validators) >= _KEPT:
        _validators.pop(next(iter(_validators)), None)
    _validators[id(schema)] = (schema, made)
    return made


def _line(error: Any) -> str:
    return (
        f"{_path(error.absolute_path)}: {_reason(error)}"[:_LIMIT]
        .encode("utf-8", "replace")[:_LIMIT]
        .decode("utf-8", "ignore")
    )


def _reason(error: Any) -> str:
    keyword, wanted, found = error.validator, error.validator_value, error.instance
    if keyword == "type":
        kinds = " or ".join(wanted) if isinstance(wanted, list) else wanted
        return f"expected {kinds}, got {_TYPES.get(type(found), 'null')}"
    if keyword == "required":
        missing = [name for name in wanted if name not in found]
        return f"{_short(', '.join(map(repr, missing)))} missing"
    if keyword in ("additionalProperties", "unevaluatedProperties") and wanted is False:
        known = error.schema.get("properties", {})
        return f"unexpected {_short(', '.join(repr(name[:_SHORT]) for name in found if name not in known))}"
    if keyword is None:
        return "nothing is allowed here"
    return f"fails {keyword} {_short(canonical(wanted))}"


def _path(parts: Any) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{str(part)[:_SHORT]}" for part in parts)
    return "$" + (text if len(text) <= 2 * _SHORT else f"{text[:_SHORT]}…{text[-_SHORT:]}")


def _nodes(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from _nodes(one)


def _resolves(reference: str, schema: Any) -> bool:
    if not reference.startswith("#"):
        return False
    if not reference.startswith("#/"):
        anchors = {node.get(key) for node in _nodes(schema) for key in ("$anchor", "$dynamicAnchor")}
        return reference == "#" or reference[1:] in anchors
    found = schema
    for part in reference[2:].split("/"):
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict) and name in found:
            found = found[name]
        elif isinstance(found, list) and name.isdigit() and int(name) < len(found):
            found = found[int(name)]
        else:
            return False
    return True


def _short(value: object) -> str:
    try:
        text = " ".join(str(value).split())
    except Exception:
        text = f"<{type(value).__name__}>"
    return text if len(text) <= _SHORT else text[: _SHORT - 1] + "…"
