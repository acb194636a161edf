# SPDX-License-Identifier: Apache-2.0
"""R13: an interrupted conversation can go on, and what an API would refuse is told with its reason."""

from __future__ import annotations

import copy
from typing import Any

import anthropic.types as anthropic_types
import pytest
from providers.anthropic import check
from providers.openai import check_chat, check_items
from providers.server import Refused

from acrux_otel import complete_history, validate_history

CANCELLED = "Not executed: the turn was cancelled before this call finished."


def use(call_id: str, **more: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "t", "input": {}, **more}


def answer(call_id: str, content: Any = "fine", **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **more}


def cancelled(call_id: str, **more: Any) -> dict[str, Any]:
    return answer(call_id, CANCELLED, is_error=True, **more)


def user(*content: Any) -> dict[str, Any]:
    return {
        "role": "user",
        "content": content[0] if content and isinstance(content[0], str) else list(content),
    }


def assistant(*content: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(content)}


def asks(*ids: str) -> dict[str, Any]:
    calls = [{"id": one, "type": "function", "function": {"name": "t", "arguments": "{}"}} for one in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def says(call_id: str, content: str = "fine") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def call(call_id: str, kind: str = "function_call") -> dict[str, Any]:
    return {"type": kind, "call_id": call_id, "name": "t", "arguments": "{}"}


def output(call_id: str, text: str = "fine", kind: str = "function_call_output") -> dict[str, Any]:
    return {"type": kind, "call_id": call_id, "output": text}


TEXT = {"type": "text", "text": "go on"}
HELLO = user("hello")

ANTHROPIC: list[tuple[str, list[Any], list[Any]]] = [
    (
        "one of two is missing",
        [HELLO, assistant(use("u1"), use("u2")), user(answer("u1"))],
        [HELLO, assistant(use("u1"), use("u2")), user(answer("u1"), cancelled("u2"))],
    ),
    (
        "the first of two is missing",
        [HELLO, assistant(use("u1"), use("u2")), user(answer("u2"), TEXT)],
        [HELLO, assistant(use("u1"), use("u2")), user(cancelled("u1"), answer("u2"), TEXT)],
    ),
    (
        "all are missing at the end",
        [HELLO, assistant(use("u1"), use("u2"))],
        [HELLO, assistant(use("u1"), use("u2")), user(cancelled("u1"), cancelled("u2"))],
    ),
    (
        "all are missing before the user goes on",
        [HELLO, assistant(use("u1")), user("never mind"), assistant(TEXT)],
        [
            HELLO,
            assistant(use("u1")),
            user(cancelled("u1"), {"type": "text", "text": "never mind"}),
            assistant(TEXT),
        ],
    ),
    (
        "the results are in two messages",
        [HELLO, assistant(use("u1"), use("u2"), use("u3")), user(answer("u1")), user(answer("u2"))],
        [
            HELLO,
            assistant(use("u1"), use("u2"), use("u3")),
            user(answer("u1"), cancelled("u3")),
            user(answer("u2")),
        ],
    ),
    (
        "the model went on by itself",
        [HELLO, assistant(use("u1")), assistant(TEXT), user("and?")],
        [
            HELLO,
            assistant(use("u1")),
            assistant(TEXT),
            user(cancelled("u1"), {"type": "text", "text": "and?"}),
        ],
    ),
    (
        "a toolset's",
        [HELLO, assistant(use("u1", toolset_name="browser"))],
        [
            HELLO,
            assistant(use("u1", toolset_name="browser")),
            user(cancelled("u1", toolset_name="browser")),
        ],
    ),
]

CHAT: list[tuple[str, list[Any], list[Any]]] = [
    (
        "one of three is missing",
        [HELLO, asks("c1", "c2", "c3"), says("c1"), says("c3"), user("and?")],
        [HELLO, asks("c1", "c2", "c3"), says("c1"), says("c2", CANCELLED), says("c3"), user("and?")],
    ),
    (
        "all are missing at the end",
        [HELLO, asks("c1", "c2")],
        [HELLO, asks("c1", "c2"), says("c1", CANCELLED), says("c2", CANCELLED)],
    ),
    (
        "two turns were interrupted",
        [HELLO, asks("c1"), user("again"), asks("c2")],
        [HELLO, asks("c1"), says("c1", CANCELLED), user("again"), asks("c2"), says("c2", CANCELLED)],
    ),
]

RESPONSES: list[tuple[str, list[Any], list[Any]]] = [
    (
        "one of two is missing",
        [HELLO, call("c1"), call("c2"), output("c1"), HELLO],
        [HELLO, call("c1"), call("c2"), output("c1"), output("c2", CANCELLED), HELLO],
    ),
    (
        "all are missing at the end",
        [HELLO, {"type": "reasoning", "id": "r", "summary": []}, call("c1"), call("c2", "custom_tool_call")],
        [
            HELLO,
            {"type": "reasoning", "id": "r", "summary": []},
            call("c1"),
            call("c2", "custom_tool_call"),
            output("c1", CANCELLED),
            output("c2", CANCELLED, "custom_tool_call_output"),
        ],
    ),
]

CHECKS = {"anthropic": check, "chat": check_chat, "responses": check_items}
CASES = [
    pytest.param(form, broken, mended, id=f"{form}: {name}")
    for form, rows in (("anthropic", ANTHROPIC), ("chat", CHAT), ("responses", RESPONSES))
    for name, broken, mended in rows
]


@pytest.mark.parametrize(("form", "broken", "mended"), CASES)
def test_r13_missing_results_are_made_up_in_their_place(form: str, broken: Any, mended: Any) -> None:
    """The API takes what it refused before; nothing else is touched, and once is enough."""
    with pytest.raises(Refused):
        CHECKS[form](broken)
    before = copy.deepcopy(broken)
    made = complete_history(broken)
    assert made == mended
    assert broken == before
    CHECKS[form](made)
    assert complete_history(made) == made
    assert validate_history(made) == []
    for message in broken:
        if message in made:
            assert any(message is other for other in made)


@pytest.mark.parametrize(("form", "_broken", "mended"), CASES)
def test_r13_nothing_is_added_to_what_is_complete(form: str, _broken: Any, mended: Any) -> None:
    """The same objects in the same order."""
    made = complete_history(mended)
    assert all(one is other for one, other in zip(made, mended, strict=True))


@pytest.mark.parametrize(
    "messages", [[], [HELLO], [HELLO, assistant(TEXT)], [HELLO, {"role": "assistant", "content": "x"}]]
)
def test_a_conversation_without_calls_is_complete(messages: Any) -> None:
    """There is nothing to answer."""
    assert complete_history(messages) == messages
    assert validate_history(messages) == []


def test_the_real_packages_blocks_are_read() -> None:
    """The model's content is often kept as objects."""
    block = anthropic_types.ToolUseBlock(type="tool_use", id="u1", name="t", input={})
    made = complete_history([HELLO, {"role": "assistant", "content": [block]}])
    assert made[2] == user(cancelled("u1"))


def test_what_is_no_conversation_is_refused() -> None:
    """One line."""
    with pytest.raises(TypeError, match="messages is a str; expected the list of a conversation"):
        complete_history("hello")
    with pytest.raises(TypeError, match="messages is a dict"):
        validate_history(HELLO)


REFUSED: list[tuple[str, list[Any]]] = [
    ("anthropic", [HELLO, assistant(use("u1")), user(TEXT, answer("u1"))]),
    ("anthropic", [HELLO, assistant(use("u1")), user(answer("u1"), answer("u9"))]),
    ("anthropic", [HELLO, assistant(use("u1")), user(answer("u1"), answer("u1"))]),
    ("anthropic", [HELLO, assistant(use("u1"), use("u1")), user(answer("u1"))]),
    ("anthropic", [HELLO, assistant(use("u1")), user(answer("u1", "", is_error=True))]),
    (
        "anthropic",
        [HELLO, assistant(use("u1")), user(answer("u1", [{"type": "image", "source": {}}], is_error=True))],
    ),
    ("anthropic", [HELLO, assistant(use("u1", toolset_name="browser")), user(answer("u1"))]),
    ("anthropic", [HELLO, assistant(use("u1")), user(answer("u1", toolset_name="browser"))]),
    ("anthropic", [HELLO, assistant(use("u1")), user(answer("u1"), {"type": "text", "text": ""})]),
    ("chat", [HELLO, says("c1")]),
    ("chat", [HELLO, asks("c1"), says("c1"), says("c2")]),
    ("responses", [HELLO, output("c1")]),
    ("responses", [HELLO, call("c1"), output("c1"), output("c2")]),
]


@pytest.mark.parametrize(("form", "messages"), REFUSED + [(case.values[0], case.values[1]) for case in CASES])
def test_what_the_api_refuses_is_told_with_its_reason(form: str, messages: Any) -> None:
    """`validate_history` finds a problem wherever the API does, in its words where these are known."""
    with pytest.raises(Refused) as refused:
        CHECKS[form](messages)
    problems = validate_history(messages)
    assert problems
    theirs = str(refused.value).partition(": ")[2] or str(refused.value)
    ours = [each.why for each in problems]
    assert any(why in str(refused.value) or theirs in why for why in ours) or "toolset_name" in theirs
    assert all("\n" not in str(each) for each in problems)
