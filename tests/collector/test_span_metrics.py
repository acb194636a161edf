# SPDX-License-Identifier: Apache-2.0
"""Metrics made of spans: what is counted, and how many series that can make."""

from __future__ import annotations

import re
import time
import urllib.request
from typing import Any, Final

import pytest
import yaml
from backends.servers import Collector

from .conftest import CONFIGS, StartGateway
from .foreign import ERROR, Foreign, otlp, post

pytestmark = [pytest.mark.backends, pytest.mark.timeout(120)]

LIMIT: Final = 2000  # as docs/scale.md says


def points(server: Collector, metric: str) -> dict[frozenset[tuple[str, str]], float]:
    """The series of one metric that Prometheus would scrape now: labels -> value."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(server.prometheus_endpoint, timeout=10) as answer:
        text = answer.read().decode()
    found = {}
    for labels, value in re.findall(rf"^{metric}{{(.*)}} (\S+)", text, re.MULTILINE):
        found[frozenset(re.findall(r'(\w+)="([^"]*)"', labels))] = float(value)
    return found


def counted(server: Collector, metric: str, calls: int) -> dict[frozenset[tuple[str, str]], float]:
    """The same, once all calls are in it."""
    deadline = time.monotonic() + 20
    found: dict[frozenset[tuple[str, str]], float] = {}
    while sum(found.values()) < calls and time.monotonic() < deadline:
        time.sleep(0.2)
        found = points(server, metric)
    return found


def declared(tool: str, code: str) -> tuple[str, Foreign]:
    said: dict[str, Any] = {"gen_ai.tool.name": tool, "errorType": "tool_declared", "errorCode": code}
    return "genai", Foreign(said, ERROR)


@pytest.mark.parametrize("what", ["errorCode", "gen_ai.tool.name"])
def test_past_the_limit_calls_are_counted_under_one_overflow_label(gateway: StartGateway, what: str) -> None:
    """A program with too many label sets costs a bounded number of series, and no call is lost."""
    calls = LIMIT + 500
    server = gateway()
    for begin in range(0, calls, 500):
        numbers = range(begin, begin + 500)
        many = {
            f"s{n}": declared(f"t{n}", "c") if what == "gen_ai.tool.name" else declared("t", f"c{n}")
            for n in numbers
        }
        post(server.http_endpoint, otlp(many, "many"))
    post(server.http_endpoint, otlp({"one": declared("t", "c")}, "few"))
    found = counted(server, "acrux_span_calls_total", calls + 1)
    of = {
        name: {labels: value for labels, value in found.items() if ("job", name) in labels}
        for name in ("many", "few")
    }
    assert sum(of["many"].values()) == calls
    assert len(of["many"]) <= LIMIT + 1
    overflow = [value for labels, value in of["many"].items() if ("otel_metric_overflow", "true") in labels]
    assert overflow == [calls - LIMIT]
    (few,) = of["few"]
    assert not [name for name, _ in few if name == "otel_metric_overflow"]
    durations = points(server, "acrux_span_duration_seconds_count")
    assert sum(durations.values()) == calls + 1
    assert len(durations) <= LIMIT + 2
    server.stop()


def test_a_call_that_did_not_run_and_a_layer_are_no_calls(gateway: StartGateway) -> None:
    """One call in three spans counts once, and a call that never ran not at all."""
    server = gateway()
    spans = {
        "ran": ("genai", Foreign()),
        "refused": ("genai", Foreign({"acrux.tool.outcome": "not_executed"})),
        "layer": ("mcp", Foreign({"acrux.tool.outcome": "ok", "acrux.tool.layer_of": "00000000000000aa"})),
    }
    post(server.http_endpoint, otlp(spans, "calls"))
    server.wait_for_spans(lambda span: True, count=3)
    found = counted(server, "acrux_span_calls_total", 1)
    time.sleep(0.5)
    assert list(points(server, "acrux_span_calls_total").values()) == [1.0]
    ((labels, _),) = found.items()
    assert {("gen_ai_tool_name", "search"), ("acrux_tool_outcome", "ok"), ("job", "calls")} <= labels
    server.stop()


def test_both_connectors_have_the_limit_that_the_docs_name() -> None:
    """The limit is on for calls and for traces."""
    for piece in ("span_metrics", "trace_metrics"):
        config = yaml.safe_load((CONFIGS / "pieces" / f"{piece}.yaml").read_text("utf-8"))
        assert config["aggregation_cardinality_limit"] == LIMIT
    assert "At most 2,000 label sets" in (CONFIGS.parent / "docs" / "scale.md").read_text("utf-8")
