# SPDX-License-Identifier: Apache-2.0
"""What a function looks like to others: its name, its hints, its annotations without `ToolResult`.

Imports `verdict` and the standard library only, and nothing heavy: the decorator runs this at import time.
"""

from __future__ import annotations

import ast
import collections.abc
import functools
import inspect
import re
import sys
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any, Final

from acrux_otel.verdict import ToolResult, warn_once

__all__ = [
    "default_name",
    "display_name",
    "injected_parameters",
    "injects",
    "local_names",
    "read_signature",
    "rebuild",
    "resolved_hints",
    "returns_text",
    "strip_tool_result",
    "underlying",
]

_GONE: Final[Any] = object()
_MAX_DEPTH: Final = 64
_ITERATED: Final = frozenset(
    {"Generator", "AsyncGenerator", "Iterator", "AsyncIterator", "Iterable", "AsyncIterable"}
)
_WRAPPERS: Final = _ITERATED | {"Awaitable", "Coroutine"}
_ANNOTATED: Final[Any] = typing.Annotated
_UNION: Final[Any] = typing.Union
_FOREIGN: Final = "acruxcore.tool_result.ToolResult"
_WORDS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def underlying(fn: Any) -> Any:
    """The function whose globals and annotations count, under whatever wraps it.

    Looks through ``functools.partial``, bound methods, ``staticmethod`` and ``classmethod`` objects,
    ``__wrapped__`` chains and callable objects (their class's ``__call__``).
    """
    seen: set[int] = set()
    while id(fn) not in seen and len(seen) < _MAX_DEPTH:
        seen.add(id(fn))
        if isinstance(fn, (staticmethod, classmethod, types.MethodType)):
            fn = fn.__func__
        elif isinstance(fn, (functools.partial, functools.partialmethod)):
            fn = fn.func
        elif (wrapped := getattr(fn, "__wrapped__", None)) is not None:
            fn = wrapped
        elif isinstance(fn, type):
            return fn.__init__  # type: ignore[misc]
        elif isinstance(fn, (types.FunctionType, types.BuiltinFunctionType)):
            return fn
        elif isinstance(call := _special(fn, "__call__"), types.FunctionType) or hasattr(call, "__wrapped__"):
            fn = call
        else:
            return fn
    return fn


def default_name(fn: Any) -> str | None:
    """The tool name that a callable has by itself; None where it has no usable one (a lambda).

    A partial is named as its function, an object with ``__call__`` by its own ``__name__`` or else by
    its class in snake case.
    """
    for _ in range(_MAX_DEPTH):
        if isinstance(fn, (staticmethod, classmethod)):
            fn = fn.__func__
            continue
        name = getattr(fn, "__name__", None)
        if isinstance(name, str) and name:
            return None if name == "<lambda>" else name
        if not isinstance(fn, functools.partial):
            return _WORDS.sub("_", type(fn).__name__).lower()
        fn = fn.func
    return None


def display_name(fn: Any) -> str:
    """How a message names a callable: ``module.qualname``; never raises."""
    base = underlying(fn)
    name = getattr(base, "__qualname__", None) or type(base).__name__
    module = getattr(base, "__module__", None)
    return f"{module}.{name}" if module else str(name)


def strip_tool_result(annotations: dict[str, Any], fn: Any = None) -> dict[str, Any] | None:
    """The annotations with every `ToolResult` taken out of the return annotation.

    A tool's caller never gets a `ToolResult`, so nobody who reads the annotation should meet one:
    ``dict | ToolResult`` becomes ``dict``, also inside ``Annotated``, ``Awaitable``, ``Generator`` and
    their like, and in annotations that are text. A bare `ToolResult` says nothing about the result: it is
    dropped, with one warning.

    Args:
        annotations: a function's ``__annotations__``.
        fn: the function, for its globals (which `ToolResult` is meant) and for the warning.

    Returns:
        A changed copy, or None where nothing had to change. Text is never evaluated.
    """
    given = annotations.get("return", _GONE)
    if given is _GONE or given is None or (_is_class(given) and not _is_tool_result(given)):
        return None
    names = getattr(underlying(fn), "__globals__", {}) if fn is not None else {}
    try:
        kept = _strip_text(given, names) if isinstance(given, str) else _strip(given, names)
    except Exception:  # an annotation may be any object at all
        return None
    if kept is given:
        return None
    stripped = dict(annotations)
    if kept is _GONE:
        del stripped["return"]
        where = "a tool" if fn is None else display_name(fn)
        warn_once(
            f"bare-tool-result:{where}",
            "%s is annotated -> ToolResult, which says nothing about its result; "
            "annotate what the model sees, such as -> dict (a ToolResult fits any annotation)",
            where,
        )
    else:
        stripped["return"] = kept
    return stripped


