# SPDX-License-Identifier: Apache-2.0
"""What a docstring says about a tool and about its parameters (Google, NumPy and reST styles).

docstring_parser is imported on first use.
"""

from __future__ import annotations

import functools
import inspect
import re
import types
from typing import Any, Final

from acrux_otel.definition.signature import underlying

__all__ = ["read_docstring"]

_CUT: Final = frozenset(
    (
        *(
            "args",
            "arguments",
            "parameters",
            "params",
            "keyword args",
            "keyword arguments",
            "other parameters",
        ),
        *("attributes", "returns", "return", "yields", "yield", "receives", "raises", "raise", "except"),
        *("exceptions", "warns"),
    )
)
_GOOGLE: Final = re.compile(r"(\w[\w ]*):\s*\Z")
_UNDERLINE: Final = re.compile(r"-{3,}\s*\Z")


def read_docstring(fn: Any) -> tuple[str | None, dict[str, str]]:
    """A callable's own words: the description, and what is said of each parameter.

    The description is the docstring without the sections on arguments, results and errors; other sections
    (notes, examples) stay. A docstring in no known style is all description.

    Returns:
        The description (None where there is no docstring or nothing is left) and texts by parameter name.
    """
    text = _docstring(fn)
    if not text:
        return None, {}
    import docstring_parser

    try:
        # It dedents all but the first line once more; an empty first line makes that harmless.
        parsed = docstring_parser.parse("\n" + text)
        found = {
            name.strip().lstrip("*"): meta.description.strip()
            for meta in parsed.params
            if meta.description and meta.args[:1] != ["attribute"]
            for name in meta.arg_name.split(",")
        }
        if parsed.style is docstring_parser.DocstringStyle.GOOGLE:
            return _without_google(text), found
        if parsed.style is docstring_parser.DocstringStyle.NUMPYDOC:
            return _without_numpy(text), found
        return (parsed.description or "").strip() or None, found
    except Exception:  # a docstring may be anything
        return text, {}


def _without_google(text: str) -> str | None:
    kept: list[str] = []
    cutting = False
    for line in text.splitlines():
        if line and not line[0].isspace():
            header = _GOOGLE.match(line)
            cutting = header is not None and header[1].strip().lower() in _CUT
        if not cutting:
            kept.append(line)
    return _joined(kept)


def _without_numpy(text: str) -> str | None:
    kept: list[str] = []
    cutting = False
    lines = text.splitlines()
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if _UNDERLINE.match(following) and line.strip():
            cutting = line.strip().lower() in _CUT
        if not cutting:
            kept.append(line)
    return _joined(kept)


def _joined(lines: list[str]) -> str | None:
    return re.sub(r"\n{3,}", "\n\n", "\n".join(line.rstrip() for line in lines)).strip() or None


def _docstring(fn: Any) -> str | None:
    if isinstance(fn, (staticmethod, classmethod)):
        fn = fn.__func__
    own = (
        fn.__doc__
        if isinstance(fn, types.FunctionType)
        else vars(fn).get("__doc__")
        if _has_vars(fn)
        else None
    )
    text = own or getattr(underlying(fn), "__doc__", None)
    if not text and not isinstance(fn, (types.FunctionType, types.MethodType, functools.partial)):
        text = type(fn).__doc__
    return inspect.cleandoc(text) if isinstance(text, str) and text.strip() else None


def _has_vars(value: Any) -> bool:
    return isinstance(getattr(value, "__dict__", None), dict)
