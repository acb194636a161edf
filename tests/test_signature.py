# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: UP007, UP045 (both spellings of a union are inputs here)
"""What a callable looks like to others: `acrux_otel.definition.signature`."""

from __future__ import annotations

import ast
import functools
import inspect
import logging
import textwrap
import types
import typing
from collections.abc import AsyncIterator, Awaitable, Coroutine, Generator, Iterator
from typing import Annotated, Any, Generic, Optional, TypeVar, Union

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acrux_otel import verdict
from acrux_otel.definition.signature import (
    default_name,
    display_name,
    injected_parameters,
    local_names,
    resolved_hints,
    returns_text,
    strip_tool_result,
    underlying,
)
from acrux_otel.verdict import ToolResult

T = TypeVar("T")


def plain(x: int) -> int:
    return x


class Fetcher:
    def __call__(self, url: str) -> str:
        return url

    def method(self, x: int) -> int:
        return x


def module(source: str, name: str = "made_up_module") -> Any:
    """A module as its file would be, so that annotations are as their author wrote them."""
    made = types.ModuleType(name)
    exec(compile(textwrap.dedent(source), f"{name}.py", "exec", dont_inherit=True), vars(made))
    return made


@pytest.fixture(autouse=True)
def _fresh_warnings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdict, "_warned", set())


def wrapped(fn: Any) -> Any:
    @functools.wraps(fn)
    def inner(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    return inner


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (plain, plain),
        (wrapped(wrapped(plain)), plain),
        (functools.partial(functools.partial(plain, 1)), plain),
        (staticmethod(plain), plain),
        (classmethod(plain), plain),
        (Fetcher().method, Fetcher.method),
        (Fetcher(), Fetcher.__call__),
        (functools.partial(Fetcher()), Fetcher.__call__),
        (staticmethod(wrapped(functools.partial(plain, 1))), plain),
        (len, len),
    ],
)
def test_the_function_that_counts_is_found_under_every_wrapper(given: Any, expected: Any) -> None:
    """Partials, bound methods, static and class methods, wrappers and callable objects are looked through."""
    assert underlying(given) is expected


def test_a_wrapper_that_wraps_itself_ends_the_search() -> None:
    """A cycle of ``__wrapped__`` is no endless loop."""

    def loop() -> None: ...

    loop.__wrapped__ = loop  # type: ignore[attr-defined]
    assert underlying(loop) is loop


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (plain, "plain"),
        (functools.partial(plain, 1), "plain"),
        (functools.partial(functools.partial(plain, 1)), "plain"),
        (staticmethod(plain), "plain"),
        (classmethod(plain), "plain"),
        (Fetcher().method, "method"),
        (Fetcher(), "fetcher"),
        (type("HTTPFetcher", (Fetcher,), {})(), "http_fetcher"),
        (type("Named", (Fetcher,), {"__name__": "own_name"})(), "own_name"),
        (functools.partial(Fetcher(), "u"), "fetcher"),
        (lambda x: x, None),
        (functools.partial(lambda x: x, 1), None),
    ],
)
def test_a_tool_is_named_as_its_function(given: Any, expected: str | None) -> None:
    """The name is the function's, a callable object's class in snake case; a lambda has none."""
    assert default_name(given) == expected


def test_a_message_names_a_callable_by_module_and_qualified_name() -> None:
    """Whoever reads a warning finds the function."""
    assert display_name(functools.partial(Fetcher().method)) == f"{__name__}.Fetcher.method"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (Union[dict, ToolResult], dict),
        (dict | ToolResult, dict),
        (Optional[ToolResult], type(None)),
        (Union[dict, None, ToolResult], Optional[dict]),
        (Annotated[Union[dict, ToolResult], "doc", 7], Annotated[dict, "doc", 7]),
        (Awaitable[Union[int, ToolResult]], Awaitable[int]),
        (typing.Awaitable[Union[int, ToolResult]], typing.Awaitable[int]),
        (Generator[Union[int, ToolResult], None, Union[str, ToolResult]], Generator[int, None, str]),
        (AsyncIterator[Union[int, ToolResult]], AsyncIterator[int]),
        (Coroutine[Any, Any, Union[dict, ToolResult]], Coroutine[Any, Any, dict]),
        (AsyncIterator[ToolResult], AsyncIterator[object]),
        ("dict | acrux.ToolResult", "dict"),
        ("ToolResult | dict | None", "dict | None"),
        ("Union[dict, ToolResult]", "dict"),
        ("typing.Union[dict, list, acrux_otel.ToolResult]", "typing.Union[dict, list]"),
        ("Optional[ToolResult]", "None"),
        ("Optional[Union[dict, ToolResult]]", "Optional[dict]"),
        ("Annotated[dict | ToolResult, 'doc']", "Annotated[dict, 'doc']"),
        ("AsyncIterator[dict | ToolResult]", "AsyncIterator[dict]"),
        ("Generator[int | ToolResult, None, str | ToolResult]", "Generator[int, None, str]"),
        ("'dict | ToolResult'", "dict"),
        ("Awaitable['dict | ToolResult']", "Awaitable[dict]"),
        ("Awaitable[ToolResult]", "Awaitable[object]"),
        (typing.ForwardRef("dict | ToolResult"), typing.ForwardRef("dict")),
    ],
    ids=str,
)
def test_tool_result_is_taken_out_of_a_return_annotation(given: Any, expected: Any) -> None:
    """Readers of the annotation see what the caller gets, in whatever form it was written."""
    before = {"x": int, "return": given}
    assert strip_tool_result(before) == {"x": int, "return": expected}
    assert before == {"x": int, "return": given}


