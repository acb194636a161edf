# SPDX-License-Identifier: Apache-2.0
"""What each exception and each framework result means, through the classifier itself."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import email.utils
import errno
import http
import http.client
import importlib
import io
import json
import logging
import socket
import ssl
import subprocess
import sys
import threading
import time
import types
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import aiohttp
import anthropic
import grpc
import httpx
import httpx2
import mcp_types
import openai
import pydantic
import pytest
import requests
import trustme
import urllib3
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.exceptions import MCPError
from vectors import CASES, Case, NeedsApproval, by_id

from acrux_otel import verdict as verdict_module
from acrux_otel.classify import (
    circuit_open,
    classify,
    classify_arguments,
    code_of,
    declared_by_result,
    invalid_result,
    malformed_arguments,
    mcp_failure,
    not_executed,
    policy_denied,
    register_classifier,
    rules,
    unknown_tool,
)
from acrux_otel.classify.evidence import dotted
from acrux_otel.verdict import ErrorType, Outcome, Verdict

if sys.version_info < (3, 11):
    from exceptiongroup import BaseExceptionGroup, ExceptionGroup

classify_module = sys.modules["acrux_otel.classify.walk"]


def fields(verdict: Verdict) -> dict[str, Any]:
    """A verdict in the vectors' words."""
    named = {
        "outcome": verdict.outcome,
        "errorType": verdict.error_type,
        "errorCode": verdict.code,
        "http.response.status_code": verdict.http_status,
        "retryable": verdict.retryable,
    }
    return {key: value for key, value in named.items() if value is not None}


def named(verdict: Verdict) -> tuple[Any, Any, Any]:
    return verdict.error_type, verdict.code, verdict.retryable


def raised_by(fn: Callable[[], object]) -> BaseException:
    try:
        fn()
    except BaseException as raised:
        return raised
    raise AssertionError("nothing was raised")


def caused(exc: BaseException, cause: BaseException) -> BaseException:
    exc.__cause__ = cause
    return exc


@pytest.fixture
def registered() -> Iterator[None]:
    """Leaves no classifier behind."""
    kept = dict(classify_module._classifiers)
    yield
    classify_module._classifiers.clear()
    classify_module._classifiers.update(kept)
    classify_module._facts_of = {}


# ---- the shared vectors ------------------------------------------------------------------------------

RAISED = [case for case in CASES if case.raises]


@pytest.mark.parametrize("case", RAISED, ids=str)
def test_raised_vectors_come_out_as_written(case: Case) -> None:
    """Every raised vector gets the fields that it lists, and no others but what is not fixed there."""
    if case.where == "arguments":
        verdict = classify_arguments(case.build())
    else:
        verdict = classify(case.build(), control_flow=(NeedsApproval,))
    found = fields(verdict)
    if "retryable" not in case.expect:
        found.pop("retryable", None)
    if verdict.error_type is ErrorType.PROVIDER_ERROR:  # a provider's status is kept, the code says it
        found.pop("http.response.status_code", None)
    assert found == case.expect
    if verdict.outcome is Outcome.ERROR:
        assert verdict.detail


def test_vectors_that_nothing_raised() -> None:
    """Lookup, guard, schema and MCP verdicts have one constructor each, as the vectors say."""
    made = {
        "unknown-tool": unknown_tool("serach"),
        "circuit-open": circuit_open("3 failures in a row"),
        "policy-denied": policy_denied("not on weekends"),
        "budget-exhausted": not_executed("run budget exhausted"),
        "result-schema-error": invalid_result("tempC is missing", "error"),
        "result-schema-warn": invalid_result("tempC is missing", "warn"),
        "mcp-is-error": declared_by_result(by_id["mcp-is-error"].build()),
    }
    for case_id, verdict in made.items():
        assert verdict is not None
        expect = by_id[case_id].expect
        assert {key: fields(verdict).get(key) for key in expect} == expect, case_id
        assert verdict.detail, case_id


def test_the_vector_of_an_ambiguous_timeout_is_not_retryable_either_way() -> None:
    """A read timeout may have been executed: retryable is None, not False."""
    assert classify(by_id["httpx-read-timeout"].build()).retryable is None
    assert classify(by_id["reset"].build()).retryable is None


# ---- field reports -----------------------------------------------------------------------------------


def test_A05_an_mcp_error_result_is_declared_by_the_tool_with_a_text_that_is_never_empty() -> None:
    """Both spellings, empty content and content without text give tool_declared and a detail."""
    text = mcp_failure(
        SimpleNamespace(isError=True, content=[SimpleNamespace(type="text", text="no such row")])
    )
    empty = mcp_failure(SimpleNamespace(is_error=True, content=[]))
    image = mcp_failure(SimpleNamespace(is_error=True, content=[SimpleNamespace(type="image", data="..")]))
    assert text is not None
    assert text == Verdict(Outcome.ERROR, ErrorType.TOOL_DECLARED, "tool_error", "no such row")
    for verdict in (empty, image):
        assert verdict is not None
        assert verdict.error_type is ErrorType.TOOL_DECLARED
        assert verdict.detail


def test_A05_a_protocol_error_is_not_the_tool_speaking() -> None:
    """JSON-RPC and transport failures of the same call are transport, provider or schema errors."""
    types_ = {
        code: classify(MCPError(code, "m")).error_type for code in (-32000, -32001, 408, -32602, -32603)
    }
    assert types_ == {
        -32000: ErrorType.TRANSPORT,
        -32001: ErrorType.TRANSPORT,
        408: ErrorType.TRANSPORT,
        -32602: ErrorType.SCHEMA_MISMATCH,
        -32603: ErrorType.PROVIDER_ERROR,
    }


class Status429(Exception):
    status_code = 429


class Holds503(Exception):
    response = SimpleNamespace(status_code=503)


