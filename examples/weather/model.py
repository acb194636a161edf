# SPDX-License-Identifier: Apache-2.0
"""Two chat models that call tools: one follows a script, one is any OpenAI-compatible endpoint.

Messages and tools have the shape of OpenAI's chat completions API in both.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Sequence
from typing import Any, Protocol

from weather.problem import Problem

__all__ = ["Message", "Model", "OpenAIModel", "Reply", "ScriptedModel"]

Message = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Reply:
    """One answer of a model, and what it tells about itself; None where it does not."""

    message: Message
    finish_reason: str
    id: str | None = None
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None


class Model(Protocol):
    """What the agent needs of a model."""

    name: str
    provider: str

    def chat(self, messages: Sequence[Message], tools: Sequence[Message]) -> Reply: ...


class ScriptedModel:
    """Asks the first tool about the city in the question, then reads the tool's result out."""

    name = "scripted"
    provider = "scripted"

    def chat(self, messages: Sequence[Message], tools: Sequence[Message]) -> Reply:
        last = messages[-1]
        if last["role"] == "tool":
            return Reply({"role": "assistant", "content": _read_out(json.loads(last["content"]))}, "stop")
        found = re.search(r"weather in (.+?)\?", last["content"])
        if found is None:
            return Reply({"role": "assistant", "content": "I only know about the weather in a city."}, "stop")
        function = {"name": tools[0]["function"]["name"], "arguments": json.dumps({"city": found[1]})}
        call = {"id": f"call_{len(messages)}", "type": "function", "function": function}
        return Reply({"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls")


def _read_out(result: Message) -> str:
    if "error" in result:
        return f"I cannot say: {result['error']}."
    weather = "{city}, {country}: {sky}, {temperature_c} °C".format_map(result)
    return f"{weather} ({result['source']})."


class OpenAIModel:
    """A model behind the chat completions API of OPENAI_BASE_URL, by the `openai` package.

    Raises:
        Problem: the package or OPENAI_API_KEY is missing.
    """

    provider = "openai"

    def __init__(self, name: str) -> None:
        if not os.environ.get("OPENAI_API_KEY"):
            raise Problem("--model needs OPENAI_API_KEY; for a local server any text will do")
        try:
            import openai
        except ImportError as missing:
            raise Problem("--model needs the openai package: pip install openai") from missing
        self.name = name
        self._error = openai.OpenAIError
        self._client = openai.OpenAI(timeout=60, max_retries=1)

    def chat(self, messages: Sequence[Message], tools: Sequence[Message]) -> Reply:
        try:
            completion: Any = self._client.chat.completions.create(
                model=self.name,
                messages=messages,  # type: ignore[arg-type]
                tools=tools,  # type: ignore[arg-type]
            )
            choice = completion.choices[0]
        except self._error as problem:
            raise Problem(f"the model at {self._client.base_url} failed: {problem}") from problem
        except (IndexError, TypeError, AttributeError) as problem:
            raise Problem(f"{self._client.base_url} did not answer a chat completion") from problem
        usage = completion.usage
        return Reply(
            message=choice.message.model_dump(exclude_none=True, include={"role", "content", "tool_calls"}),
            finish_reason=choice.finish_reason,
            id=completion.id,
            model=completion.model,
            input_tokens=usage.prompt_tokens if usage else None,
            output_tokens=usage.completion_tokens if usage else None,
        )
