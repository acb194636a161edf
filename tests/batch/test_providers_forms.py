# SPDX-License-Identifier: Apache-2.0
"""Providers' messages are read whatever their form, and answered in the form that their APIs take."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import anthropic.types as anthropic_types
import anthropic.types.beta as anthropic_beta
import openai.types.chat as chat_types
import openai.types.responses as responses_types
import pytest

import acrux_otel as acrux
from acrux_otel import (
    Outcome,
    ToolCall,
    ToolCallResult,
    Verdict,
    run_tool_calls,
    to_anthropic,
    to_openai_chat,
    to_openai_responses,
)

TOOL_USE = {"type": "tool_use", "id": "u1", "name": "add", "input": {"a": 1, "b": 2}}
CHAT_CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1, "b": 2}'}}
FUNCTION_CALL = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "c1",
    "name": "add",
    "arguments": '{"a": 1, "b": 2}',
}
RESPONSE = {
    "id": "resp_1",
    "object": "response",
    "created_at": 0,
    "model": "m",
    "output": [{"type": "reasoning", "id": "rs_1", "summary": []}, FUNCTION_CALL],
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
}
COMPLETION = {
    "id": "1",
    "object": "chat.completion",
    "created": 0,
    "model": "m",
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "message": {"role": "assistant", "tool_calls": [CHAT_CALL]},
        }
    ],
}
MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {"input_tokens": 1, "output_tokens": 1},
    "content": [
        {"type": "text", "text": "let me add"},
        TOOL_USE,
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "q"}},
    ],
}


@acrux.tool
def add(a: int, b: int) -> int:
    return a + b


@pytest.mark.parametrize(
    "form",
    [
        pytest.param([ToolCall("u1", "add", {"a": 1, "b": 2})], id="calls"),
        pytest.param(ToolCall("u1", "add", '{"a": 1, "b": 2}'), id="one call"),
        pytest.param(MESSAGE, id="Anthropic message, dict"),
        pytest.param(anthropic_types.Message.model_validate(MESSAGE), id="Anthropic message"),
        pytest.param(anthropic_types.Message.model_validate(MESSAGE).content, id="Anthropic content"),
        pytest.param(anthropic_beta.BetaMessage.model_validate(MESSAGE), id="Anthropic beta message"),
        pytest.param({"role": "assistant", "content": [TOOL_USE]}, id="Anthropic turn"),
        pytest.param([TOOL_USE], id="Anthropic blocks"),
        pytest.param(iter([TOOL_USE]), id="an iterator"),
        pytest.param(COMPLETION, id="Chat completion, dict"),
        pytest.param(chat_types.ChatCompletion.model_validate(COMPLETION), id="Chat completion"),
        pytest.param(
            chat_types.ChatCompletion.model_validate(COMPLETION).choices[0].message, id="Chat message"
        ),
        pytest.param(
            chat_types.ChatCompletion.model_validate(COMPLETION).choices[0].message.tool_calls,
            id="Chat tool_calls",
        ),
        pytest.param([{"role": "assistant", "tool_calls": [CHAT_CALL]}], id="Chat message in a list"),
        pytest.param(
            {"role": "assistant", "tool_calls": [{key: CHAT_CALL[key] for key in ("id", "function")}]},
            id="Chat message of a server that leaves the type out",
        ),
        pytest.param(RESPONSE, id="Response, dict"),
        pytest.param(responses_types.Response.model_validate(RESPONSE), id="Response"),
        pytest.param(responses_types.Response.model_validate(RESPONSE).output, id="Response output"),
    ],
)
def test_a_call_is_read_in_every_form(form: Any) -> None:
    """Objects of the real packages and dicts alike; text, reasoning and hosted tools are passed over."""
    (result,) = run_tool_calls(form, [add])
    assert result.value == 3
    assert result.id in ("u1", "c1")


@pytest.mark.parametrize(
    "form",
    [
        {"role": "assistant", "content": "words"},
        chat_types.ChatCompletionMessage(role="assistant", content="words"),
        {"role": "assistant", "content": None, "tool_calls": None},
        {**RESPONSE, "output": [{"type": "message", "role": "assistant", "content": []}]},
        [{"type": "text", "text": "words"}],
        [],
    ],
)
def test_words_are_no_calls(form: Any) -> None:
    """A turn without calls has no results."""
    assert run_tool_calls(form, [add]) == []


def test_a_whole_conversation_is_refused() -> None:
    """Its old calls would run again."""
    conversation = [
        {"role": "user", "content": "add"},
        {"role": "assistant", "content": [TOOL_USE]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "u1", "content": "3"}]},
    ]
    with pytest.raises(TypeError, match="a whole conversation; expected the model's last message"):
        run_tool_calls(conversation, [add])


def test_no_provider_package_is_needed() -> None:
    """Reading and answering import none of them."""
    program = (
        "import sys, acrux_otel as acrux\n"
        "calls = [{'type': 'tool_use', 'id': 'u', 'name': 'add', 'input': {'a': 1}}]\n"
        "results = acrux.run_tool_calls(calls, {'add': lambda a: a})\n"
        "acrux.to_anthropic(results), acrux.to_openai_chat(results), acrux.to_openai_responses(results)\n"
        "print({'anthropic', 'openai'} & set(sys.modules))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "set()\n"


def test_a_custom_tools_text_is_its_only_argument() -> None:
    """OpenAI's free-form tools, in both APIs, answered in their own item."""

    @acrux.tool
    def run_sql(query: str) -> str:
        return f"ran {query}"

    item = {"type": "custom_tool_call", "call_id": "c1", "name": "run_sql", "input": "SELECT 1"}
    results = run_tool_calls([item], [run_sql])
    assert to_openai_responses(results) == [
        {"type": "custom_tool_call_output", "call_id": "c1", "output": "ran SELECT 1"}
    ]
    call = {"type": "custom", "id": "c2", "custom": {"name": "run_sql", "input": "{not json"}}
    results = run_tool_calls({"role": "assistant", "tool_calls": [call]}, [run_sql])
    assert to_openai_chat(results) == [{"role": "tool", "tool_call_id": "c2", "content": "ran {not json"}]


