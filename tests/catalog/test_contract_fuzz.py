# SPDX-License-Identifier: Apache-2.0
"""The server against its own OpenAPI document, with requests that a fuzzer makes up."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import negative_data_rejection

from acrux_otel.catalog import Definition, SqlCatalog
from acrux_otel.catalog.server import BASE_PATH, catalog_app
from acrux_otel.catalog.server.openapi import document
from acrux_otel.catalog.sql import Keys

OPERATIONS = [
    (method.upper(), path)
    for path, operations in document()["paths"].items()
    for method in operations
    if method != "parameters"
]


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlCatalog]:
    made = SqlCatalog(f"sqlite:///{tmp_path_factory.mktemp('fuzz')}/catalog.db")
    made.sync(Definition("get_weather", {"type": "object"}))
    yield made
    made.close()


@pytest.fixture(scope="module")
def key(catalog: SqlCatalog) -> str:
    return Keys(catalog.database).create("fuzzer")


@pytest.fixture(scope="module")
def contract(catalog: SqlCatalog) -> Any:
    schemathesis.checks.load_all_checks()
    return schemathesis.openapi.from_asgi(f"{BASE_PATH}/openapi.json", catalog_app(catalog))


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_every_answer_is_of_the_contract(
    contract: Any, key: str, method: str, path: str, mode: GenerationMode
) -> None:
    """No 5xx, no undocumented status or body; what is invalid is refused, and what is valid is taken."""
    if sys.version_info < (3, 11) and (path, mode) == ("/tools/sync", GenerationMode.NEGATIVE):
        pytest.skip("the fuzzer itself runs out of stack on Python 3.10")
    # A query that says more than it needs to is no mistake.
    tolerated = [negative_data_rejection] if method == "GET" else []
    strategy = contract[path][method].as_strategy(generation_mode=mode)

    @settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
    @given(strategy)
    def ask(case: Any) -> None:
        case.call_and_validate(headers={"Authorization": f"Bearer {key}"}, excluded_checks=tolerated)

    ask()