@pytest.mark.parametrize(
    "exc",
    [
        RuntimeError("agent used 402913 tokens"),
        OSError("connection refused on port 5000"),
        ValueError("latency 15290ms, rows 429"),
    ],
)
def test_A22_digits_in_prose_are_no_status(exc: Exception) -> None:
    """Text never decides: token counts, ports and latencies leave the fallback."""
    verdict = classify(exc)
    assert verdict.error_type is ErrorType.TOOL_DECLARED
    assert verdict.code == code_of(type(exc).__name__)
    assert (verdict.http_status, verdict.retryable) == (None, None)


def test_A22_a_typed_status_is_taken_whatever_the_text_says() -> None:
    """A status attribute wins over digits in a request id."""
    verdict = classify(Status429("id d7c9130f34413480"))
    assert (verdict.error_type, verdict.code, verdict.http_status) == (ErrorType.HTTP_STATUS, "http_429", 429)


def test_A22_a_status_is_found_through_the_cause_chain() -> None:
    """response.status_code counts, one cause further in."""
    verdict = classify(caused(RuntimeError("wrapped"), Holds503()))
    assert (verdict.error_type, verdict.http_status, verdict.detail) == (
        ErrorType.HTTP_STATUS,
        503,
        "wrapped",
    )


@pytest.mark.parametrize("status", [True, 99, 600, 10**30, -1, 503.0, "503", None, [503]])
def test_A22_only_an_int_from_100_to_599_is_a_status(status: object) -> None:
    """Bools, floats, text and numbers out of range are no HTTP status."""
    exc = type("E", (Exception,), {"status_code": status})("x")
    assert classify(exc).error_type is ErrorType.TOOL_DECLARED


@pytest.mark.parametrize("status", [100, 599])
def test_A22_the_ends_of_the_range_are_statuses(status: int) -> None:
    """100 and 599 count."""
    assert classify(type("E", (Exception,), {"status_code": status})("x")).http_status == status


# ---- typed statuses ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attributes", "status"),
    [
        ({"status": 404}, None),
        ({"code": 404}, None),
        ({"status": http.HTTPStatus.NOT_FOUND}, 404),
        ({"code": http.HTTPStatus.NOT_FOUND}, 404),
        ({"status": 404, "headers": {}}, 404),
        ({"code": 404, "headers": {}}, 404),
        ({"code": 404, "response": object()}, 404),
        ({"code": 404, "response": None}, None),
        ({"response": SimpleNamespace(status=503)}, 503),
        ({"status_code": "x", "response": SimpleNamespace(status_code=503)}, 503),
    ],
)
def test_status_and_code_count_only_where_they_are_http(
    attributes: dict[str, object], status: int | None
) -> None:
    """A bare ``status`` or ``code`` needs HTTPStatus, headers or a response beside it."""
    assert classify(type("E", (Exception,), attributes)("x")).http_status == status


def test_a_status_of_success_does_not_hide_what_the_class_says() -> None:
    """A JSON error of a 200 response is a transform; of a 503 response it is the 503."""
    response = requests.Response()
    response.status_code = 200
    response._content = b"<html>"
    exc = raised_by(response.json)
    exc.response = response  # type: ignore[attr-defined]
    assert named(classify(exc)) == (ErrorType.TRANSFORM, "json_decode_error", False)
    response.status_code = 503
    assert classify(exc).http_status == 503


def with_retry_after(value: object, name: str = "Retry-After") -> Exception:
    return type("E", (Exception,), {"status_code": 429, "headers": {name: value}})("x")


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("7", 7.0),
        (" 1.5 ", 1.5),
        (b"7", 7.0),
        (7, 7.0),
        ("0", 0.0),
        ("9" * 60, 86_400.0),
        (10**400, 86_400.0),
        ("-5", None),
        (-5, None),
        (True, None),
        (float("nan"), None),
        (float("inf"), 86_400.0),
        ("soon", None),
        ("", None),
        ("1e9", None),
        ("9" * 100_000, None),
        (["7"], None),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
        ("Wed, 21 Oct 9999 07:28:00 GMT", 86_400.0),
        ("Wed, 99 Oct 2015 07:28:00 GMT", None),
    ],
)
def test_retry_after_is_untrusted(value: object, seconds: float | None) -> None:
    """Seconds or an HTTP date; junk and negatives are None, more than a day is a day."""
    assert classify(with_retry_after(value)).retry_after == seconds


def test_retry_after_as_a_date_counts_from_now() -> None:
    """An HTTP date in the future is the seconds until then."""
    found = classify(with_retry_after(email.utils.formatdate(time.time() + 60, usegmt=True))).retry_after
    assert found is not None
    assert 55 < found <= 60


@pytest.mark.parametrize("name", ["retry-after", "RETRY-AFTER", b"Retry-After"])
def test_the_header_name_is_case_insensitive(name: str) -> None:
    """Also in a plain dict."""
    assert classify(with_retry_after("7", name)).retry_after == 7.0


def test_retry_after_of_real_responses() -> None:
    """httpx, requests and urllib hold headers each in their own class."""
    response = httpx.Response(
        503, headers={"retry-after": "7"}, request=httpx.Request("GET", "http://service.invalid")
    )
    assert classify(raised_by(response.raise_for_status)).retry_after == 7.0
    other = requests.Response()
    other.status_code = 429
    other.headers["retry-after"] = "7"
    assert classify(raised_by(other.raise_for_status)).retry_after == 7.0
    headers = http.client.parse_headers(io.BytesIO(b"retry-after: 7\r\n\r\n"))
    assert classify(urllib.error.HTTPError("http://x", 503, "busy", headers, None)).retry_after == 7.0


# ---- the network, with real clients ------------------------------------------------------------------

REFUSED = "http://127.0.0.1:1/"
UNKNOWN = "http://no-such-host.invalid/"


def _aiohttp_get(url: str, **options: Any) -> Callable[[], None]:
    async def get() -> None:
        async with aiohttp.ClientSession(**options) as session, session.get(url):
            pass

    return lambda: asyncio.run(get())


def _async_httpx_get(url: str) -> Callable[[], None]:
    async def get() -> None:
        async with httpx.AsyncClient() as client:
            await client.get(url)

    return lambda: asyncio.run(get())


