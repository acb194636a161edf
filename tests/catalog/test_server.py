# SPDX-License-Identifier: Apache-2.0
"""The catalog server's contract, asked by plain HTTP as anybody could."""

from __future__ import annotations

import hashlib
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import jsonschema
import pytest
import sqlalchemy as sa

from acrux_otel.catalog import CatalogError, SqlCatalog, serve
from acrux_otel.catalog.server import BASE_PATH, app
from acrux_otel.catalog.server.openapi import document
from acrux_otel.catalog.sql import Keys

from .conftest import Served

SYNC = {"name": "get_weather", "parametersSchema": {"type": "object"}, "executor": {"type": "client"}}
NOBODY = "00000000-0000-0000-0000-000000000000"


@pytest.fixture
def http(served_sqlite: Served) -> Iterator[httpx.Client]:
    headers = {"Authorization": f"Bearer {served_sqlite.key}"}
    with httpx.Client(base_url=served_sqlite.url, headers=headers, timeout=30) as client:
        yield client


def _error(answer: httpx.Response, status: int, code: str, told: str = "") -> None:
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert error["code"] == code
    assert told in error["message"]


# -- keys -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer acx_sk_wrong", "Basic acx_sk_x", "bearer \xff"]
)
@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/tools"), ("POST", "/tools/sync"), ("DELETE", "/tools/x")]
)
def test_without_a_valid_key_nothing_is_answered(
    served_sqlite: Served, header: str | None, method: str, path: str
) -> None:
    headers = {} if header is None else {"Authorization": header.encode("latin-1")}
    answer = httpx.request(method, served_sqlite.url + path, headers=headers)  # type: ignore[arg-type]
    _error(answer, 401, "UNAUTHORIZED")
    assert answer.headers["www-authenticate"] == "Bearer"


def test_a_reading_key_lists_and_resolves_and_writes_nothing(served_sqlite: Served) -> None:
    made = httpx.post(f"{served_sqlite.url}/tools/sync", json=SYNC, headers=_bearer(served_sqlite.key)).json()
    reader = httpx.Client(base_url=served_sqlite.url, headers=_bearer(served_sqlite.viewer_key))
    assert reader.get("/tools").status_code == 200
    assert reader.post("/tools/resolve", json={"refs": [{"name": "get_weather"}]}).status_code == 200
    path = f"/tools/{made['toolId']}"
    for method, where, body in (
        ("POST", "/tools/sync", SYNC),
        ("POST", "/tools", {"name": "x"}),
        ("PATCH", path, {"name": "x"}),
        ("POST", f"{path}/versions", SYNC),
        ("POST", f"{path}/aliases/production/promote", {"version_number": 1}),
        ("DELETE", path, None),
    ):
        _error(reader.request(method, where, json=body), 403, "FORBIDDEN", "may only read")
    reader.close()


def _bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def test_a_revoked_key_is_no_key_and_its_name_stays_taken(served_sqlite: Served) -> None:
    keys = Keys(served_sqlite.catalog.database)
    keys.revoke("robot")
    answer = httpx.get(f"{served_sqlite.url}/tools", headers=_bearer(served_sqlite.key))
    _error(answer, 401, "UNAUTHORIZED")
    with pytest.raises(CatalogError, match="there is a key 'robot' already"):
        keys.create("robot")
    with pytest.raises(CatalogError, match="no key 'robot' in use"):
        keys.revoke("robot")
    assert [(each.name, each.role, bool(each.revoked_at)) for each in keys.list()] == [
        ("robot", "editor", True),
        ("reader", "viewer", False),
    ]


def test_a_database_holds_no_key_only_hashes(served_sqlite: Served) -> None:
    with served_sqlite.catalog.database.read() as connection:
        rows = connection.execute(sa.text("SELECT * FROM acrux_catalog_keys")).all()
    text = repr(rows)
    assert served_sqlite.key not in text
    assert hashlib.sha256(served_sqlite.key.encode()).hexdigest() in text


def test_the_history_names_the_key_that_did_it(http: httpx.Client) -> None:
    tool_id = http.post("/tools/sync", json=SYNC).json()["toolId"]
    assert http.get(f"/tools/{tool_id}").json()["createdBy"] == "robot"
    assert [each["by"] for each in http.get(f"/tools/{tool_id}/history").json()["data"]] == ["robot"]


