# SPDX-License-Identifier: Apache-2.0
"""The Chat Completions and the Responses API, as far as tool calls go.

https://platform.openai.com/docs/guides/function-calling
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

from providers.server import Refused

__all__ = ["OpenAIApi"]

Item = dict[str, Any]

_OUTPUTS = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
}


class OpenAIApi:
    """Answers each request with the next turn of its script.

    Args:
        turns: for each turn a Chat message, or a list of Responses output items.
    """

    def __init__(self, turns: Iterable[Any]) -> None:
        self._turns = iter(turns)
        self._ids = itertools.count(1)
        self.requests: list[dict[str, Any]] = []

    def answer(self, path: str, request: dict[str, Any]) -> dict[str, Any]:
        """The model's next message or items.

        Raises:
            Refused: the conversation breaks a rule.
        """
        self.requests.append(request)
        if path == "/v1/chat/completions":
            check_chat(request["messages"])
            return self._completion(request["model"], next(self._turns))
        if path == "/v1/responses":
            check_items(request["input"])
            return self._response(request["model"], next(self._turns))
        raise _refused(f"Invalid URL (POST {path})", None)

    def _completion(self, model: str, message: Item) -> dict[str, Any]:
        reason = "tool_calls" if message.get("tool_calls") else "stop"
        return {
            "id": f"chatcmpl-{next(self._ids)}",
            "object": "chat.completion",
            "created": 0,
            "model": model,
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": None, **message},
                    "finish_reason": reason,
                }
            ],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }

    def _response(self, model: str, output: list[Item]) -> dict[str, Any]:
        return {
            "id": f"resp_{next(self._ids)}",
            "object": "response",
            "created_at": 0,
            "status": "completed",
            "model": model,
            "output": output,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "metadata": {},
            "temperature": 1,
            "top_p": 1,
            "usage": None,
        }


def _refused(message: str, param: str | None) -> Refused:
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": None}
    return Refused(message, {"error": error})


def check_chat(messages: list[Item]) -> None:
    """See that every tool call of a chat is answered.

    Raises:
        Refused: one is not, or an answer has no call.
    """
    missing: list[str] = []
    asked: set[str] = set()
    for place, message in enumerate(messages):
        if message["role"] == "tool":
            call = message["tool_call_id"]
            if call not in asked:
                raise _refused(
                    "Invalid parameter: messages with role 'tool' must be a response to a preceeding message "
                    "with 'tool_calls'.",
                    f"messages.[{place}].role",
                )
            if not isinstance(message["content"], str) and any(
                part["type"] != "text" for part in message["content"]
            ):
                raise _refused("Invalid value: 'image_url'. Supported values are: 'text'.", "messages")
            missing = [each for each in missing if each != call]
            continue
        if missing:
            raise _unanswered(missing, place)
        missing = [call["id"] for call in message.get("tool_calls") or ()]
        asked = set(missing)
    if missing:
        raise _unanswered(missing, len(messages))


def _unanswered(missing: list[str], place: int) -> Refused:
    return _refused(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
        f"'tool_call_id'. The following tool_call_ids did not have response messages: {', '.join(missing)}",
        f"messages.[{place}].role",
    )


def check_items(items: list[Item]) -> None:
    """See that every call among the items has its output.

    Raises:
        Refused: one has none, or an output has no call.
    """
    asked: dict[str, str] = {}
    answered: set[str] = set()
    for item in items:
        kind = item.get("type", "message")
        if kind in _OUTPUTS:
            asked[item["call_id"]] = _OUTPUTS[kind]
        elif kind in _OUTPUTS.values():
            call = item["call_id"]
            if asked.get(call) != kind:
                raise _refused(f"No tool call found for function call output with call_id {call}.", "input")
            if call in answered:
                raise _refused(f"Duplicate item found with call_id {call}.", "input")
            answered.add(call)
    for call in asked:
        if call not in answered:
            raise _refused(f"No tool output found for function call {call}.", "input")
