# SPDX-License-Identifier: Apache-2.0
"""The client of a catalog over HTTP: what it sends, what it repeats, and one clear error for each mistake."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import socket
import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest

from acrux_otel.catalog import (
    AcruxCoreCatalog,
    AnswerUnreadable,
    CatalogError,
    CatalogRefused,
    CatalogUnreachable,
    Definition,
    InvalidTool,
    KeyRefused,
    MovesBack,
    NameTaken,
    NotFound,
    Ref,
    Resolved,
    ServerCatalog,
    SyncResult,
)
from acrux_otel.catalog.publishing import resolve_all

from .conftest import Served, Stub

WEATHER = Definition(
    "get_weather", {"type": "object", "properties": {}}, "The weather.", annotations={"read_only": True}
)
KEY = "acx_sk_geheim"
SYNCED = {"toolId": "t1", "versionNumber": 3, "committed": True, "alias": "production"}
RESOLVED = {
    "toolId": "t1",
    "versionNumber": 3,
    "executorType": "client",
    "function": {"name": "get_weather", "parameters": {}},
}


@pytest.fixture
def acruxcore(stub: Stub) -> AcruxCoreCatalog:
    return AcruxCoreCatalog(stub.url, KEY)


# -- what is sent ---------------------------------------------------------------------------------------


def test_a_sync_sends_exactly_the_contract(stub: Stub, acruxcore: AcruxCoreCatalog) -> None:
    stub.answer(200, SYNCED)
    result = acruxcore.sync(WEATHER, changelog="first")
    method, path, headers, body = stub.requests[0]
    assert (method, path) == ("POST", "/api/v1/tools/sync")
    assert headers["Authorization"] == f"Bearer {KEY}"
    assert body == {
        "name": "get_weather",
        "description": "The weather.",
        "parametersSchema": {"type": "object", "properties": {}},
        "executor": {"type": "client"},
        "alias": "production",
        "changelog": "first",
        "source": "code",
    }
    assert result == SyncResult("get_weather", "t1", 3, True, "production")
    assert result.tool_version_id == "t1:3"


def test_without_a_docstring_no_description_is_sent(stub: Stub, acruxcore: AcruxCoreCatalog) -> None:
    """The catalog keeps its own; null would be refused."""
    stub.answer(200, {**SYNCED, "versionId": "v9", "supersededSource": "dashboard", "committed": False})
    result = acruxcore.sync(dataclasses.replace(WEATHER, description=None), alias="staging")
    assert {"description", "changelog"} & stub.requests[0][3].keys() == set()
    assert (result.tool_version_id, result.superseded_source, result.committed) == ("v9", "dashboard", False)


def test_our_own_server_is_told_what_acruxcore_does_not_keep(stub: Stub) -> None:
    stub.answer(200, SYNCED)
    ServerCatalog(stub.url, KEY).sync(WEATHER, automatic=True)
    body = stub.requests[0][3]
    assert (body["resultSchema"], body["annotations"], body["automatic"]) == (None, {"read_only": True}, True)


@pytest.mark.parametrize("extra", [{}, {"resultSchema": {"type": "object"}, "resultSchemaSeverity": "error"}])
def test_references_are_resolved_in_one_request(
    stub: Stub, acruxcore: AcruxCoreCatalog, extra: dict[str, Any]
) -> None:
    stub.answer(200, {"data": [{**RESOLVED, **extra}, RESOLVED]})
    found = acruxcore.resolve([Ref("get_weather", "staging"), Ref("get_weather", version=3)])
    assert stub.requests[0][3] == {
        "refs": [{"name": "get_weather", "alias": "staging"}, {"name": "get_weather", "version": 3}]
    }
    assert [each.tool_version_id for each in found] == ["t1:3", "t1:3"]
    assert found[0].definition.result == extra.get("resultSchema")
    assert found[0].definition.severity == extra.get("resultSchemaSeverity")


def test_many_references_are_resolved_fifty_at_a_time_and_none_for_another(served_sqlite: Served) -> None:
    """Resolving is all or nothing; what is missing must cost the others neither answer nor place."""
    names = [f"tool_{number}" for number in range(120)]
    for name in names:
        served_sqlite.catalog.sync(dataclasses.replace(WEATHER, name=name, description=name))
    asked: list[int] = []

    class Counted(ServerCatalog):
        def resolve(self, refs: Sequence[Ref]) -> list[Resolved]:
            asked.append(len(refs))
            return super().resolve(refs)

    catalog = Counted(served_sqlite.url, served_sqlite.viewer_key)
    wanted = [Ref(name) for name in names]
    assert {ref.name: one.definition.description for ref, one in resolve_all(catalog, wanted).items()} == {
        name: name for name in names
    }
    assert asked == [50, 50, 20]
    found = resolve_all(catalog, [Ref("nope"), *wanted[:3], Ref("tool_4", "nope"), Ref("tool_5", version=9)])
    assert [ref.name for ref in found] == names[:3]


def test_a_catalog_that_does_not_say_what_is_missing_is_asked_for_each(
    stub: Stub, acruxcore: AcruxCoreCatalog
) -> None:
    stub.answer(404, {"error": {"code": "TOOL_REF_NOT_FOUND", "message": "no"}})
    stub.answer(404, {"error": {"code": "TOOL_REF_NOT_FOUND", "message": "no"}})
    stub.answer(200, {"data": [RESOLVED]})
    found = resolve_all(acruxcore, [Ref("gone"), Ref("get_weather")])
    assert [ref.name for ref in found] == ["get_weather"]
    assert [len(body["refs"]) for *_, body in stub.requests] == [2, 1, 1]


def test_what_the_catalog_would_refuse_is_refused_before_anything_is_sent(
    stub: Stub, acruxcore: AcruxCoreCatalog
) -> None:
    stub.answer(200, SYNCED)
    for definition in (
        dataclasses.replace(WEATHER, name="get weather"),
        dataclasses.replace(WEATHER, description="x" * 2001),
        dataclasses.replace(WEATHER, parameters={"title": "x" * 101_900}),
    ):
        with pytest.raises(InvalidTool):
            acruxcore.sync(definition, changelog="c" * 600)
    with pytest.raises(InvalidTool, match="at most 50"):
        acruxcore.resolve([Ref("get_weather")] * 51)
    with pytest.raises(InvalidTool, match="looks like a version"):
        acruxcore.sync(WEATHER, alias="1")
    with pytest.raises(InvalidTool, match="looks like a version"):
        acruxcore.promote("t1", "1", 1)
    assert stub.requests == []


def test_acruxcore_is_sent_no_http_executor_that_it_could_not_run(
    stub: Stub, acruxcore: AcruxCoreCatalog
) -> None:
    """It demands url and method; our own server runs nothing and keeps what it is told."""
    stub.answer(200, SYNCED)
    bare = dataclasses.replace(WEATHER, executor={"type": "http"})
    with pytest.raises(InvalidTool, match=r"only with its url and method; .*sync=False"):
        acruxcore.sync(bare)
    assert stub.requests == []
    whole = {"type": "http", "url": "https://api.example.com/weather", "method": "GET"}
    acruxcore.sync(dataclasses.replace(WEATHER, executor=whole))
    ServerCatalog(stub.url, KEY).sync(bare)
    assert [body["executor"] for *_, body in stub.requests] == [whole, {"type": "http"}]


# -- what is repeated -----------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 529])
def test_what_may_pass_is_tried_again(stub: Stub, acruxcore: AcruxCoreCatalog, status: int) -> None:
    stub.answer(status, {"error": {"code": "X", "message": "later"}})
    stub.answer(200, SYNCED)
    assert acruxcore.sync(WEATHER).version_number == 3
    assert len(stub.requests) == 2


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 413, 422])
def test_what_will_not_pass_is_not(stub: Stub, acruxcore: AcruxCoreCatalog, status: int) -> None:
    stub.answer(status, {"error": {"code": "X", "message": "no"}})
    with pytest.raises(CatalogRefused, match=f"answered {status}.*: no") as caught:
        acruxcore.sync(WEATHER)
    assert caught.value.status == status
    assert len(stub.requests) == 1


def test_retry_after_is_the_least_that_is_waited(stub: Stub, acruxcore: AcruxCoreCatalog) -> None:
    stub.answer(429, {}, Retry_After="1")
    stub.answer(200, SYNCED)
    before = time.monotonic()
    acruxcore.sync(WEATHER)
    assert 1.0 <= time.monotonic() - before < 10


@pytest.mark.parametrize("when", ["3600", "Fri, 31 Dec 2100 23:59:59 GMT", "9" * 400])
def test_a_retry_after_that_nobody_waits_for_is_an_error_at_once(
    stub: Stub, acruxcore: AcruxCoreCatalog, when: str
) -> None:
    stub.answer(503, {}, Retry_After=when)
    before = time.monotonic()
    with pytest.raises(CatalogUnreachable, match=r"answered 503 .*1 attempt\).*asks to come back in \d+ s"):
        acruxcore.sync(WEATHER)
    assert time.monotonic() - before < 5


@pytest.mark.parametrize("when", ["soon", "-1", "Mon, 01 Jan 1990 00:00:00 GMT", "٣"])
def test_a_retry_after_that_says_nothing_is_ignored(
    stub: Stub, acruxcore: AcruxCoreCatalog, when: str
) -> None:
    stub.answer(503, {}, Retry_After=when.encode().decode("latin-1"))
    stub.answer(200, SYNCED)
    assert acruxcore.sync(WEATHER).committed


# -- every way to fail ----------------------------------------------------------------------------------


def _one_line(error: BaseException) -> str:
    text = str(error)
    assert "\n" not in text
    assert KEY not in text
    return text


def test_a_catalog_that_is_down_is_one_clear_error() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/api/v1"
        with pytest.raises(CatalogUnreachable) as caught:
            AcruxCoreCatalog(url, KEY).sync(WEATHER)
    assert _one_line(caught.value).startswith(
        f"catalog {url} cannot be reached (tool 'get_weather', 3 attempts: "
    )


def test_a_catalog_that_never_answers_is_one_clear_error() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(CatalogUnreachable, match="1 attempt: no answer in time") as caught:
            AcruxCoreCatalog(url, KEY, timeout=0.2, attempts=1).sync(WEATHER)
    _one_line(caught.value)


def test_an_answer_that_never_ends_is_one_clear_error() -> None:
    """The timeout is for the whole attempt, not for each byte of it."""
    ended = threading.Event()
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()

        def drip() -> None:
            connection, _ = listener.accept()
            with connection, contextlib.suppress(OSError):
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n")
                while not ended.wait(0.05):
                    connection.sendall(b" ")

        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        before = time.monotonic()
        with pytest.raises(CatalogUnreachable, match="1 attempt: no answer in time"):
            AcruxCoreCatalog(url, KEY, timeout=0.5, attempts=1).sync(WEATHER)
        assert time.monotonic() - before < 10
        ended.set()
        thread.join(10)


@pytest.mark.parametrize(
    ("status", "kind", "advice"),
    [
        (401, KeyRefused, "set ACRUXCORE_API_KEY to a valid key"),
        (403, KeyRefused, "use a key that may do this"),
        (404, NotFound, ""),
        (409, NameTaken, ""),
        (422, CatalogRefused, ""),
    ],
)
def test_a_refusal_says_why_and_what_to_do(
    stub: Stub, acruxcore: AcruxCoreCatalog, status: int, kind: type[CatalogError], advice: str
) -> None:
    stub.answer(status, {"error": {"code": "SOME_CODE", "message": f"no,\nbecause of {KEY}\x1b[31m"}})
    with pytest.raises(kind) as caught:
        acruxcore.sync(WEATHER)
    told = _one_line(caught.value)
    assert f"answered {status} (tool 'get_weather'): no, because of ***?[31m" in told
    assert told.endswith(advice)
    assert isinstance(caught.value, CatalogRefused) and caught.value.code == "SOME_CODE"


def test_references_to_nothing_are_named(stub: Stub, acruxcore: AcruxCoreCatalog) -> None:
    refs: list[Any] = [{"name": "a", "alias": "x"}, {"name": "b", "version": 2}, "c@y", 7, {}]
    stub.answer(404, {"error": {"code": "TOOL_REF_NOT_FOUND", "message": "no", "refs": refs}})
    with pytest.raises(NotFound) as caught:
        acruxcore.resolve([Ref("get_weather")])
    assert list(map(str, caught.value.refs)) == ["a@x", "b:2", "c@y"]


@pytest.mark.parametrize(
    ("status", "content", "told"),
    [
        (200, b"<html>Welcome</html>", "not JSON .*is the address right"),
        (200, b"", "not JSON"),
        (200, b'{"toolId": "t1"}', "no 'committed'"),
        (200, b"[]", "not of the AcruxCore contract"),
        (200, b'{"toolId": 7, "versionNumber": "x", "committed": "yes", "alias": []}', "committed is text"),
        (
            200,
            b'{"toolId": "t", "versionNumber": true, "committed": true, "alias": "a"}',
            "versionNumber is true",
        ),
        (
            200,
            b'{"toolId": "t", "versionNumber": 1, "committed": true, "alias": "a", "versionId": "\\ud800"}',
            "versionId is not 1 to 200 printable",
        ),
        (
            200,
            b'{"toolId": "", "versionNumber": 1, "committed": true, "alias": "a"}',
            "toolId is not 1 to 200 printable",
        ),
        (302, b"", "points elsewhere"),
        (500, b"<html>broken</html>", "answered 500"),
        (404, b"<html>no page</html>", "answered 404"),
        (400, b'{"error": "text"}', "answered 400"),
        (400, b'{"error": {"message": ["no"]}}', "answered 400"),
    ],
)
def test_an_answer_that_is_not_of_the_contract_is_one_clear_error(
    stub: Stub, status: int, content: bytes, told: str
) -> None:
    stub.answer(status, content)
    with pytest.raises(CatalogError, match=told) as caught:
        AcruxCoreCatalog(stub.url, KEY, attempts=1).sync(WEATHER)
    _one_line(caught.value)


def test_other_tools_than_were_asked_for_are_not_believed(stub: Stub, acruxcore: AcruxCoreCatalog) -> None:
    stub.answer(200, {"data": [{**RESOLVED, "function": {"name": "other", "parameters": {}}}]})
    with pytest.raises(AnswerUnreadable, match="other tools than it was asked for"):
        acruxcore.resolve([Ref("get_weather")])


def test_our_server_refuses_to_move_an_alias_back(served_sqlite: Served) -> None:
    client = served_sqlite.client()
    old = client.sync(WEATHER)
    client.sync(dataclasses.replace(WEATHER, description="B"))
    with pytest.raises(MovesBack) as caught:
        client.sync(WEATHER, automatic=True)
    assert (caught.value.version_number, caught.value.version_id) == (1, old.version_id)
    assert client.sync(WEATHER).version_number == 3


# -- addresses and keys ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("", "set ACRUXCORE_BASE_URL"),
        ("ftp://host/x", "not a web address"),
        ("https://", "not a web address"),
        ("https://host:port", "cannot be read"),
        ("https://user:geheim@host/api/v1", "give the key on its own"),
        ("https://host/api/v1?key=geheim", "has a query"),
        ("https://ho st/api", "holds a space"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused_without_showing_it(url: str, told: str) -> None:
    with pytest.raises(ValueError, match=told) as caught:
        AcruxCoreCatalog(url, KEY)
    assert "geheim" not in _one_line(caught.value)


@pytest.mark.parametrize("key", ["acx_sk_a\nb", "acx_sk_ü", "acx sk"])
def test_a_key_that_cannot_be_sent_is_refused_without_showing_it(key: str) -> None:
    with pytest.raises(ValueError, match=r"ACRUXCORE_API_KEY \(not shown\)") as caught:
        AcruxCoreCatalog("https://host/api/v1", key)
    assert key not in str(caught.value)


@pytest.mark.parametrize(
    "host", ["catalog.example", "127.0.0.1.catalog.example", "127.1.2.x", "localhost.example"]
)
def test_a_key_is_needed_beyond_this_machine(host: str) -> None:
    with pytest.raises(ValueError, match="needs a key; set ACRUX_OTEL_CATALOG_KEY"):
        ServerCatalog(f"https://{host}/api/v1")


def test_clear_text_warns_once_and_never_on_this_machine(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "acrux_otel"):
        for url in (
            "http://127.0.0.1:1/x",
            "http://localhost/x",
            "http://127.9.9.9/x",
            "http://[::1]:2/x",
            "https://host/x",
        ):
            AcruxCoreCatalog(url, KEY)
        assert caplog.records == []
        for _ in range(2):
            AcruxCoreCatalog("http://catalog.example:8080/api/v1", KEY)
    assert [each.getMessage() for each in caplog.records] == [
        "catalog http://catalog.example:8080/api/v1: the key and the tools travel in clear text; "
        "use https outside of this machine"
    ]


def test_nothing_that_is_logged_holds_the_key(
    stub: Stub, acruxcore: AcruxCoreCatalog, caplog: pytest.LogCaptureFixture
) -> None:
    stub.answer(401, {"error": {"message": KEY}})
    with caplog.at_level(logging.DEBUG), pytest.raises(KeyRefused):
        acruxcore.sync(WEATHER)
    assert not [
        each for each in caplog.records if each.name.startswith("acrux_otel") and KEY in each.getMessage()
    ]
    assert KEY not in f"{acruxcore.label}{vars(acruxcore)}"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_opens_a_connection_of_its_own(served_sqlite: Served) -> None:
    client = served_sqlite.client()
    client.sync(WEATHER)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if client.resolve([Ref("get_weather")])[0].version_number == 1 else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert client.resolve([Ref("get_weather")])[0].version_number == 1