# -- syncing and resolving ------------------------------------------------------------------------------


def test_a_sync_answers_as_the_contract_says(http: httpx.Client) -> None:
    answer = http.post("/tools/sync", json=SYNC)
    assert answer.status_code == 200
    made = answer.json()
    assert made == {
        "toolId": made["toolId"],
        "versionNumber": 1,
        "committed": True,
        "alias": "production",
        "versionId": made["versionId"],
        "change": None,
    }


def test_unknown_keys_are_dropped(http: httpx.Client) -> None:
    assert http.post("/tools/sync", json={**SYNC, "color": "red"}).json()["committed"] is True
    assert http.post("/tools/sync", json={**SYNC, "color": "blue"}).json()["committed"] is False


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"name": "get weather"}, "refuses ' '"),
        ({"name": None}, "text"),
        ({"description": None}, "leave it out"),
        ({"description": "x" * 2001}, "2,001 characters"),
        ({"description": "a\0b"}, "NUL"),
        ({"changelog": "x" * 2001}, "2,001 characters"),
        ({"parametersSchema": None}, "parametersSchema is null"),
        ({"parametersSchema": []}, "parametersSchema is a list"),
        ({"parametersSchema": {"title": "\0"}}, "NUL"),
        ({"executor": {}}, "executor.type"),
        ({"executor": {"type": "shell"}}, "executor.type"),
        ({"alias": ""}, "1-64"),
        ({"alias": "x" * 65}, "1-64"),
        ({"alias": 7}, "1-64"),
        ({"alias": "7"}, "looks like a version"),
        ({"source": "robot"}, "source"),
        ({"annotations": {"read_only": "yes"}}, "true or false"),
        ({"resultSchemaSeverity": "warn"}, "needs a resultSchema"),
        ({"automatic": "yes"}, "true or false"),
    ],
    ids=str,
)
def test_a_sync_that_is_not_of_the_contract_says_what_is_wrong(
    http: httpx.Client, change: dict[str, Any], told: str
) -> None:
    _error(http.post("/tools/sync", json={**SYNC, **change}), 400, "VALIDATION_ERROR", told)
    assert http.get("/tools").json()["total"] == 0


@pytest.mark.parametrize("missing", SYNC)
def test_what_a_sync_needs_is_named(http: httpx.Client, missing: str) -> None:
    body = {key: value for key, value in SYNC.items() if key != missing}
    _error(http.post("/tools/sync", json=body), 400, "VALIDATION_ERROR")


@pytest.mark.parametrize(
    "refs",
    [
        None,
        [],
        [{"name": "get_weather"}] * 51,
        ["get_weather"],
        [{"name": "get_weather", "alias": "production", "version": 1}],
        [{"name": "get_weather", "version": 0}],
        [{"name": "get_weather", "version": "1"}],
        [{"name": "get weather"}],
        [{"alias": "production"}],
        "get_weather",
    ],
    ids=str,
)
def test_a_resolve_that_is_not_of_the_contract_is_refused(http: httpx.Client, refs: Any) -> None:
    http.post("/tools/sync", json=SYNC)
    _error(http.post("/tools/resolve", json={"refs": refs}), 400, "VALIDATION_ERROR")


def test_fifty_references_are_resolved_at_once(http: httpx.Client) -> None:
    http.post("/tools/sync", json=SYNC)
    answer = http.post("/tools/resolve", json={"refs": [{"name": "get_weather"}] * 50})
    assert len(answer.json()["data"]) == 50


