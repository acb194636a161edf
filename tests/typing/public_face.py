# SPDX-License-Identifier: Apache-2.0
"""Type-checked by strict mypy and pyright, and never run: the types are part of the public face."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from typing_extensions import TypedDict, assert_type

import acrux_otel as acrux
from acrux_otel import Outcome, ToolResult, Verdict


class Brief(TypedDict):
    temp: int


@acrux.tool
def brief(city: str, days: int = 1) -> dict[str, Any]:
    if city == "Atlantis":
        return ToolResult.error("location_not_found", "no coordinates")
    if city == "Hyderabad":
        return ToolResult.warn("ambiguous_city", "two of them", {"temp": 31})
    return {"temp": 18}


@acrux.tool
async def brief_later(city: str) -> dict[str, Any]:
    if city == "Atlantis":
        return ToolResult.error("location_not_found", "no coordinates", result=None)
    return {"temp": 18}


@acrux.tool(name="typed", annotations=acrux.ToolAnnotations(read_only=True), capture="full")
def typed(city: str) -> Brief:
    failed: Brief = ToolResult.error("location_not_found", "no coordinates")
    if city:
        return failed
    return ToolResult.warn("old", "six hours old", {"temp": 31, "note": "extra"})


@acrux.tool
def number(city: str) -> int | None:
    return ToolResult.error("no_number", "none")


@acrux.tool
def words(city: str) -> str:
    return ToolResult.warn("short", "two words")


@acrux.tool
def pages(city: str) -> Iterator[dict[str, Any]]:
    yield {"page": 1}
    yield ToolResult.error("lost_page", "page 2 is lost")


@acrux.tool
async def stream(city: str) -> AsyncIterator[str]:
    yield ToolResult.warn("partial", "half of it")


class Shelf:
    @acrux.tool
    def method(self, x: int) -> dict[str, Any]:
        return ToolResult.error("full", "the shelf is full")

    @acrux.tool(suspect="warn")
    async def method_later(self, x: int) -> dict[str, Any]:
        return ToolResult.error("full", "the shelf is full")

    @classmethod
    @acrux.tool
    def class_method(cls, x: int) -> dict[str, Any]:
        return ToolResult.error("full", "the shelf is full")

    @staticmethod
    @acrux.tool
    def static_method(x: int) -> dict[str, Any]:
        return ToolResult.error("full", "the shelf is full")


async def the_decorated_function_keeps_its_type() -> None:
    assert_type(brief("Pune", days=2), dict[str, Any])
    assert_type(await brief_later("Pune"), dict[str, Any])
    assert_type(typed("Pune"), Brief)
    assert_type(number("Pune"), "int | None")
    assert_type(words("Pune"), str)
    assert_type(next(pages("Pune")), dict[str, Any])
    async for part in stream("Pune"):
        assert_type(part, str)
    assert_type(Shelf().method(1), dict[str, Any])
    assert_type(await Shelf().method_later(1), dict[str, Any])
    assert_type(Shelf.class_method(1), dict[str, Any])
    assert_type(Shelf.static_method(1), dict[str, Any])


async def runs_and_verdicts_are_typed() -> None:
    with acrux.run("r", tags=["a"]) as r:
        assert_type(r.trace_id, "str | None")
        assert_type(r.summary.outcome, Outcome)
    async with acrux.run("r"):
        acrux.record_error("code", "message")
    assert_type(acrux.classify(ValueError()), Verdict)
    assert_type(acrux.flush(), bool)


@acrux.http_tool("GET", "https://example.com/{city}", failure_when="error", timeout=5, alias="staging")
def over_http(city: str, *, units: str = "metric") -> dict[str, Any]: ...  # type: ignore[empty-body]


assert_type(over_http("Pune", units="si"), dict[str, Any])


@acrux.run("decorated")
def decorated(x: int) -> int:
    return x


assert_type(decorated(1), int)
