# SPDX-License-Identifier: Apache-2.0
"""Response -> verdict: the whole reason to declare a request instead of writing it."""

from __future__ import annotations

import asyncio
import gzip
import socket
import time
from typing import Any

import httpx
import pydantic
import pytest
from jmespath.exceptions import JMESPathError

import acrux_otel as acrux
from acrux_otel.catalog import SqlCatalog
from acrux_otel.http_tool import ResponseTooLarge, UnreadableResponse

from .conftest import Service


def _weather(service: Service, **options: Any) -> Any:
    @acrux.http_tool("GET", f"{service.url}/weather/{{city}}", **options)
    def weather(city: str) -> Any:
        """Weather of a city."""

    return weather


def test_a_failure_with_status_200_turns_the_span_red(service: Service, exported: Any) -> None:
    weather = _weather(
        service, failure_when="error", error_code="error.code", error_message="error.text", response="report"
    )
    said = {"error": {"code": "location-not-found", "text": "no city is called Atlantis"}}
    service.answers(said)
    assert weather("Atlantis") == said  # the service's own words are what the model should read
    service.answers({"report": {"temp": 3}})
    assert weather("Oslo") == {"temp": 3}

    failed, fine = exported.tools()
    assert (failed.status, failed.description) == ("ERROR", "no city is called Atlantis")
    assert failed.attributes["errorType"] == "tool_declared"
    assert failed.attributes["errorCode"] == "location_not_found"
    assert failed.attributes["http.response.status_code"] == 200
    assert failed.attributes["executorType"] == "http"
    assert (fine.status, fine.outcome) == ("UNSET", "ok")
    assert fine.attributes["http.response.status_code"] == 200


def test_a_warning_keeps_the_answer_and_the_span_unset(service: Service, exported: Any) -> None:
    weather = _weather(service, warn_when="stale", error_code="'stale_data'", response="temp")
    service.answers({"stale": True, "temp": 4})
    assert weather("Oslo") == 4
    (span,) = exported.tools()
    assert (span.status, span.outcome, span.attributes["errorCode"]) == ("UNSET", "warning", "stale_data")
    assert span.attributes["warning.message"] == "the response matches 'stale'"


@pytest.mark.parametrize("value", [None, False, "", [], {}])
def test_only_what_jmespath_calls_true_is_a_failure(service: Service, exported: Any, value: Any) -> None:
    weather = _weather(service, failure_when="error")
    service.answers({"error": value})
    weather("Oslo")
    service.answers({"error": 0})
    weather("Oslo")
    assert [span.outcome for span in exported.tools()] == ["ok", "error"]
    assert exported.tools()[1].attributes["errorCode"] == "reported_failure"


@pytest.mark.parametrize(
    ("status", "retryable"), [(302, None), (404, False), (429, True), (500, True), (503, True)]
)
def test_a_status_of_300_and_above_is_an_error_whatever_the_body_says(
    service: Service, exported: Any, status: int, retryable: bool | None
) -> None:
    weather = _weather(service, failure_when="`false`")
    service.answers({"ok": True}, status, headers={"Location": service.url, "Retry-After": "7"})
    with pytest.raises(httpx.HTTPStatusError, match=f"GET 127.0.0.1 answered {status}") as raised:
        weather("Oslo")
    assert raised.value.response.json() == {"ok": True}
    assert len(service.asked) == 1  # a redirect is not followed: it leads where nobody declared
    (span,) = exported.tools()
    assert (span.attributes["errorType"], span.attributes["errorCode"]) == ("http_status", f"http_{status}")
    assert span.attributes["http.response.status_code"] == status
    verdict = acrux.classify(raised.value)
    assert (verdict.retryable, verdict.retry_after) == (retryable, 7.0)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/json", {"error": {"text": "no such city"}}),
        ("application/problem+json", {"detail": "no such city"}),
    ],
)
def test_a_failing_status_is_told_in_the_services_own_words(service: Service, kind: str, body: Any) -> None:
    service.answers(body, 404, kind)
    with pytest.raises(httpx.HTTPStatusError, match=r"answered 404 Not Found: no such city\Z"):
        _weather(service, error_message="error.text")("Oslo")


def test_no_key_of_the_url_is_in_what_is_raised(service: Service, exported: Any) -> None:
    @acrux.http_tool("GET", f"{service.url}/x?appid=s3cr3t")
    def ask(q: str) -> Any: ...

    service.answers({}, 500)
    with pytest.raises(httpx.HTTPStatusError) as raised:
        ask("x")
    assert "s3cr3t" not in str(raised.value)
    assert "s3cr3t" not in exported.tools()[0].everything()
    assert "s3cr3t" not in str(acrux.definition_of(ask).request)


@pytest.mark.parametrize(
    ("body", "kind", "options", "raised", "code"),
    [
        (b"{oops", "application/json", {}, ValueError, "json_decode_error"),
        (b"<html>", "text/html", {"failure_when": "error"}, ValueError, "json_decode_error"),
        (b"[NaN]", "application/json", {}, UnreadableResponse, "unreadable_response"),
        (b"[" * 100_000, "application/json", {}, ValueError, ("unreadable_response", "json_decode_error")),
        (b"\xff", "text/plain", {}, UnicodeDecodeError, "unicode_decode_error"),
        (b"[1, 2, 3]", "application/json", {"max_bytes": 8}, ResponseTooLarge, "response_too_large"),
        (
            b'{"a": "x"}',
            "application/json",
            {"response": "abs(a)"},
            JMESPathError,
            "jmes_path_type_error",
        ),
    ],
)
def test_a_response_that_cannot_be_read_is_a_transform_error(
    service: Service, exported: Any, body: bytes, kind: str, options: Any, raised: Any, code: Any
) -> None:
    service.answers(body, kind=kind)
    with pytest.raises(raised):
        _weather(service, **options)("Oslo")
    (span,) = exported.tools()
    assert span.attributes["errorType"] == "transform"
    assert span.attributes["errorCode"] in (code if isinstance(code, tuple) else (code,))


