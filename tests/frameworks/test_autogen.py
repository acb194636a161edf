# SPDX-License-Identifier: Apache-2.0
"""AutoGen: tools that stream, and the workbench that agents stream from."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("autogen_core")

from autogen_core import CancellationToken
from autogen_core.tools import BaseStreamTool, FunctionTool, StaticStreamWorkbench
from pydantic import BaseModel

from acrux_otel.seam import current_call
from acrux_otel.testing import record_calls
from tests.conftest import Exported
from tests.frameworks import tools


@pytest.fixture(autouse=True)
def watched(everywhere: Exported, instrument: Any) -> None:
    instrument("acrux_autogen")


def verdicts(spans: Exported) -> list[tuple[Any, ...]]:
    return [
        tuple(each.attributes.get(name) for name in ("acrux.tool.outcome", "errorType", "errorCode"))
        for each in spans
        if each.outcome is not None
    ]


class Arguments(BaseModel):
    city: str


class Told(BaseModel):
    text: str


class Forecast(BaseStreamTool[Arguments, Told, Told]):
    def __init__(self) -> None:
        super().__init__(Arguments, Told, "forecast", "Tell the weather.")
        self.inside: list[Any] = []

    async def run(self, args: Arguments, cancellation_token: CancellationToken) -> Told:
        raise NotImplementedError

    async def run_stream(self, args: Arguments, cancellation_token: CancellationToken) -> Any:
        for text in ("looking", "rain"):
            self.inside.append(current_call())
            if args.city == "Refusal" and text == "rain":
                raise ConnectionRefusedError("nobody listens")
            yield Told(text=text)


@pytest.mark.parametrize(
    ("city", "expected"),
    [("Rome", ("ok", None, None)), ("Refusal", ("error", "transport", "connection_refused"))],
)
async def test_a_stream_is_current_while_it_works_and_not_between(
    city: str, expected: tuple[Any, ...], everywhere: Exported
) -> None:
    """Whoever looks at the results of a tool is outside of its call, which has one verdict and its id."""
    tool = Forecast()
    bench = StaticStreamWorkbench([tool])
    with record_calls() as calls:
        outside = [
            current_call() async for _ in bench.call_tool_stream("forecast", {"city": city}, None, "c7")
        ]
    assert set(outside) == {None}
    assert len(tool.inside) == 2 and None not in tool.inside
    assert verdicts(everywhere) == [expected]
    assert [(each.name, each.id, dict(each.arguments)) for each in calls] == [
        ("forecast", "c7", {"city": city})
    ]


async def test_a_stream_that_nobody_reads_to_its_end_is_closed(everywhere: Exported) -> None:
    """A consumer that leaves early is no failure of the tool."""
    stream = Forecast().run_json_stream({"city": "Rome"}, CancellationToken())
    async for _ in stream:
        break
    await stream.aclose()
    assert verdicts(everywhere) == [("closed", None, None)]
    assert current_call() is None


async def test_an_agents_workbench_is_seen_like_any_other(everywhere: Exported) -> None:
    """A plain function in a workbench that streams, and a name that no tool has."""
    bench = StaticStreamWorkbench([FunctionTool(tools.aforecast, "Tell the weather.", name="forecast")])
    for name, city in (("forecast", "Nowhere"), ("nope", "Rome")):
        async for _ in bench.call_tool_stream(name, {"city": city}, call_id="c7"):
            pass
    assert verdicts(everywhere) == [
        ("error", "tool_declared", "lookup_error"),
        ("error", "schema_mismatch", "unknown_tool"),
    ]