CLIENTS: dict[str, Callable[[str], Callable[[], object]]] = {
    "httpx": lambda url: lambda: httpx.get(url),
    "httpx async": _async_httpx_get,
    "httpx2": lambda url: lambda: httpx2.get(url),
    "requests": lambda url: lambda: requests.get(url, timeout=5),
    "urllib": lambda url: lambda: urllib.request.urlopen(url, timeout=5),
    "urllib3": lambda url: lambda: urllib3.PoolManager(retries=False).request("GET", url),
    "urllib3 retries": lambda url: lambda: urllib3.PoolManager(retries=1).request("GET", url),
    "aiohttp": _aiohttp_get,
    "openai": lambda url: lambda: openai.OpenAI(api_key="x", base_url=url, max_retries=0).models.list(),
    "anthropic": lambda url: (
        lambda: anthropic.Anthropic(api_key="x", base_url=url, max_retries=0).models.list()
    ),
}


@pytest.mark.parametrize("client", CLIENTS)
def test_a_refused_connection_is_named_by_its_typed_reason(client: str) -> None:
    """Each client's wrapper leads to the refusal below it."""
    verdict = classify(raised_by(CLIENTS[client](REFUSED)))
    assert named(verdict) == (ErrorType.TRANSPORT, "connection_refused", True)


@pytest.mark.parametrize("client", CLIENTS)
def test_an_unknown_host_is_dns(client: str) -> None:
    """Each client's wrapper leads to the failed name resolution below it."""
    verdict = classify(raised_by(CLIENTS[client](UNKNOWN)))
    assert named(verdict) == (ErrorType.TRANSPORT, "dns", True)


@pytest.fixture
def hangs_up() -> Iterator[str]:
    """A server that reads a request and closes with a reset."""
    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.05)

        def serve() -> None:
            while not stop.is_set():
                with contextlib.suppress(OSError):
                    connection, _ = server.accept()
                    connection.recv(65536)
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
                    connection.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/"
        stop.set()
        thread.join(5)


@pytest.mark.parametrize("client", [name for name in CLIENTS if name != "urllib3 retries"])
def test_a_reset_after_sending_may_have_been_executed(client: str, hangs_up: str) -> None:
    """The server hung up on the request: connection_reset, and retryable is not known."""
    verdict = classify(raised_by(CLIENTS[client](hangs_up)))
    assert named(verdict) == (ErrorType.TRANSPORT, "connection_reset", None)


@pytest.fixture
def silent() -> Iterator[str]:
    """A server that accepts and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/"


@pytest.mark.parametrize(
    "call",
    [
        lambda url: httpx.get(url, timeout=0.1),
        lambda url: requests.get(url, timeout=0.1),
        lambda url: urllib.request.urlopen(url, timeout=0.1),
        lambda url: urllib3.PoolManager(retries=False).request("GET", url, timeout=0.1),
        lambda url: _aiohttp_get(url, timeout=aiohttp.ClientTimeout(total=0.1))(),
        lambda url: openai.OpenAI(api_key="x", base_url=url, max_retries=0, timeout=0.1).models.list(),
    ],
    ids=["httpx", "requests", "urllib", "urllib3", "aiohttp", "openai"],
)
def test_a_timeout_is_neither_retryable_nor_not(call: Callable[[str], object], silent: str) -> None:
    """Each client's timeout is transport, timeout, None."""
    verdict = classify(raised_by(lambda: call(silent)))
    assert named(verdict) == (ErrorType.TRANSPORT, "timeout", None)


@pytest.fixture(scope="module")
def untrusted() -> Iterator[str]:
    """A TLS server whose certificate comes from an authority that nobody knows."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.05)

        def serve() -> None:
            while not stop.is_set():
                with contextlib.suppress(OSError):
                    connection, _ = server.accept()
                    connection.settimeout(5)
                    with contextlib.suppress(OSError), connection:
                        context.wrap_socket(connection, server_side=True).close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"https://127.0.0.1:{server.getsockname()[1]}/"
        stop.set()
        thread.join(10)


@pytest.mark.parametrize("client", [name for name in CLIENTS if name != "urllib3 retries"])
def test_a_certificate_that_does_not_verify_is_never_retried(client: str, untrusted: str) -> None:
    """Each client's wrapper leads to the verification error below it."""
    verdict = classify(raised_by(CLIENTS[client](untrusted)))
    assert named(verdict) == (ErrorType.TRANSPORT, "tls", False)


@pytest.mark.parametrize(
    ("exc", "expected"),
    [
        (OSError(errno.EHOSTUNREACH, "no route"), (ErrorType.TRANSPORT, "connection_error", True)),
        (OSError(errno.ENETUNREACH, "no network"), (ErrorType.TRANSPORT, "connection_error", True)),
        (OSError(errno.ENOSPC, "disk full"), (ErrorType.TOOL_DECLARED, "os_error", None)),
        (IsADirectoryError(21, "x"), (ErrorType.TOOL_DECLARED, "is_a_directory_error", None)),
        (BrokenPipeError(32, "x"), (ErrorType.TRANSPORT, "connection_reset", None)),
        (ssl.SSLError(1, "handshake"), (ErrorType.TRANSPORT, "tls", None)),
        (urllib.error.URLError("unknown url type: foo"), (ErrorType.TOOL_DECLARED, "url_error", None)),
        (httpx.UnsupportedProtocol("x"), (ErrorType.TOOL_DECLARED, "unsupported_protocol", None)),
        (httpx.InvalidURL("x"), (ErrorType.TOOL_DECLARED, "invalid_url", None)),
        (httpx.TooManyRedirects("x"), (ErrorType.TOOL_DECLARED, "too_many_redirects", None)),
        (httpx.DecodingError("x"), (ErrorType.TRANSFORM, "decoding_error", False)),
        (httpx.PoolTimeout("x"), (ErrorType.TRANSPORT, "timeout", None)),
        (concurrent.futures.TimeoutError(), (ErrorType.TRANSPORT, "timeout", None)),
        (subprocess.TimeoutExpired("x", 1), (ErrorType.TRANSPORT, "timeout", None)),
        (http.client.IncompleteRead(b""), (ErrorType.TRANSPORT, "connection_reset", None)),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_single_network_errors(exc: BaseException, expected: tuple[Any, Any, Any]) -> None:
    """A wrong address is the caller's fault; an errno is typed, the words beside it are not."""
    assert named(classify(exc)) == expected


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("refused", (ErrorType.TRANSPORT, "connection_error", True)),
        ("unimplemented", (ErrorType.TOOL_DECLARED, "grpc_unimplemented", False)),
        ("deadline", (ErrorType.TRANSPORT, "timeout", None)),
    ],
)
def test_grpc_codes(call: str, expected: tuple[Any, Any, Any], silent: str) -> None:
    """UNAVAILABLE and DEADLINE_EXCEEDED are the network's; the rest is the service's own answer."""
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(1))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    targets = {"refused": "127.0.0.1:1", "unimplemented": f"127.0.0.1:{port}", "deadline": silent[7:-1]}
    with grpc.insecure_channel(targets[call]) as channel:
        unary = channel.unary_unary("/acrux.Test/Call")
        exc = raised_by(lambda: unary(b"", timeout=0.3 if call == "deadline" else 10))
    server.stop(None)
    assert named(classify(exc)) == expected


