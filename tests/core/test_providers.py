# SPDX-License-Identifier: Apache-2.0
"""Which provider a call uses: the one in force now, whenever it was set."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import opentelemetry.metrics._internal as metrics_api
import opentelemetry.trace as trace_api
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

import acrux_otel as acrux
from acrux_otel.settings import settings


@acrux.tool
def weather(city: str) -> str:
    return city


def _provider() -> tuple[TracerProvider, InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider, exporter


def test_the_api_keeps_its_globals_where_they_are_read() -> None:
    """The hot path reads them there, because the public getters cost more than the call."""
    assert hasattr(trace_api, "_TRACER_PROVIDER")
    assert hasattr(metrics_api, "_METER_PROVIDER")


def test_a_change_of_the_global_provider_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also back to none, as the test suites of others do."""
    (first, first_spans), (second, second_spans) = _provider(), _provider()
    for provider in (first, None, second, first):
        monkeypatch.setattr(trace_api, "_TRACER_PROVIDER", provider)
        weather("Pune")
    assert len(first_spans.get_finished_spans()) == 2
    assert len(second_spans.get_finished_spans()) == 1


def test_the_settings_provider_goes_before_the_global_one(exported: Any, monkeypatch: Any) -> None:
    other, spans = _provider()
    monkeypatch.setattr(trace_api, "_TRACER_PROVIDER", other)
    weather("Pune")
    assert len(exported.tools()) == 1
    assert spans.get_finished_spans() == ()


def test_an_unsampled_call_passes_its_flag_to_what_it_calls() -> None:
    """The span is current though nobody records it, so that children are not sampled either."""
    provider = TracerProvider(sampler=ALWAYS_OFF)
    settings.tracer_provider = provider
    seen = []

    @acrux.tool
    def outer() -> int:
        seen.append(trace_api.get_current_span().get_span_context())
        return 1

    outer()
    assert seen[0].is_valid and not seen[0].trace_flags.sampled
    assert trace_api.get_current_span() is trace_api.INVALID_SPAN


def test_importing_the_package_loads_no_heavy_part() -> None:
    """Decorating does not either: schemas are made when somebody reads them."""
    code = (
        "import sys, acrux_otel as acrux\n"
        "assert 'opentelemetry' not in sys.modules\n"
        "@acrux.tool\n"
        "def f(x: int) -> int: return x\n"
        "f(1)\n"
        "heavy = {'pydantic', 'jsonschema', 'docstring_parser', 'httpx', 'sqlalchemy', 'opentelemetry.sdk'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
        "acrux.definition_of(f).parameters\n"
        "assert 'pydantic' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize("name", ["tool", "run", "classify", "sync"])
def test_a_public_function_stays_one_when_its_module_is_imported(name: str) -> None:
    home = {"tool": "tool", "run": "run", "classify": "classify", "sync": "catalog"}[name]
    code = (
        f"import acrux_otel, importlib\nimportlib.import_module('acrux_otel.{home}')\n"
        f"assert callable(acrux_otel.{name}), acrux_otel.{name}\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_misspelt_public_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="tol"):
        _ = acrux.tol  # type: ignore[attr-defined]


def test_every_public_name_is_there() -> None:
    for name in acrux.__all__:
        assert getattr(acrux, name) is not None, name
