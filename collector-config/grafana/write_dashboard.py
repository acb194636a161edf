# SPDX-License-Identifier: Apache-2.0
"""Write dashboard.json, the Grafana dashboard, which alone is what Grafana loads.

Needs grafana-foundation-sdk. Panels that count calls prefer the SDK's metrics to the spans', by the recorded
rules of ../prometheus/rules.yaml.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from grafana_foundation_sdk.builders import dashboard, prometheus, stat, table, tempo, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import DashboardCursorSync, DataSourceRef, GridPos

__all__ = ["main", "render"]

TARGET: Final = Path(__file__).with_name("dashboard.json")

METRICS: Final = DataSourceRef(type_val="prometheus", uid="${metrics}")
TRACES: Final = DataSourceRef(type_val="tempo", uid="${traces}")
COLORS: Final = {"ok": "green", "warning": "orange", "error": "red"}
PARTIAL: Final = "Traces with missing spans are marked partial: what is counted of them is a lower bound."
FAILED: Final = (
    'rate(acrux_span_calls_total{job=~"$job", gen_ai_tool_name=~"$tool", acrux_tool_outcome="error"}'
    "[$__rate_interval])"
)
OF_JOB: Final = ' && resource.service.name =~ "$job" }'
SECONDS: Final = (
    "sum by (le, gen_ai_tool_name) (rate(acrux_span_duration_seconds_bucket"
    '{job=~"$job", gen_ai_tool_name=~"$tool", acrux_tool_outcome!="refused"}[$__rate_interval]))'
)


@dataclass(frozen=True)
class Panel:
    """One panel: where it is (x, y, width, height), and legend -> query."""

    kind: str
    title: str
    about: str
    place: tuple[int, int, int, int]
    unit: str
    queries: dict[str, str]


PANELS: Final = (
    Panel(
        "lines",
        "Traces by verdict",
        PARTIAL,
        (0, 0, 12, 8),
        "ops",
        {
            "{{acrux_trace_outcome}}": "sum by (acrux_trace_outcome)"
            ' (rate(acrux_trace_calls_total{job=~"$job"}[$__rate_interval]))'
        },
    ),
    Panel(
        "number",
        "Calls per second",
        "Calls that ran; a refusal of our own guard is none.",
        (12, 0, 4, 4),
        "ops",
        {"": 'sum(acrux:tool_calls:rate5m{job=~"$job"})'},
    ),
    Panel(
        "number",
        "Partial traces",
        "Share of the traces with missing spans.",
        (12, 4, 4, 4),
        "percentunit",
        {
            "": '(sum(rate(acrux_trace_calls_total{job=~"$job", acrux_trace_partial="true"}[$__range]))'
            ' or vector(0)) / sum(rate(acrux_trace_calls_total{job=~"$job"}[$__range]))'
        },
    ),
    Panel(
        "lines",
        "Storms",
        f"Runs that hammered a tool. {PARTIAL}",
        (16, 0, 8, 8),
        "short",
        {
            "{{acrux_trace_storm_tool}}": "sum by (acrux_trace_storm_tool)"
            ' (increase(acrux_trace_calls_total{job=~"$job", acrux_trace_storm_tool!=""}[$__range]))'
        },
    ),
    Panel(
        "lines",
        "Error rate per tool",
        "Failed calls of all that ran, over 5 minutes.",
        (0, 8, 12, 8),
        "percentunit",
        {
            "{{gen_ai_tool_name}} of {{job}}": "acrux:tool_error_rate:ratio5m"
            '{job=~"$job", gen_ai_tool_name=~"$tool"}'
        },
    ),
    Panel(
        "lines",
        "Latency per tool",
        "The middle call, and that of which 95 % are faster.",
        (12, 8, 12, 8),
        "s",
        {
            "{{gen_ai_tool_name}} p50": f"histogram_quantile(0.5, {SECONDS})",
            "{{gen_ai_tool_name}} p95": f"histogram_quantile(0.95, {SECONDS})",
        },
    ),
    Panel(
        "lines",
        "Failures by errorType",
        "Which kind of check caught them.",
        (0, 16, 12, 8),
        "ops",
        {"{{errorType}}": f"sum by (errorType) ({FAILED})"},
    ),
    Panel(
        "lines",
        "Top error codes",
        "Past 2,000 label sets of a program the rest has no tool and no code.",
        (12, 16, 12, 8),
        "ops",
        {"{{gen_ai_tool_name}} {{errorCode}}": f"topk(10, sum by (gen_ai_tool_name, errorCode) ({FAILED}))"},
    ),
    Panel(
        "lines",
        "Retries per call",
        "Attempts after the first, by guards.",
        (0, 24, 8, 8),
        "short",
        {"{{gen_ai_tool_name}} of {{job}}": 'acrux:retry_attempts_per_call:ratio5m{job=~"$job"}'},
    ),
    Panel(
        "lines",
        "Circuits",
        "0 closed, 1 half open, 2 open.",
        (8, 24, 8, 8),
        "short",
        {"{{gen_ai_tool_name}}": 'max by (gen_ai_tool_name) (acrux_tool_circuit_state_ratio{job=~"$job"})'},
    ),
    Panel(
        "lines",
        "Runs that wait",
        "The backlog that programs report.",
        (16, 24, 8, 8),
        "short",
        {"{{job}}": 'max by (job) (acrux_run_backlog{job=~"$job"})'},
    ),
    Panel(
        "traces",
        "Failed traces",
        f"Any span in them failed. {PARTIAL}",
        (0, 32, 12, 8),
        "",
        {"": '{ (span.acrux.trace.verdict = "error" || span.acrux.trace.outcome = "error")' + OF_JOB},
    ),
    Panel(
        "traces",
        "Failed calls",
        "Calls of the chosen tools that ran; a refusal of our own guard is none.",
        (12, 32, 12, 8),
        "",
        {
            "": '{ span.acrux.tool.outcome = "error" && span.errorCode != "circuit_open"'
            ' && span.gen_ai.tool.name =~ "$tool"' + OF_JOB
        },
    ),
    Panel(
        "traces",
        "Warned traces",
        f"No span failed, and a call carries a warning. {PARTIAL}",
        (0, 40, 12, 8),
        "",
        {"": '{ (span.acrux.trace.verdict = "warning" || span.acrux.trace.outcome = "warning")' + OF_JOB},
    ),
    Panel(
        "traces",
        "Storms and wrong retries",
        f"Only with the processor toolverdict. {PARTIAL}",
        (12, 40, 12, 8),
        "",
        {"": "{ (span.acrux.trace.storm = true || span.acrux.trace.wrong_retries > 0)" + OF_JOB},
    ),
)


def built(panel: Panel) -> Any:
    """The panel as the foundation SDK's builder."""
    x, y, width, height = panel.place
    builders: dict[str, Any] = {"lines": timeseries.Panel, "number": stat.Panel, "traces": table.Panel}
    source = TRACES if panel.kind == "traces" else METRICS
    made: Any = builders[panel.kind]().title(panel.title).description(panel.about).datasource(source)
    made = made.grid_pos(GridPos(x=x, y=y, w=width, h=height))
    if panel.unit:
        made = made.unit(panel.unit)
    for name, (legend, query) in zip("ABC", panel.queries.items(), strict=False):
        target: Any
        if source is TRACES:
            target = tempo.TempoQuery().query(query).query_type("traceql").limit(50)
        else:
            target = prometheus.Dataquery().expr(query).legend_format(legend)
        made = made.with_target(target.ref_id(name).datasource(source))
    return made


