# SPDX-License-Identifier: Apache-2.0
"""Whatever goes wrong on our side, the user's call is what it would have been, once."""

from __future__ import annotations

import enum
import json
import threading
import uuid
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

import acrux_otel as acrux
from acrux_otel import call as call_module
from acrux_otel import seam
from acrux_otel.settings import FULL, settings


class Raising(SpanProcessor):
    def __init__(self, where: str) -> None:
        self.where = where

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        if self.where == "on_start":
            raise RuntimeError("processor")

    def on_end(self, span: ReadableSpan) -> None:
        if self.where == "on_end":
            raise RuntimeError("processor")


def _warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "acrux_otel"]


@pytest.mark.parametrize("where", ["on_start", "on_end"])
def test_R10_a_raising_processor_changes_nothing(where: str, caplog: pytest.LogCaptureFixture) -> None:
    provider = TracerProvider()
    provider.add_span_processor(Raising(where))
    settings.tracer_provider = provider
    ran = []

    @acrux.tool
    def f(x: int) -> int:
        ran.append(x)
        if x == 3:
            raise KeyError("mine")
        return x

    assert [f(1), f(2)] == [1, 2]
    with pytest.raises(KeyError, match="mine"):
        f(3)
    assert ran == [1, 2, 3]
    assert len(_warnings(caplog)) == 1
    assert "processor" not in caplog.text.replace("telemetry", "")


@pytest.mark.parametrize(
    "part",
    [
        "classify",
        "declared_by_result",
        "unwrap",
        "span.TracerSource.starter",
        "span.finish",
        "span.ended_ok",
        "span.error_on",
        "span.record_exception",
    ],
)
def test_R10_a_fault_of_our_own_changes_nothing(
    exported: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, part: str
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise RuntimeError("ours")

    holder: Any = call_module
    *path, name = part.split(".")
    for step in path:
        holder = getattr(holder, step)
    monkeypatch.setattr(holder, name, fail)
    ran = []

    @acrux.tool
    def f(kind: str) -> Any:
        ran.append(kind)
        if kind == "raise":
            raise KeyError("mine")
        return {"declare": acrux.ToolResult.error("e", "m", 5), "plain": 1, "object": part_object}[kind]

    part_object = object()
    assert (f("plain"), f("declare"), f("object")) == (1, 5, part_object)
    with pytest.raises(KeyError, match="mine"):
        f("raise")
    assert ran == ["plain", "declare", "object", "raise"]
    assert len(_warnings(caplog)) <= 2


class Color(enum.Enum):
    RED = "red"


def test_R09_a_result_that_json_does_not_know_is_ok(exported: Any) -> None:
    settings.capture = FULL
    given = {"id": uuid.uuid4(), "at": datetime(2026, 1, 2), "d": Decimal("1"), "e": Color.RED}

    @acrux.tool
    def f() -> Any:
        return given

    assert f() is given
    assert exported.only.outcome == "ok"
    recorded = json.loads(exported.only.attributes["gen_ai.tool.call.result"])
    assert recorded["id"] == str(given["id"]) and recorded["e"] == "red"
    assert recorded["at"].startswith("2026-01-02") and str(recorded["d"]) == "1"


class Evil:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    def __str__(self) -> str:
        raise RuntimeError


def test_A16_an_unserialisable_argument_costs_nothing_but_its_own_text(exported: Any) -> None:
    settings.capture = FULL
    cyclic: dict[str, Any] = {}
    cyclic["me"] = cyclic

    @acrux.tool
    def f(x: Any, y: Any = None, z: Any = None) -> int:
        return 1

    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((cyclic,), {}),
        ((Evil(),), {"y": "kept"}),
        ((threading.Lock(),), {"z": b"\x00\xff"}),
        (({(1, 2): 3, None: 4},), {}),
        ((float("nan"),), {"y": 2**70, "z": "\ud800"}),
    ]
    assert [f(*args, **kwargs) for args, kwargs in calls] == [1] * 5
    assert len(exported.tools()) == 5
    inputs = [
        json.loads(span.attributes["gen_ai.tool.call.arguments"], parse_constant=pytest.fail)
        for span in exported.tools()
    ]
    assert inputs[1]["y"] == "kept"
    assert "circular" in json.dumps(inputs[0])


def test_A18_a_big_payload_is_cut_and_still_parses(exported: Any) -> None:
    settings.capture = FULL
    settings.payload_limit = 1000

    @acrux.tool
    def f(q: str, rows: list[str]) -> str:
        return "ok"

    f("short", ["é😀" * 1000] * 50)
    value = exported.only.attributes["gen_ai.tool.call.arguments"]
    assert len(value.encode()) <= 1000
    assert json.loads(value)["q"] == "short"
    assert exported.only.attributes["acrux.tool.truncated_bytes"] > 100_000


