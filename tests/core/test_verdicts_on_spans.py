# SPDX-License-Identifier: Apache-2.0
"""What a call's verdict leaves on its span."""

from __future__ import annotations

import asyncio
import traceback
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.trace import Status, StatusCode

import acrux_otel as acrux
from acrux_otel.settings import NONE, UNREAD, VERDICT, settings


def test_A01_a_returned_failure_turns_the_span_red(exported: Any) -> None:
    """The verdict is what the tool declared, not whether Python raised."""

    @acrux.tool
    def divide(a: int, b: int) -> float:
        if b == 0:
            return acrux.ToolResult.error("division_by_zero", "division by zero")
        return a / b

    @acrux.tool
    def slow() -> int:
        return acrux.ToolResult.warn("partial_data", "partial data", 1)

    assert divide(1, 0) == {"error": "division by zero"}
    assert divide(4, 2) == 2.0
    assert slow() == 1

    failed, fine, warned = exported.tools()
    assert (failed.status, failed.description) == ("ERROR", "division by zero")
    assert failed.attributes["errorType"] == failed.attributes["error.type"] == "tool_declared"
    assert failed.attributes["errorCode"] == "division_by_zero"
    assert failed.attributes["errorDetail"] == "division by zero"
    assert failed.events == []
    assert (fine.status, fine.outcome) == ("UNSET", "ok")
    assert "errorType" not in fine.attributes
    assert (warned.status, warned.outcome) == ("UNSET", "warning")
    assert warned.attributes["errorType"] == "tool_declared"
    assert warned.attributes["warning.type"] == warned.attributes["errorCode"] == "partial_data"
    assert warned.attributes["warning.message"] == warned.attributes["errorDetail"] == "partial data"
    assert "error.type" not in warned.attributes


def test_A01_any_other_value_is_returned_as_the_same_object(exported: Any) -> None:
    given = object()

    @acrux.tool
    def give() -> object:
        return given

    assert give() is given


def test_A02_an_error_that_the_body_put_on_its_span_stays(exported: Any) -> None:
    """Nothing of ours sets OK, and the body's own ERROR becomes the verdict."""

    @acrux.tool
    def t() -> int:
        trace.get_current_span().set_status(Status(StatusCode.ERROR, "set by body"))
        return 1

    assert t() == 1
    assert (exported.only.status, exported.only.description) == ("ERROR", "set by body")
    assert exported.only.attributes["errorCode"] == "span_error"


@pytest.mark.parametrize("declared", ["warning", "error"])
def test_A02_a_body_error_outranks_a_warning_and_not_a_declared_error(exported: Any, declared: str) -> None:
    @acrux.tool
    def t() -> int:
        trace.get_current_span().set_status(StatusCode.ERROR)
        make = acrux.ToolResult.warn if declared == "warning" else acrux.ToolResult.error
        return make("mine", "said so", 1)

    assert t() == 1
    assert exported.only.attributes["errorCode"] == ("span_error" if declared == "warning" else "mine")
    assert exported.only.status == "ERROR"
    assert exported.only.description


class Boom(ValueError): ...


def raising_tools() -> list[Any]:
    @acrux.tool
    def plain() -> None:
        raise Boom("x")

    @acrux.tool
    async def coroutine() -> None:
        raise Boom("x")

    @acrux.tool
    def generator() -> Any:
        yield 1
        raise Boom("x")

    @acrux.tool
    async def async_generator() -> Any:
        yield 1
        raise Boom("x")

    return [plain, coroutine, generator, async_generator]


def drain(called: Any) -> Any:
    """Run what a tool returned to its end, whatever kind it is."""
    if hasattr(called, "__anext__"):

        async def all_of() -> list[Any]:
            return [item async for item in called]

        return asyncio.run(all_of())
    if hasattr(called, "__await__"):

        async def wait() -> Any:
            return await called

        return asyncio.run(wait())
    return list(called) if hasattr(called, "__next__") else called


