# SPDX-License-Identifier: Apache-2.0
"""Google's ADK: a confirmation is a pause; the context is not the model's."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import pytest

pytest.importorskip("google.adk")

from google.adk.tools import FunctionTool, ToolContext

from acrux_otel.seam import observe, unobserve
from tests.conftest import Exported
from tests.frameworks.rigs.google_adk import run_with


@pytest.fixture(autouse=True)
def watched(everywhere: Exported, instrument: Any) -> None:
    instrument("acrux_google_adk")


async def test_a04_a_tool_that_waits_for_confirmation_is_interrupted(everywhere: Exported) -> None:
    """A04: the framework asks before the call, or (2.0) answers it with an error dict; nothing is red."""
    ran: list[int] = []

    def pay(amount: int) -> dict:
        """Pay."""
        ran.append(amount)
        return {"paid": amount}

    await run_with(FunctionTool(pay, require_confirmation=True), "pay", {"amount": 3})
    outcomes = [each.outcome for each in everywhere if each.outcome is not None]
    answered = version("google-adk").startswith("2.0.")
    assert outcomes == (["interrupted"] if answered else [])
    assert [each.name for each in everywhere if each.attributes.get("errorType")] == ran == []


async def test_a11_the_context_is_not_the_models(everywhere: Exported) -> None:
    """A11: ToolContext is neither in the definition nor among the arguments."""

    def search(q: str, tool_context: ToolContext) -> dict:
        """Search the shelves."""
        return {"found": q}

    seen: list[Any] = []
    tool = FunctionTool(search)
    observe(opened=seen.append)
    try:
        await run_with(tool, "search", {"q": "otters"})
    finally:
        unobserve(opened=seen.append)
    made = seen[0]
    assert set(made.site.definition.parameters["properties"]) == {"q"}
    assert dict(made.arguments()) == {"q": "otters"}