@pytest.mark.parametrize(("environment", "expected"), [("200", 200), ("junk", 16384), ("999999", 16384)])
def test_A18_the_smaller_limit_of_the_environment_wins(
    monkeypatch: pytest.MonkeyPatch, environment: str, expected: int
) -> None:
    monkeypatch.setenv("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", environment)
    settings._payload_limit = None
    assert settings.payload_limit == expected


def test_A18_the_limit_of_the_provider_wins_where_smaller() -> None:
    from tests.conftest import Exported

    sink = Exported()
    provider = TracerProvider(span_limits=SpanLimits(max_span_attribute_length=100))
    provider.add_span_processor(SimpleSpanProcessor(sink))
    settings.tracer_provider, settings.capture = provider, FULL

    @acrux.tool
    def f(rows: list[int]) -> list[int]:
        return rows

    f(list(range(1000)))
    for key in ("arguments", "result"):
        assert json.loads(sink.only.attributes[f"gen_ai.tool.call.{key}"]) is not None


POISON = {
    "surrogate": "\ud800 broken",
    "nul": "a\x00b",
    "nan": float("nan"),
    "huge int": 2**70,
    "bytes": b"\xff\xfe",
    "long": "x" * 5_000_000,
}


@pytest.mark.parametrize("kind", POISON)
@pytest.mark.parametrize(
    "where", ["message", "code", "exception", "argument", "result", "name", "description", "id"]
)
def test_one_poisoned_value_does_not_cost_the_batch(exported: Any, kind: str, where: str) -> None:
    """The span is encoded for OTLP whatever was put in, in any place."""
    settings.capture = FULL
    poison: Any = POISON[kind]
    text = poison if isinstance(poison, str) else str(poison)

    def body(x: Any = None) -> Any:
        if where == "message":
            return acrux.ToolResult.error("e", poison, 1)
        if where == "code":
            return acrux.ToolResult.error(poison, "m", 1)
        if where == "exception":
            raise ValueError(poison)
        return poison if where == "result" else 1

    options: dict[str, Any] = {}
    if where == "description":
        options["description"] = text
    if where == "name":
        options["name"] = text[:64]
    try:
        tool = acrux.tool(**options)(body)
    except ValueError:
        assert where == "name"  # refused at decoration is as good
        return
    if where == "id":
        call = seam.open_call(acrux.definition_of(tool), call_id=text)
        call.ok(1)
    elif where == "exception":
        with pytest.raises(ValueError):
            tool()
    else:
        tool(poison if where == "argument" else None)
    assert len(exported.tools()) == 1
    assert "\x00" not in "".join(str(v) for v in exported.only.attributes.values())


def test_a_raising_observer_is_ignored(exported: Any, caplog: pytest.LogCaptureFixture) -> None:
    def observer(*_: Any) -> None:
        raise RuntimeError("observer")

    seam.observe(observer, observer)
    try:

        @acrux.tool
        def f() -> int:
            return 1

        assert [f(), f()] == [1, 1]
    finally:
        seam.unobserve(observer, observer)
    assert len(exported.tools()) == 2
    assert len(_warnings(caplog)) == 2


def test_the_first_close_wins(exported: Any) -> None:
    @acrux.tool
    def f() -> int:
        return 1

    call = seam.open_call(acrux.definition_of(f))
    call.declared(acrux.Verdict(acrux.Outcome.CANCELLED))
    call.ok(1)
    call.raised(ValueError("late"))
    assert exported.only.outcome == "cancelled"


def test_the_first_close_wins_across_threads(exported: Any) -> None:
    @acrux.tool
    def f() -> int:
        return 1

    for _ in range(50):
        call = seam.open_call(acrux.definition_of(f))
        barrier = threading.Barrier(4)

        def close(call: Any = call, barrier: Any = barrier) -> None:
            barrier.wait(5)
            call.close(acrux.Verdict(acrux.Outcome.OK))

        threads = [threading.Thread(target=close) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(5)
        call.leave()
    assert len(exported.tools()) == 50


def test_no_sdk_means_silence(caplog: pytest.LogCaptureFixture) -> None:
    @acrux.tool
    def f(x: int) -> Any:
        return acrux.ToolResult.error("e", "m") if x else x

    assert (f(0), f(1)) == (0, {"error": "m"})
    assert caplog.records == []


def test_recording_inside_an_unread_call_does_not_reach_the_call_around_it() -> None:
    @acrux.tool
    def inner() -> int:
        acrux.record_error("inner", "inner failed")
        return 1

    @acrux.tool
    def outer() -> int:
        return inner()

    assert outer.call().verdict.outcome is acrux.Outcome.OK
