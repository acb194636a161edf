# SPDX-License-Identifier: Apache-2.0
"""The run span's summary and the metrics."""

from __future__ import annotations

import asyncio
import inspect
import threading
from typing import Any

import pytest
from opentelemetry.metrics import Meter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

import acrux_otel as acrux
from acrux_otel import ToolDefinition, metrics
from acrux_otel.seam import open_call, unknown_tool
from acrux_otel.settings import settings
from acrux_otel.testing import record_calls


@acrux.tool
def weather(city: str) -> dict[str, Any]:
    if city == "Atlantis":
        return acrux.ToolResult.error("location_not_found", "no coordinates")
    if city == "Hyderabad":
        return acrux.ToolResult.warn("ambiguous_city", "two of them", {"temp": 31})
    return {"temp": 18}


def test_a_run_sums_up_the_calls_made_under_it(exported: Any) -> None:
    with acrux.run("weather-brief", tags=["silent", "ok"], session_id="s1") as r:
        for city in ("Kathmandu", "Atlantis", "Hyderabad"):
            weather(city)
    span = exported[-1]
    assert span.name == "invoke_agent weather-brief"
    assert span.trace_id == r.trace_id
    assert span.status == "UNSET"
    assert span.attributes == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "weather-brief",
        "session.id": "s1",
        "acrux.tag.silent": True,
        "acrux.tag.ok": True,
        "acrux.trace.outcome": "error",
        "acrux.tool.calls": 3,
        "acrux.tool.failed": 1,
        "acrux.tool.warned": 1,
        "acrux.tool.not_executed": 0,
        "acrux.tool.retries": 0,
        "acrux.tool.first_failed.name": "weather",
        "acrux.tool.first_failed.error_type": "tool_declared",
        "acrux.tool.first_failed.error_code": "location_not_found",
    }
    assert {tool.parent_id for tool in exported.tools()} == {span.span_id}
    assert (r.summary.calls, r.summary.outcome) == (3, acrux.Outcome.ERROR)


@pytest.mark.parametrize(
    ("cities", "outcome"),
    [([], "ok"), (["Pune"], "ok"), (["Hyderabad"], "warning"), (["Atlantis", "Hyderabad"], "error")],
)
def test_a_run_is_red_amber_or_green(exported: Any, cities: list[str], outcome: str) -> None:
    with acrux.run("r"):
        for city in cities:
            weather(city)
    assert exported[-1].attributes["acrux.trace.outcome"] == outcome


def test_a_run_works_without_an_sdk() -> None:
    with acrux.run("r") as r:
        weather("Atlantis")
    assert (r.trace_id, r.summary.failed) == (None, 1)


def test_a_call_belongs_to_the_innermost_run(exported: Any) -> None:
    with acrux.run("outer") as outer:
        with acrux.run("inner") as inner:
            weather("Pune")
        weather("Atlantis")
    assert (outer.summary.calls, inner.summary.calls) == (1, 1)
    weather("Atlantis")
    assert outer.summary.calls == 1


def test_a_run_is_an_async_context_manager_and_a_decorator(exported: Any) -> None:
    @acrux.run("decorated", tags=["t"])
    def agent(city: str) -> Any:
        return weather(city)

    @acrux.run("decorated-async")
    async def agent_async(city: str) -> Any:
        return weather(city)

    async def main() -> None:
        async with acrux.run("with") as r:
            weather("Pune")
        assert r.summary.calls == 1
        await agent_async("Pune")

    agent("Pune")
    agent("Atlantis")
    asyncio.run(main())
    runs = [span for span in exported if span.name.startswith("invoke_agent")]
    assert [span.attributes["acrux.trace.outcome"] for span in runs] == ["ok", "error", "ok", "ok"]
    assert len({span.trace_id for span in runs}) == 4


def test_an_exception_that_escapes_a_run_is_the_runs_own_failure(exported: Any) -> None:
    with pytest.raises(ValueError, match="agent broke"), acrux.run("r"):
        raise ValueError("agent broke")
    assert (exported[0].status, exported[0].attributes["acrux.trace.outcome"]) == ("ERROR", "ok")


@pytest.mark.parametrize(
    "arguments",
    [
        {"name": ""},
        {"name": 3},
        {"name": "r", "tags": "one"},
        {"name": "r", "tags": [1]},
        {"name": "r", "session_id": 5},
    ],
)
def test_a_run_refuses_what_can_never_work(arguments: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="run"):
        acrux.run(**arguments)


def test_a_run_is_entered_once() -> None:
    r = acrux.run("r")
    with r:
        pass
    with pytest.raises(RuntimeError, match="new one"), r:
        pass


@pytest.fixture
def collected() -> Any:
    reader = InMemoryMetricReader()
    provider = MeterProvider(metric_readers=[reader])
    settings.meter_provider = provider

    def collect() -> dict[str, list[Any]]:
        data = reader.get_metrics_data()
        return {
            metric.name: list(metric.data.data_points)
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }

    yield collect
    settings.meter_provider = None
    provider.shutdown()