def returns_text(fn: Any) -> bool:
    """Whether a tool is annotated ``-> str`` (or an awaitable of it): what the model sees is text."""
    annotations = _raw_annotations(underlying(fn))
    given = (strip_tool_result(annotations, fn) or annotations).get("return")
    if isinstance(given, str):
        try:
            return _is_text_node(ast.parse(given.strip(), mode="eval").body)
        except (SyntaxError, ValueError, RecursionError):
            return False
    for _ in range(_MAX_DEPTH):
        origin = typing.get_origin(given)
        if origin is typing.Annotated:
            given = typing.get_args(given)[0]
        elif origin in (collections.abc.Awaitable, collections.abc.Coroutine):
            given = typing.get_args(given)[-1]
        else:
            break
    return given is str


def local_names(fn: Any) -> dict[str, Any]:
    """What the text annotations of a function defined inside another one mean, where that can be seen.

    To be called while the function is being decorated: the frame that defines it is then on the stack.
    Only names that the annotations mention are kept, so that no frame stays alive.
    """
    base = underlying(fn)
    code = getattr(base, "__code__", None)
    if code is None or "<locals>" not in getattr(base, "__qualname__", ""):
        return {}
    wanted = set(_mentioned(_raw_annotations(base).values()))
    found: dict[str, Any] = {}
    if not wanted:
        return found
    frame: types.FrameType | None = sys._getframe(1)
    for _ in range(_MAX_DEPTH):
        if frame is None:
            break
        if code in frame.f_code.co_consts:
            code = frame.f_code
            for name in wanted - found.keys():
                if name in frame.f_locals:
                    found[name] = frame.f_locals[name]
        frame = frame.f_back
    return found


