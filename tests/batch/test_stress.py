# SPDX-License-Identifier: Apache-2.0
"""Random turns against the loopback APIs: no 400, every id answered once, nothing left behind.

ACRUX_OTEL_STRESS_TURNS says how many; the default keeps the suite short.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest
from conftest import gone, tool_threads
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from providers import AnthropicApi, OpenAIApi, serve

import acrux_otel as acrux
from acrux_otel import ToolAnnotations, ToolCall, ToolSession, arun_tool_calls, run_tool_calls
from acrux_otel.settings import settings as ours

TURNS = int(os.environ.get("ACRUX_OTEL_STRESS_TURNS", "250"))
KINDS = (
    "sync_ok",
    "async_ok",
    "sync_fails",
    "async_fails",
    "declares",
    "warns",
    "sync_hangs",
    "async_hangs",
    "cancels_itself",
    "writes",
    "write_fails",
    "pauses",
    "generates",
    "odd_result",
    "unknown",
    "malformed",
    "invalid",
)


@dataclasses.dataclass(frozen=True)
class Turn:
    """One random turn."""

    kinds: list[str]
    duplicate: bool
    depends: bool
    form: str
    order: str
    how: str
    limit: int


turns = st.builds(
    Turn,
    kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=7),
    duplicate=st.booleans(),
    depends=st.booleans(),
    form=st.sampled_from(("anthropic", "chat", "responses")),
    order=st.sampled_from(("auto", "parallel", "sequential")),
    how=st.sampled_from(("sync", "async", "cancelled", "lost", "beside a loop")),
    limit=st.integers(1, 8),
)


class Pause(Exception):
    pass


def tools(release: threading.Event) -> list[Any]:
    """One tool of each kind, and what it is for."""
    writes = ToolAnnotations(read_only=False)

    def sync_ok() -> str:
        return "fine"

    async def async_ok() -> dict[str, Any]:
        await asyncio.sleep(0.001)
        return {"fine": True}

    def sync_fails() -> None:
        raise ConnectionError("refused")

    async def async_fails() -> None:
        raise ValueError

    def declares() -> Any:
        return acrux.ToolResult.error("not_found", "nothing there")

    def warns() -> Any:
        return acrux.ToolResult.warn("old", "six hours old", "data")

    def sync_hangs() -> str:
        release.wait(30)
        return "late"

    async def async_hangs() -> str:
        await asyncio.sleep(30)
        return "late"

    async def cancels_itself() -> None:
        raise asyncio.CancelledError

    async def write() -> str:
        await asyncio.sleep(0.001)
        return "written"

    def write_fails() -> None:
        raise PermissionError("read-only")

    def pauses() -> None:
        raise Pause

    def generates() -> Any:
        yield "a"
        yield "b"

    def odd_result() -> Any:
        return [object(), "\ud800", {1: float("inf")}, b"\xff"]

    def takes(n: int) -> int:
        return n

    made = [sync_ok, async_ok, sync_fails, async_fails, declares, warns, sync_hangs, async_hangs]
    made += [cancels_itself, generates, odd_result]
    return [
        *map(acrux.tool, made),
        acrux.tool(name="malformed")(takes),
        acrux.tool(name="invalid")(takes),
        acrux.tool(name="writes", annotations=writes)(write),
        acrux.tool(name="write_fails", annotations=writes)(write_fails),
        acrux.tool(name="pauses", control_flow=(Pause,))(pauses),
    ]


def arguments(kind: str) -> Any:
    return {"malformed": '{"n": ', "invalid": '{"n": "many"}'}.get(kind, "{}")


class Conversation:
    """A turn in the form of one API, sent by that API's real client."""

    def __init__(self, form: str, calls: list[ToolCall], clients: dict[str, Any]) -> None:
        self.form, self.clients = form, clients
        self.messages: list[Any] = [{"role": "user", "content": "go"}]
        if form == "anthropic":
            blocks = [
                {"type": "tool_use", "id": call.id, "name": call.name, "input": {"given": call.arguments}}
                for call in calls
            ]
            self.messages.append({"role": "assistant", "content": blocks})
        elif form == "chat":
            asked = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                }
                for call in calls
            ]
            self.messages.append({"role": "assistant", "content": None, "tool_calls": asked})
        else:
            self.messages += [
                {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments}
                for call in calls
            ]

    def answered(self, results: Any) -> list[Any]:
        if self.form == "anthropic":
            return [*self.messages, acrux.to_anthropic(results)]
        if self.form == "chat":
            return [*self.messages, *acrux.to_openai_chat(results)]
        return [*self.messages, *acrux.to_openai_responses(results)]

    def send(self, messages: list[Any]) -> str:
        """What the API answers; a 400 raises."""
        client = self.clients[self.form]
        if self.form == "anthropic":
            return client.messages.create(model="m", max_tokens=9, messages=messages).content[0].text
        if self.form == "chat":
            return client.chat.completions.create(model="m", messages=messages).choices[0].message.content
        return client.responses.create(model="m", input=messages).output_text


