# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: UP007, UP045 (both spellings of a union are inputs here)
"""What a model is told about a tool: `acrux_otel.definition`."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import functools
import logging
import random
import subprocess
import sys
import textwrap
import threading
import types
import typing
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NoReturn, Optional, TypedDict, TypeVar, Union

import jsonschema
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field
from typing_extensions import NotRequired, Unpack

from acrux_otel import verdict
from acrux_otel.definition import (
    ToolAnnotations,
    ToolDefinition,
    bind_arguments,
    define,
    definition_of,
    validate_result,
)
from acrux_otel.verdict import ToolResult

T = TypeVar("T")


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class P(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Rec(BaseModel):
    a: int
    b: str = "x"


class Node(BaseModel):
    value: int
    children: list[Node] = []


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Place(TypedDict):
    city: str
    at: NotRequired[Point]


class Ctx(Generic[T]): ...


class SubCtx(Ctx[int]): ...


@pytest.fixture(autouse=True)
def _fresh_warnings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdict, "_warned", set())


def schema(fn: Any, **options: Any) -> dict[str, Any]:
    made = define(fn, **options).parameters
    jsonschema.Draft202012Validator.check_schema(made)
    return made


def accepts(made: Any, *values: Any) -> list[bool]:
    validator = jsonschema.Draft202012Validator(made)
    return [validator.is_valid(value) for value in values]


def module(source: str, name: str = "made_up_module") -> Any:
    made = types.ModuleType(name)
    exec(compile(textwrap.dedent(source), f"{name}.py", "exec", dont_inherit=True), vars(made))
    return made


def wrapped(fn: Any) -> Any:
    @functools.wraps(fn)
    def inner(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    return inner


# -- the field reports ---------------------------------------------------------------------------------


def test_a08_a_wrapped_function_has_the_schema_of_the_bare_one() -> None:
    """The contract is the wrapped function's, never ``args`` and ``kwargs``."""

    def f(q: str, limit: int = 5) -> list[str]:
        "Search."
        return [q]

    bare, other = define(f), define(wrapped(f))
    assert other.parameters == bare.parameters
    assert (other.name, other.description, other.result) == ("f", "Search.", bare.result)
    assert other.parameters == {
        "type": "object",
        "properties": {"q": {"type": "string"}, "limit": {"type": "integer", "default": 5}},
        "required": ["q"],
        "additionalProperties": False,
    }


class Box:
    def __init__(self, k: int) -> None:
        self.k = k

    def add(self, x: int) -> int:
        return x + self.k

    @classmethod
    def c(cls, x: int) -> int:
        return x

    @staticmethod
    def s(x: int) -> int:
        return x

    def odd(this, x: int) -> int:
        return x

    def __call__(self, x: int) -> int:
        return x


@pytest.mark.parametrize(
    ("fn", "options"),
    [
        (Box.add, {}),
        (Box(1).add, {}),
        (vars(Box)["c"], {}),
        (Box.c, {}),
        (vars(Box)["c"].__func__, {}),
        (vars(Box)["s"], {}),
        (Box.s, {}),
        (Box(1), {}),
        (wrapped(Box.add), {}),
        (Box.odd, {"skip_first": True}),
        (functools.partial(Box.add, Box(1)), {}),
    ],
)
def test_a09_the_instance_is_no_parameter(fn: Any, options: dict[str, Any]) -> None:
    """Functions, bound methods, class and static methods and callable objects all show only ``x``."""
    made = schema(fn, **options)
    assert (list(made["properties"]), made["required"]) == (["x"], ["x"])


def test_a09_self_is_a_name_like_others_in_a_plain_function() -> None:
    """Only a function written in a class body loses its first parameter, and only a so-named one."""

    def f(self: int) -> int:
        return self

    assert list(schema(f)["properties"]) == ["self"]
    assert bind_arguments(define(f), {"self": 3}) == ((), {"self": 3})
    assert list(schema(Box.odd)["properties"]) == ["this", "x"]
    assert list(schema(Box.add, skip_first=False)["properties"]) == ["self", "x"]


_PAY = """
    {future}
    from typing import Optional, Literal
    from pydantic import BaseModel
    class Wallet(BaseModel):
        cents: int
    def pay(w: Wallet, mode: Literal["a", "b"] = "a", note: Optional[str] = None) -> dict: ...
"""


def test_a10_text_annotations_give_the_same_definition() -> None:
    """With and without the future import, wrapped or not: one schema and one hash."""
    plain = module(_PAY.format(future=""), "plain")
    lazy = module(_PAY.format(future="from __future__ import annotations"), "lazy")
    wanted = define(plain.pay)
    for fn in (lazy.pay, wrapped(wrapped(lazy.pay)), functools.partial(lazy.pay)):
        made = define(fn)
        assert (made.parameters, made.result) == (wanted.parameters, wanted.result)
        assert made.contract_hash == wanted.contract_hash
    assert wanted.parameters["properties"]["w"] == {"$ref": "#/$defs/Wallet"}


def test_a10_a_class_local_to_the_caller_is_found() -> None:
    """A tool defined inside a function may name what is defined there."""

    class Local(BaseModel):
        n: int

    def f(x: Local) -> Local:
        raise AssertionError

    assert schema(f)["properties"] == {"x": {"$ref": "#/$defs/Local"}}


