# SPDX-License-Identifier: Apache-2.0
"""The configs for an unmodified collector load, and give foreign spans the verdicts of the shared vectors."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from backends.servers import Collector

from .conftest import CONFIGS, StartGateway
from .foreign import ERROR, OK, SOURCES, TOLD, Foreign, answered, expected, otlp, post, raised

pytestmark = [pytest.mark.backends, pytest.mark.timeout(120)]


def validate(binary: Path, folder: Path, *configs: Path, **variables: str) -> None:
    """The collector itself finds nothing wrong with the configs."""
    words = [word for config in configs for word in ("--config", str(config))]
    env = {"ACRUX_CONFIG_FOLDER": str(CONFIGS), "ACRUX_STORAGE": str(folder), **variables}
    done = subprocess.run(
        [binary, "validate", *words], env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "names",
    [
        ("to_jaeger",),
        ("to_tempo",),
        ("to_jaeger", "to_tempo"),
        ("toolverdict", "to_jaeger", "to_tempo"),
    ],
    ids="+".join,
)
def test_every_combination_that_the_configs_offer_is_valid(
    collector_binary: Path, tmp_path: Path, names: tuple[str, ...]
) -> None:
    """gateway.yaml with either backend or both, without and with toolverdict, passes `validate`."""
    validate(
        collector_binary, tmp_path, CONFIGS / "gateway.yaml", *(CONFIGS / f"{name}.yaml" for name in names)
    )


def test_the_agent_is_valid(collector_binary: Path, tmp_path: Path) -> None:
    """agent.yaml passes `validate`, and says what is missing where it is not told of any gateway."""
    validate(collector_binary, tmp_path, CONFIGS / "agent.yaml", ACRUX_GATEWAYS="gateways.internal")
    with pytest.raises(AssertionError, match="no hostname specified to resolve the backends"):
        validate(collector_binary, tmp_path, CONFIGS / "agent.yaml")


def test_the_readme_lists_every_variable_with_its_default() -> None:
    """The table of collector-config/README.md has the variables of the configs, and no other."""
    asked: dict[str, set[str]] = {}
    for config in (*CONFIGS.glob("*.yaml"), *CONFIGS.glob("pieces/*.yaml")):
        for name, default in re.findall(r"\$\{env:(ACRUX_\w+)(?::-([^}]*))?\}", config.read_text("utf-8")):
            asked.setdefault(name, set()).add(default)
    listed = {"ACRUX_GATEWAYS": {""}}
    for line in (CONFIGS / "README.md").read_text("utf-8").splitlines():
        if line.startswith("| `ACRUX_"):
            names, defaults = (re.findall(r"`([^`]+)`", cell) for cell in line.split("|")[1:3])
            assert len(names) == len(defaults), line
            listed |= {name: {default} for name, default in zip(names, defaults, strict=True)}
    listed["ACRUX_DECISION_WAIT"].add("1s")
    assert listed == asked


def test_what_comes_in_meets_the_memory_limiter_first() -> None:
    """Every pipeline that programs send to refuses before it does anything else."""
    for name in ("agent", "gateway", "toolverdict"):
        pipelines = yaml.safe_load((CONFIGS / f"{name}.yaml").read_text("utf-8"))["service"]["pipelines"]
        for signal, pipeline in pipelines.items():
            if "otlp" in pipeline.get("receivers", ["otlp"]):
                assert pipeline["processors"][0] == "memory_limiter", (name, signal)


def test_the_statements_are_those_of_the_processors_rules() -> None:
    """pieces/normalise.yaml is what write_normalise.py makes of toolverdict's rules.yaml."""
    script = CONFIGS / "write_normalise.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def named(name: str) -> dict[str, Any]:
    """The tool's name wherever a vocabulary but GenAI's keeps it."""
    return {
        "gen_ai.tool.name": None,
        "tool.name": name,
        "mcp.tool.name": name,
        "traceloop.entity.name": name,
    }


def result(text: str) -> Foreign:
    """A captured result wherever a vocabulary keeps it."""
    return Foreign(
        dict.fromkeys(("output.value", "gen_ai.tool.call.result", "traceloop.entity.output"), text)
    )


LONG: Final = "å" * 200  # 400 bytes

