# SPDX-License-Identifier: Apache-2.0
"""What kind of change one definition is to another."""

from __future__ import annotations

import dataclasses
import enum
from typing import Annotated, Any, Literal

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from acrux_otel.catalog import Change, Definition, compare, drift
from acrux_otel.definition import ToolAnnotations, define

NONE, DESCRIPTION, COMPATIBLE, BREAKING = Change


class Node(BaseModel):
    value: int
    children: list[Node] = []


class Wider(BaseModel):
    value: int | str
    children: list[Wider] = []


class Narrower(BaseModel):
    value: Literal[1, 2]
    children: list[Narrower] = []


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]


class Fish(BaseModel):
    kind: Literal["fish"]


class Unit(enum.Enum):
    C = "c"
    F = "f"


def _parameters(hint: Any, *default: Any) -> Any:
    """A tool with one parameter of that type."""

    def tool(x): ...

    tool.__annotations__["x"] = hint
    if default:
        tool.__defaults__ = default
    return define(tool)


def _results(hint: Any) -> Any:
    def tool(): ...

    tool.__annotations__["return"] = hint
    return define(tool)


def _arguments(**properties: Any) -> Definition:
    required = properties.pop("required", [])
    return Definition("t", {"type": "object", "properties": properties, "required": required})


A = {"type": "string"}
FREE = {"type": "object"}


@pytest.mark.parametrize(
    ("old", "new", "change"),
    [
        (_arguments(a=A), _arguments(a=A), NONE),
        (_arguments(a=A), _arguments(a=A, b=A), COMPATIBLE),
        (_arguments(a=A), _arguments(a=A, b=A, required=["b"]), BREAKING),
        (_arguments(a=A), _arguments(a=A, required=["a"]), BREAKING),
        (_arguments(a=A, required=["a"]), _arguments(a=A), COMPATIBLE),
        (_arguments(a=A, b=A), _arguments(a=A), BREAKING),
        (_arguments(a=A), _arguments(a={**A, "description": "which"}), DESCRIPTION),
        (_arguments(a=A), _arguments(a={**A, "default": "x"}), COMPATIBLE),
        (_arguments(a=A), _arguments(a={"type": ["string", "null"]}), COMPATIBLE),
        (_arguments(a={"type": ["string", "null"]}), _arguments(a=A), BREAKING),
        (_arguments(a={**A, "maxLength": 9}), _arguments(a={**A, "maxLength": 10}), COMPATIBLE),
        (_arguments(a={**A, "maxLength": 9}), _arguments(a={**A, "maxLength": 8}), BREAKING),
        (_arguments(a=A), _arguments(a={**A, "pattern": "^a"}), BREAKING),
        (_arguments(a=A), _arguments(a={**A, "format": "date"}), BREAKING),
        (_arguments(a=FREE), _arguments(a={**FREE, "additionalProperties": False}), BREAKING),
        (_arguments(a=FREE), _arguments(a={**FREE, "additionalProperties": {"type": "integer"}}), BREAKING),
        (_arguments(a=FREE), _arguments(a={**FREE, "properties": {"k": A}}), BREAKING),
        (_arguments(a={**FREE, "properties": {"k": A}}), _arguments(a=FREE), BREAKING),
        (_arguments(a=FREE), _arguments(a={**FREE, "additionalProperties": True}), COMPATIBLE),
        (_arguments(a={**A, "nullable": True}), _arguments(a=A), BREAKING),
        (_arguments(a=A), _arguments(a={**A, "nullable": True}), COMPATIBLE),
        (Definition("t", {}), _arguments(), COMPATIBLE),
        (Definition("t", {"properties": {"a": A}}), _arguments(a=A), COMPATIBLE),
        (_arguments(), Definition("t", {}), COMPATIBLE),
        (_arguments(a={"const": 1}), _arguments(a={"enum": [1, 2]}), COMPATIBLE),
        (_arguments(a={"const": 1}), _arguments(a={"type": "integer", "minimum": 2}), BREAKING),
    ],
)
def test_arguments_by_the_rules_of_json_schema(old: Definition, new: Definition, change: Change) -> None:
    """Whatever the old one took, the new one must take; a parameter that is gone breaks as well."""
    assert compare(old, new) is change