@pytest.fixture(scope="module")
def clients() -> Iterator[dict[str, Any]]:
    """The real packages, at the loopback APIs."""

    def chat() -> Iterator[Any]:
        while True:
            yield {"content": "done"}

    def items() -> Iterator[Any]:
        text = {"type": "output_text", "text": "done", "annotations": []}
        while True:
            yield [
                {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [text]}
            ]

    def blocks() -> Iterator[Any]:
        while True:
            yield [{"type": "text", "text": "done"}]

    with (
        serve(AnthropicApi(blocks())) as one,
        serve(OpenAIApi(chat())) as two,
        serve(OpenAIApi(items())) as three,
    ):
        yield {
            "anthropic": anthropic.Anthropic(base_url=one, api_key="k", max_retries=0),
            "chat": openai.OpenAI(base_url=f"{two}/v1", api_key="k", max_retries=0),
            "responses": openai.OpenAI(base_url=f"{three}/v1", api_key="k", max_retries=0),
        }


@pytest.mark.slow
@pytest.mark.timeout(1200)
@seed(7)
@settings(
    max_examples=TURNS,
    deadline=None,
    database=None,
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
)
@given(turn=turns)
def test_no_turn_bricks_its_conversation(clients: dict[str, Any], turn: Turn) -> None:
    """Whatever its calls do, the next request is taken, each id has one answer and each call one span."""
    release = threading.Event()
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    ours.tracer_provider = provider

    calls = [ToolCall(f"id_{place}", kind, arguments(kind)) for place, kind in enumerate(turn.kinds)]
    conversation = Conversation(turn.form, calls, clients)
    asked = [*calls, calls[0]] if turn.duplicate else calls
    session = ToolSession()
    options: dict[str, Any] = {
        "order": turn.order,
        "timeout": 0.05 if any("hangs" in kind for kind in turn.kinds) else 5,
        "max_concurrency": turn.limit,
        "session": session,
        "after": {calls[-1].id: calls[0].id} if turn.depends and len(calls) > 1 else None,
    }
    try:
        results = run(turn.how, asked, tools(release), options)
    finally:
        release.set()
    assert gone(), tool_threads()
    if results is None:  # the process that had them is gone
        messages = acrux.complete_history(conversation.messages)
    else:
        assert [each.id for each in results] == [call.id for call in asked]
        messages = conversation.answered(results)
    assert acrux.validate_history(messages) == []
    assert conversation.send(json.loads(json.dumps(messages))) == "done"
    spans = Counter(span.attributes["gen_ai.tool.call.id"] for span in exporter.get_finished_spans())
    assert spans == Counter(call.id for call in asked)
    provider.shutdown()


def run(how: str, calls: list[ToolCall], given: list[Any], options: dict[str, Any]) -> Any:
    """The results, however the turn is run; None where they are lost."""
    if how == "sync":
        return run_tool_calls(calls, given, **options)
    if how == "beside a loop":

        async def beside() -> Any:
            return run_tool_calls(calls, given, **options)

        return asyncio.run(beside())

    async def main() -> Any:
        task = asyncio.create_task(arun_tool_calls(calls, given, **options))
        if how != "async":
            await asyncio.sleep(0.004)
            task.cancel()
        try:
            results = await task
        except asyncio.CancelledError:
            results = None
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return results

    results = asyncio.run(main())
    if how == "lost":
        return None
    return options["session"].results if results is None else results