EXTRA: Final = {
    "an agent that is called as a tool": Foreign({"gen_ai.operation.name": "invoke_agent"}),
    "an agent of a tool's name": Foreign({"gen_ai.agent.name": "search", "gen_ai.operation.name": None}),
    "long name": Foreign(named(LONG)),
    "name cut in a letter": Foreign(named("x" + LONG)),
    "empty name": Foreign(named("")),
    "name in the span's alone, " + LONG: Foreign({**named(""), "tool.name": None}),
    "long call id": Foreign(
        {"tool.id": LONG, "traceloop.entity.input": json.dumps({"kwargs": {"tool_call_id": LONG}})}
    ),
    "call id": Foreign({"tool.id": "c1", "traceloop.entity.input": '{"kwargs": {"tool_call_id": "c1"}}'}),
    "a framework's field": Foreign({"gen_ai.tool.status": "error"}),
    "another framework's field": Foreign({"gen_ai.task.status": "failure"}),
    "LangChain's result": Foreign(
        {"output.value": '{"data": {"type": "tool", "status": "error", "tool_call_id": "c"}}'}
    ),
    "MCP's result": Foreign(
        {"gen_ai.tool.call.result": '{"isError": true, "content": [{"type": "text", "text": "no"}]}'}
    ),
    "Anthropic's result": result('{"type":"tool_result","is_error":true,"tool_use_id":"t","content":"no"}'),
    "a flag beside a text": result('{"isError": true, "content": "no"}'),
    "a cut result": result('{"isError": true, "content": ['),
    "a result with more behind it": result('{"isError": true, "content": []} and so on'),
    "names of ours, forged": Foreign({"acrux.tmp.failed": True, "acrux.tool.normalised_from": "somebody"}),
    "an exception of ours, forged": Foreign({"acrux.tmp.class": "KeyError", "acrux.tmp.escaped": True}),
    "an image before the text": result(
        '{"isError": true, "content": [{"type": "image"}, {"type": "image"}, {"type": "text", "text": "no"}]}'
    ),
    "a result without text": result('{"is_error": true, "content": []}'),
    "a result of 300 KB": result(json.dumps({"isError": True, "content": [], "filler": "x" * 300_000})),
    "an error of the data": Foreign({"output.value": '{"isError": true}'}),
    "cut JSON": Foreign({"output.value": '{"error": "no'}),
    "OK over a failure": Foreign({"error.type": "tool_error"}, OK),
    "OK over an exception": Foreign({}, OK, exception="ValueError"),
    "OK over a cancellation": Foreign({}, OK, exception="asyncio.exceptions.CancelledError"),
    "escaped in capitals": Foreign({}, exception="ValueError", escaped="TRUE"),
    "escaped": Foreign({}, exception="ValueError", escaped="True"),
    "handled": Foreign({}, exception="ValueError"),
    "typed status alone": Foreign({"http.response.status_code": 503}),
    "old typed status": Foreign({"http.status_code": 404}),
    "status of the wrong type": Foreign({"http.response.status_code": "503"}),
    "number in error.type": Foreign({"error.type": "429"}),
    "number that only MCP means": Foreign({"error.type": "-1"}),
    "word in error.type": Foreign({"error.type": "ECONNREFUSED"}),
    "class in error.type": Foreign({"error.type": "httpx.ReadTimeout"}),
    "cancelled in error.type": Foreign({"error.type": "CancelledError"}),
    "no name": Foreign({"error.type": "_OTHER"}),
    "acronyms": raised("shop.HTTPXMLError2Go"),
    "inner class": raised("com.shop.Order$NotFound"),
    "builtins": raised("builtins.KeyError"),
    "pointer": raised("*net.DNSError"),
    "grpc": Foreign({"rpc.grpc.status_code": 14}, ERROR),
    "json-rpc": Foreign({"rpc.response.status_code": "-32601"}, ERROR),
    "provider without status": raised("mistralai.SomethingElse"),
    "provider's class with a status": raised("openai.NotFoundError"),
    "provider over its class": answered("groq.BadRequestError", 429),
    "the tool's own word": raised("pydantic_ai.exceptions.ModelRetry"),
    "api core": raised("google.api_core.exceptions.Forbidden"),
    "MCP's error": Foreign({"error.type": "-32602"}, ERROR, exception="mcp.shared.exceptions.McpError"),
    "HTTP class without status": raised("httpx.HTTPStatusError"),
    "owner's verdict": Foreign({"errorType": "transport", "errorCode": "Rate-Limited"}, ERROR),
    "owner's word on retrying": Foreign({"acrux.tool.retryable": True, "http.response.status_code": 404}),
    "owner's code between underscores": Foreign({"errorType": "transform", "errorCode": "__a__"}, ERROR),
    "owner's code too long": Foreign({"errorType": "transform", "errorCode": "ab_" * 40}, ERROR),
    "owner's empty code": Foreign({"errorCode": "", "warning.type": "stale"}),
    "owner's code of the wrong type": Foreign({"errorCode": 7, "warning.type": "stale"}),
    "NUL in a text": Foreign({}, ERROR, exception="ValueError", message="a\x00b"),
    "JSON-RPC's no error": Foreign({"rpc.response.status_code": 0}, ERROR),
    "owner's status": Foreign({"errorType": "http_status", "http.response.status_code": 503}),
    "a foreign errorType": Foreign({"errorType": "oops"}, ERROR),
    "owner's warning": Foreign({"warning.type": "Stale Data", "warning.message": "a day old"}),
    "long detail": Foreign({}, ERROR, exception="ValueError", message="å" * 2000),
    "wrong types": Foreign({"error.type": 7, "errorType": 8, "warning.type": True}, ERROR),
}


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("name", EXTRA)
def test_stock_statements_and_processor_write_the_same(
    both: tuple[dict[str, Any], dict[str, Any]], source: str, name: str
) -> None:
    """What is on a tool call does not depend on which of the two normalised it."""
    stock, processor = (side[f"{source}/{name}"] for side in both)
    assert (stock.status, stock.description) == (processor.status, processor.description)
    rolled_up = (
        "acrux.tmp.",
        "acrux.trace.",  # the stock statements take their own scratch names away
        "acrux.tool.calls",
        "acrux.tool.failed",
        "acrux.tool.warned",
    )
    rolled_up += ("acrux.tool.not_executed", "acrux.tool.retries", "acrux.tool.first_failed.")
    own = {key: value for key, value in processor.attributes.items() if not key.startswith(rolled_up)}
    assert stock.attributes == own