@pytest.mark.parametrize(
    "given",
    [
        dict,
        None,
        Any,
        list[int],
        Union[int, str],
        "dict",
        "NotImported | int",
        "Literal['ToolResult']",
        "list[ToolResultPage]",
        "this is not python (ToolResult",
        7,
        {"type": "object"},
    ],
    ids=str,
)
def test_an_annotation_without_tool_result_is_left_alone(given: Any) -> None:
    """None says that nothing had to change; what cannot be parsed is nobody's ToolResult."""
    assert strip_tool_result({"return": given}) is None
    assert strip_tool_result({}) is None


@pytest.mark.parametrize(
    "given", [ToolResult, "ToolResult", "acrux.ToolResult", Union[ToolResult, ToolResult]]
)
def test_a_bare_tool_result_counts_as_unannotated_with_one_warning(
    given: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """It says nothing about the result; the owner is told once, by the function's name."""
    with caplog.at_level(logging.WARNING, "acrux_otel"):
        assert strip_tool_result({"x": int, "return": given}, plain) == {"x": int}
        assert strip_tool_result({"x": int, "return": given}, plain) == {"x": int}
    assert [f"{__name__}.plain" in record.getMessage() for record in caplog.records] == [True]


def test_tool_results_of_others_stay_and_those_of_acruxcore_go() -> None:
    """Ours and acruxcore's are meant, by object and by text; a class that only shares the name is not."""
    import acruxcore

    assert strip_tool_result({"return": Union[dict, acruxcore.ToolResult]}) == {"return": dict}
    theirs = module("""
        from __future__ import annotations
        class ToolResult: ...
        def f() -> dict | ToolResult: ...
    """)
    assert strip_tool_result(theirs.f.__annotations__, theirs.f) is None
    ours = module("""
        from __future__ import annotations
        import acrux_otel.verdict as av
        from acrux_otel.verdict import ToolResult as TR
        def f() -> dict | TR: ...
        def g() -> dict | av.ToolResult: ...
    """)
    assert strip_tool_result(ours.f.__annotations__, ours.f) == {"return": "dict"}
    assert strip_tool_result(ours.g.__annotations__, ours.g) == {"return": "dict"}


_atoms = st.sampled_from(["int", "dict", "None", "list[int]", "ToolResult", "a.b.ToolResult", "'str'"])
_texts = st.recursive(
    _atoms,
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map(" | ".join),
        st.lists(inner, min_size=1, max_size=3).map(lambda some: f"Union[{', '.join(some)}]"),
        inner.map(lambda one: f"Optional[{one}]"),
        inner.map(lambda one: f"Awaitable[{one}]"),
    ),
    max_leaves=6,
)


@given(_texts)
def test_stripping_text_leaves_python_and_no_tool_result(text: str) -> None:
    """Whatever unions are nested in each other, what is left parses and does not mention ToolResult."""
    stripped = strip_tool_result({"return": text})
    kept = text if stripped is None else stripped.get("return", "None")
    ast.parse(kept, mode="eval")
    assert "ToolResult" not in kept


@given(st.text(max_size=60))
def test_stripping_never_raises(text: str) -> None:
    """An annotation may be any text at all."""
    strip_tool_result({"return": text + " ToolResult"})


def test_only_exactly_str_returns_text() -> None:
    """A tool annotated ``-> str`` (or an awaitable of it) gives text; anything looser does not."""
    made = module(
        """
        from __future__ import annotations
        from typing import *
        def a() -> str: ...
        async def b() -> str: ...
        def c() -> "str": ...
        def d() -> str | ToolResult: ...
        def e() -> Annotated[str, "x"]: ...
        def f() -> Awaitable[str]: ...
        def g() -> Optional[str]: ...
        def h(): ...
        def i() -> dict: ...
        def j() -> list[str]: ...
        def k() -> Iterator[str]: ...
    """
    )

    def evaluated_text() -> Annotated[str, "x"]: ...

    evaluated_text.__annotations__["return"] = Annotated[str, "x"]
    assert [name for name in "abcdefghijk" if returns_text(getattr(made, name))] == list("abcdef")
    assert returns_text(evaluated_text)
    assert returns_text(Fetcher())
    assert returns_text(functools.partial(wrapped(made.a)))
    evaluated_text.__annotations__["return"] = Union[str, ToolResult]
    assert returns_text(evaluated_text)
    evaluated_text.__annotations__["return"] = Coroutine[Any, Any, str]
    assert returns_text(evaluated_text)
    evaluated_text.__annotations__["return"] = Iterator[str]
    assert not returns_text(evaluated_text)


