# SPDX-License-Identifier: Apache-2.0
"""What docs/http-tools.md shows is run as it is written, against a server on loopback."""

from __future__ import annotations

import asyncio
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import acrux_otel as acrux

from .conftest import Service

PAGE = (Path(__file__).parents[2] / "docs" / "http-tools.md").read_text(encoding="utf-8")


def test_the_guides_examples_do_what_it_says(
    service: Service, exported: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_TOKEN", "t0ken")
    said = {"error": {"code": "location_not_found", "text": "no such city"}}
    service.answers(said)
    scope: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(block.replace("https://api.example.com", service.url), scope)

    assert service.last.path == "/weather/Atlantis?units=metric"
    assert exported.tools()[0].attributes["errorCode"] == "location_not_found"
    assert scope["get_weather"]("Atlantis") == said
    asyncio.run(scope["place_order"]("tea"))
    assert service.last.path == "/orders?dry_run=false" and service.last.json == {"item": "tea", "count": 1}
    assert service.last.headers["Authorization"] == "Bearer t0ken"


def test_the_guide_names_every_option() -> None:
    options = set(inspect.signature(acrux.http_tool).parameters) - {"method", "url", "options"}
    assert [name for name in options if not re.search(rf"`?{name}\b", PAGE)] == []
