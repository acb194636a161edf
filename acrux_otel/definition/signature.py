# SPDX-License-Identifier: Apache-2.0
"""What a function looks like to others: its hints, and which parameters are the program's own.

Also the one place to import from for the names of `callables` and `stripping`. All of it is light, because
the decorator imports it.
"""

from __future__ import annotations

import inspect
import re
import sys
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any, Final

from acrux_otel.definition.callables import (
    default_name,
    display_name,
    raw_annotations,
    read_signature,
    underlying,
)
from acrux_otel.definition.stripping import rebuild, returns_text, strip_tool_result
from acrux_otel.verdict import warn_once

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

_MAX_DEPTH: Final = 64


def local_names(fn: Any) -> dict[str, Any]:
    """What the text annotations of a function defined inside another one mean, where that can be seen.

    To be called while the function is being decorated: the frame that defines it is then on the stack.
    Only names that the annotations mention are kept, so that no frame stays alive.
    """
    base = underlying(fn)
    code = getattr(base, "__code__", None)
    if code is None or "<locals>" not in getattr(base, "__qualname__", ""):
        return {}
    wanted = set(_mentioned(raw_annotations(base).values()))
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
    written = raw_annotations(base)
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
