# SPDX-License-Identifier: Apache-2.0
"""What real instrumentations wrote for the shared vectors gets their verdicts, from both sides."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from .conftest import CONFIGS, StartGateway
from .foreign import expected, post

pytestmark = [pytest.mark.backends, pytest.mark.timeout(120)]

FOLDER: Final = Path(__file__).with_name("recorded")
RECORDED: Final = {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(FOLDER.glob("*.json"))}

# None of the three puts an exception's HTTP status on the tool's span: the class is all that is known.
NO_STATUS: Final = {
    "errorCode": "http_status_error",
    "http.response.status_code": None,
    "acrux.tool.retryable": None,
}
LACKS: Final[dict[str, dict[str, Any]]] = {"httpx-404": NO_STATUS, "httpx-503": NO_STATUS}


def vectors(name: str) -> list[str]:
    """The vectors of a recording: each tool is called as its vector."""
    spans = [
        span
        for resource in RECORDED[name]["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]
    return [span["name"].removeprefix("execute_tool ") for span in spans]


@pytest.fixture(scope="module", params=["stock", "toolverdict"])
def judged(request: pytest.FixtureRequest, gateway: StartGateway) -> dict[tuple[str, str], Any]:
    """(recording, vector) -> the span that came out."""
    server = gateway(*([CONFIGS / "toolverdict.yaml"] if request.param == "toolverdict" else []))
    found = {}
    for name, recording in RECORDED.items():
        post(server.http_endpoint, recording)
        source = name
        spans = server.wait_for_spans(
            lambda span, source=source: span.attributes.get("acrux.tool.normalised_from") == source,  # type: ignore[misc]
            count=len(vectors(name)),
            timeout=20,
        )
        found |= {(name, span.attributes["gen_ai.tool.name"]): span for span in spans}
    server.stop()
    return found


@pytest.mark.parametrize(
    ("name", "vector"), [(name, vector) for name in RECORDED for vector in vectors(name)], ids=str
)
def test_a_real_span_gets_the_verdict_of_its_vector(
    judged: dict[tuple[str, str], Any], name: str, vector: str
) -> None:
    """The verdict is the shared vector's, but for what the table above lists."""
    attributes = judged[name, vector].attributes
    wanted = {**expected(vector), **LACKS.get(vector, {})}
    assert {key: attributes.get(key) for key in wanted} == wanted


def test_the_recordings_are_of_three_vocabularies() -> None:
    """OpenInference, Traceloop and the official GenAI package, twenty vectors each at least."""
    assert set(RECORDED) == {"genai", "openinference", "traceloop"}
    assert all(len(vectors(name)) >= 20 for name in RECORDED)
