# SPDX-License-Identifier: Apache-2.0
"""Results -> the messages and items of OpenAI's two APIs, which know no flag for an error: the text says it.

https://platform.openai.com/docs/guides/function-calling
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from acrux_otel.batch.content import as_text, blocks_of, spoken, unheard, well_formed
from acrux_otel.batch.ids import answered_once
from acrux_otel.batch.results import BatchResult, failed
from acrux_otel.verdict import Outcome, ToolCallResult

__all__ = ["to_openai_chat", "to_openai_responses"]


def to_openai_chat(results: Iterable[ToolCallResult[Any]]) -> list[Any]:
    """The ``tool`` messages that answer a turn's tool calls; extend ``messages`` by them behind the model's.

    The text of a failure says that it is one: it begins with ``Error:`` unless the tool's own result says so
    (``{"error": …}``), or with ``Not executed:`` or ``Cancelled:``. These messages hold text only: other
    content blocks become a note that they are left out.

    Args:
        results: of `run_tool_calls`, or `ToolCallResult`s of your own with ids. The second of two results
            for one id is left out.

    Raises:
        ValueError: there are no results, or one has no id.
    """
    return [
        {"role": "tool", "tool_call_id": each.id, "content": _chat_content(each)}
        for each in answered_once(results)
    ]


def to_openai_responses(results: Iterable[ToolCallResult[Any]]) -> list[Any]:
    """The output items that answer a turn's tool calls; append them to ``input`` behind the model's.

    Texts are those of `to_openai_chat`. Images and files that a tool returned as content blocks are passed
    on, those of Anthropic's form too.

    Args:
        results: of `run_tool_calls`, or `ToolCallResult`s of your own with ids. The second of two results
            for one id is left out.

    Raises:
        ValueError: there are no results, or one has no id.
    """
    return [_item(each) for each in answered_once(results)]


def _item(result: ToolCallResult[Any]) -> dict[str, Any]:
    call = result.call if isinstance(result, BatchResult) else None
    kind = "custom_tool_call_output" if call is not None and call.free_form else "function_call_output"
    blocks = blocks_of(spoken(result))
    output: str | list[Any]
    if blocks is None:
        output = _text(result)
    else:
        parts = [_part(block) for block in blocks]
        output = [{"type": "input_text", "text": "Error:"}, *parts] if failed(result) else parts
    item: dict[str, Any] = {"type": kind, "call_id": result.id, "output": output}
    if call is not None and call.caller is not None:
        item["caller"] = call.caller
    return item


def _chat_content(result: ToolCallResult[Any]) -> str:
    blocks = blocks_of(spoken(result))
    if blocks is None:
        return _text(result)
    lines = [
        well_formed(block["text"]) if "text" in block else f"[{_plain_kind(block)} left out]"
        for block in blocks
    ]
    return "\n".join((["Error:"] if failed(result) else []) + lines)


def _text(result: ToolCallResult[Any]) -> str:
    value = spoken(result)
    text = as_text(value)
    if not failed(result):
        return text
    if not text.strip():
        return f"Error: {unheard(result)}"
    if result.verdict.outcome is not Outcome.ERROR or (isinstance(value, Mapping) and value.get("error")):
        return text
    return f"Error: {text}"


def _plain_kind(block: Mapping[str, Any]) -> str:
    return str(block["type"]).removeprefix("input_")


def _part(block: Mapping[str, Any]) -> Mapping[str, Any]:
    """The block as the Responses API has it."""
    kind = block["type"]
    if kind in ("text", "input_text"):
        return {"type": "input_text", "text": well_formed(block["text"])}
    if kind in ("input_image", "input_file"):
        return block
    source = block.get("source")
    if kind == "image" and isinstance(source, Mapping) and (address := _address(source)):
        return {"type": "input_image", "image_url": address, "detail": "auto"}
    if kind == "document" and isinstance(source, Mapping):
        if source.get("type") == "text":
            return {"type": "input_text", "text": as_text(source.get("data"))}
        if source.get("type") == "url":
            return {"type": "input_file", "file_url": source["url"]}
        if address := _address(source):
            name = block.get("title") or "document.pdf"
            return {"type": "input_file", "filename": name, "file_data": address}
    return {"type": "input_text", "text": as_text(block)}


def _address(source: Mapping[str, Any]) -> str | None:
    if source.get("type") == "base64":
        return f"data:{source.get('media_type')};base64,{source.get('data')}"
    return source["url"] if source.get("type") == "url" else None
