# SPDX-License-Identifier: Apache-2.0
"""Which function a callable stands for, and what it says of itself: name, signature, annotations.

Imports the standard library only.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
import types
from typing import Any, Final

__all__ = ["default_name", "display_name", "raw_annotations", "read_signature", "underlying"]

_MAX_DEPTH: Final = 64
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


def called(fn: Any) -> Any:
    """What runs when ``fn`` is called, which decides its kind: a wrapper may differ from what it wraps."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    return fn if inspect.isroutine(fn) else type(fn).__call__


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


def raw_annotations(base: Any) -> dict[str, Any]:
    """A function's annotations as written: nothing evaluated, and never raising."""
    try:
        if sys.version_info >= (3, 14):
            import annotationlib

            return dict(annotationlib.get_annotations(base, format=annotationlib.Format.FORWARDREF))
        given = getattr(base, "__annotations__", None)
    except Exception:
        return {}
    return dict(given) if isinstance(given, dict) else {}


def _special(value: Any, name: str) -> Any:
    return getattr(type(value), name, None)