def test_a11_injected_parameters_are_hidden() -> None:
    """The model is never asked for what the program hands in; a mere name is not injected."""

    def f(q: str, ctx: Ctx[int]) -> None: ...
    def g(q: str, ctx: Ctx[int] | None = None) -> None: ...
    def h(q: str, ctx: Annotated[Ctx[str], "injected"]) -> None: ...
    def i(q: str, ctx: SubCtx) -> None: ...
    def j(q: str, ctx=_HANDED_IN) -> None: ...  # type: ignore[no-untyped-def]
    def n(q: str, context: str) -> None: ...

    for fn in (f, g, h, i, j):
        made = schema(fn, inject=(Ctx,))
        assert (set(made["properties"]), made["required"]) == ({"q"}, ["q"])
        assert set(define(fn, inject=Ctx).injected) == {"ctx"}
    assert set(schema(n, inject=(Ctx,))["properties"]) == {"q", "context"}
    assert define(f, inject=Ctx).injected == {"ctx": Ctx[int]}


_HANDED_IN: Any = SubCtx()


def test_a12_descriptions_are_kept_and_field_wins() -> None:
    """Field, then a text in Annotated, then the docstring; the docstring's block is not the summary."""

    def w(
        city: Annotated[str, Field(description="City name")],
        days: Annotated[int, "1..7"] = 3,
        unit: str = "c",
    ) -> None:
        """Get a forecast.
        Args:
            city: ignored, Field wins.
            unit: Temperature unit.
            nobody: an unknown name.
        """

    made = define(w)
    assert made.description == "Get a forecast."
    texts = {name: one.get("description") for name, one in made.parameters["properties"].items()}
    assert texts == {"city": "City name", "days": "1..7", "unit": "Temperature unit."}


@pytest.mark.parametrize(
    "doc",
    [
        "Find it.\n\nIn two parts.\n\nArgs:\n    a: The a.\n        More of it.\n    b (int): The b.\n\n"
        "Returns:\n    dict: what\n\nRaises:\n    KeyError: never",
        "Find it.\n\nIn two parts.\n\nParameters\n----------\na : str\n    The a.\n    More of it.\nb : int\n"
        "    The b.\n\nReturns\n-------\ndict\n    what",
        "Find it.\n\nIn two parts.\n\n:param a: The a.\n    More of it.\n:param int b: The b.\n:returns: what"
        "\n:raises KeyError: never",
    ],
    ids=["google", "numpy", "rest"],
)
def test_a12_each_docstring_style_is_read(doc: str) -> None:
    """The description is short and long part; parameters have their own words, results and errors none."""

    def f(a: str, b: int) -> dict[str, Any]: ...  # type: ignore[empty-body]

    f.__doc__ = doc
    made = define(f)
    assert made.description == "Find it.\n\nIn two parts."
    assert made.parameters["properties"]["a"]["description"] == "The a.\nMore of it."
    assert made.parameters["properties"]["b"]["description"] == "The b."


def test_a12_notes_and_examples_stay_and_nothing_is_invented() -> None:
    """What is said nowhere else stays in the description; without a docstring there is none."""

    def f(a: int) -> None:
        """Short.

        Args:
            a: The a.

        Note:
            Be careful.

        Example:
            f(1)
        """

    def bare(a: int) -> None: ...

    def only_arguments(a: int) -> None:
        """
        Args:
            a: The a.
        """

    assert define(f).description == "Short.\n\nNote:\n    Be careful.\n\nExample:\n    f(1)"
    assert define(bare).description is None
    assert define(only_arguments).description is None
    assert "description" not in define(bare).parameters["properties"]["a"]
    assert define(bare, description="Given.").description == "Given."


@given(st.text(max_size=300), st.sampled_from(["", "Args:\n    a: ", "Parameters\n---\na : ", ":param a: "]))
@settings(max_examples=80, deadline=None)
def test_a12_any_docstring_gives_a_description_or_none(text: str, section: str) -> None:
    """A docstring may be anything; it never costs the tool its definition."""

    def f(a: int) -> None: ...

    f.__doc__ = f"{text}\n\n{section}{text}"
    made = define(f)
    assert made.description is None or made.description.strip()
    assert made.parameters["properties"]["a"]["type"] == "integer"


def test_a13_required_is_about_the_default_not_about_none() -> None:
    """Nullable without a default is required; a default of None is a default."""

    def f(a: int, b: Optional[int], c: int = 3, d: int | None = None, *, e: bool = False) -> None: ...

    made = schema(f)
    assert made["required"] == ["a", "b"]
    properties = made["properties"]
    assert properties["b"] == {"anyOf": [{"type": "integer"}, {"type": "null"}]}
    assert properties["c"] == {"type": "integer", "default": 3}
    assert properties["d"] == {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None}
    assert properties["e"] == {"type": "boolean", "default": False}
    assert accepts(made, {"a": 1, "b": None}, {"a": 1}, {"a": None, "b": 1}, {"a": 1, "b": 1, "zz": 0}) == [
        True,
        False,
        False,
        False,
    ]


def test_a14_enums_and_literals_are_their_values() -> None:
    """Type and enum agree, so that every legal value passes and no other does."""

    def f(
        p: P,
        n: Literal[1, 2],
        b: Literal[True],
        m: Literal["a", 1, None] = "a",
        c: Color = Color.RED,
    ) -> None: ...

    made = schema(f)
    properties = made["properties"]
    assert made["$defs"]["P"] == {"type": "integer", "enum": [1, 2]}
    assert properties["n"] == {"type": "integer", "enum": [1, 2]}
    assert (properties["b"]["type"], properties["b"]["const"]) == ("boolean", True)
    assert properties["m"] == {"enum": ["a", 1, None], "default": "a"}
    assert properties["c"]["default"] == "red"
    good = {"p": 1, "n": 2, "b": True, "m": None, "c": "blue"}
    assert accepts(made, good) == [True]
    bad = [("p", 3), ("p", "LOW"), ("n", "2"), ("b", False), ("b", "true"), ("m", "b"), ("c", "RED")]
    assert accepts(made, *({**good, name: value} for name, value in bad)) == [False] * len(bad)