def test_a_programs_call_repeats_its_caller() -> None:
    """OpenAI's programmatic calls are matched by it; a direct call has none."""
    caller = {"type": "program", "caller_id": "prog_1"}
    results = run_tool_calls(
        [
            {**FUNCTION_CALL, "caller": caller},
            {**FUNCTION_CALL, "call_id": "c2", "caller": {"type": "direct"}},
        ],
        [add],
    )
    assert [item.get("caller") for item in to_openai_responses(results)] == [caller, None]


# -- answers ---------------------------------------------------------------------------------------------


def result(value: Any, outcome: Outcome = Outcome.OK, **more: Any) -> ToolCallResult[Any]:
    verdict = Verdict(
        outcome, *((acrux.ErrorType.TOOL_DECLARED, "code") if outcome is Outcome.ERROR else ()), **more
    )
    return ToolCallResult("u1", "tool", value, verdict)


TEXT = {"type": "text", "text": "seen"}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
IMAGE_URL = {"type": "image", "source": {"type": "url", "url": "https://a.example/i.png"}}
PDF = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "aGk="}}
INPUT_IMAGE = {"type": "input_image", "image_url": "data:image/png;base64,aGk=", "detail": "auto"}
INPUT_FILE = {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,aGk="}


@pytest.mark.parametrize(
    ("value", "anthropic", "chat", "responses"),
    [
        ("text", "text", "text", "text"),
        ("", "", "", ""),
        (None, "null", "null", "null"),
        ({"a": 1}, '{"a":1}', '{"a":1}', '{"a":1}'),
        ([], "[]", "[]", "[]"),
        ([TEXT], [TEXT], "seen", [{"type": "input_text", "text": "seen"}]),
        (TEXT, [TEXT], "seen", [{"type": "input_text", "text": "seen"}]),
        ([TEXT, {"type": "text", "text": ""}], [TEXT], "seen\n", None),
        ([IMAGE], [IMAGE], "[image left out]", [INPUT_IMAGE]),
        (
            [IMAGE_URL],
            [IMAGE_URL],
            "[image left out]",
            [{"type": "input_image", "image_url": "https://a.example/i.png", "detail": "auto"}],
        ),
        ([PDF], [PDF], "[document left out]", [{**INPUT_FILE, "filename": "document.pdf"}]),
        ([INPUT_IMAGE], [IMAGE], "[image left out]", [INPUT_IMAGE]),
        ([INPUT_FILE], [{**PDF, "title": "a.pdf"}], "[file left out]", [INPUT_FILE]),
        # Somebody's data with a "type" is no content block.
        ({"type": "text"}, '{"type":"text"}', '{"type":"text"}', '{"type":"text"}'),
        ({"type": "image", "id": 5}, '{"type":"image","id":5}', None, None),
        (
            [{"type": "document", "source": "the archive"}],
            '[{"type":"document","source":"the archive"}]',
            None,
            None,
        ),
        ({"type": "browser_state", "tabs": []}, '{"type":"browser_state","tabs":[]}', None, None),
    ],
)
def test_what_a_tool_returned_is_put_in_the_apis_form(
    value: Any, anthropic: Any, chat: Any, responses: Any
) -> None:
    """Strings stay, content blocks go through where the API has them, the rest is JSON."""
    assert to_anthropic([result(value)])["content"][0]["content"] == anthropic
    if chat is not None:
        assert to_openai_chat([result(value)])[0]["content"] == chat
    if responses is not None:
        assert to_openai_responses([result(value)])[0]["output"] == responses


def test_blocks_go_through_as_the_same_objects() -> None:
    """Nothing is copied that need not be."""
    assert to_anthropic([result([IMAGE])])["content"][0]["content"][0] is IMAGE


@pytest.mark.parametrize(
    ("value", "outcome", "anthropic", "openai"),
    [
        ("it broke", Outcome.ERROR, "it broke", "Error: it broke"),
        ({"error": "no city"}, Outcome.ERROR, '{"error":"no city"}', '{"error":"no city"}'),
        ({"city": None}, Outcome.ERROR, '{"city":null}', 'Error: {"city":null}'),
        ("", Outcome.ERROR, "The call of tool failed without a message.", None),
        ("  \n", Outcome.ERROR, "The call of tool failed without a message.", None),
        ("Not executed: why.", Outcome.NOT_EXECUTED, "Not executed: why.", "Not executed: why."),
        ("Cancelled: why", Outcome.CANCELLED, "Cancelled: why", "Cancelled: why"),
    ],
)
def test_a_failure_says_that_it_is_one(
    value: Any, outcome: Outcome, anthropic: str, openai: str | None
) -> None:
    """By the flag where there is one, by the text where there is none; never empty."""
    (block,) = to_anthropic([result(value, outcome)])["content"]
    assert (block["content"], block["is_error"]) == (anthropic, True)
    said = openai or f"Error: {anthropic}"
    assert to_openai_chat([result(value, outcome)]) == [
        {"role": "tool", "tool_call_id": "u1", "content": said}
    ]
    assert to_openai_responses([result(value, outcome)]) == [
        {"type": "function_call_output", "call_id": "u1", "output": said}
    ]


@pytest.mark.parametrize("outcome", [Outcome.OK, Outcome.WARNING, Outcome.INTERRUPTED, Outcome.CLOSED])
def test_what_did_not_fail_is_not_flagged(outcome: Outcome) -> None:
    """Warnings and fallbacks are no failures."""
    assert "is_error" not in to_anthropic([result("fine", outcome)])["content"][0]


def test_a_failure_holds_nothing_but_text() -> None:
    """Anthropic refuses an image beside is_error: a note takes its place."""
    (block,) = to_anthropic([result([TEXT, IMAGE], Outcome.ERROR)])["content"]
    assert block["content"] == [TEXT, {"type": "text", "text": "[image left out]"}]
    (block,) = to_anthropic([result([{"type": "text", "text": ""}], Outcome.ERROR)])["content"]
    assert block["content"] == "The call of tool failed without a message."


def test_a_result_of_ones_own_without_a_value_says_why() -> None:
    """A `ToolCallResult` that a program made itself is answered by its verdict."""
    skipped = result(None, Outcome.NOT_EXECUTED, detail="the user said no.")
    assert to_openai_chat([skipped])[0]["content"] == "Not executed: the user said no."


def test_results_without_an_id_or_of_another_kind_are_refused() -> None:
    """One line each, before the request."""
    with pytest.raises(ValueError, match="the result of 'tool' has no call id"):
        to_anthropic([ToolCallResult(None, "tool", 1, Verdict(Outcome.OK))])
    with pytest.raises(ValueError, match="there are no results"):
        to_openai_chat([])
    with pytest.raises(TypeError, match="results holds 3; expected what run_tool_calls returned"):
        to_openai_responses([3])  # type: ignore[list-item]