# ---- model providers ---------------------------------------------------------------------------------


def provider_response(status: int, **headers: str) -> httpx2.Response:
    return httpx2.Response(
        status, headers=headers, request=httpx2.Request("POST", "http://provider.invalid/")
    )


def test_a_model_providers_http_error_is_the_providers() -> None:
    """The status is kept as a number beside provider_error, with the wait that was asked for."""
    response = provider_response(503, **{"retry-after": "3"})
    verdict = classify(anthropic.InternalServerError("busy", response=response, body=None))
    assert verdict == Verdict(Outcome.ERROR, ErrorType.PROVIDER_ERROR, "http_503", "busy", True, 503, 3.0)


def test_billing_and_spend_limits_are_quota() -> None:
    """The provider's own code says it, whichever status it came with."""
    limit = {"type": "error", "error": {"type": "billing_error", "message": "m"}}
    billing = anthropic.APIStatusError("m", response=provider_response(400), body=limit)
    spent = anthropic.EnforcedSpendLimitReachedError("m", response=provider_response(429), body=None)
    unpaid = openai.APIStatusError("m", response=provider_response(402), body=None)
    for exc in (billing, spent, unpaid):
        assert named(classify(exc)) == (ErrorType.PROVIDER_ERROR, "quota_exhausted", False)


def test_a_provider_sdks_own_error_without_a_status() -> None:
    """The class names the code."""
    assert named(classify(openai.OpenAIError("no key"))) == (
        ErrorType.PROVIDER_ERROR,
        "open_ai_error",
        None,
    )


def library_class(dotted: str, *bases: type, **attributes: object) -> type:
    """A class under the dotted name of a library that is too heavy for the test environment."""
    module, _, name = dotted.rpartition(".")
    return type(name, bases or (Exception,), {"__module__": module, **attributes})


@pytest.mark.parametrize(
    ("dotted", "attributes", "expected"),
    [
        ("google.genai.errors.APIError", {"code": 429}, ("rate_limited", True)),
        ("google.genai.errors.APIError", {"code": 500}, ("http_500", True)),
        ("mistralai.client.errors.mistralerror.MistralError", {"status_code": 401}, ("http_401", False)),
        ("cohere.core.api_error.ApiError", {"status_code": 429}, ("rate_limited", True)),
        ("groq.GroqError", {"status_code": 500}, ("http_500", True)),
        ("litellm.exceptions.BudgetExceededError", {}, ("quota_exhausted", False)),
        ("ollama._types.ResponseError", {"status_code": -1}, ("response_error", None)),
    ],
)
def test_provider_sdks_by_dotted_name(
    dotted: str, attributes: dict[str, object], expected: tuple[str, bool | None]
) -> None:
    """A provider's base class is known by its dotted name, in subclasses too."""
    exc = type("Sub", (library_class(dotted, **attributes),), {})("x")
    code, retryable = expected
    code = "sub" if code == "response_error" else code
    assert named(classify(exc)) == (ErrorType.PROVIDER_ERROR, code, retryable)


@pytest.mark.parametrize(
    ("operation", "error_code", "status", "expected"),
    [
        ("Converse", "ThrottlingException", 429, (ErrorType.PROVIDER_ERROR, "rate_limited", True)),
        (
            "InvokeModel",
            "ServiceQuotaExceededException",
            400,
            (ErrorType.PROVIDER_ERROR, "quota_exhausted", False),
        ),
        ("Converse", "ModelNotReadyException", 503, (ErrorType.PROVIDER_ERROR, "http_503", True)),
        ("GetObject", "NoSuchKey", 404, (ErrorType.HTTP_STATUS, "http_404", False)),
        ("GetObject", "NoSuchKey", None, (ErrorType.TOOL_DECLARED, "client_error", None)),
    ],
)
def test_botocore_client_errors(
    operation: str, error_code: str, status: int | None, expected: tuple[Any, Any, Any]
) -> None:
    """The status is in the response's metadata; a model's operation makes it the provider's."""
    metadata: dict[str, object] = {"HTTPHeaders": {"retry-after": "2"}}
    if status:
        metadata["HTTPStatusCode"] = status
    response = {"Error": {"Code": error_code}, "ResponseMetadata": metadata}
    exc = library_class("botocore.exceptions.ClientError")("x")
    exc.response, exc.operation_name = response, operation  # type: ignore[attr-defined]
    verdict = classify(exc)
    assert named(verdict) == expected
    assert verdict.retry_after == (2.0 if status else None)


# ---- the walk ----------------------------------------------------------------------------------------


