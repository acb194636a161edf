# SPDX-License-Identifier: Apache-2.0
"""Anthropic's computer and browser toolsets: in order, in the API's words, and never a 400 for a result."""

from __future__ import annotations

from typing import Any

import pytest
from anthropic.lib.tools._toolsets._runnable import HALT_TEXT
from providers.anthropic import check

import acrux_otel as acrux
from acrux_otel import ToolCall, run_tool_calls, to_anthropic

IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
TABS = [
    {"tab_id": "1", "title": "", "url": "", "active": True},
    {"tab_id": "2", "title": "b", "url": "https://b.example"},
]
STATE = {"type": "browser_state", "tabs": TABS}


def uses(toolset: str, *actions: str) -> list[dict[str, Any]]:
    return [
        {"type": "tool_use", "id": f"u{place}", "name": name, "input": {}, "toolset_name": toolset}
        for place, name in enumerate(actions)
    ]


def accepted(content: list[dict[str, Any]], results: Any) -> dict[str, Any]:
    """The message, seen by the API."""
    message = to_anthropic(results)
    check([{"role": "user", "content": "go"}, {"role": "assistant", "content": content}, message])
    return message


class Screen:
    def __init__(self, fails: str = "") -> None:
        self.done: list[str] = []
        self.fails = fails

    def act(self, name: str, arguments: dict[str, Any]) -> Any:
        self.done.append(name)
        if name == self.fails:
            raise RuntimeError("the screen is locked")
        return [IMAGE] if name == "screenshot" else "Clicked."


@pytest.mark.parametrize("toolset", ["computer", "browser"])
@pytest.mark.parametrize("order", ["auto", "sequential"])
def test_actions_run_in_order_and_stop_at_the_first_failure(toolset: str, order: Any, exported: Any) -> None:
    """The later ones get the API's exact text, and every result repeats the toolset's name."""
    screen = Screen(fails="left_click")
    content = uses(toolset, "screenshot", "left_click", "type", "key")
    results = run_tool_calls(content, [], toolsets={toolset: screen.act}, order=order)
    assert screen.done == ["screenshot", "left_click"]
    blocks = accepted(content, results)["content"]
    assert [block["toolset_name"] for block in blocks] == [toolset] * 4
    assert [block["content"] for block in blocks] == [
        [IMAGE],
        "the screen is locked",
        HALT_TEXT[toolset],
        HALT_TEXT[toolset],
    ]
    assert [block.get("is_error", False) for block in blocks] == [False, True, True, True]
    assert [
        each.outcome
        for each in sorted(exported.tools(), key=lambda span: span.attributes["gen_ai.tool.call.id"])
    ] == [
        "ok",
        "error",
        "not_executed",
        "not_executed",
    ]


def test_actions_are_in_order_beside_other_tools() -> None:
    """A plain tool of an action's name is not the action, and runs beside the sequence."""
    screen = Screen()

    @acrux.tool
    def screenshot() -> str:
        return "the plain tool"

    content = [
        *uses("browser", "screenshot", "left_click"),
        {"type": "tool_use", "id": "p", "name": "screenshot", "input": {}},
    ]
    results = run_tool_calls(
        content,
        [screenshot],
        toolsets={"browser": {"screenshot": lambda: [IMAGE], "left_click": lambda: "Clicked."}},
    )
    blocks = accepted(content, results)["content"]
    assert [block["content"] for block in blocks] == [[IMAGE], "Clicked.", "the plain tool"]
    assert "toolset_name" not in blocks[2]
    assert screen.done == []


def test_a_toolsets_failure_stops_only_its_own_sequence() -> None:
    """The other toolset and plain tools go on."""
    screen, other = Screen(fails="left_click"), Screen()
    content = [*uses("computer", "left_click", "type")]
    content += [{**use, "id": f"b{place}"} for place, use in enumerate(uses("browser", "left_click", "type"))]
    results = run_tool_calls(content, [], toolsets={"computer": screen.act, "browser": other.act})
    assert [each.verdict.outcome.value for each in results] == ["error", "not_executed", "ok", "ok"]
    accepted(content, results)