def resolved_hints(
    fn: Any, names: Mapping[str, Any] | None = None, fallback: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The type hints of a callable, ``Annotated`` kept, text resolved where the function was written.

    One annotation that does not resolve degrades to ``Any`` by itself and is reported once.

    Args:
        fn: any callable, wrapped or not.
        names: more local names, such as those of `local_names`.
        fallback: names for what the function's own module does not define at run time, such as a class
            imported under ``TYPE_CHECKING``.
    """
    base = underlying(fn)
    scope = getattr(base, "__globals__", {})
    local = {**_closure(base), **(names or {}), **_class_namespace(base)}
    written = _raw_annotations(base)
    hints: dict[str, Any] = {}
    for name, given in (strip_tool_result(written, fn) or written).items():
        try:
            hints[name] = _resolve(given, scope, local)
        except Exception as first:
            try:
                hints[name] = _resolve(given, {**(fallback or {}), **scope}, local)
            except Exception:
                hints[name] = Any
                where = display_name(fn)
                warn_once(
                    f"annotation:{where}:{name}",
                    "annotation %r of %s (%s) cannot be resolved (%s: %s); it describes any value",
                    _short(given),
                    where,
                    name,
                    type(first).__name__,
                    _short(first),
                )
    if "return" in hints:
        hints = strip_tool_result(hints, fn) or hints
    return hints


def injects(hint: Any, default: Any, classes: tuple[type, ...]) -> bool:
    """Whether a parameter takes an object of ``classes`` that the program hands in, not the model.

    Decided by the resolved type: subclasses, ``Ctx[int]``, ``Ctx | None``, ``Annotated`` and a TypeVar bound
    to it count. Without an annotation (``hint`` is ``inspect.Parameter.empty``) the default decides.
    """
    if hint is inspect.Parameter.empty:
        return isinstance(default, classes)
    for _ in range(_MAX_DEPTH):
        origin = typing.get_origin(hint)
        if origin is typing.Annotated:
            hint = typing.get_args(hint)[0]
        elif isinstance(hint, typing.TypeVar) and hint.__bound__ is not None:
            hint = hint.__bound__
        elif origin is typing.Union or origin is types.UnionType:
            members = [member for member in typing.get_args(hint) if member is not type(None)]
            return bool(members) and all(injects(member, None, classes) for member in members)
        else:
            kind = origin or hint
            return isinstance(kind, type) and issubclass(kind, classes)
    return False


def injected_parameters(
    fn: Any, classes: tuple[type, ...], names: Mapping[str, Any] | None = None
) -> set[str]:
    """The names of the parameters that the program hands in: those typed as one of ``classes``.

    A class that the function's module imports under ``TYPE_CHECKING`` only is found by its own name.
    """
    if not classes:
        return set()
    hints = resolved_hints(fn, names, {kind.__name__: kind for kind in classes})
    try:
        parameters = read_signature(fn).parameters.values()
    except (TypeError, ValueError):
        return set()
    return {
        each.name
        for each in parameters
        if injects(hints.get(each.name, inspect.Parameter.empty), each.default, classes)
    }


def read_signature(fn: Any) -> inspect.Signature:
    """`inspect.signature`, also for ``classmethod`` objects, and evaluating no lazy annotation.

    Raises:
        TypeError, ValueError: as `inspect.signature` does for what has none.
    """
    if isinstance(fn, classmethod):
        fn = fn.__func__
    if sys.version_info >= (3, 14):
        import annotationlib

        return inspect.signature(fn, annotation_format=annotationlib.Format.FORWARDREF)
    return inspect.signature(fn)


def rebuild(hint: Any, arguments: tuple[Any, ...]) -> Any:
    """A generic type with other arguments (of ``Annotated``, the first); itself where they are its own."""
    origin = typing.get_origin(hint)
    own = typing.get_args(hint)
    if all(
        one is other or (isinstance(one, list) and one == other)
        for one, other in zip(arguments, own, strict=False)
    ):
        return hint
    if origin is typing.Annotated:
        return _ANNOTATED[arguments + hint.__metadata__]
    if origin is typing.Union or origin is types.UnionType:
        return _UNION[arguments]
    return hint.copy_with(arguments) if hasattr(hint, "copy_with") else origin[arguments]


def _special(value: Any, name: str) -> Any:
    return getattr(type(value), name, None)


def _is_class(given: Any) -> bool:
    # On Python 3.10 `list[int]` calls itself a type.
    return isinstance(given, type) and not isinstance(given, types.GenericAlias)


def _is_tool_result(given: Any) -> bool:
    return _is_class(given) and any(
        base is ToolResult or f"{base.__module__}.{base.__qualname__}" == _FOREIGN for base in given.__mro__
    )


def _strip(given: Any, names: Mapping[str, Any]) -> Any:
    """``given`` itself where nothing had to change, `_GONE` where nothing is left."""
    if isinstance(given, (str, typing.ForwardRef)):
        text = given if isinstance(given, str) else given.__forward_arg__
        kept = _strip_text(text, names)
        return given if kept is text else kept if kept is _GONE else typing.ForwardRef(kept)
    if _is_tool_result(given):
        return _GONE
    origin, arguments = typing.get_origin(given), typing.get_args(given)
    if origin is typing.Annotated:
        kept = _strip(arguments[0], names)
        return kept if kept is _GONE else rebuild(given, (kept,))
    if origin is typing.Union or origin is types.UnionType:
        kept_all = [_strip(argument, names) for argument in arguments]
        members = tuple(kept for kept in kept_all if kept is not _GONE)
        if len(members) == len(arguments):
            return rebuild(given, members)
        return _UNION[members] if members else _GONE
    if getattr(origin, "__module__", None) == "collections.abc" and origin.__name__ in _WRAPPERS:
        kept_all = [_strip(argument, names) for argument in arguments]
        return rebuild(given, tuple(object if kept is _GONE else kept for kept in kept_all))
    return given


def _strip_text(text: str, names: Mapping[str, Any]) -> Any:
    if "ToolResult" not in text and not names:
        return text
    if text.isidentifier() and text not in names and text != "ToolResult":
        return text
    try:
        body = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError):
        return text
    kept = _strip_node(body, names)
    if kept is body:
        return text
    return _GONE if kept is None else ast.unparse(kept)


def _strip_node(node: ast.expr, names: Mapping[str, Any]) -> ast.expr | None:
    """The node itself where nothing had to change, None where nothing is left."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        text = _strip_text(node.value, names)
        return node if text is node.value else None if text is _GONE else ast.parse(text, mode="eval").body
    if isinstance(node, (ast.Name, ast.Attribute)):
        return None if _names_tool_result(node, names) else node
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        left, right = _strip_node(node.left, names), _strip_node(node.right, names)
        if left is node.left and right is node.right:
            return node
        if left is None or right is None:
            return right if left is None else left
        return ast.BinOp(left, ast.BitOr(), right)
    if not isinstance(node, ast.Subscript):
        return node
    return _strip_subscript(node, names)


def _strip_subscript(node: ast.Subscript, names: Mapping[str, Any]) -> ast.expr | None:
    head = _last_part(node.value)
    given = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
    if head == "Annotated":
        kept: list[ast.expr | None] = [_strip_node(given[0], names), *given[1:]]
    elif head in ("Union", "Optional") or head in _WRAPPERS:
        kept = [_strip_node(argument, names) for argument in given]
    else:
        return node
    if all(one is other for one, other in zip(kept, given, strict=True)):
        return node
    if head == "Annotated" and kept[0] is None:
        return None
    if head == "Optional" and kept[0] is None:
        return ast.Constant(None)
    if head == "Union":
        kept = [argument for argument in kept if argument is not None]
        if len(kept) < 2:
            return kept[0] if kept else None
    filled = [ast.Name("object") if argument is None else argument for argument in kept]
    inner: ast.expr = ast.Tuple(filled, ast.Load()) if len(filled) > 1 else filled[0]
    return ast.Subscript(node.value, inner, ast.Load())


def _names_tool_result(node: ast.expr, names: Mapping[str, Any]) -> bool:
    """Whether a dotted name means `ToolResult`: by looking it up, else (not importable yet) by its word."""
    path: list[str] = []
    part = node
    while isinstance(part, ast.Attribute):
        path.append(part.attr)
        part = part.value
    if not isinstance(part, ast.Name):
        return False
    found = names.get(part.id, _GONE)
    if found is _GONE:
        return (path[0] if path else part.id) == "ToolResult"
    for name in reversed(path):
        found = getattr(found, name, None)
    return _is_tool_result(found)


def _is_text_node(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and node.value.strip() == "str"
    if isinstance(node, ast.Subscript):
        given = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        head = _last_part(node.value)
        if head == "Annotated":
            return _is_text_node(given[0])
        return head in ("Awaitable", "Coroutine") and _is_text_node(given[-1])
    if isinstance(node, ast.Attribute):
        return isinstance(node.value, ast.Name) and node.value.id == "builtins" and node.attr == "str"
    return isinstance(node, ast.Name) and node.id == "str"


def _last_part(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _raw_annotations(base: Any) -> dict[str, Any]:
    """A function's annotations as written: nothing evaluated, and never raising."""
    try:
        if sys.version_info >= (3, 14):
            import annotationlib

            return dict(annotationlib.get_annotations(base, format=annotationlib.Format.FORWARDREF))
        given = getattr(base, "__annotations__", None)
    except Exception:
        return {}
    return dict(given) if isinstance(given, dict) else {}


def _resolve(given: Any, scope: dict[str, Any], local: dict[str, Any]) -> Any:
    # A bare object in place of the function: `get_type_hints` would make `x: int = None` nullable on
    # Python 3.10 only, and the schema must not depend on the Python that derived it.
    bearer = types.SimpleNamespace(__annotations__={"it": given})
    found = typing.get_type_hints(bearer, scope, local, include_extras=True)["it"]
    if sys.version_info < (3, 11):
        bearer.__annotations__["it"] = _with_references(found)
        found = typing.get_type_hints(bearer, scope, local, include_extras=True)["it"]
    return found


def _with_references(hint: Any) -> Any:
    """``list["Node"]`` with its text as a reference: Python 3.10 leaves such text alone."""
    arguments = typing.get_args(hint)
    if not arguments or typing.get_origin(hint) is typing.Literal:
        return hint
    if typing.get_origin(hint) is typing.Annotated:
        arguments = arguments[:1]
    plain = isinstance(hint, types.GenericAlias)
    made = tuple(
        typing.ForwardRef(one) if plain and isinstance(one, str) else _with_references(one)
        for one in arguments
    )
    return rebuild(hint, made)


def _closure(base: Any) -> dict[str, Any]:
    found = {one.__name__: one for one in getattr(base, "__type_params__", ())}
    code, cells = getattr(base, "__code__", None), getattr(base, "__closure__", None)
    if code is not None and cells:
        for name, cell in zip(code.co_freevars, cells, strict=False):
            try:
                found[name] = cell.cell_contents
            except ValueError:  # not bound yet
                continue
    return found


def _class_namespace(base: Any) -> dict[str, Any]:
    """The names of the class that a method was written in, where it can be found from its module."""
    *path, _ = getattr(base, "__qualname__", "").split(".")
    if not path or "<locals>" in path:
        return {}
    found: Any = getattr(base, "__globals__", {}).get(path[0])
    for name in path[1:]:
        found = getattr(found, name, None)
    return dict(vars(found)) if isinstance(found, type) else {}


def _mentioned(annotations: Any) -> Iterator[str]:
    for given in annotations:
        text = getattr(given, "__forward_arg__", given)
        if isinstance(text, str):
            yield from re.findall(r"[^\W\d]\w*", text)
        else:
            yield from _mentioned(typing.get_args(given))


def _short(value: object) -> str:
    try:
        return str(value)[:120]
    except Exception:
        return f"<{type(value).__name__}>"
