# SPDX-License-Identifier: Apache-2.0
"""Return annotations without `ToolResult`: readers see what a tool's caller gets.

Imports `verdict` and `callables`. Text is rewritten as text and never evaluated.
"""

from __future__ import annotations

import ast
import collections.abc
import types
import typing
from collections.abc import Mapping
from typing import Any, Final

from acrux_otel.definition.callables import display_name, raw_annotations, underlying
from acrux_otel.verdict import ToolResult, warn_once

__all__ = ["rebuild", "returns_text", "strip_tool_result"]

_GONE: Final[Any] = object()
_MAX_DEPTH: Final = 64
_ITERATED: Final = frozenset(
    {"Generator", "AsyncGenerator", "Iterator", "AsyncIterator", "Iterable", "AsyncIterable"}
)
_WRAPPERS: Final = _ITERATED | {"Awaitable", "Coroutine"}
_ANNOTATED: Final[Any] = typing.Annotated
_UNION: Final[Any] = typing.Union
_FOREIGN: Final = "acruxcore.tool_result.ToolResult"


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
    annotations = raw_annotations(underlying(fn))
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