def test_the_first_link_that_is_not_the_fallback_wins() -> None:
    """Outermost first: a transform around a status is a transform."""
    inner = by_id["httpx-503"].build()
    exc = caused(RuntimeError("a"), caused(UnicodeError("b"), inner))
    verdict = classify(exc)
    assert (verdict.error_type, verdict.code, verdict.detail) == (ErrorType.TRANSFORM, "unicode_error", "a")


def test_a_cause_cycle_ends() -> None:
    """A cycle of causes falls back to the outermost class."""
    first, second = RuntimeError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    assert classify(first).code == "runtime_error"
    first.__cause__ = first
    assert classify(first).code == "runtime_error"


def test_a_chain_longer_than_the_bound_ends() -> None:
    """Ten thousand causes are not all looked at."""
    chain: BaseException = by_id["httpx-503"].build()
    for _ in range(10_000):
        chain = caused(RuntimeError("x"), chain)
    started = time.thread_time()
    assert classify(chain).code == "runtime_error"
    assert time.thread_time() - started < 0.5
    # taken apart by hand: freeing so deep a chain at once would recurse
    while chain.__cause__ is not None:
        inner, chain.__cause__ = chain.__cause__, None
        chain = inner


def test_a_cancellation_inside_an_error_is_not_a_cancellation() -> None:
    """Only the exception that escaped can end the call as cancelled."""
    exc = caused(RuntimeError("x"), asyncio.CancelledError())
    assert (classify(exc).outcome, classify(exc).code) == (Outcome.ERROR, "runtime_error")


@pytest.mark.parametrize(
    ("exc", "outcome"),
    [
        (asyncio.CancelledError(), Outcome.CANCELLED),
        (concurrent.futures.CancelledError(), Outcome.CANCELLED),
        (KeyboardInterrupt(), Outcome.CANCELLED),
        (SystemExit(3), Outcome.CANCELLED),
        (GeneratorExit(), Outcome.CLOSED),
        (library_class("trio.Cancelled", BaseException)(), Outcome.CANCELLED),
        (library_class("langgraph.errors.GraphBubbleUp")(), Outcome.INTERRUPTED),
        (library_class("pydantic_ai.exceptions.CallDeferred")(), Outcome.INTERRUPTED),
    ],
)
def test_endings_carry_no_error(exc: BaseException, outcome: Outcome) -> None:
    """Cancellation, closing and hand-off have an outcome and nothing else."""
    assert classify(exc) == Verdict(outcome)


def test_control_flow_comes_first() -> None:
    """A listed type is an interruption even where the table knows it, subclasses included."""
    assert classify(Status429("x"), control_flow=(Status429,)) == Verdict(Outcome.INTERRUPTED)
    assert classify(ConnectionResetError(), control_flow=(OSError,)) == Verdict(Outcome.INTERRUPTED)
    assert classify(NeedsApproval()).outcome is Outcome.ERROR


# ---- groups ------------------------------------------------------------------------------------------


def test_the_tables_order_decides_in_a_group_then_position() -> None:
    """http_status before transport before transform before the fallback; the first of equals."""
    members = [ValueError("v"), UnicodeError("u"), ConnectionRefusedError("c"), by_id["httpx-404"].build()]
    found = [classify(ExceptionGroup("g", members[:count])).code for count in (1, 2, 3, 4)]
    assert found == ["value_error", "unicode_error", "connection_refused", "http_404"]
    assert classify(ExceptionGroup("g", [KeyError("a"), ValueError("b")])).detail == "'a'"


def test_a_group_is_retryable_only_if_every_member_is() -> None:
    """One False makes it False, one unknown makes it unknown."""

    def retryable(*members: Exception) -> bool | None:
        return classify(ExceptionGroup("g", list(members))).retryable

    busy, missing = by_id["httpx-503"].build(), by_id["httpx-404"].build()
    assert retryable(busy, busy) is True
    assert retryable(busy, missing) is False
    assert retryable(busy, ValueError()) is None
    assert retryable(ExceptionGroup("h", [busy, ExceptionGroup("i", [missing])])) is False


def test_cancelled_siblings_are_ignored_and_a_group_of_nothing_else_is_a_cancellation() -> None:
    """A failure beside a cancellation is the failure."""
    cancelled = asyncio.CancelledError()
    failed = classify(BaseExceptionGroup("g", [cancelled, by_id["httpx-503"].build()]))
    assert (failed.http_status, failed.retryable) == (503, True)
    assert classify(BaseExceptionGroup("g", [cancelled])) == Verdict(Outcome.CANCELLED)
    nested = BaseExceptionGroup("g", [BaseExceptionGroup("h", [cancelled]), GeneratorExit()])
    assert classify(nested) == Verdict(Outcome.CANCELLED)
    paused = BaseExceptionGroup("g", [NeedsApproval(), cancelled])
    assert classify(paused, control_flow=(NeedsApproval,)) == Verdict(Outcome.INTERRUPTED)
    assert classify(paused).code == "needs_approval"


def test_a_group_as_cause_is_searched() -> None:
    """The detail stays the outermost exception's own message."""
    verdict = classify(caused(RuntimeError("tasks failed"), ExceptionGroup("g", [ConnectionRefusedError()])))
    assert (verdict.code, verdict.detail) == ("connection_refused", "tasks failed")
    assert classify(caused(RuntimeError("x"), ExceptionGroup("g", [ValueError()]))).code == "runtime_error"


def test_the_backport_of_groups_is_known_by_name() -> None:
    """Any class under the backport's dotted name is a group."""
    backport = library_class("exceptiongroup.BaseExceptionGroup", BaseException)
    exc = backport("g")
    exc.exceptions = (by_id["httpx-503"].build(),)  # type: ignore[attr-defined]
    assert classify(exc).http_status == 503


