# SPDX-License-Identifier: Apache-2.0
"""The rules are valid, and each alert fires from a program, through the gateway, in a real Prometheus."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from backends.servers import Collector, free_ports
from otlp_receivers import PRELUDE, environment

from .conftest import CONFIGS, StartGateway, required
from .foreign import ERROR, Foreign, otlp, post

pytestmark = [pytest.mark.backends, pytest.mark.timeout(180)]

RULES: Final = CONFIGS / "prometheus" / "rules.yaml"
PRODUCTION: Final = CONFIGS.parent / "docs" / "production.md"
RUNBOOK: Final = CONFIGS.parent / "docs" / "runbook.md"
# The rules' minutes as half seconds, so that fifteen of them pass in a test.
FASTER: Final = 120

# So that a program has too many label sets soon; ours has a dozen. A piece can only be replaced whole.
SPAN_METRICS: Final = yaml.safe_load((CONFIGS / "pieces" / "span_metrics.yaml").read_text("utf-8"))
FEW_SERIES: Final = yaml.safe_dump(
    {"connectors": {"span_metrics/calls": {**SPAN_METRICS, "aggregation_cardinality_limit": 40}}}
)

AGENT: Final = """
from acrux_otel.guard import CircuitBreaker, Guard, Retry

acrux.configure("alerts", endpoint=sys.argv[1], queue_backlog=lambda: 500)

@acrux.tool
def reserve(order: str) -> dict:
    raise ConnectionRefusedError(111, "refused")

@acrux.tool(guard=Guard())
def pay(order: str) -> dict:
    raise ConnectionRefusedError(111, "refused")

tried = {}

@acrux.tool(guard=Guard())
def flaky(order: str) -> dict:
    tried[order] = tried.get(order, 0) + 1
    if tried[order] == 1:
        raise ConnectionRefusedError(111, "refused")
    return {}

end, number = time.monotonic() + float(sys.argv[2]), 0
while time.monotonic() < end:
    number += 1
    with acrux.run("hammers"):
        for _ in range(25):
            find("Paris" if number % 2 else "Atlantis")
        # few retries, so that the process stays within the guard's budget for them
        for call in (reserve, pay, flaky) if number % 4 == 0 else (reserve, pay):
            try:
                call(f"o{number}")
            except Exception:
                pass
    time.sleep(0.2)