_STABLE = """
    import random, sys, importlib
    sys.path[:0] = [{root!r}, {folder!r}]
    names = ["made_one", "made_two", "made_three", "json", "pydantic", "acrux_otel.definition"]
    random.Random({seed}).shuffle(names)
    for name in names:
        importlib.import_module(name)
    from acrux_otel.definition import define
    import made_one, made_two, made_three
    for fn in (made_one.q, made_two.f, made_three.f):
        made = define(fn)
        print(made.name, made.contract_hash, made.text_hash)
        import json
        print(json.dumps([made.parameters, made.result]))
"""
_MODULES = {
    "made_one": """
        from typing import Literal, List, Union
        FIELDS = {"status", "summary", "labels", "created"}
        def q(fields: frozenset = frozenset(FIELDS), kind: Literal["x", "y"] = "x") -> List[Union[int, str]]:
            "Query."
    """,
    "made_two": """
        from typing import List, Union, Set
        from dataclasses import dataclass, field
        from pydantic import BaseModel
        import made_three
        class Rec(BaseModel):
            "Ours."
            tags: Set[str] = {"b", "a", "c"}
        def f(x: List[Union[str, int]], one: Rec, two: made_three.Rec) -> List[Union[str, int]]:
            "Two recs."
    """,
    "made_three": """
        import enum
        from pydantic import BaseModel, Field
        class Kind(enum.Enum):
            A = "a"
        class Rec(BaseModel):
            kind: Kind = Kind.A
            n: int = Field(ge=1, title="Kept")
        def f(r: Rec, s: set = {"z", "y"}, kinds: frozenset = frozenset(Kind)): ...
    """,
}


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    for name, source in _MODULES.items():
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(source))
    return tmp_path


def test_a15_definitions_are_the_same_in_every_process(modules: Path) -> None:
    """Hash seed and import order change neither the schemas' text nor the hashes."""
    root = str(Path(__file__).parent.parent)
    printed = set()
    for seed in range(5):
        script = textwrap.dedent(_STABLE.format(root=root, folder=str(modules), seed=seed))
        done = subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONHASHSEED": str(seed), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert done.stderr == ""
        printed.add(done.stdout)
    assert len(printed) == 1
    assert [line.split()[0] for line in printed.pop().splitlines()[::2]] == ["q", "f", "f"]


def test_a15_a_set_default_is_sorted_also_when_its_values_do_not_compare() -> None:
    """A default is published by value, in one order."""

    def f(a: set[Any] = {3, "x", None, Color.RED}, b: tuple[Any, ...] = (1, frozenset("ba"))) -> None: ...  # noqa: B006

    made = schema(f)["properties"]
    assert made["a"]["default"] == ["red", "x", 3, None]
    assert made["b"]["default"] == [1, ["a", "b"]]


def test_a15_a_default_that_is_not_json_is_left_out_and_reported_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It stays optional; nothing of the process (an address, an order) gets into the schema."""
    rows = iter([1, 2])

    def f(a: Any = object(), b: Any = rows, c: float = float("nan"), d: Any = print) -> None: ...  # noqa: B008

    with caplog.at_level(logging.WARNING, "acrux_otel"):
        made = schema(f, name="odd_defaults")
        schema(f, name="odd_defaults")
    assert not any("default" in one for one in made["properties"].values())
    assert "required" not in made
    assert len(caplog.records) == 4
    assert list(rows) == [1, 2]


def twins() -> tuple[type, type]:
    def make(field: str) -> type:
        class Rec(BaseModel):
            pass

        return pydantic.create_model("Rec", **{field: (int, ...)})  # type: ignore[call-overload, no-any-return]

    return make("left"), make("right")


def references(node: Any) -> list[str]:
    if isinstance(node, dict):
        own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
        return own + [one for value in node.values() for one in references(value)]
    return [one for value in node for one in references(value)] if isinstance(node, list) else []


def test_r06_every_reference_resolves_from_the_root() -> None:
    """Definitions stand at the root, recursion stays a reference, nothing is inlined without end."""

    def f(r: list[Rec], m: dict[str, Rec], t: tuple[Rec, Rec], n: Node) -> None: ...

    made = schema(f)
    assert set(made["$defs"]) == {"Rec", "Node"}
    assert set(references(made)) == {"#/$defs/Rec", "#/$defs/Node"}
    good = {
        "r": [{"a": 1}],
        "m": {"k": {"a": 2}},
        "t": [{"a": 3}, {"a": 4}],
        "n": {"value": 1, "children": [{"value": 2, "children": []}]},
    }
    deep_wrong = {**good, "n": {"value": 1, "children": [{"value": "no"}]}}
    assert accepts(made, good, deep_wrong, {**good, "t": [{"a": 3}]}, {**good, "m": {"k": 1}}) == [
        True,
        False,
        False,
        False,
    ]


def test_r06_two_classes_of_one_name_are_told_apart_stably() -> None:
    """Names follow the parameters' names, not modules, ids or the order of import."""
    left, right = twins()

    def f(a: Any, b: Any) -> None: ...

    f.__annotations__.update(a=left, b=right)
    made = schema(f)
    assert set(made["$defs"]) == {"Rec", "Rec_2"}
    assert made["properties"] == {"a": {"$ref": "#/$defs/Rec"}, "b": {"$ref": "#/$defs/Rec_2"}}
    assert list(made["$defs"]["Rec"]["properties"]) == ["left"]
    other_left, other_right = twins()

    def g(b: Any, a: Any) -> None: ...

    g.__annotations__.update(a=other_left, b=other_right)
    assert schema(g)["$defs"] == made["$defs"]
    assert define(g).contract_hash == define(f).contract_hash