def test_a_span_that_is_no_tool_call_is_left_alone(gateway: StartGateway) -> None:
    """No attribute that a sender makes up gives another span a verdict."""
    forged = {"acrux.tmp.failed": True, "acrux.tmp.class": "KeyError", "acrux.tool.normalised_from": "mcp"}
    plain = {"gen_ai.operation.name": "chat", "gen_ai.tool.name": None}
    server = gateway()
    (span,) = verdicts(server, {"chat": ("genai", Foreign({**forged, **plain}))}, "forged").values()
    server.stop()
    assert span.status == "UNSET"
    assert not {"errorType", "errorCode", "acrux.tool.outcome"} & set(span.attributes)


def verdicts(server: Collector, spans: dict[str, tuple[str, Foreign]], service: str) -> dict[str, Any]:
    """Span name -> the span as the gateway passed it on."""
    post(server.http_endpoint, otlp(spans, service))
    found = server.wait_for_spans(
        lambda span: span.resource["service.name"] == service, count=len(spans), timeout=20
    )
    return {span.name: span for span in found}


@pytest.fixture(scope="module")
def both(gateway: StartGateway) -> tuple[dict[str, Any], dict[str, Any]]:
    """Every case in every vocabulary, through the stock config and through the processor."""
    cases = {**TOLD, **EXTRA}
    spans = {f"{source}/{name}": (source, how) for source in SOURCES for name, how in cases.items()}
    sides = []
    for over in ([], [CONFIGS / "toolverdict.yaml"]):
        server = gateway(*over)
        try:
            sides.append(verdicts(server, spans, "vectors"))
        finally:
            server.stop()
    return sides[0], sides[1]


@pytest.mark.parametrize("side", [0, 1], ids=["stock", "toolverdict"])
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("vector", TOLD)
def test_a_foreign_span_gets_the_verdict_of_the_shared_vector(
    both: tuple[dict[str, Any], dict[str, Any]], source: str, vector: str, side: int
) -> None:
    """Stock statements and processor both decide a foreign span as the SDK decides the same failure."""
    span, wanted = both[side][f"{source}/{vector}"], expected(vector)
    got = {key: span.attributes.get(key) for key in wanted}
    assert got == wanted
    assert span.attributes["gen_ai.tool.name"] == "search"
    assert span.attributes["acrux.tool.normalised_from"] == source
    assert not [key for key in span.attributes if key.startswith("acrux.tmp.")]
    if wanted["acrux.tool.outcome"] == "error":
        assert span.status == "ERROR"
        assert span.attributes["errorDetail"]
    else:
        assert "errorType" not in span.attributes
