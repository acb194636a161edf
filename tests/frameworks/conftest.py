# SPDX-License-Identifier: Apache-2.0
"""Instruments one framework for one test, with what everybody exports meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import acrux_otel_instrumentation as instrumentations
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.util._once import Once

from tests.conftest import Exported

# One for the whole process: frameworks keep the first tracer that they get.
_sink = Exported()
_provider = TracerProvider(shutdown_on_exit=False)
_provider.add_span_processor(SimpleSpanProcessor(_sink))


@pytest.fixture
def everywhere() -> Iterator[Exported]:
    """The spans of everybody: the provider is the process's, for the frameworks' own spans too."""
    before = trace._TRACER_PROVIDER, trace._TRACER_PROVIDER_SET_ONCE
    trace._TRACER_PROVIDER, trace._TRACER_PROVIDER_SET_ONCE = None, Once()
    trace.set_tracer_provider(_provider)
    _sink.clear()
    yield _sink
    trace._TRACER_PROVIDER, trace._TRACER_PROVIDER_SET_ONCE = before


@pytest.fixture
def instrument() -> Iterator[Callable[..., None]]:
    """Instruments frameworks until the end of the test."""
    done: list[str] = []

    def now(*names: str) -> None:
        assert instrumentations.instrument(*names) == names
        done.extend(names)

    yield now
    for name in done:
        instrumentations.uninstrument(name)