"""


@pytest.fixture(scope="module")
def tools() -> dict[str, str]:
    """Paths of prometheus and promtool; without them the tests are skipped."""
    return {name: required(name, "Debian's package prometheus") for name in ("prometheus", "promtool")}


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text("utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


@pytest.mark.parametrize(
    "arguments", [("check", "rules", "rules.yaml"), ("test", "rules", "rules_test.yaml")], ids=" ".join
)
def test_promtool_finds_nothing_wrong(tools: dict[str, str], arguments: tuple[str, ...]) -> None:
    """The rules parse, and each alert fires and stays silent in promtool's own test as it should."""
    command = [tools["promtool"], *arguments]
    done = subprocess.run(command, cwd=RULES.parent, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_a_severity_and_an_entry_in_the_runbook() -> None:
    """Only what is down pages, and each alert's link leads to a heading."""
    headings = {
        line[3:].strip().lower() for line in RUNBOOK.read_text("utf-8").splitlines() if line[:3] == "## "
    }
    alerts = {rule["alert"]: rule for rule in rules() if "alert" in rule}
    assert {name for name, rule in alerts.items() if rule["labels"]["severity"] == "page"} == {
        "AcruxToolDown"
    }
    for name, rule in alerts.items():
        assert rule["annotations"]["runbook_url"] == f"docs/runbook.md#{name.lower()}"
        assert name.lower() in headings


# The numbers that an alert's own expression compares, in the words of production.md.
WHEN: Final = {
    "AcruxToolDown": ("> 0.1 ", "over 10 %"),
    "AcruxToolErrorRate": ("> 0.2\n", "over 20 %"),
    "AcruxToolRetries": ("> 0.15 ", "over 15 retries for 100 calls"),
    "AcruxCircuitOpen": (">= 2\n", "calls met an open circuit"),
    "AcruxRunBacklog": ("> 100", "over 100 runs wait"),
    "AcruxRetryStorm": ("> 0\n", "a run hammered a tool"),
    "AcruxSpanMetricsOverflow": ("> 0", "more tools and errorCodes than are counted"),
}


def test_the_table_of_alerts_is_that_of_the_rules() -> None:
    """production.md lists every alert and no other, with its severity, its threshold and for how long."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in PRODUCTION.read_text("utf-8").splitlines()
        if line.startswith("| `Acrux")
    ]
    alerts = {rule["alert"]: rule for rule in rules() if "alert" in rule}
    assert [row[0].strip("`") for row in rows] == list(alerts) == list(WHEN)
    for (_, severity, when, link), (name, rule) in zip(rows, alerts.items(), strict=True):
        compared, said = WHEN[name]
        assert severity == rule["labels"]["severity"]
        assert compared in rule["expr"] + "\n", name
        assert said in when
        assert link == f"[{name}](runbook.md#{name.lower()})"
        minutes = re.findall(r"for (\d+) minutes", when)
        assert minutes == ([rule["for"].removesuffix("m")] if "for" in rule else []), name


def faster(text: str) -> str:
    """The rules with every duration divided; nothing else changes."""

    def shorter(match: re.Match[str]) -> str:
        return f"{match[1]}{int(match[2]) * 60_000 // FASTER}ms{match[3]}"

    text = re.sub(r"(\[)(\d+)m(\])", shorter, text)
    return re.sub(r"((?:for: |offset ))(\d+)m()", shorter, text)


class Prometheus:
    """A real one on loopback, scraping gateways as prometheus.yaml says; ended by its process id."""

    def __init__(self, binary: str, folder: Path, *gateways: Collector) -> None:
        (port,) = free_ports(1)
        targets = [
            each.prometheus_endpoint.removeprefix("http://").removesuffix("/metrics") for each in gateways
        ]
        (folder / "rules.yaml").write_text(faster(RULES.read_text("utf-8")))
        config = yaml.safe_load((RULES.parent / "prometheus.yaml").read_text("utf-8"))
        config["global"] = {
            "scrape_interval": "200ms",
            "scrape_timeout": "200ms",
            "evaluation_interval": "200ms",
        }
        config["scrape_configs"] = config["scrape_configs"][:1]
        config["scrape_configs"][0]["static_configs"] = [{"targets": targets}]
        (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
        self.endpoint = f"http://127.0.0.1:{port}"
        self._log = (folder / "log").open("w")
        self._process = subprocess.Popen(
            [
                binary,
                f"--config.file={folder / 'prometheus.yaml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=self._log,
            stderr=self._log,
        )

    def firing(self) -> list[dict[str, str]]:
        """The labels of every alert that fires now; none while it starts."""
        alerts = self._ask("alerts").get("alerts", [])
        return [alert["labels"] for alert in alerts if alert["state"] == "firing"]

    def values(self, query: str) -> list[float]:
        """What a query gives now; nothing while it starts."""
        result = self._ask(f"query?{urllib.parse.urlencode({'query': query})}").get("result", [])
        return [float(series["value"][1]) for series in result]

    def _ask(self, path: str) -> dict[str, Any]:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(f"{self.endpoint}/api/v1/{path}", timeout=5) as answer:
                found: dict[str, Any] = json.load(answer)["data"]
        except OSError:
            return {}
        return found

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(15)
        self._log.close()


def test_each_alert_fires_in_a_real_prometheus(
    tools: dict[str, str], gateway: StartGateway, tmp_path: Path
) -> None:
    """Program -> gateway -> Prometheus: every alert fires, from the SDK's metrics and from spans alone."""
    server = gateway(CONFIGS / "toolverdict.yaml", FEW_SERIES)
    prometheus = Prometheus(tools["prometheus"], tmp_path, server)
    program = subprocess.Popen(
        [sys.executable, "-c", PRELUDE + AGENT, server.http_endpoint, "60"],
        env=environment(OTEL_METRIC_EXPORT_INTERVAL="200"),
        stdin=subprocess.DEVNULL,
    )
    wanted = {
        ("AcruxToolDown", "page", "alerts", "reserve"),
        ("AcruxToolErrorRate", "ticket", "alerts", "find"),
        ("AcruxToolRetries", "ticket", "alerts", "flaky"),
        ("AcruxCircuitOpen", "ticket", "alerts", "pay"),
        ("AcruxRunBacklog", "ticket", "alerts", ""),
        ("AcruxRetryStorm", "ticket", "alerts", "find"),
        ("AcruxToolDown", "page", "foreign", "search"),
        ("AcruxSpanMetricsOverflow", "ticket", "flood", ""),
    }
    assert {name for name, *_ in wanted} == {rule["alert"] for rule in rules() if "alert" in rule}
    down = Foreign({}, ERROR, exception="ConnectionRefusedError")
    codes = [Foreign({"errorType": "tool_declared", "errorCode": f"c{number}"}) for number in range(60)]
    flood = {f"flood {number}": ("genai", code) for number, code in enumerate(codes)}
    seen: set[tuple[str, str, str, str]] = set()
    try:
        deadline = time.monotonic() + 55
        while not wanted <= seen and time.monotonic() < deadline:
            post(server.http_endpoint, otlp({"search": ("openinference", down)}, "foreign"))
            post(server.http_endpoint, otlp(flood, "flood"))
            for labels in prometheus.firing():
                tool = labels.get("gen_ai_tool_name") or labels.get("acrux_trace_storm_tool", "")
                seen.add((labels["alertname"], labels["severity"], labels["job"], tool))
            time.sleep(0.2)
    finally:
        program.kill()
        program.wait()
        prometheus.stop()
        server.stop()
    assert wanted <= seen, wanted - seen
    paged = {tool for name, severity, _, tool in seen if severity == "page"}
    assert paged <= {"reserve", "pay", "search"}, "a declared error pages nobody"


def test_two_gateways_that_tell_of_one_program_are_summed(
    tools: dict[str, str], gateway: StartGateway, tmp_path: Path
) -> None:
    """The same labels from two gateways are two series, which no scrape writes over."""
    gateways = [gateway() for _ in range(2)]
    prometheus = Prometheus(tools["prometheus"], tmp_path, *gateways)
    try:
        for number, server in enumerate(gateways, start=1):
            calls = {f"s{call}": ("genai", Foreign()) for call in range(10 * number)}
            post(server.http_endpoint, otlp(calls, "both", service_instance_id="i"))
        deadline, found = time.monotonic() + 30, [0.0]
        while sum(found) < 30 and time.monotonic() < deadline:
            time.sleep(0.2)
            found = prometheus.values('acrux_span_calls_total{job="both"}')
    finally:
        prometheus.stop()
        for server in gateways:
            server.stop()
    assert sorted(found) == [10, 20]
