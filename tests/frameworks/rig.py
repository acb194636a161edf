# SPDX-License-Identifier: Apache-2.0
"""What a rig is, and what is expected of each case where a framework has no reason to differ."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

from tests.frameworks import tools

__all__ = ["DEFAULT", "NOT_THERE", "Expected", "Rig", "declared", "found"]

RIGS = (
    "mcp",
    "langchain",
    "pydantic_ai",
    "anthropic",
    "openai_agents",
    "fastmcp",
    "google_adk",
    "claude_agent_sdk",
    "strands",
    "crewai",
    "llama_index",
    "smolagents",
    "autogen",
    "agent_framework",
    "haystack",
)

Expected = tuple[str, str | None, str | None]
NOT_THERE: Expected = ("", None, None)  # the framework has no such case

DEFAULT: dict[str, Expected] = {
    "ok": ("ok", None, None),
    "error_dict": ("ok", None, None),
    "declared": ("error", "tool_declared", "location_not_found"),
    "warned": ("warning", "tool_declared", "stale"),
    "recorded": ("error", "tool_declared", "no_station"),
    "soft": ("error", "tool_declared", "tool_error"),
    "raise": ("error", "tool_declared", "lookup_error"),
    "connection": ("error", "transport", "connection_refused"),
    "timeout": ("error", "transport", "timeout"),
    "mismatch": ("error", "schema_mismatch", "invalid_arguments"),
    "unknown": ("error", "schema_mismatch", "unknown_tool"),
}


def declared(code: str) -> Expected:
    """A failure that the tool declared under ``code``."""
    return ("error", "tool_declared", code)


class Rig:
    """Runs one model turn that asks for one tool call, in one framework, without a network.

    Args:
        expected: by case, what differs from `DEFAULT`.

    Attributes:
        name: of our instrumentation, as its entry point is named.
        also: other instrumentations of ours that see the same call.
        kinds: of functions that the framework takes.
        call_id: what the model calls the call; None where the framework does not tell.
        own_span: how the name of the framework's own tool span begins; None where it has none.
    """

    name = ""
    also: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ("sync", "async")
    call_id: str | None = "call-7"
    own_span: str | None = None

    def __str__(self) -> str:
        return self.name

    def __init__(self, **expected: Expected) -> None:
        self.expected = expected

    def expects(self, case: str, kind: str) -> Expected:
        """The verdict that is right for ``case``."""
        return self.expected.get(case, DEFAULT[case])

    def function(self, kind: str, case: str) -> Callable[..., Any]:
        """The function that is the tool; ``soft`` fails in the framework's own words."""
        if case == "soft":
            return self.soft(kind)
        return tools.forecast if kind == "sync" else tools.aforecast

    def soft(self, kind: str) -> Callable[..., Any]:
        """A tool ``forecast`` that reports a failure as the framework wants it."""
        raise NotImplementedError

    def asked(self, case: str) -> tuple[str, dict[str, Any]]:
        """The tool's name and the arguments that the model asks for."""
        return ("no_such_tool" if case == "unknown" else "forecast"), dict(tools.CASES[case])

    async def turn(self, function: Callable[..., Any], name: str, arguments: dict[str, Any]) -> str:
        """Offer ``function`` as ``forecast``, have the model call ``name``; returns what the model sees."""
        raise NotImplementedError

    async def run(self, kind: str, case: str) -> str:
        """One turn of ``case``; what the framework lets escape is part of what is seen."""
        try:
            return await self.turn(self.function(kind, case), *self.asked(case))
        except Exception as escaped:
            return f"{type(escaped).__name__}: {escaped}"
        finally:
            tools.released.set()
            tools.released.clear()


@cache
def found() -> dict[str, Rig]:
    """The rigs of what is installed; in an environment of the matrix, of what that is for."""
    wanted = os.environ.get("ACRUX_TEST_FRAMEWORK")
    rigs = {}
    for name in [wanted] if wanted else RIGS:
        try:
            rigs[name] = import_module(f"tests.frameworks.rigs.{name}").RIG
        except ImportError:
            if wanted:
                raise
    return rigs
