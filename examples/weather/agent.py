# SPDX-License-Identifier: Apache-2.0
"""The smallest agent: ask the model, run the tool that it asks for, ask it again.

Each question to the model is one span by the GenAI conventions; the tool's span is acrux-otel's business.
https://github.com/open-telemetry/semantic-conventions-genai
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from opentelemetry import trace

import acrux_otel as acrux
from weather.model import Message, Model, Reply
from weather.problem import Problem

__all__ = ["ask"]

_TURNS: Final = 6
_tracer = trace.get_tracer("weather-brief")


def ask(question: str, model: Model, tool: Callable[..., Any]) -> str:
    """The model's answer to a question, with one tool at its hand.

    Raises:
        Problem: the model or the tool's service does not answer, or the model never comes to an end.
    """
    definition = acrux.definition_of(tool)
    function = {
        "name": definition.name,
        "description": definition.description,
        "parameters": definition.parameters,
    }
    messages: list[Message] = [{"role": "user", "content": question}]
    for _ in range(_TURNS):
        reply = _chat(model, messages, [{"type": "function", "function": function}])
        messages.append(reply.message)
        calls = reply.message.get("tool_calls")
        if not calls:
            return reply.message.get("content") or ""
        for call in calls:
            content = _run(tool, definition.name, call["function"])
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})
    raise Problem(f"the model {model.name} still called tools after {_TURNS} turns")


def _chat(model: Model, messages: list[Message], tools: list[Message]) -> Reply:
    known: dict[str, Any] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": model.provider,
        "gen_ai.request.model": model.name,
    }
    name, kind = f"chat {model.name}", trace.SpanKind.CLIENT
    with _tracer.start_as_current_span(name, kind=kind, attributes=known) as span:
        try:
            reply = model.chat(messages, tools)
        except Problem as problem:
            span.set_attribute("error.type", type(problem.__cause__ or problem).__qualname__)
            raise
        told = {
            "gen_ai.response.finish_reasons": [reply.finish_reason],
            "gen_ai.response.id": reply.id,
            "gen_ai.response.model": reply.model,
            "gen_ai.usage.input_tokens": reply.input_tokens,
            "gen_ai.usage.output_tokens": reply.output_tokens,
        }
        span.set_attributes({key: value for key, value in told.items() if value is not None})
        return reply


def _run(tool: Callable[..., Any], name: str, function: Message) -> str:
    """The tool's result as JSON; a call that cannot be made is told to the model, which may mend it."""
    if function["name"] != name:
        return json.dumps({"error": f"there is no tool {function['name']!r}, only {name!r}"})
    try:
        result = tool(**json.loads(function["arguments"] or "{}"))
    except (ValueError, TypeError) as problem:
        result = {"error": str(problem)}
    return json.dumps(result, ensure_ascii=False)