def test_r06_the_body_receives_instances() -> None:
    """Models, dataclasses, enums and dates arrive as what the signature says, TypedDicts coerced inside."""

    def f(
        r: list[Rec], n: Node, p: Point, w: Place, t: tuple[Rec, Color], *, day: datetime.date, s: set[int]
    ) -> None: ...

    arguments = {
        "r": [{"a": "1"}],
        "n": {"value": 1, "children": [{"value": 2}]},
        "p": {"x": 1},
        "w": {"city": "x", "at": {"x": 2, "y": 3}},
        "t": [{"a": 1}, "blue"],
        "day": "2026-01-02",
        "s": [1, 1, 2],
    }
    args, kwargs = bind_arguments(define(f), arguments)
    assert args == ()
    assert kwargs == {
        "r": [Rec(a=1)],
        "n": Node(value=1, children=[Node(value=2)]),
        "p": Point(1),
        "w": {"city": "x", "at": Point(2, 3)},
        "t": (Rec(a=1), Color.BLUE),
        "day": datetime.date(2026, 1, 2),
        "s": {1, 2},
    }


# -- the schema ----------------------------------------------------------------------------------------


def test_every_constraint_is_kept() -> None:
    """What pydantic knows of a type or field, the model is told."""

    def f(
        a: Annotated[int, Field(ge=1, le=7, multiple_of=2)],
        b: Annotated[str, Field(min_length=2, max_length=4, pattern="^(?=a)")],
        c: Annotated[list[int], Field(min_length=1)],
        d: Annotated[str, Field(title="Kept", examples=["x"])],
        e: uuid.UUID,
        g: Annotated[Union[Rec, Point], Field(description="either")],
        h: int = Field(3, ge=1, description="H", alias="zz"),
        i: list[str] = Field(default_factory=list),  # noqa: B008
    ) -> None: ...

    made = schema(f)
    properties = made["properties"]
    assert properties["a"] == {"type": "integer", "minimum": 1, "maximum": 7, "multipleOf": 2}
    assert properties["b"] == {"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^(?=a)"}
    assert properties["c"]["minItems"] == 1
    assert properties["d"] == {"type": "string", "title": "Kept", "examples": ["x"]}
    assert properties["e"] == {"type": "string", "format": "uuid"}
    assert properties["h"] == {"type": "integer", "minimum": 1, "description": "H", "default": 3}
    assert properties["i"] == {"type": "array", "items": {"type": "string"}}
    assert made["required"] == list("abcdeg")
    _, kwargs = bind_arguments(
        define(f), {"a": 2, "b": "ab", "c": [1], "d": "", "e": str(uuid.UUID(int=1)), "g": {"x": 1}}
    )
    assert (kwargs["h"], kwargs["i"], kwargs["g"]) == (3, [], Point(1))


def test_titles_that_nobody_wrote_are_left_out() -> None:
    """A made-up title is noise to the model and would version the tool when a class is renamed."""

    class Titled(BaseModel):
        model_config = pydantic.ConfigDict(title="By its owner")
        title: str

    class Pair(typing.NamedTuple):
        first: int
        second: str = "s"

    def f(r: Rec, n: Node, c: Color, p: Point, w: Place, t: Titled, title: Pair) -> None: ...

    made = schema(f)
    assert made["$defs"]["Titled"]["title"] == "By its owner"
    assert made["$defs"]["Titled"]["properties"] == {"title": {"type": "string"}}
    del made["$defs"]["Titled"]
    assert '"title": "' not in str(made).replace("'", '"')
    assert "\0" not in str(made)


@pytest.mark.parametrize(
    "name",
    [
        *("schema", "model_config", "copy", "json", "dict", "model_fields", "model_dump", "validate"),
        *("_private", "__dunder", "self", "cls", "f0", "title"),
    ],
)
def test_a_parameter_may_have_any_name(name: str) -> None:
    """Names that mean something to pydantic, or that it refuses, are parameters like others."""
    made = module(f"def f({name}: int, other: str = 'x'): ...")
    assert schema(made.f)["properties"][name] == {"type": "integer"}
    assert bind_arguments(define(made.f), {name: 3}) == ((), {name: 3})


class Opaque: ...


class Unjson(BaseModel):
    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: Any) -> Any:
        return {"enum": {1, 2}}


def test_one_bad_annotation_degrades_one_parameter(caplog: pytest.LogCaptureFixture) -> None:
    """The tool and its other parameters keep their schema; one warning names tool and parameter."""

    def f(
        a: int,
        b: Opaque,
        c: Callable[[int], int],
        d: Annotated[str, Field(pattern="(")],
        e: NowhereToBeFound = 3,  # type: ignore[name-defined] # noqa: F821
        g: Rec | None = None,
        h: Unjson = None,  # type: ignore[assignment]
    ) -> None:
        """F.

        Args:
            b: The b.
        """

    with caplog.at_level(logging.WARNING, "acrux_otel"):
        made = schema(f, name="half_bad")
    assert made["properties"]["a"] == {"type": "integer"}
    assert made["properties"]["b"] == {"description": "The b."}
    assert (made["properties"]["c"], made["properties"]["e"]) == ({}, {"default": 3})
    assert made["properties"]["g"]["anyOf"] == [{"$ref": "#/$defs/Rec"}, {"type": "null"}]
    assert made["properties"]["h"] == {"default": None}
    assert made["required"] == ["a", "b", "c", "d"]
    messages = [record.getMessage() for record in caplog.records]
    assert [one for one in messages if "'b'" in one and "'half_bad'" in one]
    assert all("\n" not in one for one in messages)
    values = {"a": 1, "b": {"any": 1}, "c": "x", "d": 3}
    assert bind_arguments(define(f, name="half_bad"), values) == ((), values)


