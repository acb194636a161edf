# SPDX-License-Identifier: Apache-2.0
"""Results that an agent framework itself declares failed, known by dotted class name.

Imports `acrux_otel.verdict` and `.evidence`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from acrux_otel.classify.evidence import cut, dotted, get
from acrux_otel.verdict import ErrorType, Outcome, Verdict, slug

__all__ = ["declared_by_result", "mcp_failure"]

_TYPES: Final = 1024  # types remembered
_PARTS: Final = 32  # blocks of a content that are read
_PART_LENGTH: Final = 1024


class _Declared(NamedTuple):
    """Where a framework's result says that it failed, and where its text is."""

    flag: str
    failed: tuple[object, ...]
    text: str
    code: str = ""  # the attribute that holds the owner's code


# Dotted class name -> where it says so.
_RESULTS: Final[dict[str, _Declared]] = {
    "mcp.types.CallToolResult": _Declared("isError", (True,), "content"),
    "mcp_types._types.CallToolResult": _Declared("is_error", (True,), "content"),
    "fastmcp.tools.base.ToolResult": _Declared("is_error", (True,), "content"),
    "fastmcp.tools.tool.ToolResult": _Declared("is_error", (True,), "content"),
    "fastmcp.client.client.CallToolResult": _Declared("is_error", (True,), "content"),
    "langchain_core.messages.tool.ToolMessage": _Declared("status", ("error",), "content"),
    "crewai.tools.tool_failure.ToolFailure": _Declared("__class__", (), "message", "code"),
    "llama_index.core.tools.types.ToolOutput": _Declared("is_error", (True,), "content"),
    "autogen_core.tools._workbench.ToolResult": _Declared("is_error", (True,), "result"),
    "haystack.dataclasses.chat_message.ToolCallResult": _Declared("error", (True,), "result"),
    "pydantic_ai.messages.BaseToolReturnPart": _Declared("outcome", ("failed", "retried"), "content"),
}

_NO_TEXT: Final = "the tool reported an error without text"
_unseen: Final = _Declared("", (), "")
_declared_of: dict[type, _Declared | None] = {}


def declared_by_result(result: object) -> Verdict | None:
    """A framework's own declaration that a result is a failure; None for anything else.

    Classes are known by dotted name; somebody's own dict or object with an ``error`` key is no
    declaration. One dictionary look-up for a type seen before.

    Args:
        result: what the tool returned.

    Returns:
        ``tool_declared`` / ``tool_error`` (or the owner's own code), or None. Never raises.
    """
    try:
        declared = _declared_of.get(type(result), _unseen)
        if declared is None:
            return None
        if declared is _unseen:
            declared = _find_declared(type(result))
            if declared is None:
                return None
        return _declaration(result, declared)
    except Exception:
        return None


def _find_declared(kind: type) -> _Declared | None:
    found = next((row for base in kind.__mro__ if (row := _RESULTS.get(dotted(base)))), None)
    if len(_declared_of) >= _TYPES:
        _declared_of.clear()
    _declared_of[kind] = found
    return found


def _declaration(result: object, declared: _Declared) -> Verdict | None:
    if declared.failed and get(result, declared.flag) not in declared.failed:
        return None
    code = get(result, declared.code) if declared.code else None
    return _tool_error(get(result, declared.text), slug(code) if code else "tool_error")


def mcp_failure(result: object) -> Verdict | None:
    """The same for a result that its caller knows to be MCP's, whatever its class.

    Args:
        result: an object with ``is_error`` (2.x) or ``isError`` (1.x) and ``content``.

    Returns:
        ``tool_declared`` / ``tool_error``, or None. Never raises.
    """
    failed = get(result, "is_error")
    if failed is None:  # asking a 2.x result for the old name makes a deprecation warning
        failed = get(result, "isError")
    if failed is True:
        return _tool_error(get(result, "content"), "tool_error")
    return None


def _tool_error(content: object, code: str) -> Verdict:
    text = "\n".join(_texts(content))
    detail = cut(text) if text and not text.isspace() else _NO_TEXT
    return Verdict(Outcome.ERROR, ErrorType.TOOL_DECLARED, code, detail)


def _texts(content: object) -> Iterator[str]:
    """The text parts of a result's content, which is a string or a list of blocks."""
    try:
        blocks = content[:_PARTS] if isinstance(content, (list, tuple)) else (content,)
        for block in blocks:
            text = block.get("text") if isinstance(block, dict) else block
            if not isinstance(text, str):
                text = get(block, "text")
            if not isinstance(text, str):
                text = get(block, "content")
            if isinstance(text, str) and text:
                yield text[:_PART_LENGTH]
    except Exception:
        return
