# SPDX-License-Identifier: Apache-2.0
"""Arguments -> request, as a real server receives it."""

from __future__ import annotations

import asyncio
import datetime
import enum
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import httpx
import pydantic
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import acrux_otel as acrux
from acrux_otel.http_tool import ArgumentRefused

from .conftest import Service


class Unit(enum.Enum):
    METRIC = "metric"


class Order(pydantic.BaseModel):
    item: str
    count: int = 1


def test_what_the_url_does_not_name_goes_into_the_query_of_a_get(service: Service) -> None:
    @acrux.http_tool("GET", f"{service.url}/weather/{{city}}?v=2")
    def weather(
        city: str,
        day: datetime.date,
        unit: Unit = Unit.METRIC,
        tags: list[str] | None = None,
        deep: bool = False,
    ) -> Any: ...

    weather("São Paulo", datetime.date(2026, 12, 1), tags=["a b", "c&d"])
    assert service.last.method == "GET" and service.last.body == b""
    assert service.last.path.startswith("/weather/S%C3%A3o%20Paulo?v=2&")
    assert parse_qsl(urlsplit(service.last.path).query) == [
        ("v", "2"),
        ("day", "2026-12-01"),
        ("unit", "metric"),
        ("tags", "a b"),
        ("tags", "c&d"),
        ("deep", "false"),
    ]


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
def test_what_the_url_does_not_name_goes_into_a_json_object(service: Service, method: str) -> None:
    @acrux.http_tool(method, f"{service.url}/orders/{{customer}}", query=["dry_run"])
    def order(
        customer: int, lines: list[Order], note: str | None, hint: str | None = None, dry_run: bool = True
    ) -> Any: ...

    order(7, [Order(item="tea")], None)
    assert (service.last.method, service.last.path) == (method, "/orders/7?dry_run=true")
    assert service.last.headers["Content-Type"] == "application/json"
    # Null is sent only where leaving it out would be another thing to say.
    assert service.last.json == {"lines": [{"item": "tea", "count": 1}], "note": None}


def test_one_parameter_can_be_the_whole_body(service: Service) -> None:
    @acrux.http_tool("POST", f"{service.url}/orders", body="order")
    def place(order: Order, region: str = "eu") -> Any: ...

    place(Order(item="tea", count=2))
    assert (service.last.path, service.last.json) == ("/orders?region=eu", {"item": "tea", "count": 2})


def test_an_async_function_is_an_async_tool(service: Service) -> None:
    async def token() -> dict[str, str]:
        return {"Authorization": "Bearer t1"}

    @acrux.http_tool("DELETE", f"{service.url}/orders/{{order}}", headers=token)
    async def cancel(order: int) -> Any: ...

    service.answers({"gone": True})
    assert asyncio.run(cancel(4)) == {"gone": True}
    assert (service.last.method, service.last.path) == ("DELETE", "/orders/4")
    assert service.last.headers["Authorization"] == "Bearer t1"


def test_a_client_brings_its_base_its_headers_and_its_connections(service: Service) -> None:
    with httpx.Client(base_url=f"{service.url}/v1", headers={"X-Team": "maps"}) as client:

        @acrux.http_tool("GET", "/cities", client=client, headers={"X-Trace": "no"})
        def cities(q: str) -> Any: ...

        assert acrux.definition_of(cities).request == {"method": "GET", "url": f"{service.url}/v1/cities"}
        cities("x")
        cities(q="y")
    assert service.last.path == "/v1/cities?q=y"
    assert service.last.headers["X-Team"] == "maps" and service.last.headers["X-Trace"] == "no"


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(min_size=1, max_size=30))
def test_whatever_a_model_says_stays_one_segment_and_one_parameter(service: Service, text: str) -> None:
    @acrux.http_tool("GET", f"{service.url}/a/{{segment}}/z", name="echo")
    def echo(segment: str, q: str) -> Any: ...

    sent = len(service.asked)
    try:
        echo(text, text)
    except ArgumentRefused:
        assert text in (".", "..") and len(service.asked) == sent
        return
    path, _, query = service.last.path.partition("?")
    assert [unquote(part) for part in path.split("/")] == ["", "a", text, "z"]
    assert parse_qsl(query, keep_blank_values=True) == [("q", text)]