def test_a_group_that_contains_itself_or_too_much_ends() -> None:
    """Depth and number of members are bounded; an unseen member leaves retryable unknown."""
    backport = library_class("exceptiongroup.BaseExceptionGroup", BaseException)
    endless = backport("g")
    endless.exceptions = [endless] * 500  # type: ignore[attr-defined]
    started = time.thread_time()
    assert classify(endless).outcome is Outcome.ERROR
    assert time.thread_time() - started < 0.5
    many = ExceptionGroup("g", [by_id["httpx-503"].build() for _ in range(1000)])
    assert (classify(many).http_status, classify(many).retryable) == (503, None)
    deep: Exception = ValueError("x")
    for _ in range(200):
        deep = ExceptionGroup("g", [deep])
    assert classify(deep).error_type is ErrorType.TOOL_DECLARED


# ---- text --------------------------------------------------------------------------------------------


class RaisingStr(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("exc", "detail"),
    [
        (ValueError("bad"), "bad"),
        (KeyError("x"), "'x'"),
        (ValueError(), "ValueError"),
        (ValueError(" \n"), "ValueError"),
        (RaisingStr(), "RaisingStr"),
        (type("E", (Exception,), {"__str__": lambda self: 3})(), "E"),
        (ValueError("x" * 5000), "x" * 1024),
        (ValueError("é" * 5000), "é" * 512),
        (ValueError("a" + "é" * 5000), "a" + "é" * 511),
        (ValueError("\ud800" * 5000), "\ud800" * 341),
        (ValueError("😀" * 5000), "😀" * 256),
    ],
)
def test_the_detail_is_the_message_bounded_and_never_empty(exc: Exception, detail: str) -> None:
    """1,024 bytes, cut at a code point; the class name where there is no message."""
    assert classify(exc).detail == detail


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("HTTPError", "http_error"),
        ("JSONDecodeError", "json_decode_error"),
        ("OSError", "os_error"),
        ("KeyError", "key_error"),
        ("E", "e"),
        ("gaierror", "gaierror"),
        ("HTTP2Error", "http2_error"),
        ("_Private", "private"),
        ("Über", "ber"),
        ("Ошибка", "unspecified"),
        ("", "unspecified"),
        ("A" * 300, "a" * 64),
    ],
)
def test_class_names_become_slugs(name: str, code: str) -> None:
    """Snake case, ``[a-z0-9_]+``, at most 64 characters, never empty."""
    assert code_of(name) == code


# ---- hostile exceptions ------------------------------------------------------------------------------


def _raises(self: object) -> Any:
    raise RuntimeError("not for you")


HOSTILE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**31), 10**31),
    st.integers(90, 610),
    st.floats(),
    st.text(max_size=20),
    st.binary(max_size=20),
    st.just(property(_raises)),
    st.builds(lambda value: SimpleNamespace(status_code=value, headers=value), st.integers(90, 610)),
    st.dictionaries(st.text(max_size=12) | st.just("Retry-After"), st.text(max_size=30), max_size=3),
    st.lists(st.integers(), max_size=3),
    st.just(object()),
    st.just(ValueError("inside")),
    st.just([ConnectionResetError()]),
    st.just(type),
)
ATTRIBUTES = [
    "status_code",
    "status",
    "code",
    "response",
    "headers",
    "exceptions",
    "error",
    "errno",
    "reason",
    "kwargs",
    "body",
    "args",
    "__cause__",
    "__str__",
    "__notes__",
    "type",
    "operation_name",
]
BASES: list[type[BaseException]] = [
    Exception,
    BaseException,
    OSError,
    ValueError,
    urllib.error.URLError,
    httpx.TransportError,
    requests.exceptions.SSLError,
    grpc.RpcError,
    openai.OpenAIError,
    MCPError,
    aiohttp.ClientResponseError,
    library_class("botocore.exceptions.ClientError"),
    library_class("exceptiongroup.BaseExceptionGroup", BaseException),
]


@pytest.mark.filterwarnings("ignore:code property is deprecated")  # aiohttp's, where there is no status
@given(
    st.sampled_from(BASES),
    st.dictionaries(st.sampled_from(ATTRIBUTES), HOSTILE, max_size=6),
    st.lists(st.sampled_from([ValueError("x"), KeyError(), ConnectionError()]), max_size=3),
)
def test_classify_never_raises(
    base: type[BaseException], attributes: dict[str, object], causes: list[BaseException]
) -> None:
    """Whatever an exception's attributes are, there is a whole and valid verdict."""
    exc = base.__new__(type("Foreign", (base,), attributes))
    for cause in causes:
        BaseException.__setattr__(cause, "__cause__", None)
    chain = exc
    for cause in causes:
        with contextlib.suppress(Exception):
            BaseException.__dict__["__cause__"].__set__(chain, cause)
        chain = cause
    for verdict in (classify(exc), classify_arguments(exc)):
        assert verdict.outcome is Outcome.ERROR
        assert verdict.error_type in ErrorType
        assert verdict.code is not None
        assert verdict.code == verdict_module.slug(verdict.code)
        assert verdict.detail
        assert len(verdict.detail.encode("utf-8", "surrogatepass")) <= 1024
        assert verdict.http_status is None or 100 <= verdict.http_status <= 599
        assert verdict.retry_after is None or 0 <= verdict.retry_after <= 86_400
        assert verdict.retryable in (True, False, None)


def test_a_class_that_cannot_be_hashed_or_named_is_classified() -> None:
    """A metaclass without a hash and a module that is no text do no harm."""

    class Unhashable(type):
        __hash__ = None  # type: ignore[assignment]

        def __eq__(cls, other: object) -> bool:
            return False

    exc = Unhashable("Odd", (ConnectionRefusedError,), {})("x")
    assert classify(exc).code == "connection_refused"
    assert declared_by_result(Unhashable("Result", (), {})()) is None
    nowhere = type("Nowhere", (ConnectionRefusedError,), {"__module__": 3})("x")
    assert classify(nowhere).code == "connection_refused"


