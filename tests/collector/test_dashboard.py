# SPDX-License-Identifier: Apache-2.0
"""The Grafana dashboard is what its code writes, and every query in it parses where it will run."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from query.traceql_gate import rejected

from .conftest import CONFIGS, required

FOLDER: Final = CONFIGS / "grafana"
DASHBOARD: Final[dict[str, Any]] = json.loads((FOLDER / "dashboard.json").read_text("utf-8"))
RULES: Final = CONFIGS / "prometheus" / "rules.yaml"


def targets(kind: str) -> Iterator[dict[str, Any]]:
    """The queries to one kind of data source."""
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            if target["datasource"]["type"] == kind:
                yield target


def filled(query: str) -> str:
    """A query with Grafana's variables replaced, as Grafana does before it sends it."""
    values = {"$__rate_interval": "1m", "$__range": "1h", "$job": ".*", "$tool": ".*"}
    for name, value in values.items():
        query = query.replace(name, value)
    assert "$" not in query, query
    return query


def test_the_committed_dashboard_is_what_its_code_writes() -> None:
    """dashboard.json is not edited by hand."""
    pytest.importorskip("grafana_foundation_sdk", reason="grafana-foundation-sdk is not installed")
    script = FOLDER / "write_dashboard.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_promql_parses(tmp_path: Path) -> None:
    """promtool accepts each Prometheus query of the dashboard."""
    promtool = required("promtool", "Debian's package prometheus")
    queries = [filled(target["expr"]) for target in targets("prometheus")]
    assert len(queries) >= 12
    listed = [{"record": f"panel:{number}", "expr": query} for number, query in enumerate(queries)]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": listed}]}))
    command = [promtool, "check", "rules", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_traceql_parses() -> None:
    """Grafana's grammar accepts each Tempo query of the dashboard."""
    queries = [filled(target["query"]) for target in targets("tempo")]
    assert len(queries) == 4
    assert rejected(queries) == []


def test_panels_use_recorded_names_that_the_rules_record() -> None:
    """A panel asks for no recording that no rule makes."""
    recorded = {
        rule["record"]
        for group in yaml.safe_load(RULES.read_text("utf-8"))["groups"]
        for rule in group["rules"]
        if "record" in rule
    }
    words = {
        word.split("{")[0].lstrip("(")
        for target in targets("prometheus")
        for word in target["expr"].replace("(", " ").split()
        if word.startswith("acrux:")
    }
    assert words
    assert words <= recorded


def test_no_panel_of_failures_or_latency_counts_a_refusal() -> None:
    """What our own guard refused has never run: `refused` in metrics, circuit_open in traces."""
    for target in targets("prometheus"):
        if "acrux_span_" in target["expr"] and "bucket" in target["expr"]:
            assert 'acrux_tool_outcome!="refused"' in target["expr"]
        elif "acrux_span_" in target["expr"]:
            assert 'acrux_tool_outcome="error"' in target["expr"]
    (failed,) = [target["query"] for target in targets("tempo") if "tool.outcome" in target["query"]]
    assert 'span.errorCode != "circuit_open"' in failed


def test_no_panel_is_tied_to_one_installation() -> None:
    """Every data source is a variable, targets have names of their own, and panels do not overlap."""
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        assert panel["datasource"]["uid"] in ("${metrics}", "${traces}")
        names = [target["refId"] for target in panel["targets"]]
        assert len(names) == len(set(names)) > 0, panel["title"]
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells


def test_every_panel_of_whole_traces_says_what_partial_means() -> None:
    """A panel that counts traces on their roots says that some are seen in part only."""
    for panel in DASHBOARD["panels"]:
        asked = " ".join(target.get("expr", "") + target.get("query", "") for target in panel["targets"])
        if "trace_outcome)" in asked or "storm" in asked or "partial" in asked:
            assert "partial" in panel["description"] or "missing" in panel["description"], panel["title"]