@pytest.mark.parametrize(
    ("old", "new", "change"),
    [
        (int, float, COMPATIBLE),
        (float, int, BREAKING),
        (int, int | None, COMPATIBLE),
        (int | None, int, BREAKING),
        (Literal["a", "b"], Literal["b", "a", "c"], COMPATIBLE),
        (Literal["a", "b"], Literal["a"], BREAKING),
        (Literal["a"], str, COMPATIBLE),
        (str, Unit, BREAKING),
        (Unit, str, COMPATIBLE),
        (bool, Literal[True], BREAKING),
        (list[int], list[int | str], COMPATIBLE),
        (list[int | str], list[int], BREAKING),
        (list[int], set[int], BREAKING),
        (tuple[int, str], tuple[int, str | None], COMPATIBLE),
        (dict[str, int], dict[str, float], COMPATIBLE),
        (dict[str, Any], dict[str, int], BREAKING),
        (Node, Wider, COMPATIBLE),
        (Wider, Node, BREAKING),
        (Node, Narrower, BREAKING),
        (Node, Node | None, COMPATIBLE),
        (Annotated[Cat | Dog, Field(discriminator="kind")], Cat | Dog | Fish, COMPATIBLE),
        (
            Annotated[Cat | Dog, Field(discriminator="kind")],
            Annotated[Cat | Dog | Fish, Field(discriminator="kind")],
            COMPATIBLE,
        ),
        (Annotated[Cat | Dog | Fish, Field(discriminator="kind")], Cat | Dog, BREAKING),
        (Annotated[int, Field(ge=0, le=10)], Annotated[int, Field(ge=0, le=11)], COMPATIBLE),
        (Annotated[int, Field(ge=0, le=10)], Annotated[int, Field(gt=0, le=10)], BREAKING),
        (Annotated[int, Field(gt=0)], Annotated[int, Field(ge=0)], COMPATIBLE),
        (Annotated[int, Field(multiple_of=4)], Annotated[int, Field(multiple_of=2)], COMPATIBLE),
        (Annotated[int, Field(multiple_of=2)], Annotated[int, Field(multiple_of=4)], BREAKING),
        (Any, int, BREAKING),
        (int, Any, COMPATIBLE),
    ],
    ids=str,
)
def test_the_types_of_parameters_and_the_mirror_for_results(old: Any, new: Any, change: Change) -> None:
    """A type that takes more is compatible as a parameter, and breaks as a result."""
    assert compare(_parameters(old), _parameters(new)) is change
    if change is COMPATIBLE:
        assert compare(_results(new), _results(old)) is COMPATIBLE
        assert compare(_results(old), _results(new)) is BREAKING


class Small(BaseModel):
    a: int
    b: str = ""


class Large(Small):
    c: float = 0.0


class Optional(BaseModel):
    a: int = 0
    b: str = ""


@pytest.mark.parametrize(
    ("old", "new", "change"),
    [
        (Small, Large, COMPATIBLE),
        (Large, Small, BREAKING),
        (Small, Optional, BREAKING),
        (Optional, Small, COMPATIBLE),
    ],
)
def test_a_result_may_gain_a_field_and_lose_none(old: Any, new: Any, change: Change) -> None:
    assert compare(_results(old), _results(new)) is change


def test_a_result_that_may_be_null_now_breaks() -> None:
    """AcruxCore's ``nullable`` says it, and results are checked by it."""
    text, or_null = ({"type": "string"}, {"type": "string", "nullable": True})
    assert compare(Definition("t", {}, result=text), Definition("t", {}, result=or_null)) is BREAKING
    assert compare(Definition("t", {}, result=or_null), Definition("t", {}, result=text)) is COMPATIBLE


def test_a_result_schema_may_come_and_must_not_go() -> None:
    def silent(): ...
    def told() -> int: ...

    assert compare(define(silent), define(told)) is COMPATIBLE
    assert compare(define(told), define(silent)) is BREAKING


@pytest.mark.parametrize(
    ("old", "new", "change"),
    [
        ({}, {"read_only": True}, COMPATIBLE),
        ({"read_only": True}, {}, BREAKING),
        ({"read_only": True}, {"read_only": False}, BREAKING),
        ({"idempotent": True}, {"idempotent": False}, BREAKING),
        ({"destructive": False}, {"destructive": True}, BREAKING),
        ({"open_world": True}, {"open_world": False}, COMPATIBLE),
    ],
)
def test_an_annotation_that_promises_less_breaks(
    old: dict[str, bool], new: dict[str, bool], change: Change
) -> None:
    def tool() -> None: ...

    before = define(tool, annotations=ToolAnnotations(**old))
    after = define(tool, annotations=ToolAnnotations(**new))
    assert compare(before, after) is change


def test_a_new_definition_without_a_description_keeps_the_old_one() -> None:
    old = Definition("t", {}, "Described.")
    assert compare(old, dataclasses.replace(old, description=None)) is NONE
    assert compare(dataclasses.replace(old, description=None), old) is DESCRIPTION
    assert compare(old, dataclasses.replace(old, description="")) is DESCRIPTION


def test_a_difference_tells_where_and_why() -> None:
    def old(city: str, days: int = 1) -> Small: ...
    def new(city: int, days: int) -> Optional: ...

    told = drift(define(old), define(new))
    assert told.breaking == (
        "parameters.days: now required",
        "parameters.city: string -> integer",
        "result.a: no longer always there",
    )
    assert ("parameters.properties.city.type", '"string"', '"integer"') in [
        dataclasses.astuple(each) for each in told.edits
    ]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": []},
        {"required": "a"},
        {"$ref": "#/nowhere"},
        {"$ref": "https://example.com/schema"},
        {"$ref": "#"},
        {"anyOf": []},
        {"anyOf": 3, "oneOf": {}},
        {"properties": {"a": {"$ref": "#/properties/a"}}},
        {"type": "object", "minProperties": "many"},
    ],
    ids=str,
)
def test_what_cannot_be_compared_breaks_and_raises_nothing(schema: Any) -> None:
    """A catalog takes any object as a schema, so anything may stand there."""
    assert compare(Definition("t", {"type": "object"}), Definition("t", schema)) in (BREAKING, COMPATIBLE)
    assert compare(Definition("t", schema), Definition("t", {"type": "string"})) in (BREAKING, COMPATIBLE)