def test_classifying_leaves_the_exception_as_it_was() -> None:
    """What is raised again is the same object with the same links and attributes."""
    exc = caused(RuntimeError("wrapped"), by_id["httpx-503"].build())
    before = (exc.args, exc.__cause__, exc.__context__, exc.__traceback__, dict(exc.__dict__))
    classify(exc)
    assert (exc.args, exc.__cause__, exc.__context__, exc.__traceback__, dict(exc.__dict__)) == before


def test_a_flood_of_types_does_not_grow_memory() -> None:
    """What is remembered of types has a bound."""
    for number in range(3000):
        classify(type(f"E{number}", (Exception,), {})("x"))
        declared_by_result(type(f"R{number}", (), {})())
    assert len(classify_module._facts_of) <= 1024
    assert len(sys.modules["acrux_otel.classify.declared"]._declared_of) <= 1024


def test_no_library_is_imported() -> None:
    """Classifying, in a fresh process, imports none of the libraries that the table names."""
    code = (
        "import sys\n"
        "from acrux_otel.classify import classify, declared_by_result\n"
        "classify(ValueError('x')), classify(ConnectionError()), declared_by_result({})\n"
        "print(sorted({'httpx', 'requests', 'openai', 'mcp', 'grpc', 'yaml', 'email', 'asyncio'}"
        " & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"


RENAMED = {  # older releases, other libraries' layouts, and what newer Pythons made aliases of
    "asyncio.exceptions.TimeoutError",
    "concurrent.futures._base.TimeoutError",
    "httpcore.DecodingError",
    "httpcore.TransportError",
    "httpcore2.DecodingError",
    "httpcore2.TransportError",
    "mcp.shared.exceptions.McpError",
    "mcp.types.CallToolResult",
    "pydantic.error_wrappers.ValidationError",
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_tables_name_classes_where_the_installed_libraries_have_them() -> None:
    """A class that a library moved or renamed would be recognised no longer."""
    named_in_tables = {*rules.TABLE, *rules.ENDINGS, *sys.modules["acrux_otel.classify.declared"]._RESULTS}
    found, wrong = set(), set()
    for name in named_in_tables - RENAMED:
        module, _, class_name = name.rpartition(".")
        try:
            kind = getattr(importlib.import_module(module), class_name, None)
        except ImportError:
            continue
        (found if kind is not None and dotted(kind) == name else wrong).add(name)
    assert not wrong
    assert {"httpx.ConnectError", "openai.OpenAIError", "mcp_types._types.CallToolResult"} <= found


# ---- arguments and the other sources -----------------------------------------------------------------


def test_arguments_that_are_no_json_are_malformed() -> None:
    """json's own error and pydantic's json_invalid; a value of the wrong type is only invalid."""
    adapter = pydantic.TypeAdapter(dict[str, int])
    assert classify_arguments(raised_by(lambda: adapter.validate_json("{"))).code == "malformed_arguments"
    assert classify_arguments(raised_by(lambda: adapter.validate_python(3))).code == "invalid_arguments"
    assert classify_arguments(raised_by(lambda: json.loads("{"))).code == "malformed_arguments"
    assert classify_arguments(KeyboardInterrupt()) == Verdict(Outcome.CANCELLED)
    assert classify_arguments(RaisingStr()).detail == "RaisingStr"


def test_made_verdicts_have_a_bounded_detail_that_is_never_empty() -> None:
    """A name or a reason that a model made up is cut; an empty one gets words."""
    assert unknown_tool("serach").detail == "no tool is named 'serach'"
    assert len(unknown_tool("é" * 9000).detail or "") < 300
    assert malformed_arguments("x" * 9000).detail == "x" * 1024
    for made in (malformed_arguments(""), circuit_open(""), policy_denied(""), not_executed("")):
        assert made.detail
    assert not_executed("the budget is spent") == Verdict(Outcome.NOT_EXECUTED, detail="the budget is spent")


# ---- a user's own rules ------------------------------------------------------------------------------


class Shop(Exception):
    pass


class SoldOut(Shop):
    pass


@pytest.mark.usefixtures("registered")
def test_a_registered_rule_goes_before_the_table_at_every_link() -> None:
    """By class or by dotted name, on subclasses, inside a chain, on a class the table knows."""
    mine = Verdict(Outcome.ERROR, ErrorType.PROVIDER_ERROR, "sold_out", "none left", False, None, 9)
    assert classify(SoldOut("x")).code == "sold_out"
    register_classifier(Shop, lambda exc: mine)
    assert classify(SoldOut("x")) == mine
    assert classify(caused(RuntimeError("x"), SoldOut("y"))) == mine
    register_classifier("builtins.ConnectionError", lambda exc: mine._replace(detail=None))
    assert classify(ConnectionResetError("gone")) == mine._replace(detail="gone")


@pytest.mark.usefixtures("registered")
def test_the_most_derived_rule_is_asked_first_and_none_passes_on() -> None:
    """None leaves it to the next rule; a later rule for the same class replaces the earlier."""
    base = Verdict(Outcome.ERROR, ErrorType.TOOL_DECLARED, "shop", "d")
    register_classifier(Shop, lambda exc: base)
    register_classifier(SoldOut, lambda exc: None)
    assert classify(SoldOut("x")) == base
    register_classifier(SoldOut, lambda exc: Verdict(Outcome.INTERRUPTED))
    assert classify(SoldOut("x")) == Verdict(Outcome.INTERRUPTED)
    assert classify(Shop("x")) == base


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize(
    "answer",
    [
        "sold_out",
        Verdict(Outcome.OK),
        Verdict(Outcome.NOT_EXECUTED),
        Verdict(Outcome.ERROR),
        Verdict(Outcome.ERROR, "own_type", "x"),  # type: ignore[arg-type]
        Verdict(Outcome.ERROR, ErrorType.TRANSPORT, None),
        RuntimeError("to be raised"),
    ],
)
def test_a_rule_that_raises_or_answers_nonsense_is_passed_over_with_one_warning(
    answer: object, caplog: pytest.LogCaptureFixture
) -> None:
    """The table's answer stands, and the log says once what was expected."""

    def rule(exc: BaseException) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    register_classifier(Shop, rule)
    with caplog.at_level(logging.WARNING, "acrux_otel"):
        assert classify(Shop("x")) == classify(Shop("x"))
    assert classify(Shop("x")).code == "shop"
    assert len(caplog.records) == 1


@pytest.mark.usefixtures("registered")
def test_a_rules_answer_is_brought_into_order() -> None:
    """A code that is no slug, a status out of range and a negative wait do not get through."""
    answer = Verdict(Outcome.ERROR, ErrorType.TRANSPORT, "Sold-Out!", "", "yes", 7, -1)  # type: ignore[arg-type]
    register_classifier(Shop, lambda exc: answer)
    assert classify(Shop("x")) == Verdict(Outcome.ERROR, ErrorType.TRANSPORT, "sold_out", "x")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((int, lambda exc: None), "expected an exception class or its dotted name, got <class 'int'>"),
        ((None, lambda exc: None), "expected an exception class or its dotted name, got None"),
        (("KeyError", lambda exc: None), "'KeyError' is no dotted class name"),
        (("not a name.x", lambda exc: None), "'not a name.x' is no dotted class name"),
        ((Shop, "sold_out"), "expected a function from an exception to a Verdict or None, got 'sold_out'"),
    ],
)
def test_bad_registrations_say_what_was_expected(arguments: tuple[Any, Any], message: str) -> None:
    """One clear line: what was given and what was expected."""
    with pytest.raises(TypeError) as raised:
        register_classifier(*arguments)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