def test_an_action_that_nobody_runs_is_an_unknown_tool() -> None:
    """And the ones behind it do not run."""
    content = uses("computer", "fly", "screenshot")
    results = run_tool_calls(content, [], toolsets={"computer": {"screenshot": lambda: [IMAGE]}})
    assert [each.verdict.code for each in results] == ["unknown_tool", None]
    assert accepted(content, results)["content"][1]["content"] == HALT_TEXT["computer"]


async def test_an_async_toolset_runs_too() -> None:
    """One coroutine function for all actions."""

    async def act(name: str, arguments: dict[str, Any]) -> Any:
        return f"{name} {arguments}"

    results = await acrux.arun_tool_calls(
        [ToolCall("u0", "key", {"text": "a"}, toolset="computer")], [], toolsets={"computer": act}
    )
    assert results[0].value == "key {'text': 'a'}"


@pytest.mark.parametrize(
    ("action", "value"),
    [
        ("screenshot", [IMAGE]),
        ("left_click", [{"type": "text", "text": "Clicked."}, STATE]),
        ("left_click", "Clicked."),
        ("new_tab", STATE),
        ("list_tabs", [STATE]),
        ("close_tab", [{"type": "browser_state", "tabs": []}]),
    ],
)
def test_results_that_the_browser_toolset_takes(action: str, value: Any) -> None:
    """Text, images and at most one browser_state."""
    content = uses("browser", action)
    accepted(content, run_tool_calls(content, [], toolsets={"browser": lambda name, arguments: value}))


@pytest.mark.parametrize(
    ("toolset", "action", "value", "error"),
    [
        ("computer", "screenshot", [STATE], "returned a 'browser_state' block; it may return text, image"),
        (
            "browser",
            "read_page",
            [{"type": "document", "source": {"type": "url", "url": "https://a.example"}}],
            "returned a 'document' block; it may return text, image, browser_state",
        ),
        ("browser", "left_click", [STATE, STATE], "returned 2 browser_state blocks; at most one is allowed"),
        ("browser", "new_tab", "opened", "must return exactly one browser_state block and nothing else"),
        ("browser", "switch_tab", [IMAGE, STATE], "must return exactly one browser_state block"),
        ("browser", "list_tabs", {"tabs": TABS}, "must return exactly one browser_state block"),
        (
            "browser",
            "list_tabs",
            {"type": "browser_state", "tabs": [TABS[1]]},
            "returned 0 tabs with active: true; exactly one is allowed",
        ),
        (
            "browser",
            "list_tabs",
            {"type": "browser_state", "tabs": [TABS[0], TABS[0]]},
            "returned 2 tabs with active: true",
        ),
        (
            "browser",
            "list_tabs",
            {"type": "browser_state", "tabs": TABS, "state_changes": []},
            "returned an empty state_changes; leave it out",
        ),
    ],
)
def test_a_result_that_breaks_a_rule_is_told_before_the_request(
    toolset: str, action: str, value: Any, error: str
) -> None:
    """One line with the action, what it returned and what it may, instead of a 400 afterwards."""
    results = run_tool_calls(uses(toolset, action), [], toolsets={toolset: lambda name, arguments: value})
    with pytest.raises(ValueError) as caught:
        to_anthropic(results)
    assert error in str(caught.value)
    assert f"{toolset} action {action!r} (call 'u0')" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_failed_action_has_no_browser_state() -> None:
    """The API takes one of a success only."""
    results = run_tool_calls(
        uses("browser", "left_click"),
        [],
        toolsets={"browser": lambda name, arguments: acrux.ToolResult.error("gone", "no such tab", [STATE])},
    )
    with pytest.raises(ValueError, match="failed and returned a browser_state"):
        to_anthropic(results)


def test_a_failed_tab_action_is_text() -> None:
    """What was to be one browser_state is an error's text where it failed."""
    content = uses("browser", "new_tab")
    results = run_tool_calls(
        content, [], toolsets={"browser": lambda name, arguments: acrux.ToolResult.error("gone", "no window")}
    )
    assert accepted(content, results)["content"][0]["content"] == '{"error":"no window"}'