def chosen(name: str, label: str, query: str) -> Any:
    """A variable that offers every value of a label, all of them at first."""
    variable: Any = dashboard.QueryVariable(name).label(label).query(query).datasource(METRICS)
    return variable.multi(True).include_all(True).all_value(".*")


def render() -> str:
    """The text of dashboard.json."""
    board: Any = dashboard.Dashboard("Agent tools").uid("acrux-tools").tags(["acrux-otel"])
    board = (
        board.description("What agents' tools answered: verdicts, errors, latency, storms.")
        .refresh("30s")
        .time("now-1h", "now")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .with_variable(dashboard.DatasourceVariable("metrics").label("Prometheus").type("prometheus"))
        .with_variable(dashboard.DatasourceVariable("traces").label("Tempo").type("tempo"))
        .with_variable(chosen("job", "Program", "label_values(acrux_span_calls_total, job)"))
        .with_variable(
            chosen("tool", "Tool", 'label_values(acrux_span_calls_total{job=~"$job"}, gen_ai_tool_name)')
        )
    )
    for panel in PANELS:
        board = board.with_panel(built(panel))
    made = json.loads(JSONEncoder().encode(board.build()))
    for panel in made["panels"]:
        if panel["title"] == "Traces by verdict":
            panel["fieldConfig"]["overrides"] = [colored(outcome) for outcome in COLORS]
    return json.dumps(made, indent=2, sort_keys=True) + "\n"


def colored(outcome: str) -> dict[str, Any]:
    """Red, amber and green as everywhere; written as JSON, because the SDK's types want an enum's text."""
    color = {"mode": "fixed", "fixedColor": COLORS[outcome]}
    return {
        "matcher": {"id": "byName", "options": outcome},
        "properties": [{"id": "color", "value": color}],
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Write dashboard.json, the Grafana dashboard.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail where it is not up to date")
    options = parser.parse_args(arguments)
    text = render()
    if not options.check:
        TARGET.write_text(text, encoding="utf-8")
    elif not TARGET.exists() or TARGET.read_text("utf-8") != text:
        command = "python collector-config/grafana/write_dashboard.py"
        print(f"dashboard.json is not up to date: run `{command}`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
