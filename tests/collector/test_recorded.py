# SPDX-License-Identifier: Apache-2.0
"""What real instrumentations wrote for the shared vectors gets their verdicts, from both sides."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
from backends.otlp_json import Span

from .conftest import CONFIGS, StartGateway
from .foreign import expected, post

pytestmark = [pytest.mark.backends, pytest.mark.timeout(120)]

FOLDER: Final = Path(__file__).with_name("recorded")
RECORDED: Final = {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(FOLDER.glob("*.json"))}

# No recording has an exception's HTTP status on the tool's span: the class is all that is known.
NO_STATUS: Final = {
    "errorCode": "http_status_error",
    "http.response.status_code": None,
    "acrux.tool.retryable": None,
}
# MCP tells of a tool's own failures that it failed, and of what kind in prose alone.
FAILED: Final = {
    "errorType": "tool_declared",
    "errorCode": "tool_error",
    "http.response.status_code": None,
    "acrux.tool.retryable": None,
}
_BY_CLASS: Final = {"httpx-404": NO_STATUS, "httpx-503": NO_STATUS}
_BY_FLAG: Final = dict.fromkeys(
    ("value-error", "refused", "httpx-503", "timeout-builtin", "unknown-tool"), FAILED
)
LACKS: Final[dict[str, dict[str, dict[str, Any]]]] = {
    "genai": _BY_CLASS,
    "openinference": _BY_CLASS,
    "traceloop": _BY_CLASS,
    "mcp": _BY_FLAG,
    # its server makes an answer of every exception, MCP's own too
    "fastmcp": {**_BY_FLAG, "mcp-invalid-params": FAILED, "mcp-internal": FAILED},
}
# How many spans one call makes: MCP's client and server, and FastMCP's own client above them.
LAYERS: Final = {"genai": 1, "openinference": 1, "traceloop": 1, "mcp": 2, "fastmcp": 3}


def spans_of(name: str) -> list[dict[str, Any]]:
    return [
        span
        for resource in RECORDED[name]["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]


def vectors(name: str) -> list[str]:
    """The vectors of a recording: each tool is called as its vector."""
    return list(dict.fromkeys(span["name"].rpartition(" ")[2] for span in spans_of(name)))


Judged = dict[tuple[str, str], list[Span]]


@pytest.fixture(scope="module")
def judged(request: pytest.FixtureRequest, gateway: StartGateway) -> Judged:
    """(recording, vector) -> the spans that came out of one side."""
    server = gateway(*([CONFIGS / "toolverdict.yaml"] if request.param == "toolverdict" else []))
    found: Judged = {}
    came = 0
    for name, recording in RECORDED.items():
        post(server.http_endpoint, recording)
        came += len(spans_of(name))
        server.wait_for_spans(lambda span: True, count=came, timeout=20)
        for span in server.spans()[came - len(spans_of(name)) :]:
            found.setdefault((name, span.attributes["gen_ai.tool.name"]), []).append(span)
    server.stop()
    return found


EACH: Final = [(name, vector) for name in RECORDED for vector in vectors(name)]


@pytest.mark.parametrize("judged", ["stock", "toolverdict"], indirect=True)
@pytest.mark.parametrize(("name", "vector"), EACH, ids=str)
def test_a_real_span_gets_the_verdict_of_its_vector(judged: Judged, name: str, vector: str) -> None:
    """The verdict is the shared vector's, but for what the tables above list; of layers one tells."""
    wanted = {**expected(vector), **LACKS[name].get(vector, {})}
    told = [{key: span.attributes.get(key) for key in wanted} for span in judged[name, vector]]
    if wanted["acrux.tool.outcome"] == "error":
        assert wanted in told
    else:
        assert told == [wanted] * LAYERS[name]


@pytest.mark.parametrize("judged", ["toolverdict"], indirect=True)
@pytest.mark.parametrize(("name", "vector"), EACH, ids=str)
def test_the_layers_of_a_real_call_are_one_call(judged: Judged, name: str, vector: str) -> None:
    """The outermost span stands for the call, and knows of the failure; the others say so."""
    spans = judged[name, vector]
    assert len(spans) == LAYERS[name]
    (stands,) = (span for span in spans if "acrux.tool.layer_of" not in span.attributes)
    assert not [span for span in spans if span.span_id == stands.parent_id]
    assert {span.attributes.get("acrux.tool.layer_of") for span in spans} <= {None, stands.span_id}
    wanted = {**expected(vector), **LACKS[name].get(vector, {})}
    assert {key: stands.attributes.get(key) for key in wanted} == wanted
    assert stands.attributes["acrux.tool.calls"] == 1
    assert stands.attributes["acrux.trace.outcome"] == wanted["acrux.tool.outcome"]


def test_the_recordings_are_of_five_packages() -> None:
    """OpenInference, Traceloop and the official GenAI package with twenty vectors each, MCP's with twelve."""
    assert {name: len(vectors(name)) for name in RECORDED} == {
        "genai": 23,
        "openinference": 23,
        "traceloop": 23,
        "mcp": 12,
        "fastmcp": 12,
    }