def test_promoting_takes_snake_case_only(http: httpx.Client) -> None:
    tool_id = http.post("/tools/sync", json=SYNC).json()["toolId"]
    path = f"/tools/{tool_id}/aliases/canary/promote"
    assert http.post(path, json={"version_number": 1}).json().keys() == {
        *("id", "alias", "versionId", "versionNumber", "updatedAt")
    }
    _error(http.post(path, json={"versionNumber": 1}), 400, "VALIDATION_ERROR", "version_number")
    _error(http.post(path, json={"version_number": True}), 400, "VALIDATION_ERROR")
    _error(http.post(path, json={"version_number": 2}), 404, "VERSION_NOT_FOUND")
    numbered = f"/tools/{tool_id}/aliases/1/promote"
    _error(http.post(numbered, json={"version_number": 1}), 400, "VALIDATION_ERROR", "looks like a version")
    assert [each["alias"] for each in http.get(f"/tools/{tool_id}/aliases").json()["data"]] == [
        "production",
        "canary",
        "staging",
    ]


def test_versions_in_a_list_come_without_their_schemas(http: httpx.Client) -> None:
    tool_id = http.post("/tools/sync", json=SYNC).json()["toolId"]
    listed = http.get(f"/tools/{tool_id}/versions").json()["data"][0]
    assert not {"parametersSchema", "executor"} & listed.keys()
    assert {"parametersSchema", "executor"} <= http.get(f"/tools/{tool_id}/versions/1").json().keys()


@pytest.mark.parametrize(
    "query",
    [
        "page=0",
        "page=-1",
        "page=x",
        "limit=0",
        "limit=101",
        "limit=1e3",
        "page=99999999999",
        "search=" + "x" * 201,
    ],
)
def test_a_page_that_there_cannot_be_is_refused(http: httpx.Client, query: str) -> None:
    _error(http.get(f"/tools?{query}"), 400, "VALIDATION_ERROR")


@pytest.mark.parametrize("tool_id", [NOBODY, "x", "%00", "..%2f..", "'; DROP TABLE acrux_tools; --"])
def test_a_tool_that_is_not_there_is_a_404(http: httpx.Client, tool_id: str) -> None:
    for method, path, body in (
        ("GET", "", None),
        ("DELETE", "", None),
        ("PATCH", "", {"name": "x"}),
        ("GET", "/versions", None),
        ("GET", "/versions/1", None),
        ("GET", "/history", None),
        ("GET", "/aliases", None),
        ("POST", "/versions", SYNC),
        ("POST", "/aliases/production/promote", {"version_number": 1}),
    ):
        answer = http.request(method, f"/tools/{tool_id}{path}", json=body)
        assert answer.status_code == 404, (method, path, answer.text)
        assert answer.json()["error"]["code"] in ("TOOL_NOT_FOUND", "NOT_FOUND")


# -- request bounds -------------------------------------------------------------------------------------


def test_a_body_over_100_kb_is_refused_without_reading_it_all(served_sqlite: Served) -> None:
    host, port = served_sqlite.url.removeprefix("http://").split("/")[0].split(":")
    with socket.create_connection((host, int(port)), timeout=30) as raw:
        head = (
            f"POST {BASE_PATH}/tools/sync HTTP/1.1\r\nHost: x\r\n"
            f"Authorization: Bearer {served_sqlite.key}\r\n"
            "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n3b9aca00\r\n"
        )
        raw.sendall(head.encode() + b"x" * 150_000)
        answer = raw.recv(65536)
        while b"}" not in answer and (part := raw.recv(65536)):
            answer += part
    assert b" 413 " in answer.split(b"\r\n")[0]
    assert b"BODY_TOO_LARGE" in answer


@pytest.mark.parametrize(
    ("length", "status", "code"), [("99999999999", 413, "BODY_TOO_LARGE"), ("100", 408, "BODY_TOO_SLOW")]
)
def test_a_body_that_does_not_come_is_not_waited_for(
    served_sqlite: Served, monkeypatch: pytest.MonkeyPatch, length: str, status: int, code: str
) -> None:
    """One that is told to be too large is refused at once, another after its time."""
    monkeypatch.setattr(app, "BODY_TIMEOUT", 60 if status == 413 else 0.2)
    where = httpx.URL(served_sqlite.url)
    with socket.create_connection((where.host, where.port), 20) as connection:
        head = f"Host: x\r\nAuthorization: Bearer {served_sqlite.key}\r\nContent-Type: application/json"
        path = f"{where.path}/tools/sync"
        connection.sendall(f"POST {path} HTTP/1.1\r\n{head}\r\nContent-Length: {length}\r\n\r\n{{".encode())
        answer = b""
        while part := connection.recv(4096):  # the server ends the connection
            answer += part
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == code