def test_variadic_and_positional_parameters() -> None:
    """``*args`` is an optional array, ``**kwargs`` is additionalProperties, positional-only go by place."""

    def f(a: int, b: int = 2, /, c: int = 3, *rest: Rec, d: int = 4, **more: float) -> None: ...

    made = schema(f)
    assert made["properties"]["rest"] == {"type": "array", "items": {"$ref": "#/$defs/Rec"}}
    assert (made["required"], made["additionalProperties"]) == (["a"], {"type": "number"})
    definition = define(f)
    assert bind_arguments(definition, {"a": 1}) == ((1,), {})
    assert bind_arguments(definition, {"a": 1, "c": 9}) == ((1,), {"c": 9})
    assert bind_arguments(definition, {"a": 1, "rest": [{"a": 5}], "d": 6, "x": "1.5"}) == (
        (1, 2, 3, Rec(a=5)),
        {"d": 6, "x": 1.5},
    )
    with pytest.raises(pydantic.ValidationError):
        bind_arguments(definition, {"a": 1, "x": "no number"})

    def open_(**more: Any) -> None: ...

    assert schema(open_) == {"type": "object", "properties": {}, "additionalProperties": True}

    def late(a: int = 1, b: int = 2, /) -> None: ...

    assert bind_arguments(define(late), {"b": 5}) == ((1, 5), {})


class Options(TypedDict):
    depth: int
    label: NotRequired[str]


def test_an_unpacked_typed_dict_is_keyword_parameters() -> None:
    """``**kwargs: Unpack[Options]`` names its parameters, so the schema does."""

    def f(q: str, **options: Unpack[Options]) -> None: ...

    made = schema(f)
    assert made["properties"] == {
        "q": {"type": "string"},
        "depth": {"type": "integer"},
        "label": {"type": "string"},
    }
    assert (made["required"], made["additionalProperties"]) == (["depth", "q"], False)
    assert bind_arguments(define(f), {"q": "x", "depth": "3"}) == ((), {"q": "x", "depth": 3})


def test_what_a_partial_has_bound_is_not_the_models_to_give() -> None:
    """A bound key would otherwise be published as a default."""

    def f(q: str, api_key: str, limit: int = 3) -> str:
        return f"{q}{api_key}{limit}"

    bound = functools.partial(f, api_key="secret")
    made = define(bound)
    assert set(made.parameters["properties"]) == {"q", "limit"}
    assert "secret" not in str(made.parameters)
    with pytest.raises(pydantic.ValidationError):
        bind_arguments(made, {"q": "a", "api_key": "mine"})
    args, kwargs = bind_arguments(made, {"q": "a"})
    assert bound(*args, **kwargs) == "asecret3"


def test_what_has_no_signature_takes_any_object() -> None:
    """A builtin without a signature is described as far as it can be."""

    class NoSignature:
        __name__ = "none"
        __signature__ = "not one"

        def __call__(self) -> None: ...

    made = define(NoSignature())
    assert made.parameters == {"type": "object", "properties": {}}
    assert bind_arguments(made, {"x": 1}) == ((), {"x": 1})


def test_two_threads_get_one_schema() -> None:
    """Whoever comes first, all readers hold the same object."""

    def f(r: list[Rec], n: Node) -> dict[str, Rec]: ...  # type: ignore[empty-body]

    for _ in range(5):
        definition = define(f)
        barrier = threading.Barrier(4)
        seen: list[tuple[int, str]] = []

        def read(definition: ToolDefinition = definition, barrier: Any = barrier, seen: Any = seen) -> None:
            barrier.wait(10)
            seen.append((id(definition.parameters), definition.contract_hash))

        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert len(seen) == 4
        assert len(set(seen)) == 1


_HINTS = st.recursive(
    st.sampled_from(
        [int, str, bool, float, None, Any, Rec, Node, Point, Place, Color, P, Opaque, bytes, object]
    ),
    lambda inner: st.one_of(
        inner.map(lambda one: list[one]),  # type: ignore[valid-type]
        inner.map(lambda one: dict[str, one]),  # type: ignore[valid-type]
        inner.map(lambda one: Optional[one]),
        st.tuples(inner, inner).map(lambda both: Union[both]),  # type: ignore[return-value]
        inner.map(lambda one: Annotated[one, "words"]),
    ),
    max_leaves=4,
)


@given(
    st.dictionaries(st.sampled_from(["a", "schema", "_x", "model_y", "self"]), _HINTS, max_size=4),
    st.randoms(use_true_random=False),
)
@settings(max_examples=40, deadline=None)
def test_any_signature_has_a_valid_schema_whose_hash_ignores_the_order_of_parameters(
    hints: dict[str, Any], order: random.Random
) -> None:
    """Whatever is annotated, the schema is valid, closed under $ref, and a function of the contract."""

    def make(names: list[str]) -> Any:
        made = module(f"def f({', '.join(names)}): ...")
        made.f.__annotations__.update(hints)
        return made.f

    names = list(hints)
    first = define(make(names))
    jsonschema.Draft202012Validator.check_schema(first.parameters)
    for reference in references(first.parameters):
        assert reference.removeprefix("#/$defs/") in first.parameters["$defs"]
    order.shuffle(names)
    assert define(make(names)).contract_hash == first.contract_hash


