# SPDX-License-Identifier: Apache-2.0
"""Every framework that is installed, every case, sync and async: one call, one verdict, counted once."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest
from opentelemetry import trace

from acrux_otel.testing import record_calls
from tests.conftest import Exported
from tests.frameworks import tools
from tests.frameworks.rig import DEFAULT, NOT_THERE, Rig, found

FOUND = found()
KINDS = [pytest.param(rig, kind, id=f"{name}-{kind}") for name, rig in FOUND.items() for kind in rig.kinds]
EACH = [
    pytest.param(rig, kind, case, id=f"{name}-{kind}-{case}")
    for name, rig in FOUND.items()
    for kind in rig.kinds
    for case in DEFAULT
    if rig.expects(case, kind) != NOT_THERE
]


def _verdicts(spans: Exported) -> list[Any]:
    return [each for each in spans if each.outcome is not None]


@pytest.mark.parametrize(("rig", "kind", "case"), EACH)
async def test_a_call_has_one_verdict_and_is_counted_once(
    rig: Rig, kind: str, case: str, everywhere: Exported, instrument: Any
) -> None:
    """One span says how the call ended, exactly one call is counted, and the trace hangs together."""
    instrument(rig.name, *rig.also)
    with record_calls() as calls:
        answer = await rig.run(kind, case)
    outcome, error_type, code = rig.expects(case, kind)
    spans = _verdicts(everywhere)
    assert [
        (each.outcome, each.attributes.get("errorType"), each.attributes.get("errorCode")) for each in spans
    ] == [(outcome, error_type, code)], [(each.name, each.attributes) for each in spans]
    (span,) = spans
    assert (span.status == "ERROR") == (outcome == "error")
    if outcome == "error":
        assert span.description
    assert [(each.name, each.outcome.value) for each in calls] == [
        ("no_such_tool" if case == "unknown" else "forecast", outcome)
    ]
    if rig.call_id is not None:
        assert span.attributes.get("gen_ai.tool.call.id") == rig.call_id
        assert calls.last.id == rig.call_id
    assert span.attributes["gen_ai.tool.name"] == calls.last.name
    if rig.own_span is not None and case not in ("unknown", "mismatch"):
        assert span.name.startswith(rig.own_span)
    inside = [each for each in everywhere if each.name == "inside"]
    for each in inside:
        assert each.trace_id == span.trace_id
        assert each.parent_id in _below(everywhere, span.span_id)
    assert "ToolResult" not in answer
    assert "ToolResult" not in str(span.attributes)


def _below(spans: Exported, root: str) -> set[str]:
    found = {root}
    for _ in range(len(spans)):
        found |= {each.span_id for each in spans if each.parent_id in found}
    return found


@pytest.mark.parametrize(("rig", "kind"), KINDS)
async def test_the_model_sees_the_plain_result_of_a_declared_error(
    rig: Rig, kind: str, everywhere: Exported, instrument: Any
) -> None:
    """A returned ToolResult reaches the model as its message, a warning as its result."""
    instrument(rig.name, *rig.also)
    assert "no such city: Atlantis" in await rig.run(kind, "declared")
    assert "tempC" in await rig.run(kind, "warned")


@pytest.mark.parametrize(
    ("rig", "kind", "case"),
    [
        param
        for param in EACH
        if param.values[2] in ("ok", "raise", "mismatch", "unknown", "soft", "recorded")
    ],
)
async def test_the_framework_behaves_as_without_us(
    rig: Rig, kind: str, case: str, everywhere: Exported, instrument: Any
) -> None:
    """What the model sees is the same with and without the instrumentation."""
    without = await rig.run(kind, case)
    instrument(rig.name, *rig.also)
    assert await rig.run(kind, case) == without


@pytest.mark.parametrize(("rig", "kind"), KINDS)
async def test_a_decorated_function_joins_the_call_of_its_framework(
    rig: Rig, kind: str, everywhere: Exported, instrument: Any
) -> None:
    """A decorated function inside a framework's tool makes no second call, and its word is the call's."""
    import acrux_otel

    instrument(rig.name, *rig.also)
    for case, (outcome, error_type, code) in {
        "ok": ("ok", None, None),
        "declared": DEFAULT["declared"],
        "raise": DEFAULT["raise"],
    }.items():
        everywhere.clear()
        function = acrux_otel.tool(name="under_another_name")(rig.function(kind, case))
        with record_calls() as calls:
            try:
                await rig.turn(function, *rig.asked(case))
            except Exception:
                assert case == "raise"
        assert [(each.name, each.outcome.value, each.verdict.code) for each in calls] == [
            ("forecast", outcome, code)
        ]
        assert [(each.outcome, each.attributes.get("errorType")) for each in _verdicts(everywhere)] == [
            (outcome, error_type)
        ]


@pytest.mark.parametrize(("rig", "kind"), KINDS)
async def test_calls_at_the_same_time_hang_each_below_who_asked(
    rig: Rig, kind: str, everywhere: Exported, instrument: Any
) -> None:
    """Six agents at once: each trace has its own verdict, below its agent's span and above its tool's."""
    instrument(rig.name, *rig.also)
    cases = ["ok", "raise", "declared"] * 2

    async def agent(case: str) -> tuple[str, str]:
        with trace.get_tracer("agent").start_as_current_span("agent") as span:
            await rig.run(kind, case)
            assert trace.get_current_span() is span
        return format(span.get_span_context().trace_id, "032x"), case

    with record_calls() as calls:
        asked = dict(await asyncio.gather(*(agent(case) for case in cases)))
    assert len(asked) == len(calls) == len(cases)
    for trace_id, case in asked.items():
        spans = [each for each in everywhere if each.trace_id == trace_id]
        (root,) = [each for each in spans if each.name == "agent"]
        (made,) = [each for each in spans if each.outcome is not None]
        outcome, _, code = rig.expects(case, kind)
        assert (made.outcome, made.attributes.get("errorCode")) == (outcome, code)
        (inside,) = [each for each in spans if each.name == "inside"]
        ids = {each.span_id: each.parent_id for each in spans}
        assert made.span_id in _above(ids, inside.span_id)
        assert root.span_id in _above(ids, made.span_id)


def _above(parents: dict[str, str], span_id: str) -> list[str]:
    found = []
    while span_id in parents:
        span_id = parents[span_id]
        found.append(span_id)
    return found


@pytest.mark.parametrize(("rig", "kind"), KINDS)
async def test_a_tool_that_is_gone_is_not_kept(
    rig: Rig, kind: str, everywhere: Exported, instrument: Any
) -> None:
    """A program that makes its tools for each request does not grow by us."""

    async def kept() -> int:
        made = []
        for _ in range(4):
            function = _another(kind)
            await rig.turn(function, *rig.asked("ok"))
            made.append(weakref.ref(function))
            del function
        await asyncio.sleep(0.05)
        everywhere.clear()
        gc.collect()
        gc.collect()  # what the end of a tool has let go of
        return sum(each() is not None for each in made)

    without = await kept()
    instrument(rig.name, *rig.also)
    assert await kept() <= without


def _another(kind: str) -> Any:
    if kind == "sync":

        def forecast(city: str) -> dict:
            """Tell the weather of a city.

            Args:
                city: its name.
            """
            return tools.forecast(city)

        return forecast

    async def aforecast(city: str) -> dict:
        """Tell the weather of a city.

        Args:
            city: its name.
        """
        return await tools.aforecast(city)

    return aforecast