def test_a_body_of_just_100_kb_is_read(http: httpx.Client) -> None:
    body = json.dumps({**SYNC, "ignored": ""})
    body = body[:-2] + "x" * (100 * 1024 - len(body)) + body[-2:]
    assert len(body) == 100 * 1024
    headers = {"Content-Type": "application/json"}
    assert http.post("/tools/sync", content=body, headers=headers).status_code == 200
    _error(http.post("/tools/sync", content=body + " ", headers=headers), 413, "BODY_TOO_LARGE")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"name": NaN}',
        b'{"name": "\xff"}',
        b"[" * 50_000,
        b'{"a":' * 15_000 + b"1" + b"}" * 15_000,
        b'{"version": ' + b"9" * 5_000 + b"}",
    ],
    ids=lambda content: repr(content[:12]),
)
def test_a_body_that_is_no_json_object_is_a_400(http: httpx.Client, content: bytes) -> None:
    answer = http.post("/tools/sync", content=content, headers={"Content-Type": "application/json"})
    _error(answer, 400, "VALIDATION_ERROR")


def test_a_schema_that_nests_too_deeply_is_a_400(http: httpx.Client) -> None:
    deep = '{"a":' * 150 + "1" + "}" * 150
    body = json.dumps(SYNC).replace('{"type": "object"}', deep)
    answer = http.post("/tools/sync", content=body, headers={"Content-Type": "application/json"})
    _error(answer, 400, "VALIDATION_ERROR", "nest more than 100 levels")


def test_a_form_of_another_site_cannot_write(http: httpx.Client) -> None:
    """Browsers send JSON across sites only after asking, and this server never says yes."""
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        answer = http.post("/tools/sync", content=json.dumps(SYNC), headers={"Content-Type": kind})
        _error(answer, 415, "NOT_JSON")
    asked = http.options("/tools/sync", headers={"Origin": "https://evil.example"})
    assert "access-control-allow-origin" not in asked.headers


def test_another_method_is_a_405_that_names_the_right_ones(http: httpx.Client) -> None:
    answer = http.put("/tools")
    _error(answer, 405, "METHOD_NOT_ALLOWED")
    assert set(answer.headers["allow"].replace(" ", "").split(",")) == {"GET", "HEAD", "POST"}
    _error(http.get("/nothing/here"), 404, "NOT_FOUND")
    _error(http.get("/tools/"), 404, "NOT_FOUND")


def test_a_database_that_fails_is_a_503_that_tells_strangers_nothing(
    http: httpx.Client, served_sqlite: Served
) -> None:
    with served_sqlite.catalog.database.write() as connection:
        connection.exec_driver_sql("DROP TABLE acrux_tool_events")
    answer = http.post("/tools/sync", json=SYNC)
    _error(answer, 503, "CATALOG_UNAVAILABLE")
    assert "acrux_tool_events" not in answer.text


# -- as a process ---------------------------------------------------------------------------------------


def test_serving_needs_a_key(sqlite_catalog: SqlCatalog) -> None:
    with pytest.raises(CatalogError, match="acrux-otel catalog keys create NAME"):
        serve(sqlite_catalog, port=0)


def test_a_port_that_is_taken_is_an_error_at_once(sqlite_catalog: SqlCatalog) -> None:
    Keys(sqlite_catalog.database).create("robot")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(OSError, match="in use"):
            serve(sqlite_catalog, port=taken.getsockname()[1])


def test_many_clients_at_once_make_one_version(served: Served) -> None:
    results: list[bool] = []

    def sync() -> None:
        answer = httpx.post(f"{served.url}/tools/sync", json=SYNC, headers=_bearer(served.key), timeout=60)
        results.append(answer.json()["committed"])

    threads = [threading.Thread(target=sync) for _ in range(12)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(90)
    assert (results.count(True), len(results)) == (1, 12)


def test_the_schema_is_valid_and_served_to_everybody(served_sqlite: Served) -> None:
    told = httpx.get(f"{served_sqlite.url}/openapi.json").json()
    assert told == document()
    for schema in told["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)