# -- the result ----------------------------------------------------------------------------------------


def test_the_result_schema_describes_what_the_caller_gets() -> None:
    """Awaitables are looked through, generators are arrays of what they yield, ToolResult is no result."""
    array = {"type": "array", "items": {"type": "integer"}}
    cases: list[tuple[Any, Any]] = [
        (int, {"type": "integer"}),
        (None, {"type": "null"}),
        (Awaitable[int], {"type": "integer"}),
        (Iterator[int], array),
        (typing.Generator[int, None, str], array),
        (AsyncIterator[int], array),
        (Union[int, ToolResult], {"type": "integer"}),
        (Optional[ToolResult], {"type": "null"}),
        (ToolResult, None),
        (AsyncIterator[ToolResult], None),
        (Any, None),
        (object, None),
        (NoReturn, None),
        (Opaque, None),
        ("Nowhere", None),
    ]

    def f() -> None: ...

    for hint, expected in cases:
        f.__annotations__["return"] = hint
        assert define(f).result == expected, hint
        assert define(f).enforced_result is None
    del f.__annotations__["return"]
    assert define(f).result is None


def test_a_given_result_schema_is_enforced_and_may_be_a_type() -> None:
    """A dict is taken as it is, a type stands for its schema."""

    def f() -> dict[str, int]: ...  # type: ignore[empty-body]

    wanted = {"type": "object", "required": ["tempC"]}
    made = define(f, result_schema=wanted)
    assert (made.enforced_result, made.result, made.result_severity) == (wanted, wanted, "warn")
    by_type = define(f, result_schema=Rec, result_severity="error").enforced_result
    assert by_type is not None
    assert accepts(by_type, {"a": 1}, {"b": "x"}) == [True, False]
    assert define(f, result_schema=list[int]).result == {"type": "array", "items": {"type": "integer"}}


def test_a_result_that_matches_gives_none_and_one_that_does_not_a_line() -> None:
    """The line has a path and a reason, and no value of the result."""
    wanted = {
        "type": "object",
        "properties": {
            "tempC": {"type": "number"},
            "sky": {"enum": ["clear", "cloudy"]},
            "hours": {"type": "array", "items": {"type": "object", "required": ["at", "rain"]}},
        },
        "required": ["tempC"],
        "additionalProperties": False,
    }
    assert validate_result(wanted, {"tempC": 31, "sky": "clear", "hours": []}) is None
    cases = [
        ({"tempC": "secret"}, "$.tempC: expected number, got string"),
        ({"sky": "clear"}, "$: 'tempC' missing"),
        ({"tempC": 1, "sky": "secret"}, '$.sky: fails enum ["clear","cloudy"]'),
        ({"tempC": 1, "hours": [{"at": "secret"}]}, "$.hours[0]: 'rain' missing"),
        ({"tempC": 1, "hourz": "secret"}, "$: unexpected 'hourz'"),
        (None, "$: expected object, got null"),
        (["secret"], "$: expected object, got array"),
    ]
    for result, line in cases:
        assert validate_result(wanted, result) == line


def test_only_an_enforced_schema_of_a_definition_is_checked() -> None:
    """A schema derived from the annotation describes and demands nothing."""

    def f() -> int: ...  # type: ignore[empty-body]

    assert validate_result(define(f), "text") is None
    assert validate_result(define(f, result_schema=int), "text") == "$: expected integer, got string"


def test_a_result_is_checked_as_json_carries_it() -> None:
    """Models, dataclasses, tuples, enums and dates count by their JSON form; an iterator is not consumed."""
    wanted = {
        "type": "object",
        "properties": {
            "rec": {"type": "object", "required": ["a", "b"]},
            "point": {"type": "object"},
            "pair": {"type": "array"},
            "color": {"const": "red"},
            "when": {"type": "string"},
            "money": {"type": "string"},
            "1": {"type": "null"},
        },
    }
    result = {
        "rec": Rec(a=1),
        "point": Point(1),
        "pair": (1, 2),
        "color": Color.RED,
        "when": datetime.datetime(2026, 1, 1),
        "money": decimal.Decimal("1.20"),
        1: None,
    }
    assert validate_result(wanted, result) is None
    rows = iter([1])
    assert validate_result({}, rows) == "$: the result is not JSON (TypeError)"
    assert list(rows) == [1]
    assert validate_result({}, {"x": Opaque()}) == "$: the result is not JSON (PydanticSerializationError)"


def test_a_result_check_never_raises_and_stays_short() -> None:
    """Cycles, depth, huge names and unusable schemas end in a bounded line or in nothing."""
    cycle: list[Any] = []
    cycle.append(cycle)
    deep: Any = []
    for _ in range(20000):
        deep = [deep]
    recursive = {"type": "array", "items": {"$ref": "#"}}
    for result in (cycle, deep):
        line = validate_result(recursive, result)
        assert line is not None
        assert len(line) < 100
    names = {"é" * 5000: 1}
    line = validate_result({"additionalProperties": False}, names)
    assert line is not None
    assert len(line.encode()) < 512
    assert validate_result(
        {"additionalProperties": {"additionalProperties": {"type": "null"}}}, {"k" * 999: names}
    )
    assert validate_result({"$ref": "https://example.invalid/schema.json"}, {}) is None
    assert validate_result({"type": "nonsense"}, {}) is None


