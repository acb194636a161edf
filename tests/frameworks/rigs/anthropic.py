# SPDX-License-Identifier: Apache-2.0
"""Anthropic's tool runner against a stub of its API on loopback."""

from __future__ import annotations

import inspect
import json
import warnings
from collections.abc import Callable
from typing import Any

import anthropic
from anthropic.lib.tools import ToolError, beta_async_tool, beta_tool
from anthropic.lib.tools._beta_runner import BaseToolRunner

from tests.frameworks.rig import NOT_THERE, Rig
from tests.frameworks.stub import provider

__all__ = ["RIG", "SAID", "asking", "client_of", "told"]


def _message(stop: str, *content: Any) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-4-6",
        "content": list(content),
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


SAID = _message("end_turn", {"type": "text", "text": "done"})


def asking(*calls: tuple[str, str, dict[str, Any]], **more: Any) -> dict[str, Any]:
    """A model's message that asks for calls: (id, name, input)."""
    return _message(
        "tool_use",
        *({"type": "tool_use", "id": id, "name": name, "input": given, **more} for id, name, given in calls),
    )


def client_of(kind: Any, url: str) -> Any:
    """A client that talks to the stub."""
    return kind(base_url=url, api_key="none", max_retries=0)


def told(served: Any) -> list[dict[str, Any]]:
    """The tool results that the model was sent."""
    return list(served.requests[1]["messages"][-1]["content"])


class _Anthropic(Rig):
    name = "acrux_anthropic"
    own_span = "anthropic.custom_tool_use " if hasattr(BaseToolRunner, "_tool_use_span") else None

    def soft(self, kind: str) -> Callable[..., Any]:
        if kind == "sync":

            def forecast(city: str) -> str:
                """Tell the weather of a city."""
                raise ToolError(f"no station in {city}")
        else:

            async def forecast(city: str) -> str:
                """Tell the weather of a city."""
                raise ToolError(f"no station in {city}")

        return forecast

    async def turn(self, function: Callable[..., Any], name: str, arguments: dict[str, Any]) -> str:
        is_async = inspect.iscoroutinefunction(function)

        # The API takes text; a tool that returns a dict makes text of it, unless it declares.
        tool: Any = (beta_async_tool if is_async else beta_tool)(_as_text(function), name="forecast")
        options: dict[str, Any] = {
            "model": "claude-opus-4-6",
            "max_tokens": 100,
            "tools": [tool],
            "messages": [{"role": "user", "content": "how is it?"}],
        }
        with provider(asking(("call-7", name, arguments)), SAID) as served, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if is_async:
                async with client_of(anthropic.AsyncAnthropic, served.url) as client:
                    await client.beta.messages.tool_runner(**options).until_done()
            else:
                with client_of(anthropic.Anthropic, served.url) as client:
                    client.beta.messages.tool_runner(**options).until_done()
        return json.dumps(told(served))


def _as_text(function: Any) -> Any:
    """A function as it is written for Anthropic: plain dicts become text, declared ones are left alone."""
    if hasattr(function, "__acrux_tool__"):
        return function

    def text(result: Any) -> Any:
        return json.dumps(result) if isinstance(result, dict) else result

    if inspect.iscoroutinefunction(function):

        async def aforecast(city: str) -> Any:
            """Tell the weather of a city."""
            return text(await function(city))

        return aforecast

    def forecast(city: str) -> Any:
        """Tell the weather of a city."""
        return text(function(city))

    return forecast


# The runner does not limit the time of a tool.
RIG = _Anthropic(timeout=NOT_THERE)
