# SPDX-License-Identifier: Apache-2.0
"""Results -> the user message of Anthropic's Messages API.

https://platform.claude.com/docs/en/agents-and-tools/tool-use/handle-tool-calls
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from acrux_otel.batch.content import as_text, blocks_of, spoken, unheard, well_formed
from acrux_otel.batch.ids import answered_once
from acrux_otel.batch.results import BatchResult, failed
from acrux_otel.batch.toolsets import check_content
from acrux_otel.verdict import ToolCallResult

__all__ = ["to_anthropic"]


def to_anthropic(results: Iterable[ToolCallResult[Any]]) -> Any:
    """The user message that answers a turn's tool calls; append it to ``messages`` behind the model's.

    Failures, calls that did not run and cancelled ones are marked ``is_error``. Text, images and documents
    that a tool returned as content blocks go through as they are; any other value becomes JSON text.

    Args:
        results: of `run_tool_calls`, or `ToolCallResult`s of your own with ids. The second of two results
            for one id is left out.

    Returns:
        One message, a dict with a ``tool_result`` block for each id and nothing else. Text of your own goes
        behind them.

    Raises:
        ValueError: there are no results, one has no id, or the result of a toolset's action breaks the
            toolset's rules, which the API would refuse.
    """
    blocks = [_block(each) for each in answered_once(results)]
    return {"role": "user", "content": blocks}


def _block(result: ToolCallResult[Any]) -> dict[str, Any]:
    is_error = failed(result)
    call = result.call if isinstance(result, BatchResult) else None
    toolset = call.toolset if call is not None else None
    content = _content(result, is_error, toolset)
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": result.id, "content": content}
    if is_error:
        block["is_error"] = True
    if call is not None and toolset is not None:
        check_content(call, content, is_error=is_error)
        block["toolset_name"] = toolset
    return block


def _content(result: ToolCallResult[Any], is_error: bool, toolset: str | None) -> str | list[Any]:
    value = spoken(result)
    blocks = blocks_of(value)
    if blocks is None or (toolset is None and any(block["type"] == "browser_state" for block in blocks)):
        text = as_text(value)
        return unheard(result) if is_error and not text.strip() else text
    made = [each for block in blocks if (each := _converted(block)) is not None]
    if is_error and any(block["type"] != "text" for block in made):
        # The API takes nothing but text in an error.
        kinds = sorted({block["type"] for block in made if block["type"] not in ("text", "browser_state")})
        kept = [block for block in made if block["type"] in ("text", "browser_state")]
        made = [*kept, *({"type": "text", "text": f"[{kind} left out]"} for kind in kinds)]
    if made:
        return made
    return unheard(result) if is_error else ""


def _converted(block: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The block as this API has it; None for empty text, which it refuses."""
    kind = block["type"]
    if kind in ("text", "input_text"):
        text = block["text"]
        if not text:
            return None
        sound = well_formed(text)
        return block if kind == "text" and sound is text else {**block, "type": "text", "text": sound}
    if kind == "input_image":
        return _of_address("image", block.get("image_url"), block.get("file_id"))
    if kind == "input_file":
        made = _of_address("document", block.get("file_data") or block.get("file_url"), block.get("file_id"))
        return {**made, "title": block["filename"]} if block.get("filename") else made
    return block


def _of_address(kind: str, address: Any, file_id: Any) -> dict[str, Any]:
    source: dict[str, Any]
    if isinstance(address, str) and address.startswith("data:"):
        media_type, _, data = address[len("data:") :].partition(";base64,")
        source = {"type": "base64", "media_type": media_type, "data": data}
    elif isinstance(address, str):
        source = {"type": "url", "url": address}
    else:
        source = {"type": "file", "file_id": file_id}
    return {"type": kind, "source": source}
