# SPDX-License-Identifier: Apache-2.0
"""`run_tool_calls` and `arun_tool_calls`: what is asked is checked here, before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from acrux_otel.batch.alone import run_alone
from acrux_otel.batch.calls import ToolCall, read_calls
from acrux_otel.batch.order import ORDERS, Order, checked_after, plan
from acrux_otel.batch.results import BatchResult
from acrux_otel.batch.runner import Turn
from acrux_otel.batch.session import ToolSession
from acrux_otel.batch.toolbox import Toolbox

__all__ = ["arun_tool_calls", "run_tool_calls"]

MAX_CONCURRENCY: Final = 16

After = Mapping[str, "str | Iterable[str]"]


def run_tool_calls(
    calls: Any,
    tools: Any,
    *,
    order: Order = "auto",
    timeout: float | None = None,
    max_concurrency: int = MAX_CONCURRENCY,
    client_tools: Mapping[str, Any] | None = None,
    toolsets: Mapping[str, Any] | None = None,
    after: After | None = None,
    inject: Mapping[type, Any] | None = None,
    session: ToolSession | None = None,
) -> list[BatchResult]:
    """Run every tool call of a model's turn, and answer each exactly once.

    Sync tools run in daemon threads, async tools on an event loop of this call's own, each in a copy of the
    caller's context. Where an event loop runs in this thread already, ours gets a thread of its own and the
    other one stands still until the turn is over: use `arun_tool_calls` there, also for async tools whose
    clients belong to a loop.

    Args:
        calls: `ToolCall`s, or the model's message: Anthropic's ``response.content``, OpenAI's
            ``response.choices[0].message`` or ``response.output``, as objects or dicts.
        tools: decorated tools, or tools and plain callables by the name that the model knows.
        order: ``"auto"`` runs calls together, but a tool annotated ``read_only=False`` or
            ``destructive=True`` alone and in its place, and its failure stops the rest; ``"parallel"`` runs
            all together; ``"sequential"`` one after the other up to the first failure.
        timeout: seconds for the whole turn. Calls that still run then are answered as timed out, the others
            as not executed; a sync tool that hangs is left behind in its thread.
        max_concurrency: calls that run at the same time, at least 1.
        client_tools: functions for tools of the catalog, by ``name`` or ``name@alias``; like
            ``@tool(sync=False)``, the catalog is read and not written.
        toolsets: for the actions of Anthropic's ``computer`` and ``browser`` toolsets: functions by action,
            or one function of the action's name and its arguments. They run strictly in order.
        after: ids of calls by the id of the call that needs them, in any order.
        inject: objects by class, for the parameters that ``@tool(inject=...)`` hides from the model.
        session: what the conversation's earlier turns taught, and where the results stay retrievable.

    Returns:
        One result for each call, in the order asked; `to_anthropic`, `to_openai_chat` and
        `to_openai_responses` make the next request's message of them.

    Raises:
        TypeError, ValueError: what can never work, before any tool runs.
        KeyboardInterrupt, SystemExit: after the other calls were cancelled and awaited; ``session.results``
            has what there is. Nothing that a tool raises comes out otherwise.
    """
    turn = _prepare(
        calls, tools, order, timeout, max_concurrency, client_tools, toolsets, after, inject, session
    )
    return [] if turn is None else run_alone(turn.run)


async def arun_tool_calls(
    calls: Any,
    tools: Any,
    *,
    order: Order = "auto",
    timeout: float | None = None,
    max_concurrency: int = MAX_CONCURRENCY,
    client_tools: Mapping[str, Any] | None = None,
    toolsets: Mapping[str, Any] | None = None,
    after: After | None = None,
    inject: Mapping[type, Any] | None = None,
    session: ToolSession | None = None,
) -> list[BatchResult]:
    """`run_tool_calls` for coroutines: async tools run as tasks of the running asyncio loop.

    Args, results and errors are those of `run_tool_calls`. Cancelled, it cancels and awaits the calls that
    run before it raises ``asyncio.CancelledError``; ``session.results`` has what there is.
    """
    turn = _prepare(
        calls, tools, order, timeout, max_concurrency, client_tools, toolsets, after, inject, session
    )
    return [] if turn is None else await turn.run()


def _prepare(
    calls: Any,
    tools: Any,
    order: Order,
    timeout: float | None,
    max_concurrency: int,
    client_tools: Mapping[str, Any] | None,
    toolsets: Mapping[str, Any] | None,
    after: After | None,
    inject: Mapping[type, Any] | None,
    session: ToolSession | None,
) -> Turn | None:
    """The turn; None where nothing is asked."""
    _check(order, timeout, max_concurrency, session)
    toolbox = Toolbox(tools, client_tools, toolsets, inject)
    asked = read_calls(calls)
    if order == "parallel" and toolbox.has_toolsets:
        raise ValueError(
            'order="parallel" does not go with the computer and browser toolsets, whose actions run strictly '
            'in order; use "auto"'
        )
    if not asked:
        return None
    found = [toolbox.find(call) for call in asked]
    remembered = session.remembered(asked) if session is not None else []
    made = plan(
        asked,
        [tool is not None and tool.writes for tool in found],
        order,
        checked_after(asked, after),
        remembered,
    )
    return Turn(
        asked,
        found,
        made,
        duplicates=_duplicates(asked),
        resent=frozenset(place for pair in remembered for place in pair),
        timeout=timeout,
        limit=max_concurrency,
        session=session,
    )


def _check(order: Any, timeout: Any, max_concurrency: Any, session: Any) -> None:
    if order not in ORDERS:
        raise ValueError(f"order is {order!r:.80}; expected 'auto', 'parallel' or 'sequential'")
    if timeout is not None and (
        isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout < float("inf")
    ):
        raise ValueError(f"timeout is {timeout!r:.80}; expected seconds greater than 0, or None")
    if isinstance(max_concurrency, bool) or not isinstance(max_concurrency, int) or max_concurrency < 1:
        raise ValueError(f"max_concurrency is {max_concurrency!r:.80}; expected a whole number from 1")
    if session is not None and not isinstance(session, ToolSession):
        raise TypeError(f"session is a {type(session).__name__}; expected a ToolSession")


def _duplicates(calls: list[ToolCall]) -> frozenset[int]:
    seen: set[str] = set()
    found = []
    for place, call in enumerate(calls):
        if not call.id:
            continue
        if call.id in seen:
            found.append(place)
        seen.add(call.id)
    return frozenset(found)