def test_the_response_becomes_what_the_function_is_annotated_to_return(
    service: Service, exported: Any
) -> None:
    class Report(pydantic.BaseModel):
        temp: float

    @acrux.http_tool("GET", f"{service.url}/x", response="reports")
    def reports() -> list[Report]: ...  # type: ignore[empty-body]

    service.answers({"reports": [{"temp": "3.5"}]})
    assert reports() == [Report(temp=3.5)]
    service.answers({"reports": [{"temp": "warm"}]})
    with pytest.raises(pydantic.ValidationError):
        reports()
    fine, failed = exported.tools()
    assert fine.outcome == "ok"
    assert (failed.attributes["errorType"], failed.attributes["errorCode"]) == (
        "transform",
        "validation_error",
    )


@pytest.mark.parametrize(
    ("body", "kind", "value"),
    [
        (b"", "application/json", None),
        (b"4", "application/vnd.api+json; charset=utf-8", 4),
        ("grüß".encode("latin-1"), "text/plain; charset=latin-1", "grüß"),
        (b"\x89PNG", "image/png", b"\x89PNG"),
    ],
)
def test_without_an_annotation_the_content_type_decides(
    service: Service, body: bytes, kind: str, value: Any
) -> None:
    service.answers(body, kind=kind)
    assert _weather(service)("Oslo") == value


def test_a_coded_body_is_bounded_by_what_it_unpacks_to(service: Service) -> None:
    service.answers(gzip.compress(b'"' + b"x" * 5_000_000 + b'"'), headers={"Content-Encoding": "gzip"})
    with pytest.raises(ResponseTooLarge, match="longer than max_bytes=1,048,576"):
        _weather(service)("Oslo")
    service.answers(gzip.compress(b'{"a": 1}'), headers={"Content-Encoding": "gzip"})
    assert _weather(service)("Oslo") == {"a": 1}


def test_the_timeout_holds_for_the_whole_exchange(service: Service, exported: Any) -> None:
    service.answers(list(range(100)), slowly=0.1)  # never silent for long, and never done
    weather = _weather(service, timeout=0.5)
    began = time.monotonic()
    with pytest.raises(httpx.ReadTimeout):
        weather("Oslo")
    assert time.monotonic() - began < 5
    (span,) = exported.tools()
    assert (span.attributes["errorType"], span.attributes["errorCode"]) == ("transport", "timeout")


def test_a_refused_connection_is_transport(exported: Any) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    @acrux.http_tool("GET", f"http://127.0.0.1:{port}/x")
    async def ask() -> Any: ...

    with pytest.raises(httpx.ConnectError):
        asyncio.run(ask())
    (span,) = exported.tools()
    assert (span.attributes["errorType"], span.attributes["errorCode"]) == ("transport", "connection_refused")


def test_a_guard_repeats_what_the_method_allows_to_repeat(service: Service) -> None:
    guard = acrux.Guard(retry=acrux.Retry(base_delay=0.0, max_delay=0.0))
    asked = {}
    for method in ("GET", "POST"):

        @acrux.http_tool(method, f"{service.url}/x", name=f"ask_{method.lower()}", guard=guard)
        def ask() -> Any: ...

        service.answers({}, 500)
        before = len(service.asked)
        with pytest.raises(Exception, match="500"):
            ask()
        asked[method] = len(service.asked) - before
    assert asked == {"GET": 2, "POST": 1}


def test_a_call_without_an_sdk_does_the_same(service: Service) -> None:
    service.answers({"error": "gone"})
    assert _weather(service, failure_when="error")("Oslo") == {"error": "gone"}
    assert _weather(service, failure_when="error").call("Oslo").verdict.code == "reported_failure"


def test_a_catalog_knows_the_request_and_a_new_one_makes_a_version(service: Service, tmp_path: Any) -> None:
    catalog = SqlCatalog(f"sqlite:///{tmp_path}/c.db")
    try:
        (first,) = acrux.sync([_weather(service)], catalog=catalog)
        version = catalog.version(first.tool_id, 1)
        assert version.definition is not None
        assert version.definition.executor == {
            "type": "http",
            "method": "GET",
            "url": f"{service.url}/weather/{{city}}",
        }
        assert version.definition.annotations == {"read_only": True, "idempotent": True}

        @acrux.http_tool("GET", f"{service.url}/v2/weather/{{city}}", name="weather")
        def moved(city: str) -> Any:
            """Weather of a city."""

        (second,) = acrux.sync([moved], catalog=catalog)
        assert (second.version_number, second.committed) == (2, True)
        assert second.change == "compatible"  # to the model nothing changed
    finally:
        catalog.close()


def test_the_batch_runner_answers_with_an_http_tool(service: Service) -> None:
    service.answers({"temp": 3})
    answered = acrux.run_tool_calls([acrux.ToolCall("1", "weather", {"city": "Oslo"})], [_weather(service)])
    assert [(each.id, each.value) for each in answered] == [("1", {"temp": 3})]