@pytest.mark.parametrize("index", range(4))
def test_A03_the_same_exception_reaches_the_caller_with_its_traceback(exported: Any, index: int) -> None:
    tool = raising_tools()[index]
    with pytest.raises(Boom) as caught:
        drain(tool())
    assert caught.value.args == ("x",)
    assert caught.value.__cause__ is None and caught.value.__context__ is None
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names[-1] == tool.__name__
    span = exported.only
    assert (span.status, span.outcome, span.description) == ("ERROR", "error", "x")
    assert span.attributes["errorCode"] == "boom"
    [(name, event)] = span.events
    assert name == "exception"
    assert event["exception.type"].endswith("Boom") and event["exception.message"] == "x"
    assert 'raise Boom("x")' in event["exception.stacktrace"]


class NeedsApproval(Exception): ...


def test_A04_control_flow_is_not_an_error_in_any_kind_of_function(exported: Any) -> None:
    """Pausing is not failing, but does not look like success either."""
    decorate = acrux.tool(control_flow=(NeedsApproval,))

    @decorate
    def plain() -> None:
        raise NeedsApproval

    @decorate
    async def coroutine() -> None:
        raise NeedsApproval

    @decorate
    def generator() -> Any:
        raise NeedsApproval
        yield

    @decorate
    async def async_generator() -> Any:
        raise NeedsApproval
        yield

    for tool in (plain, coroutine, generator, async_generator):
        with pytest.raises(NeedsApproval):
            drain(tool())
    for span in exported.tools():
        assert (span.status, span.outcome, span.events) == ("UNSET", "interrupted", [])
        assert "errorType" not in span.attributes
    assert len(exported.tools()) == 4


def test_A04_nothing_is_exempt_by_default(exported: Any) -> None:
    @acrux.tool
    def pay() -> None:
        raise NeedsApproval

    with pytest.raises(NeedsApproval):
        pay()
    assert exported.only.status == "ERROR"


def test_A17_capture_none_lets_no_text_out(exported: Any, caplog: pytest.LogCaptureFixture) -> None:
    """The switch is a promise about the whole export: every channel, and our log records too."""
    settings.capture = NONE

    @acrux.tool
    def f(token: str) -> None:
        raise ValueError(f"bad token {token}")

    @acrux.tool
    def g(x: str) -> dict[str, Any]:
        return acrux.ToolResult.error("row_missing", f"row {x} missing")

    @acrux.tool
    def h(x: str) -> dict[str, Any]:
        acrux.record_warning("odd", f"odd {x}")
        return {"x": x}

    @acrux.tool(result_schema={"type": "object", "required": ["tempC"]}, result_severity="error")
    def s(x: str) -> dict[str, Any]:
        return {"x": x}

    with pytest.raises(ValueError, match="bad token SENTINEL-1"):
        f("SENTINEL-1")
    for tool in (g, h, s):
        tool("SENTINEL-2")
    assert len(exported.tools()) == 4
    for span in exported:
        assert "SENTINEL" not in span.everything()
    assert "SENTINEL" not in caplog.text
    failed, declared, warned, mismatch = exported.tools()
    assert failed.attributes["errorCode"] == "value_error"
    assert failed.events == [("exception", {"exception.type": "ValueError"})]
    assert (declared.status, declared.description) == ("ERROR", "row_missing")
    assert warned.attributes["warning.type"] == "odd"
    assert mismatch.attributes["errorType"] == "schema_mismatch"


def test_A17_secrets_are_masked_in_every_channel(exported: Any) -> None:
    @acrux.tool(capture="full")
    def f(city: str, api_key: str) -> None:
        raise ValueError(f"GET https://x.example/v1?api_key={api_key} failed, password={api_key}")

    with pytest.raises(ValueError, match="sk-live-abcdef"):
        f("Pune", api_key="sk-live-abcdef1234567890")
    assert "abcdef1234567890" not in exported.only.everything()
    assert "Pune" in exported.only.attributes["gen_ai.tool.call.arguments"]