def test_a10_text_annotations_resolve_where_the_function_was_written() -> None:
    """Names live in the defining module, however many wrappers of other modules lie above."""
    there = module("""
        from __future__ import annotations
        from typing import Literal, Optional
        class Wallet: ...
        def pay(w: Wallet, mode: Literal["a", "b"] = "a", note: Optional[str] = None) -> dict: ...
    """)
    expected = {"w": there.Wallet, "mode": typing.Literal["a", "b"], "note": Optional[str], "return": dict}
    for fn in (there.pay, wrapped(there.pay), functools.partial(wrapped(there.pay)), staticmethod(there.pay)):
        assert resolved_hints(fn) == expected


def test_one_unresolvable_annotation_degrades_itself_and_is_reported_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The others keep their types, and one warning names the function and the parameter."""
    made = module("""
        from __future__ import annotations
        def f(a: int, b: Nowhere, c: "list[str]") -> Gone: ...
    """)
    with caplog.at_level(logging.WARNING, "acrux_otel"):
        for _ in range(2):
            assert resolved_hints(made.f) == {"a": int, "b": Any, "c": list[str], "return": Any}
    assert [record.args[2] for record in caplog.records if record.args] == ["b", "return"]


def test_hints_do_not_depend_on_the_python_version() -> None:
    """``x: int = None`` is not nullable on any Python, and text inside ``list[...]`` resolves on all."""
    made = module("""
        def f(x: int = None, y: list["int"] = (), z: "dict[str, 'int']" = {}): ...
    """)
    assert resolved_hints(made.f) == {"x": int, "y": list[int], "z": dict[str, int]}


def test_names_of_the_class_body_resolve() -> None:
    """A method may be annotated with a class written inside its class."""
    made = module("""
        from __future__ import annotations
        class Box:
            class Inner: ...
            def add(self, x: Inner) -> Inner: ...
    """)
    assert resolved_hints(made.Box.add) == {"x": made.Box.Inner, "return": made.Box.Inner}


def test_names_of_an_enclosing_function_are_seen_while_it_runs() -> None:
    """A class local to the function that decorates is found, also from a class body inside it."""

    class Local: ...

    found: dict[str, Any] = {}

    def decorate(fn: Any) -> Any:
        found[fn.__name__] = local_names(fn)
        return fn

    @decorate
    def tool(x: Local, y: int) -> None: ...

    class Box:
        class Inner: ...

        @decorate
        def method(self, x: Local, y: Inner) -> None: ...

    assert found == {"tool": {"Local": Local}, "method": {"Local": Local, "Inner": Box.Inner}}
    assert resolved_hints(tool, found["tool"])["x"] is Local
    assert local_names(plain) == {}


def test_a_class_captured_by_the_body_resolves_later_too() -> None:
    """What the body uses is in its closure, so no frame is needed."""

    class Local: ...

    def tool(x: Local) -> type:
        return Local

    assert resolved_hints(tool)["x"] is Local


class Ctx(Generic[T]): ...


class SubCtx(Ctx[int]): ...


C = TypeVar("C", bound=SubCtx)
_HANDED_IN = SubCtx()


def test_a11_injected_parameters_are_matched_by_resolved_type() -> None:
    """Subclasses, generics, unions with None, Annotated and text count; a name alone never does."""

    def every(
        a: Ctx[int],
        b: SubCtx,
        c: Ctx[int] | None,
        d: Annotated[Ctx[Any], "x"],
        e: Ctx | SubCtx,  # type: ignore[type-arg]
        f: C,
        context: str,
        ctx: Any,
        mixed: Ctx[int] | str,
        listed: list[Ctx[int]],
        g=_HANDED_IN,  # type: ignore[no-untyped-def]
        h=None,
    ) -> None: ...

    assert injected_parameters(every, (Ctx,)) == set("abcdefg")
    assert injected_parameters(every, ()) == set()


def test_a11_a_class_imported_for_type_checking_only_is_injected_by_its_own_name() -> None:
    """The most usual way to write it leaves the name undefined at run time."""
    made = module("""
        from __future__ import annotations
        from typing import TYPE_CHECKING
        if TYPE_CHECKING:
            from somewhere import Ctx
        def f(q: str, ctx: Ctx, other: Ctx[int] | None = None): ...
    """)
    assert injected_parameters(made.f, (Ctx,)) == {"ctx", "other"}


def test_builtins_have_no_hints_and_no_error() -> None:
    """What carries no annotations has none."""
    assert resolved_hints(len) == {}
    assert not returns_text(len)
    assert injected_parameters(dict.fromkeys, (Ctx,)) == set()
    assert inspect.isbuiltin(underlying(len))