@pytest.mark.parametrize("reference", ["#/$defs/gone", "https://example.com/schema"])
def test_a_reference_to_nothing_is_told(reference: str) -> None:
    schema = {"type": "object", "properties": {"a": {"$ref": reference}}}
    found = drift(Definition("t", {"type": "object", "properties": {"a": {}}}), Definition("t", schema))
    assert found.breaking == (f"parameters: cannot be compared: $ref {reference!r} points to nothing in it",)


def test_a_schema_that_is_too_deep_or_too_large_breaks_in_little_time() -> None:
    deep: dict[str, Any] = {"type": "string"}
    other: dict[str, Any] = {"type": "string", "maxLength": 3}
    for _ in range(100):
        deep = {"type": "object", "properties": {"a": deep}}
        other = {"type": "object", "properties": {"a": other}}
    assert compare(Definition("t", other), Definition("t", deep)) is BREAKING
    wide = {"anyOf": [{"type": "string", "maxLength": number} for number in range(300)]}
    less = {"anyOf": [{"type": "string", "pattern": str(number)} for number in range(300)]}
    assert compare(Definition("t", wide), Definition("t", less)) is BREAKING


def test_only_another_spelling_of_a_schema_is_a_change_of_the_description() -> None:
    """What a model reads changed, what is taken did not."""
    either = [{"type": "string"}, {"type": "null"}]
    assert compare(_arguments(a={"anyOf": either}), _arguments(a={"anyOf": either[::-1]})) is DESCRIPTION


# -- whatever the schemas are ---------------------------------------------------------------------------

_SCALARS = st.one_of(
    st.builds(lambda least: {"type": "integer", "minimum": least}, st.integers(-3, 3)),
    st.builds(lambda most: {"type": "number", "maximum": most}, st.integers(-3, 3)),
    st.builds(lambda most: {"type": "string", "maxLength": most}, st.integers(0, 3)),
    st.builds(
        lambda values: {"enum": values},
        st.lists(st.sampled_from(["a", 1, None, True]), min_size=1, max_size=3),
    ),
    st.sampled_from([{"type": "null"}, {"type": "boolean"}, {}, {"type": ["string", "null"]}, FREE]),
)


def _object(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    # Closed, because that others are not forbidden is no promise here.
    made: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**made, "required": sorted({*required} & {*properties})}


_SCHEMAS = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(
        st.builds(
            _object,
            st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
            st.lists(st.sampled_from("ab"), max_size=2),
        ),
        st.builds(lambda items: {"type": "array", "items": items}, inner),
        st.builds(lambda some: {"anyOf": some}, st.lists(inner, min_size=1, max_size=2)),
        st.builds(lambda some: {"allOf": some}, st.lists(inner, min_size=1, max_size=2)),
    ),
    max_leaves=4,
)
_VALUES = st.recursive(
    st.sampled_from([None, True, False, -4, 0, 1, 2, 4, 0.5, "", "a", "abcd"]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.sampled_from("abc"), inner, max_size=2)
    ),
    max_leaves=4,
)


@settings(max_examples=300, deadline=None)
@given(_SCHEMAS, _SCHEMAS, st.lists(_VALUES, min_size=5, max_size=12))
def test_no_compatible_change_refuses_what_was_taken(old: Any, new: Any, values: list[Any]) -> None:
    """Nor does one give, as a result, what was not given before."""

    def wrapped(schema: Any) -> dict[str, Any]:
        return _object({"x": schema}, ["x"])

    before, after = (jsonschema.Draft202012Validator(schema) for schema in (old, new))
    if compare(Definition("t", wrapped(old)), Definition("t", wrapped(new))) is not BREAKING:
        assert [value for value in values if before.is_valid(value) and not after.is_valid(value)] == []
    given_before = Definition("t", {}, result=wrapped(old))
    given_now = Definition("t", {}, result=wrapped(new))
    if compare(given_before, given_now) is not BREAKING:
        assert [value for value in values if after.is_valid(value) and not before.is_valid(value)] == []


@settings(max_examples=100, deadline=None)
@given(_SCHEMAS)
def test_a_schema_is_no_change_to_itself_and_never_breaks_beside_a_new_option(schema: Any) -> None:
    old = _object({"x": schema}, ["x"])
    new = _object({"x": schema, "y": {"type": "string"}}, ["x"])
    assert compare(Definition("t", old), Definition("t", old)) is NONE
    assert compare(Definition("t", old), Definition("t", new)) is COMPATIBLE