@given(
    st.recursive(
        st.one_of(
            st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary(), st.builds(Opaque)
        ),
        lambda inner: st.one_of(
            st.lists(inner),
            st.dictionaries(st.one_of(st.text(), st.integers()), inner),
            st.frozensets(st.integers()),
        ),
        max_leaves=8,
    )
)
@settings(max_examples=60, deadline=None)
def test_any_value_can_be_checked(value: Any) -> None:
    """A result may be anything; checking it gives None or a line under 512 bytes."""
    wanted = {"type": ["object", "array"], "maxProperties": 1, "items": {"type": "string", "maxLength": 2}}
    line = validate_result(wanted, value)
    assert line is None or len(line.encode("utf-8", "surrogatepass")) < 512


# -- the hashes ----------------------------------------------------------------------------------------


def test_the_contract_hash_ignores_words_and_the_text_hash_hears_them() -> None:
    """Descriptions, titles and examples are wording; types, defaults, annotations, executor are contract."""

    def f(a: int, b: str = "x") -> dict[str, int]:
        """One."""
        raise AssertionError

    def same(
        a: Annotated[int, Field(description="The a", examples=[1], title="A")], b: str = "x"
    ) -> dict[str, int]:
        """Two."""
        raise AssertionError

    def other(a: int, b: str = "y") -> dict[str, int]:
        """One."""
        raise AssertionError

    base = define(f)
    assert define(same).contract_hash == base.contract_hash
    assert define(same).text_hash != base.text_hash
    assert define(f, name="renamed").contract_hash == base.contract_hash
    assert define(f, description="Three.").contract_hash == base.contract_hash
    assert define(other).text_hash == base.text_hash
    changed = [
        define(other),
        define(f, annotations=ToolAnnotations(read_only=True)),
        define(f, executor="http"),
        define(f, result_schema={"type": "object"}),
        define(f, parameters={"type": "object"}),
    ]
    hashes = {base.contract_hash, *(one.contract_hash for one in changed)}
    assert len(hashes) == len(changed) + 1
    assert all(len(one) == 64 and set(one) <= set("0123456789abcdef") for one in hashes)


def test_the_contract_hash_is_one_for_all_spellings_of_a_schema() -> None:
    """Key order, the order of what is a set, and the names of definitions demand nothing."""

    def f(**anything: Any) -> None: ...

    one = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/X"}, "b": {"enum": ["p", "q"]}, "c": {"const": 1}},
        "required": ["a", "b"],
        "$defs": {"X": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
    }
    two = {
        "$defs": {"Renamed": {"anyOf": [{"type": "null"}, {"type": "string"}]}},
        "required": ["b", "a"],
        "properties": {"c": {"enum": [1]}, "b": {"enum": ["q", "p"]}, "a": {"$ref": "#/$defs/Renamed"}},
        "type": "object",
    }
    three = {**two, "properties": {**two["properties"], "description": {"type": "string"}}}  # type: ignore[dict-item]
    hashes = [define(f, parameters=given).contract_hash for given in (one, two, three)]
    assert hashes[0] == hashes[1] != hashes[2]


# -- arguments -----------------------------------------------------------------------------------------


def test_missing_wrong_and_unknown_arguments_are_refused_together() -> None:
    """One ValidationError names everything, so that a model can mend all of it at once."""

    def f(a: int, b: Rec, c: int = 3) -> None: ...

    with pytest.raises(pydantic.ValidationError) as caught:
        bind_arguments(define(f), {"b": {"a": "no"}, "zz": 1})
    assert {(one["type"], one["loc"]) for one in caught.value.errors()} == {
        ("missing", ("a",)),
        ("int_parsing", ("b", "a")),
        ("extra_forbidden", ("zz",)),
    }
    assert "the tool takes a, b, c" in str(caught.value)
    assert str(caught.value).startswith("3 validation errors for f")
    with pytest.raises(pydantic.ValidationError, match="the tool takes a, b, c"):
        bind_arguments(define(f), {"a": 1, "b": {"a": 1}, "zz": 1})
    with pytest.raises(TypeError, match=r"arguments of tool 'f' must be an object, got list"):
        bind_arguments(define(f), [1])  # type: ignore[arg-type]


def test_what_is_not_given_is_left_to_the_functions_own_default() -> None:
    """No default is copied or validated: the function's own object is used by the call itself."""
    sentinel: Any = object()

    def f(a: int = sentinel, *, b: list[int] = sentinel) -> Any:
        return a, b

    args, kwargs = bind_arguments(define(f), {})
    assert f(*args, **kwargs) == (sentinel, sentinel)
    args, kwargs = bind_arguments(define(f), {"b": ["1"]})
    assert f(*args, **kwargs) == (sentinel, [1])


def test_injected_objects_are_handed_over_by_name() -> None:
    """Also where the injected parameter stands before positional ones."""
    ctx: Any = SubCtx()

    def f(ctx: Ctx[int], q: str, *rest: int) -> Any:
        return ctx, q, rest

    definition = define(f, inject=Ctx)
    args, kwargs = bind_arguments(definition, {"q": "x", "rest": [1, 2]}, {"ctx": ctx})
    assert f(*args, **kwargs) == (ctx, "x", (1, 2))
    args, kwargs = bind_arguments(definition, {"q": "x"}, {"ctx": ctx})
    assert f(*args, **kwargs) == (ctx, "x", ())
    with pytest.raises(pydantic.ValidationError):
        bind_arguments(definition, {"q": "x", "ctx": {}}, {"ctx": ctx})


