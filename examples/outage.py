#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The billing service dies in the middle of a support request: the same agent without and with a guard.

The services are loopback servers that hang, fail and sometimes answer. Time is simulated: a request that
hangs costs the agent 30 seconds of its own clock and you a blink. The agent is scripted, and as stubborn as
a model is that reads "timeout" and concludes that it should try again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import requests

import acrux_otel as acrux
from acrux_otel.guard import Clock

TIMEOUT = 30.0  # seconds that the HTTP client waits
PATIENCE = 540.0  # seconds after which the user has left
REAL = 0.4  # what the 30 seconds are in this process


class Simulated(Clock):
    """Time passes where something takes time."""

    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds


@dataclasses.dataclass
class Service:
    """Answers its requests one after another as its script says, and then from its beginning again."""

    script: tuple[str, ...]
    answer: dict[str, Any]
    requests: int = 0

    def next(self) -> tuple[int, dict[str, Any]]:
        word = self.script[self.requests % len(self.script)]
        self.requests += 1
        if word == "hang":
            time.sleep(2 * REAL)
            return 200, {}
        if word == "pending":
            return 200, {**self.answer, "status": "pending"}
        return (200, self.answer) if word == "ok" else (int(word), {"error": "internal error"})


INVOICE = {"invoice": "2026-11", "amount": 120, "status": "final"}
PAYMENT = {"payment": "p1", "charged": 2, "status": "final"}
HEALTHY = ("ok",)
BILLING_DIES = ("hang", "503", "hang", "pending", "hang", "502", "hang", "pending", "hang")
PAYMENTS_DIE = ("hang", "500", "hang", "503")


@contextlib.contextmanager
def serve(services: dict[str, Service]) -> Iterator[str]:
    """The services behind one loopback address, by path."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = services[self.path.strip("/")].next()
            data = json.dumps(body).encode()
            with contextlib.suppress(OSError):  # a client that has given up
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        def log_message(self, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def tools(address: str, clock: Simulated, guard: acrux.Guard | None) -> dict[str, Callable[[], Any]]:
    """What the agent may call."""

    def get(service: str) -> Any:
        try:
            response = requests.get(f"{address}/{service}", timeout=(5, REAL))
        except requests.Timeout:
            clock.sleep(TIMEOUT)
            raise
        clock.sleep(1)
        response.raise_for_status()
        return response.json()

    options: Any = {"guard": guard or False, "annotations": acrux.ToolAnnotations(read_only=True)}

    @acrux.tool(name="orders.list", **options)
    def list_orders() -> dict:
        return get("orders")

    @acrux.tool(name="billing.get_invoice", **options)
    def get_invoice() -> dict:
        return get("billing")

    @acrux.tool(name="payments.verify", **options)
    def verify() -> dict:
        return get("payments")

    return {each.__acrux_tool__.definition.name: each for each in (list_orders, get_invoice, verify)}


class Agent:
    """Answers "why was I charged twice?": needs the orders, the invoice and the payment.

    A failure is tried again, and the other service is asked in between, in case that helps. A result that
    says what to do instead is believed.
    """

    def __init__(self, clock: Simulated) -> None:
        self.clock = clock
        self.cost = 0.0
        self.turns = 0
        self.known: dict[str, Any] = {}
        self.given_up: dict[str, str] = {}

    def work(self, tools: dict[str, Callable[[], Any]]) -> str:
        for name in self.plan():
            if self.clock.now() >= PATIENCE:
                return "none: the user has left"
            self.think()
            try:
                result = tools[name]()
            except acrux.ToolUnavailable as exc:
                self.given_up[name] = exc.answer["stop_reason"]
                continue
            except Exception:
                continue  # "timeout"? Then once more.
            if result["status"] == "final":
                self.known[name] = result
        missing = [each for each in tools if each not in self.known]
        return f"partial: without {' and '.join(missing)}" if missing else "complete"

    def think(self) -> None:
        """One turn of the model: the longer the conversation, the more it reads again."""
        price = 0.0368 + 0.0032 * self.turns
        self.turns += 1
        self.cost += price
        self.clock.sleep(2)
        acrux.record_cost(price)

    def plan(self) -> Iterator[str]:
        yield "orders.list"
        billing, payments = "billing.get_invoice", "payments.verify"
        wanted = (billing, billing, payments, billing, payments)
        for name in itertools.cycle(wanted):
            if all(each in self.known or each in self.given_up for each in wanted):
                return
            if name not in self.known and name not in self.given_up:
                yield name


@dataclasses.dataclass
class Row:
    """One run, as the table shows it."""

    run: str
    billing: int
    payments: int
    attempts: int
    minutes: float
    cost: float
    outcome: str
    stop_reason: str

    def cells(self) -> list[str]:
        return [
            self.run,
            str(self.billing),
            str(self.payments),
            str(self.attempts),
            f"{int(self.minutes)}:{round(self.minutes % 1 * 60):02d}",
            f"${self.cost:.2f}",
            self.outcome,
            self.stop_reason,
        ]


HEAD = ["run", "billing", "payments", "attempts", "minutes", "cost", "outcome", "stop reason"]


def simulate(name: str, *, outage: bool, guarded: bool) -> Row:
    """One support request."""
    clock = Simulated()
    services = {
        "orders": Service(HEALTHY, {"orders": [1, 2], "status": "final"}),
        "billing": Service(BILLING_DIES if outage else HEALTHY, INVOICE),
        "payments": Service(PAYMENTS_DIE if outage else HEALTHY, PAYMENT),
    }
    guard = budget = None
    if guarded:
        # A request may hang for 30 s, so a circuit that is open for less would be tried again at once.
        breaker = acrux.CircuitBreaker(failures=3, window=300, cooldown=300, clock=clock)
        guard = acrux.Guard(acrux.Retry(max_attempts=2, jitter=0), breaker, clock=clock)
        budget = acrux.RunBudget(max_calls=15, max_seconds=240, max_cost=0.60, clock=clock)
    agent = Agent(clock)
    calls: dict[str, int] = {}
    with serve(services) as address, acrux.run("support", budget=budget) as run:
        made = {name: _counted(name, each, calls) for name, each in tools(address, clock, guard).items()}
        answer = agent.work(made)
    reasons = sorted({*agent.given_up.values()} | ({run.summary.stop_reason} - {None}))
    return Row(
        name,
        calls.get("billing.get_invoice", 0),
        calls.get("payments.verify", 0),
        services["billing"].requests + services["payments"].requests,
        clock.now() / 60,
        agent.cost,
        answer,
        ", ".join(reasons) or "-",
    )


def _counted(name: str, call: Callable[[], Any], calls: dict[str, int]) -> Callable[[], Any]:
    def counted() -> Any:
        calls[name] = calls.get(name, 0) + 1
        return call()

    return counted


def table() -> str:
    """The three runs, as a Markdown table."""
    rows = [
        simulate("usual", outage=False, guarded=False),
        simulate("outage, no guard", outage=True, guarded=False),
        simulate("outage, guard", outage=True, guarded=True),
    ]
    lines = [HEAD, ["---"] * len(HEAD), *(row.cells() for row in rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(HEAD))]
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |"
        for line in lines
    )


if __name__ == "__main__":
    print(table())
