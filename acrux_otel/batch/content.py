# SPDX-License-Identifier: Apache-2.0
"""What a tool returned, as text and as content blocks; nothing is cut or masked on its way to the model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from pydantic_core import to_json

from acrux_otel.batch.results import failed, said
from acrux_otel.verdict import Outcome, ToolCallResult

__all__ = ["as_text", "blocks_of", "spoken", "unheard", "well_formed"]

# Type of a block -> the keys that it must have. Any other dict with a "type" is somebody's data.
_REQUIRED: Final[dict[str, tuple[str, ...]]] = {
    "text": ("text",),
    "image": ("source",),
    "document": ("source",),
    "search_result": ("source", "title", "content"),
    "tool_reference": ("tool_name",),
    "browser_state": ("tabs",),
    "input_text": ("text",),
    "input_image": (),
    "input_file": (),
}
_ALLOWED: Final[dict[str, frozenset[str]]] = {
    "text": frozenset(("text", "cache_control", "citations")),
    "image": frozenset(("source", "cache_control")),
    "document": frozenset(("source", "title", "context", "citations", "cache_control")),
    "search_result": frozenset(("source", "title", "content", "citations", "cache_control")),
    "tool_reference": frozenset(("tool_name", "cache_control")),
    "browser_state": frozenset(("tabs", "state_changes", "cache_control")),
    "input_text": frozenset(("text",)),
    "input_image": frozenset(("image_url", "file_id", "detail")),
    "input_file": frozenset(("file_data", "file_id", "file_url", "filename", "detail")),
}
_SOURCES: Final = ("base64", "url", "file", "text", "content")


def spoken(result: ToolCallResult[Any]) -> Any:
    """What the model is to read, still as the tool gave it; never nothing for a failure."""
    if result.value is not None or not failed(result):
        return result.value
    verdict = result.verdict
    detail = verdict.detail or verdict.code or "no reason was given"
    if verdict.outcome is Outcome.NOT_EXECUTED:
        return f"Not executed: {detail}"
    return f"Cancelled: {detail}" if verdict.outcome is Outcome.CANCELLED else detail


def unheard(result: ToolCallResult[Any]) -> str:
    """What stands in for a failure that says nothing: an empty one is refused."""
    return f"The call of {result.name} failed without a message."


def blocks_of(value: Any) -> list[Mapping[str, Any]] | None:
    """The content blocks that ``value`` is, Anthropic's or OpenAI's; None where it is anything else."""
    if _is_block(value):
        return [value]
    if isinstance(value, (list, tuple)) and value and all(map(_is_block, value)):
        return list(value)
    return None


def _is_block(value: Any) -> bool:
    if not isinstance(value, Mapping):
        return False
    kind = value.get("type")
    if not isinstance(kind, str) or kind not in _REQUIRED:
        return False
    keys = value.keys() - {"type"}
    if not keys or keys - _ALLOWED[kind] or any(key not in keys for key in _REQUIRED[kind]):
        return False
    if "text" in keys:
        return isinstance(value["text"], str)
    if kind in ("image", "document"):
        source = value["source"]
        return isinstance(source, Mapping) and source.get("type") in _SOURCES
    return True


def as_text(value: Any) -> str:
    """``value`` as text: a string as it is, anything else as JSON, what JSON cannot hold by its ``repr``."""
    if isinstance(value, str):
        return well_formed(str.__str__(value))
    if isinstance(value, BaseException):
        return well_formed(_of_exception(value))
    try:
        return to_json(value, fallback=_of_unknown, inf_nan_mode="constants").decode()
    except Exception:
        pass
    try:
        return json.dumps(value, ensure_ascii=True, default=_of_unknown)  # keeps lone surrogates, escaped
    except Exception:
        return well_formed(_of_unknown(value))


def well_formed(text: str) -> str:
    """``text`` without lone surrogates: no request with one can be sent."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _of_unknown(value: Any) -> str:
    if isinstance(value, (bytes, bytearray)):
        import base64

        return base64.b64encode(value).decode()
    if isinstance(value, BaseException):
        return _of_exception(value)
    try:
        return repr(value)
    except Exception:
        return f"<{type(value).__name__}>"


def _of_exception(exc: BaseException) -> str:
    message = said(exc)
    return f"{type(exc).__name__}: {message}" if message else type(exc).__name__