def test_methods_bind_without_their_instance() -> None:
    """The arguments are for the callable that was defined: a bound method, or what binds it."""
    args, kwargs = bind_arguments(define(Box.add), {"x": 1})
    assert Box(2).add(*args, **kwargs) == 3


# -- making one ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": ""}, "1 to 256 printable characters, not ''"),
        ({"name": "  "}, "1 to 256 printable characters"),
        ({"name": "a\nb"}, "1 to 256 printable characters"),
        ({"name": "x" * 257}, "1 to 256 printable characters"),
        ({"name": 3}, "name is text, not int"),
        ({"description": 3}, "tool 'f': description= takes text, not int"),
        ({"parameters": [1]}, "tool 'f': parameters= takes a JSON Schema (a dict), not list"),
        ({"parameters": {"type": "objekt"}}, "parameters= is not a valid JSON Schema: at $.type"),
        ({"parameters": {"type": "array"}}, "parameters= must describe an object, not type 'array'"),
        ({"parameters": {"enum": {1, 2}}}, "parameters= is not a valid JSON Schema: it is not JSON"),
        ({"parameters": {"$ref": "#/$defs/X"}}, "$ref '#/$defs/X' points to nothing in it"),
        ({"parameters": {"$ref": "https://x.invalid/s"}}, "points to nothing in it"),
        ({"result_schema": "int"}, "result_schema= takes a JSON Schema (dict) or a type, not str"),
        ({"result_schema": {"required": "a"}}, "result_schema= is not a valid JSON Schema: at $.required"),
        ({"result_schema": Opaque}, "has no JSON Schema"),
        ({"result_severity": "fatal"}, "result_severity= is 'warn' or 'error', not 'fatal'"),
        ({"annotations": {"read_only": True}}, "annotations= takes ToolAnnotations(...), not dict"),
        ({"inject": ("Ctx",)}, "inject= takes classes, not 'Ctx'"),
        ({"inject": 3}, "inject= takes classes, not 3"),
        ({"executor": "server"}, "executor= is 'client' or 'http', not 'server'"),
    ],
    ids=lambda value: value if isinstance(value, str) else str(value)[:40],
)
def test_what_can_never_work_is_refused_at_once_in_one_line(options: dict[str, Any], message: str) -> None:
    """What was given, what was expected."""

    def f(a: int) -> None: ...

    with pytest.raises((TypeError, ValueError)) as caught:
        define(f, **options)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_a_lambda_needs_a_name_and_a_tool_must_be_callable() -> None:
    """Without a usable name there is no tool."""
    with pytest.raises(ValueError, match=r"has no name that a tool can have; give one with name="):
        define(lambda x: x)
    assert define(lambda x: x, name="ident").name == "ident"
    with pytest.raises(TypeError, match="expected a callable, got int"):
        define(3, name="three")


def test_contradicting_annotations_are_refused() -> None:
    """Read-only and destructive at once is nothing."""
    with pytest.raises(ValueError, match="both read_only=True and destructive=True"):
        ToolAnnotations(read_only=True, destructive=True)
    with pytest.raises(
        TypeError, match=r"ToolAnnotations\(idempotent=\) takes True, False or None, not 'yes'"
    ):
        ToolAnnotations(idempotent="yes")  # type: ignore[arg-type]
    assert ToolAnnotations(read_only=True, destructive=False).as_dict() == {
        "read_only": True,
        "destructive": False,
    }


def test_a_given_parameters_schema_is_published_as_it_is() -> None:
    """The owner's words are not polished."""
    wanted = {"type": "object", "title": "T", "properties": {"q": {"title": "Q"}}, "required": ["q", "a"]}
    assert define(print, parameters=wanted).parameters == wanted


def test_definition_of_reads_a_decorated_tool_and_defines_a_plain_function_once() -> None:
    """Decorated in any way, there is one definition; a plain function keeps the one it got."""

    class Tool:
        definition = define(Box.add, name="theirs")

    def f(x: int) -> int:
        return x

    assert definition_of(f) is definition_of(f)
    assert definition_of(f).name == "f"
    f.__acrux_tool__ = Tool()  # type: ignore[attr-defined]
    bound = types.MethodType(f, 3)
    for fn in (f, wrapped(f), bound, staticmethod(f), classmethod(f)):
        assert definition_of(fn) is Tool.definition
    with pytest.raises(ValueError, match="give one with name="):
        definition_of(lambda: 0)


def test_replace_keeps_all_but_what_is_replaced() -> None:
    """A catalog or framework may know the tool by another name."""

    def f(a: int) -> None: ...

    made = define(f, description="D", annotations=ToolAnnotations(idempotent=True))
    other = made.replace(name="g", executor="http")
    assert (other.name, other.executor, other.description) == ("g", "http", "D")
    assert (other.parameters, other.annotations) == (made.parameters, made.annotations)
    with pytest.raises(ValueError):
        made.replace(name="")


def test_defining_a_tool_imports_nothing_heavy() -> None:
    """The decorator runs at import time: what is heavy waits for its first use."""
    script = """
        import sys
        from acrux_otel.definition import define
        def f(a: int, b: "dict | None" = None) -> "dict | ToolResult":
            "Doc."
        made = define(f)
        heavy = {"pydantic", "pydantic_core", "jsonschema", "docstring_parser", "referencing"}
        assert not heavy & set(sys.modules), heavy & set(sys.modules)
        made.parameters
        assert "pydantic" in sys.modules and "jsonschema" not in sys.modules
        print("light")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("light\n", "")
