# SPDX-License-Identifier: Apache-2.0
"""Anthropic's runners: toolsets, the OK that its own span is closed with, what the API takes as content."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import pytest

pytest.importorskip("anthropic.lib.tools._beta_runner")

import anthropic
from anthropic.lib.tools import ToolError, beta_async_tool, beta_tool
from pydantic import BaseModel

from acrux_otel import ToolResult
from acrux_otel.testing import record_calls
from tests.conftest import Exported
from tests.frameworks.rigs.anthropic import RIG, SAID, asking, client_of, told
from tests.frameworks.stub import provider


@pytest.fixture(autouse=True)
def watched(everywhere: Exported, instrument: Any) -> None:
    instrument("acrux_anthropic")


def run(tools: list[Any], *calls: tuple[str, str, dict[str, Any]], **more: Any) -> list[dict[str, Any]]:
    with (
        provider(asking(*calls, **more), SAID) as served,
        client_of(anthropic.Anthropic, served.url) as client,
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            client.beta.messages.tool_runner(
                model="claude-opus-4-6",
                max_tokens=100,
                tools=tools,
                messages=[{"role": "user", "content": "how is it?"}],
            ).until_done()
        return told(served)


def verdicts(spans: Exported) -> dict[str, tuple[Any, ...]]:
    return {
        each.attributes["gen_ai.tool.call.id"]: (
            each.outcome,
            each.attributes.get("errorType"),
            each.attributes.get("errorCode"),
            each.status,
        )
        for each in spans
        if each.outcome is not None
    }


def test_the_ok_that_the_sdk_closes_its_span_with_does_not_hide_a_declared_error(
    everywhere: Exported,
) -> None:
    """The model gets a plain result, which the SDK calls OK; the exported span is ERROR all the same."""

    @beta_tool
    def forecast(city: str) -> str:
        """Tell the weather."""
        return ToolResult.error("location_not_found", "no such city", result="I know no such city.")

    (answer,) = run([forecast], ("a", "forecast", {"city": "Atlantis"}))
    assert answer["content"] == "I know no such city."
    assert not answer.get("is_error")
    assert verdicts(everywhere) == {"a": ("error", "tool_declared", "location_not_found", "ERROR")}
    (span,) = [each for each in everywhere if each.outcome is not None]
    assert span.description == "no such city"
    if RIG.own_span:
        assert span.name == "anthropic.custom_tool_use forecast"


def test_a_declared_error_that_is_no_text_is_the_sdks_error_result(everywhere: Exported) -> None:
    """The API takes text or blocks: an error dict becomes an is_error result, a warning's dict JSON text."""

    @beta_tool
    def forecast(city: str) -> Any:
        """Tell the weather."""
        if city == "Atlantis":
            return ToolResult.error("location_not_found", "no such city")
        return ToolResult.warn("stale", "from the cache", result={"temp": 3})

    bad, stale = run([forecast], ("a", "forecast", {"city": "Atlantis"}), ("b", "forecast", {"city": "Rome"}))
    assert (bad["content"], bad["is_error"]) == ("no such city", True)
    assert (stale["content"], stale.get("is_error")) == ('{"temp": 3}', None)
    assert verdicts(everywhere) == {
        "a": ("error", "tool_declared", "location_not_found", "ERROR"),
        "b": ("warning", "tool_declared", "stale", "OK" if RIG.own_span else "UNSET"),
    }


def test_a_validation_error_of_the_body_is_not_the_arguments(everywhere: Exported) -> None:
    """The SDK tells the model of invalid arguments; the verdict knows that the body failed."""

    class Row(BaseModel):
        temp: float

    @beta_tool
    def forecast(city: str) -> str:
        """Tell the weather."""
        return str(Row.model_validate({"temp": "warm"}))

    run([forecast], ("a", "forecast", {"city": "Rome"}))
    assert verdicts(everywhere)["a"][:3] == ("error", "transform", "validation_error")


def test_each_call_of_a_turn_has_its_own_verdict(everywhere: Exported) -> None:
    """Known and unknown tools of one turn, each counted once, with its id."""

    @beta_tool
    def forecast(city: str) -> str:
        """Tell the weather."""
        return city

    with record_calls() as calls:
        run([forecast], ("a", "forecast", {"city": "Rome"}), ("b", "nope", {}), ("c", "forecast", {}))
    assert {key: each[:3] for key, each in verdicts(everywhere).items()} == {
        "a": ("ok", None, None),
        "b": ("error", "schema_mismatch", "unknown_tool"),
        "c": ("error", "schema_mismatch", "invalid_arguments"),
    }
    assert len(calls) == 3


async def test_a_tool_that_is_called_by_hand_is_a_call(everywhere: Exported) -> None:
    """`tool.call(...)` without a runner, as session runners make it, is recorded with its exception."""

    @beta_async_tool
    async def forecast(city: str) -> str:
        """Tell the weather."""
        raise ConnectionRefusedError("nobody listens")

    with pytest.raises(ConnectionRefusedError):
        await forecast.call({"city": "Rome"})
    assert everywhere.only.attributes["errorCode"] == "connection_refused"
    assert everywhere.only.parent_id == ""


# ---- toolsets --------------------------------------------------------------------------------------------

toolsets = pytest.mark.skipif(
    not hasattr(anthropic.lib.tools, "BetaRunnableToolset"), reason="this version has no toolsets"
)


def browser() -> Any:
    class Browser(anthropic.lib.tools.BetaRunnableToolset):  # type: ignore[misc]
        toolset_name = "browser"

        def to_dict(self) -> Any:
            return {"type": "browser_toolset_20260801"}

        def call(self, context: Any, name: str, input: Mapping[str, object]) -> str:
            if name == "click":
                raise ToolError("there is no such element")
            if name == "scroll":
                raise ConnectionRefusedError("the browser is gone")
            return "done"

    return Browser()


@toolsets
def test_toolset_members_are_calls_and_what_was_left_out_is_not_executed(everywhere: Exported) -> None:
    """After a toolset's first failure the SDK runs no other member; those are not_executed, not errors."""
    answers = run(
        [browser()],
        ("a", "navigate", {}),
        ("b", "click", {}),
        ("c", "screenshot", {}),
        toolset_name="browser",
    )
    assert [answer.get("is_error", False) for answer in answers] == [False, True, True]
    assert verdicts(everywhere) == {
        "a": ("ok", None, None, "OK"),
        "b": ("error", "tool_declared", "tool_error", "ERROR"),
        "c": ("not_executed", None, None, "UNSET"),
    }


@toolsets
def test_a_toolset_member_that_raises_is_judged_by_what_it_raised(everywhere: Exported) -> None:
    """What the toolset's driver raised is the verdict, not the text that the model reads."""
    run([browser()], ("a", "scroll", {}), toolset_name="browser")
    assert verdicts(everywhere) == {"a": ("error", "transport", "connection_refused", "ERROR")}
