# SPDX-License-Identifier: Apache-2.0
"""LangGraph's ToolNode in a graph of one node; the model's message is written by hand."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from langchain_core.messages import AIMessage
from langchain_core.tools import StructuredTool, ToolException
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from tests.frameworks.rig import NOT_THERE, Rig, declared

__all__ = ["RIG", "graph_of", "message"]


def message(name: str, arguments: dict[str, Any], call_id: str = "call-7") -> AIMessage:
    """What the model says that asks for one tool call."""
    return AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": call_id, "type": "tool_call"}])


def graph_of(*tools: Any, **options: Any) -> Any:
    """A graph that runs the tools of a message."""
    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode(list(tools), handle_tool_errors=True, **options))
    graph.add_edge(START, "tools")
    return graph.compile()


class _LangChain(Rig):
    name = "acrux_langchain"

    def soft(self, kind: str) -> Callable[..., Any]:
        if kind == "sync":

            def forecast(city: str) -> str:
                """Tell the weather of a city."""
                raise ToolException(f"no station in {city}")
        else:

            async def forecast(city: str) -> str:
                """Tell the weather of a city."""
                raise ToolException(f"no station in {city}")

        return forecast

    async def turn(self, function: Callable[..., Any], name: str, arguments: dict[str, Any]) -> str:
        is_async = inspect.iscoroutinefunction(function)
        tool = StructuredTool.from_function(
            **{"coroutine" if is_async else "func": function},
            name="forecast",
            description="Tell the weather of a city.",
            handle_tool_error=True,
            handle_validation_error=True,
        )
        graph = graph_of(tool)
        state = {"messages": [message(name, arguments)]}
        answer = await graph.ainvoke(state) if is_async else graph.invoke(state)
        return str(answer["messages"][-1].content)


RIG = _LangChain(timeout=NOT_THERE, soft=declared("tool_exception"))