def test_metrics_count_calls_by_verdict(collected: Any) -> None:
    """They need no tracer: a program may send metrics alone."""
    for city in ("Pune", "Pune", "Atlantis", "Hyderabad"):
        weather(city)
    data = collected()
    calls = {
        (point.attributes["acrux.tool.outcome"], point.attributes.get("errorCode")): point.value
        for point in data["acrux.tool.calls"]
    }
    assert calls == {("ok", None): 2, ("error", "location_not_found"): 1, ("warning", "ambiguous_city"): 1}
    durations = {
        point.attributes["acrux.tool.outcome"]: point for point in data["gen_ai.execute_tool.duration"]
    }
    assert durations["ok"].count == 2 and durations["error"].attributes["error.type"] == "tool_declared"
    assert "error.type" not in durations["warning"].attributes
    if "explicit_bucket_boundaries_advisory" in inspect.signature(Meter.create_histogram).parameters:
        assert durations["ok"].explicit_bounds[0] == 0.01 and len(durations["ok"].explicit_bounds) == 14
    assert [point.value for point in data["acrux.tool.in_flight"]] == [0]


def test_calls_in_progress_are_in_flight(collected: Any) -> None:
    started, finish = threading.Event(), threading.Event()

    @acrux.tool
    def slow() -> None:
        started.set()
        finish.wait(10)

    thread = threading.Thread(target=slow)
    thread.start()
    started.wait(10)
    in_flight = {p.attributes["gen_ai.tool.name"]: p.value for p in collected()["acrux.tool.in_flight"]}
    finish.set()
    thread.join(10)
    assert in_flight["slow"] == 1


def test_error_codes_are_bounded_for_each_tool(collected: Any) -> None:
    @acrux.tool
    def f(i: int) -> Any:
        return acrux.ToolResult.error(f"code_{i}", "m")

    for i in range(60):
        f(i)
    values = {p.attributes["errorCode"]: p.value for p in collected()["acrux.tool.calls"]}
    assert len(values) == 51 and values["other"] == 10


def test_names_that_a_model_makes_up_are_one_tool(collected: Any, exported: Any) -> None:
    """They have no end, and no instrument grows by them; each span keeps its own."""
    for i in range(60):
        call = open_call(ToolDefinition(None, f"made_up_{i}", description=""), catalogued=False)
        call.executed = False
        call.declared(unknown_tool(f"made_up_{i}"))
    weather("Pune")
    data = collected()
    calls = {point.attributes["gen_ai.tool.name"]: point.value for point in data["acrux.tool.calls"]}
    assert calls == {"(unknown)": 60, "weather": 1}
    assert {point.attributes["gen_ai.tool.name"] for point in data["acrux.tool.in_flight"]} == {"weather"}
    assert exported.tools()[59].attributes["gen_ai.tool.name"] == "made_up_59"


def test_tools_are_bounded(collected: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Past the bound they count together."""
    monkeypatch.setattr(metrics, "_TOOLS", 3)
    for i in range(5):
        open_call(ToolDefinition(None, f"tool_{i}", description="")).ok(i)
    data = collected()
    calls = {point.attributes["gen_ai.tool.name"]: point.value for point in data["acrux.tool.calls"]}
    assert calls == {"tool_0": 1, "tool_1": 1, "tool_2": 1, "other": 2}
    assert len(data["acrux.tool.in_flight"]) == 3
    assert sum(point.count for point in data["gen_ai.execute_tool.duration"]) == 5


def test_a_gauge_is_read_at_collection(collected: Any) -> None:
    metrics.gauge("acrux.run.backlog", "{run}", "Runs waiting.", lambda: [(7, {"queue": "a"})])
    weather("Pune")
    assert [point.value for point in collected()["acrux.run.backlog"]] == [7]


def test_metrics_can_be_switched_off(collected: Any) -> None:
    settings.metrics = False
    weather("Pune")
    assert "acrux.tool.calls" not in collected()


def test_record_calls_needs_no_sdk() -> None:
    with record_calls() as calls:
        weather("Atlantis")
        weather(city="Pune")
    assert [(call.name, call.arguments, call.outcome.value) for call in calls] == [
        ("weather", {"city": "Atlantis"}, "error"),
        ("weather", {"city": "Pune"}, "ok"),
    ]
    assert calls.failed()[0].verdict.code == "location_not_found"
    weather("Atlantis")
    assert len(calls) == 2


def test_record_calls_says_when_nothing_was_called() -> None:
    with record_calls() as calls, pytest.raises(AssertionError, match="no decorated tool"):
        _ = calls.last


def test_the_pytest_fixture_comes_with_the_package(acrux_calls: Any) -> None:
    weather("Hyderabad")
    assert acrux_calls.last.verdict.code == "ambiguous_city"
