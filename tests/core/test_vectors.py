# SPDX-License-Identifier: Apache-2.0
"""Every vector that a decorated call decides, through the real decorator, SDK and OTLP encoder."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import acrux_otel as acrux
from acrux_otel.testing import record_calls
from tests.vectors import CASES, Case, NeedsApproval

DECIDED_BY_THE_CALL = [case for case in CASES if case.where in ("body", "result", "generator")]
# What no single returned or raised object says.
SCHEMA = {"type": "object", "required": ["tempC"]}


def _tool(case: Case, built: Any, kind: str) -> Any:
    options: dict[str, Any] = {"name": "vector", "control_flow": (NeedsApproval,)}
    if case.id.startswith("result-schema") or case.id == "declared-outranks-schema":
        options |= {
            "result_schema": SCHEMA,
            "result_severity": "error" if case.id.endswith("error") else "warn",
        }

    def outcome() -> Any:
        if case.id == "body-set-error":
            from opentelemetry import trace
            from opentelemetry.trace import StatusCode

            trace.get_current_span().set_status(StatusCode.ERROR, "the body says so")
        if case.raises:
            raise built
        return built

    if kind == "async":

        async def tool() -> Any:
            return outcome()
    else:

        def tool() -> Any:
            return outcome()

    return acrux.tool(**options)(tool)


def _run(called: Any) -> None:
    if inspect.isawaitable(called):
        try:
            called.send(None)  # type: ignore[attr-defined]
        except StopIteration:
            return
        pytest.fail("the tool waits for nothing")


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("case", DECIDED_BY_THE_CALL, ids=lambda case: case.id)
def test_a_call_comes_out_as_the_vector_says(exported: Any, case: Case, kind: str) -> None:
    if case.where == "generator":
        _close_early(kind)
    else:
        built = case.build()
        tool = _tool(case, built, kind)
        with record_calls() as calls:
            if case.raises:
                with pytest.raises(type(built)) as caught:
                    _run(tool())
                assert caught.value is built
            else:
                _run(tool())
        assert len(calls) == 1
    span, expect = exported.only, case.expect
    assert span.outcome == expect["outcome"]
    assert span.status == ("ERROR" if expect["outcome"] == "error" else "UNSET")
    for key in ("errorType", "errorCode"):
        assert span.attributes.get(key) == expect.get(key)
    assert span.attributes.get("error.type") == (expect.get("errorType") if span.status == "ERROR" else None)
    if "http.response.status_code" in expect:
        assert span.attributes["http.response.status_code"] == expect["http.response.status_code"]
    if "retryable" in expect:
        assert span.attributes["acrux.tool.retryable"] == expect["retryable"]
    assert (len(span.events) == 1) == (case.raises and span.status == "ERROR")
    assert (span.status == "ERROR") == bool(span.description)


def _close_early(kind: str) -> None:
    @acrux.tool(name="vector")
    def items() -> Any:
        yield 1
        yield 2

    @acrux.tool(name="vector")
    async def async_items() -> Any:
        yield 1
        yield 2

    if kind == "sync":
        generator = items()
        next(generator)
        generator.close()
        return

    async def main() -> None:
        stream = async_items()
        await stream.__anext__()
        await stream.aclose()

    import asyncio

    asyncio.run(main())


def test_every_vector_is_decided_somewhere() -> None:
    """A new kind of vector needs a test before it can be forgotten."""
    assert {case.where for case in CASES} <= {
        "body",
        "result",
        "generator",
        "arguments",
        "lookup",
        "guard",
    }
    assert len(DECIDED_BY_THE_CALL) > 60
