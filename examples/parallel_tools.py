#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A model asks for three tools at once, and one of them needed another: every call is answered all the same.

The invoice fails because the customer is not there yet. The model reads that, asks for all three again, and
now the batch runner runs the customer before the invoice. The agents use the real anthropic and openai
packages; the APIs are loopback servers that refuse a conversation as the real ones do.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

from providers import AnthropicApi, OpenAIApi, serve

import acrux_otel as acrux

CUSTOMERS: set[str] = set()
ASKED = [
    ("create_customer", {"name": "Ada"}),
    ("send_invoice", {"customer": "Ada", "amount": 120}),
    ("exchange_rate", {"currency": "NPR"}),
]
SAID = "Ada has her invoice of 120 USD."


@acrux.tool(annotations=acrux.ToolAnnotations(read_only=False, idempotent=True))
def create_customer(name: str) -> dict:
    """Create a customer, in place of one of the same name."""
    CUSTOMERS.discard(name)
    time.sleep(0.2)
    CUSTOMERS.add(name)
    return {"customer": name}


@acrux.tool(annotations=acrux.ToolAnnotations(read_only=False))
async def send_invoice(customer: str, amount: float) -> dict:
    """Send an invoice to a customer."""
    if customer not in CUSTOMERS:
        return acrux.ToolResult.error("customer_not_found", f"no customer is called {customer}")
    return {"sent": amount, "to": customer}


@acrux.tool(annotations=acrux.ToolAnnotations(read_only=True))
def exchange_rate(currency: str) -> dict:
    """Tell how much of a currency one USD is."""
    return {"currency": currency, "rate": 133.2, "simulated": True}


TOOLS = [create_customer, send_invoice, exchange_rate]


class Table:
    """One line for each call, as it was answered."""

    def __init__(self, api: str) -> None:
        self._api, self._turns = api, itertools.count(1)

    def add(self, results: list[acrux.BatchResult]) -> None:
        turn = next(self._turns)
        for each in results:
            reads = each.value if isinstance(each.value, str) else json.dumps(each.value)
            print(f"{self._api:<20} {turn:>4}  {each.name:<16} {each.verdict.outcome:<13} {reads}")


def run_turn(message: Any, session: acrux.ToolSession, table: Table) -> list[acrux.BatchResult]:
    """The results of the calls in a model's message; none where it made no call."""
    # "auto" would have kept the two writers apart from the start; what is shown here is the other case.
    results = acrux.run_tool_calls(message, TOOLS, order="parallel", timeout=10, session=session)
    table.add(results)
    return results


def ask_anthropic(url: str, table: Table) -> str:
    """An agent on the Messages API."""
    import anthropic

    client = anthropic.Anthropic(base_url=url, api_key="stub", max_retries=0)
    session = acrux.ToolSession()
    messages: list[Any] = [{"role": "user", "content": "Send Ada an invoice of 120 USD."}]
    while True:
        reply = client.messages.create(model="stub", max_tokens=1024, messages=messages)
        messages.append({"role": "assistant", "content": reply.content})
        results = run_turn(reply.content, session, table)
        if not results:
            return "".join(block.text for block in reply.content if block.type == "text")
        messages.append(acrux.to_anthropic(results))


def ask_openai_chat(url: str, table: Table) -> str:
    """An agent on the Chat Completions API."""
    import openai

    client = openai.OpenAI(base_url=f"{url}/v1", api_key="stub", max_retries=0)
    session = acrux.ToolSession()
    messages: list[Any] = [{"role": "user", "content": "Send Ada an invoice of 120 USD."}]
    while True:
        reply = client.chat.completions.create(model="stub", messages=messages).choices[0].message
        messages.append(reply)
        results = run_turn(reply, session, table)
        if not results:
            return reply.content or ""
        messages += acrux.to_openai_chat(results)


def ask_openai_responses(url: str, table: Table) -> str:
    """An agent on the Responses API."""
    import openai

    client = openai.OpenAI(base_url=f"{url}/v1", api_key="stub", max_retries=0)
    session = acrux.ToolSession()
    items: list[Any] = [{"role": "user", "content": "Send Ada an invoice of 120 USD."}]
    while True:
        reply = client.responses.create(model="stub", input=items)
        items += reply.output
        results = run_turn(reply, session, table)
        if not results:
            return reply.output_text
        items += acrux.to_openai_responses(results)


def anthropic_script() -> Iterator[list[Any]]:
    """Three calls, the same three again, and words."""
    for turn in (1, 2):
        yield [
            {"type": "tool_use", "id": f"toolu_{turn}_{place}", "name": name, "input": arguments}
            for place, (name, arguments) in enumerate(ASKED)
        ]
    yield [{"type": "text", "text": SAID}]


def chat_script() -> Iterator[dict[str, Any]]:
    for turn in (1, 2):
        yield {
            "tool_calls": [
                {
                    "id": f"call_{turn}_{place}",
                    "type": "function",
                    "function": {"name": name, "arguments": json.dumps(arguments)},
                }
                for place, (name, arguments) in enumerate(ASKED)
            ]
        }
    yield {"content": SAID}


def responses_script() -> Iterator[list[Any]]:
    for turn in (1, 2):
        yield [
            {
                "type": "function_call",
                "id": f"fc_{turn}_{place}",
                "call_id": f"call_{turn}_{place}",
                "name": name,
                "arguments": json.dumps(arguments),
            }
            for place, (name, arguments) in enumerate(ASKED)
        ]
    text = {"type": "output_text", "text": SAID, "annotations": []}
    yield [{"type": "message", "id": "msg", "role": "assistant", "status": "completed", "content": [text]}]


AGENTS: dict[str, tuple[Callable[[str, Table], str], Callable[[], Any]]] = {
    "Anthropic Messages": (ask_anthropic, lambda: AnthropicApi(anthropic_script())),
    "OpenAI Chat": (ask_openai_chat, lambda: OpenAIApi(chat_script())),
    "OpenAI Responses": (ask_openai_responses, lambda: OpenAIApi(responses_script())),
}


def main() -> None:
    print(f"{'api':<20} turn  {'tool':<16} {'outcome':<13} the model reads")
    for name, (ask, api) in AGENTS.items():
        CUSTOMERS.clear()
        with serve(api()) as url, acrux.run("invoices", tags=[name]):
            print(f"{name}: {ask(url, Table(name))}")


if __name__ == "__main__":
    main()