@pytest.mark.parametrize(
    ("process", "tool", "arguments"),
    [(None, "full", True), ("full", None, True), ("verdict", "full", False), ("full", "verdict", False)],
)
def test_the_stricter_capture_wins(exported: Any, process: Any, tool: Any, arguments: bool) -> None:
    from acrux_otel.settings import capture_level

    settings.capture = capture_level(process, "test")

    @acrux.tool(capture=tool)
    def f(city: str) -> dict[str, Any]:
        return {"city": city}

    f("Pune")
    attributes = exported.only.attributes
    assert ("gen_ai.tool.call.arguments" in attributes) is arguments
    if arguments:
        assert attributes["gen_ai.tool.call.arguments"] == '{"city":"Pune"}'
        assert attributes["gen_ai.tool.call.result"] == '{"city":"Pune"}'


@pytest.mark.parametrize(
    ("variable", "value", "level"),
    [
        ("ACRUX_OTEL_CAPTURE", "none", NONE),
        ("ACRUX_OTEL_CAPTURE", "nonsense", NONE),
        ("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "SPAN_ONLY", 2),
        ("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "no_content", VERDICT),
    ],
)
def test_capture_follows_the_environment(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, level: int
) -> None:
    """A typing error in a privacy switch does not open it."""
    monkeypatch.setenv(variable, value)
    settings.capture = UNREAD
    assert settings.capture_for(3) == level


def test_record_error_acts_on_the_innermost_call(exported: Any) -> None:
    @acrux.tool
    def inner() -> int:
        acrux.record_error("stale_index", "the index is a day old")
        return 1

    @acrux.tool
    def outer() -> int:
        return inner() + 1

    assert outer() == 2
    first, second = exported.tools()
    assert (first.name, first.status) == ("execute_tool inner", "ERROR")
    assert first.attributes["errorCode"] == "stale_index"
    assert (second.name, second.outcome) == ("execute_tool outer", "ok")
    assert first.parent_id == second.span_id


def test_an_error_beats_a_warning_then_the_first_wins(exported: Any) -> None:
    @acrux.tool
    def f() -> int:
        acrux.record_warning("w1", "first")
        acrux.record_error("e1", "second")
        acrux.record_error("e2", "third")
        return acrux.ToolResult.warn("w2", "last", 5)

    assert f() == 5
    assert exported.only.attributes["errorCode"] == "e1"


def test_a_returned_declaration_beats_a_recorded_one_of_the_same_rank(exported: Any) -> None:
    @acrux.tool
    def f() -> Any:
        acrux.record_error("recorded", "x")
        return acrux.ToolResult.error("returned", "y")

    f()
    assert exported.only.attributes["errorCode"] == "returned"


def test_recording_outside_of_a_call_does_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("DEBUG", "acrux_otel"):
        acrux.record_error("nobody", "hears it")
    assert [record.levelname for record in caplog.records] == ["DEBUG"]
    assert "hears it" not in caplog.text


def test_an_omitted_result_follows_the_annotation(exported: Any) -> None:
    @acrux.tool
    def words() -> str:
        return acrux.ToolResult.error("e", "no such city")

    @acrux.tool
    def table() -> dict[str, Any]:
        return acrux.ToolResult.warn("w", "old")

    @acrux.tool
    def nothing() -> Any:
        return acrux.ToolResult.error("e", "m", None)

    assert (words(), table(), nothing()) == ("no such city", {"warning": "old"}, None)


def test_suspect_marks_a_dict_that_looks_like_an_error_as_a_warning(exported: Any) -> None:
    results: list[Any] = [
        {"error": "x"},
        {"isError": True},
        {"status": "error"},
        {"error": None},
        {"status": "ok"},
        "error",
    ]

    @acrux.tool(suspect="warn")
    def f(i: int) -> Any:
        return results[i]

    assert [f(i) for i in range(6)] == results
    assert [span.outcome for span in exported.tools()] == ["warning"] * 3 + ["ok"] * 3
    assert exported.tools()[0].attributes["errorCode"] == "suspected_failure"
    assert exported.tools()[0].status == "UNSET"


def test_acruxcore_tools_move_over_unchanged(exported: Any) -> None:
    from acruxcore import ToolResult

    @acrux.tool
    def f(city: str) -> Any:
        if city == "Atlantis":
            return ToolResult.error("location_not_found", "no coordinates")
        return ToolResult.warn("ambiguous_city", "two of them", {"temp": 3})

    assert f("Atlantis") == {"error": "no coordinates"}
    assert f("Springfield") == {"temp": 3}
    failed, warned = exported.tools()
    assert failed.attributes["errorCode"] == "location_not_found"
    assert (warned.outcome, warned.attributes["warning.message"]) == ("warning", "two of them")


def test_a_status_description_is_bounded_and_never_empty(exported: Any) -> None:
    @acrux.tool
    def f(message: str) -> Any:
        return acrux.ToolResult.error("long_story", message)

    f("é" * 5000)
    f("")
    long, empty = exported.tools()
    assert len(long.description.encode()) <= 256
    assert len(long.attributes["errorDetail"].encode()) <= 1024
    assert empty.description == "long_story"


def test_an_exception_that_the_body_recorded_itself_is_not_recorded_twice(exported: Any) -> None:
    @acrux.tool
    def f() -> None:
        try:
            raise ValueError("x")
        except ValueError as error:
            trace.get_current_span().record_exception(error)
            raise

    with pytest.raises(ValueError, match="x"):
        f()
    assert [name for name, _ in exported.only.events] == ["exception"]


def test_the_span_says_what_the_convention_asks_from_its_start(exported: Any) -> None:
    @acrux.tool(description="Adds two numbers.")
    def add(a: int, b: int) -> int:
        """Another text."""
        return a + b

    add(1, 2)
    span = exported.only
    assert (span.name, span.kind, span.scope) == ("execute_tool add", 1, "acrux_otel")
    assert span.attributes == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "add",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.description": "Adds two numbers.",
        "executorType": "client",
        "acrux.tool.outcome": "ok",
    }


@pytest.mark.parametrize("decorate", [acrux.tool, acrux.tool(capture="full")])
def test_storm_detection_tells_equal_calls_and_not_what_was_in_them(exported: Any, decorate: Any) -> None:
    """However the arguments were passed; with a key, so that guesses cannot be hashed."""
    settings.storm_detection = True

    @decorate
    def lookup(city: str, units: str = "C") -> str:
        return city

    lookup("Berlin")
    lookup(city="Berlin")
    lookup("Paris")
    first, second, third = (each.attributes["acrux.tool.arguments.hash"] for each in exported.tools())
    assert first == second != third
    assert len(first) == 16 and "Berlin" not in first


def test_storm_detection_is_off_by_default_and_under_capture_none(exported: Any) -> None:
    @acrux.tool
    def lookup(city: str) -> str:
        return city

    lookup("Berlin")
    settings.storm_detection, settings.capture = True, NONE
    lookup("Berlin")
    assert not [each for each in exported.tools() if "acrux.tool.arguments.hash" in each.attributes]


def test_a_budget_and_storm_detection_agree_on_one_hash(exported: Any) -> None:
    """Calls inside and outside of the budget's run can be compared."""
    settings.storm_detection = True

    @acrux.tool
    def lookup(city: str) -> str:
        return city

    lookup("Berlin")
    with acrux.RunBudget(max_repeats=3):
        lookup("Berlin")
    assert len({each.attributes["acrux.tool.arguments.hash"] for each in exported.tools()}) == 1