# ---- results that a framework declares failed --------------------------------------------------------


def made(dotted: str, **attributes: object) -> object:
    result = library_class(dotted, object)()
    result.__dict__.update(attributes)
    return result


TEXT = SimpleNamespace(type="text", text="no such row")


@pytest.mark.parametrize(
    ("dotted", "failed", "fine"),
    [
        ("mcp.types.CallToolResult", {"isError": True}, {"isError": False}),
        ("fastmcp.tools.base.ToolResult", {"is_error": True}, {"is_error": False}),
        ("fastmcp.client.client.CallToolResult", {"is_error": True}, {"is_error": None}),
        ("langchain_core.messages.tool.ToolMessage", {"status": "error"}, {"status": "success"}),
        ("llama_index.core.tools.types.ToolOutput", {"is_error": True}, {"is_error": False}),
        ("pydantic_ai.messages.BaseToolReturnPart", {"outcome": "failed"}, {"outcome": "denied"}),
    ],
)
def test_a_frameworks_declared_failure_is_read(
    dotted: str, failed: dict[str, object], fine: dict[str, object]
) -> None:
    """By dotted class name; the flag decides and the text is the detail."""
    verdict = declared_by_result(made(dotted, content=[TEXT], **failed))
    assert verdict == Verdict(Outcome.ERROR, ErrorType.TOOL_DECLARED, "tool_error", "no such row")
    assert declared_by_result(made(dotted, content=[TEXT], **fine)) is None
    assert declared_by_result(made(dotted)) is None


def test_frameworks_with_fields_of_their_own() -> None:
    """autogen's and haystack's result, crewai's message and code."""
    autogen = made(
        "autogen_core.tools._workbench.ToolResult", is_error=True, result=[SimpleNamespace(content="a")]
    )
    haystack = made("haystack.dataclasses.chat_message.ToolCallResult", error=True, result="h")
    crewai = made("crewai.tools.tool_failure.ToolFailure", message="m", code="channel_not_found")
    plain = made("crewai.tools.tool_failure.ToolFailure", message="m", code=None)
    found = [declared_by_result(result) for result in (autogen, haystack, crewai, plain)]
    assert [(each.code, each.detail) for each in found if each] == [
        ("tool_error", "a"),
        ("tool_error", "h"),
        ("channel_not_found", "m"),
        ("tool_error", "m"),
    ]


def test_the_installed_mcp_result_is_recognised() -> None:
    """The real class, with several kinds of content and in a subclass."""

    class Own(mcp_types.CallToolResult):
        pass

    text = mcp_types.TextContent(type="text", text="a")
    image = mcp_types.ImageContent(type="image", data="", mime_type="image/png")
    for kind in (mcp_types.CallToolResult, Own):
        failed = declared_by_result(kind(is_error=True, content=[text, image, text]))
        assert failed is not None
        assert failed.detail == "a\na"
        assert declared_by_result(kind(is_error=False, content=[text])) is None


@pytest.mark.parametrize(
    "result",
    [
        None,
        {"error": "x"},
        {"isError": True},
        "Error: x",
        [TEXT],
        SimpleNamespace(is_error=True, isError=True, status="error"),
        types.MappingProxyType({"is_error": True}),
        BaseException(),
    ],
)
def test_somebodys_own_value_is_no_declaration(result: object) -> None:
    """Keys and attributes of unknown classes are never read for a verdict."""
    assert declared_by_result(result) is None


@pytest.mark.parametrize("flag", [1, "yes", object(), None, False])
def test_only_a_true_flag_is_an_mcp_failure(flag: object) -> None:
    """Anything but True is no error flag."""
    assert mcp_failure(SimpleNamespace(is_error=flag, content=[TEXT])) is None
    assert mcp_failure(None) is None


@pytest.mark.parametrize(
    "content",
    [None, 3, [], [None], [{}], [{"text": 3}], "", " ", [{"type": "image"}], {"a": 1}, [[["x"]]], [object()]],
)
def test_content_without_text_gives_a_detail_all_the_same(content: object) -> None:
    """No content makes the reader raise or leaves the detail empty."""
    verdict = mcp_failure(SimpleNamespace(is_error=True, content=content))
    assert verdict is not None
    assert verdict.detail


def test_a_huge_content_is_cut() -> None:
    """The detail is at most 1,024 bytes however much text there is."""
    verdict = mcp_failure(SimpleNamespace(is_error=True, content=[{"text": "é" * 10**6}] * 1000))
    assert verdict is not None
    assert verdict.detail is not None
    assert len(verdict.detail.encode()) <= 1024
