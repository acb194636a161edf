# SPDX-License-Identifier: Apache-2.0
"""Anthropic's computer and browser toolsets: their texts, and what a result of theirs may hold.

https://platform.claude.com/docs/en/agents-and-tools/tool-use/parallel-tool-use
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from acrux_otel.batch.calls import ToolCall, field
from acrux_otel.verdict import Outcome

__all__ = ["TOOLSETS", "check_content", "skip_reason"]

TOOLSETS: Final = ("computer", "browser")
_HALTED: Final = {
    "computer": "an earlier computer action in this turn failed.",
    "browser": "an earlier action in this turn failed.",
}
# Their results are rendered from the browser's state alone.
_STATE_ONLY: Final = frozenset(("new_tab", "list_tabs", "switch_tab", "close_tab"))


def skip_reason(call: ToolCall, failed: ToolCall, outcome: Outcome) -> str:
    """Why ``call`` does not run after ``failed``, in the API's own words where it has some."""
    if call.toolset is not None and call.toolset == failed.toolset:
        return _HALTED.get(call.toolset, _HALTED["browser"])
    how = "was interrupted" if outcome is Outcome.INTERRUPTED else "failed"
    return f"the preceding {failed.name} call {how}."


def check_content(call: ToolCall, content: str | Sequence[Any], *, is_error: bool) -> None:
    """See that a result of a toolset's action is one that the API takes.

    Raises:
        ValueError: it is not; the message says what the tool returned and what it may.
    """
    toolset = call.toolset
    who = f"{toolset} action {call.name!r} (call {call.id!r})"
    if toolset not in TOOLSETS:
        raise ValueError(f"{who}: there is no toolset {toolset!r}, only 'computer' and 'browser'")
    blocks = [] if isinstance(content, str) else list(content)
    allowed = ("text", "image") if toolset == "computer" else ("text", "image", "browser_state")
    for block in blocks:
        kind = field(block, "type")
        if kind not in allowed:
            raise ValueError(f"{who} returned a {kind!r} block; it may return {', '.join(allowed)}")
    states = [block for block in blocks if field(block, "type") == "browser_state"]
    if is_error and states:
        raise ValueError(f"{who} failed and returned a browser_state; a failed action has none")
    if len(states) > 1:
        raise ValueError(f"{who} returned {len(states)} browser_state blocks; at most one is allowed")
    is_state = toolset == "browser" and call.name in _STATE_ONLY and not is_error
    if is_state and (len(blocks) != 1 or not states):
        raise ValueError(f"{who} must return exactly one browser_state block and nothing else")
    for state in states:
        _check_state(who, state)


def _check_state(who: str, state: Mapping[str, Any]) -> None:
    tabs = field(state, "tabs")
    if not isinstance(tabs, (list, tuple)):
        raise ValueError(f"{who} returned a browser_state without its list of tabs")
    active = sum(field(tab, "active") is True for tab in tabs)
    if tabs and active != 1:
        raise ValueError(f"{who} returned {active} tabs with active: true; exactly one is allowed")
    ids = [field(tab, "tab_id") for tab in tabs]
    if len(set(map(str, ids))) != len(ids):
        raise ValueError(f"{who} returned two tabs with one tab_id")
    changes = field(state, "state_changes")
    if changes is not None and not changes:
        raise ValueError(f"{who} returned an empty state_changes; leave it out where nothing changed")