@pytest.mark.parametrize("value", ["", ".", "..", None, ["a"], "\ud800", object()])
def test_an_argument_that_cannot_be_sent_is_the_callers_fault(
    service: Service, exported: Any, value: Any
) -> None:
    @acrux.http_tool("GET", f"{service.url}/weather/{{city}}")
    def weather(city: Any) -> Any: ...

    with pytest.raises(ArgumentRefused, match=r"^city is "):
        weather(value)
    assert service.asked == []
    (span,) = exported.tools()
    assert (span.attributes["errorType"], span.attributes["errorCode"]) == (
        "schema_mismatch",
        "invalid_arguments",
    )


def test_what_json_cannot_hold_is_refused_before_anything_is_sent(service: Service) -> None:
    @acrux.http_tool("POST", f"{service.url}/x")
    def post(value: Any) -> Any: ...

    for value, told in ((float("nan"), "no JSON"), (object(), "value is object")):
        with pytest.raises(ArgumentRefused, match=told):
            post(value)
    assert service.asked == []


def test_wrong_arguments_are_a_schema_mismatch(service: Service, exported: Any) -> None:
    @acrux.http_tool("GET", f"{service.url}/x")
    def ask(q: str) -> Any: ...

    with pytest.raises(TypeError):
        ask()  # type: ignore[call-arg]
    assert exported.tools()[0].attributes["errorCode"] == "invalid_arguments"
    assert service.asked == []


def plain(q: str = "") -> Any: ...
async def waiting(q: str = "") -> Any: ...
def many(*q: str) -> Any: ...
def yielding() -> Any:
    yield


class Group:
    def method(self, q: str) -> Any: ...


@pytest.mark.parametrize(
    ("function", "method", "url", "options", "told"),
    [
        (plain, "get", "https://h/x", {}, "the method is 'get'; expected GET, HEAD, POST"),
        (plain, "GET", "ftp://h/x", {}, "the url is 'ftp://h/x'; expected one like https://host/path/{name}"),
        (plain, "GET", "/x", {}, "expected https://…, or a client= with a base_url"),
        (plain, "GET", "https://u:p@h/x", {}, "has credentials"),
        (plain, "GET", "https://h/x#y", {}, "has a fragment, 'y', which is never sent"),
        (plain, "GET", "https://{q}/x", {}, "no argument chooses the host"),
        (plain, "GET", "https://h/{q", {}, "has a brace without its other"),
        (plain, "GET", "https://h/{w}", {}, "url names 'w', which is no parameter; expected q"),
        (plain, "POST", "https://h/x", {"query": ["w"]}, "query= names 'w', which is no parameter"),
        (plain, "POST", "https://h/x", {"query": "q"}, "query=) is 'q'; expected a list"),
        (plain, "GET", "https://h/x", {"body": "q"}, "a GET has none; use POST, PUT or PATCH"),
        (plain, "GET", "https://h/x", {"timeout": 0}, "(timeout=) is 0; expected a number above 0"),
        (plain, "GET", "https://h/x", {"max_bytes": "1"}, "(max_bytes=) is '1'; expected a number"),
        (plain, "GET", "https://h/x", {"headers": 3}, "(headers=) is int; expected a mapping or a callable"),
        (plain, "GET", "https://h/x", {"failure_when": "a["}, "failure_when= is 'a[', which is no JMESPath"),
        (plain, "GET", "https://h/x", {"response": 3}, "response= is 3; expected a JMESPath expression"),
        (
            plain,
            "GET",
            "https://h/x",
            {"client": httpx.AsyncClient()},
            "a plain function takes an httpx.Client",
        ),
        (waiting, "GET", "https://h/x", {"client": httpx.Client()}, "takes an httpx.AsyncClient"),
        (plain, "GET", "https://h/x", {"inject": (int,)}, "nothing is handed in to a request"),
        (plain, "GET", "https://h/x", {"colour": 1}, "http_tool() has no option 'colour'"),
        (many, "GET", "https://h/x", {}, "*q: 'str' has no place in a request"),
        (yielding, "GET", "https://h/x", {}, "a generator cannot be a request"),
        (Group.method, "GET", "https://h/x", {}, "a method cannot be a request"),
        (int, "GET", "https://h/x", {}, "was given <class 'int'>; expected a function"),
    ],
)
def test_what_can_never_work_is_told_in_one_line_when_it_is_declared(
    function: Any, method: str, url: str, options: dict[str, Any], told: str
) -> None:
    with pytest.raises((TypeError, ValueError)) as refused:
        acrux.http_tool(method, url, **options)(function)
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)
