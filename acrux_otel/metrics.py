# SPDX-License-Identifier: Apache-2.0
"""Verdict -> metrics, only where a MeterProvider is set. Counts are kept here and read by callback."""

from __future__ import annotations

import os
import threading
from collections import deque
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.metrics import NoOpMeterProvider, Observation, get_meter_provider

from acrux_otel import attributes as names
from acrux_otel.settings import settings
from acrux_otel.verdict import ErrorType, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from opentelemetry.metrics import Histogram, MeterProvider

    from acrux_otel.verdict import Verdict

__all__ = ["CallMetrics", "active", "gauge"]

# The convention's buckets for gen_ai.execute_tool.duration, in seconds.
_BUCKETS: Final = tuple(0.01 * 2**power for power in range(14))
_CODES_PER_TOOL: Final = 50
_TOOLS: Final = 1000
# Models make up names without end; the spans keep them.
_UNKNOWN: Final = "(unknown)"
_PENDING: Final = 65_536  # some megabytes, a thousand calls a second for a minute
# An enum member's `.value` is a slow descriptor.
_OUTCOMES: Final = {outcome: outcome.value for outcome in Outcome}
_TYPES: Final[dict[ErrorType | None, str | None]] = {None: None, **{kind: kind.value for kind in ErrorType}}
_api: Final = import_module("opentelemetry.metrics._internal")
_lock = threading.RLock()  # a signal handler or a finaliser may call a tool in the middle of it
_gauges: dict[str, tuple[str, str, Callable[[], Iterable[tuple[float, dict[str, Any]]]]]] = {}
_current: CallMetrics | None = None


def active() -> CallMetrics | None:
    """The instruments of the meter provider in force; None where there is none, or metrics are off."""
    # The public getter costs more than an unrecorded call while no provider is set, so the global is
    # read where it lies; a test holds it there.
    provider = settings.meter_provider or _api._METER_PROVIDER
    if provider is None and (_asked or (provider := _unset_provider()) is None):
        return None
    known = _current
    if known is None or known.provider is not provider:
        known = _renew(provider)
    return known if settings.metrics else None


def _unset_provider() -> MeterProvider | None:
    global _asked
    if not _asked:
        # OTEL_PYTHON_METER_PROVIDER makes the first question load a provider.
        _asked = True
        get_meter_provider()
    return _api._METER_PROVIDER  # type: ignore[no-any-return]


_asked = False


def _renew(provider: MeterProvider) -> CallMetrics | None:
    global _current
    if isinstance(provider, NoOpMeterProvider):
        return None
    with _lock:
        if _current is None or _current.provider is not provider:
            _current = CallMetrics(provider)
        return _current


def gauge(
    name: str, unit: str, description: str, read: Callable[[], Iterable[tuple[float, dict[str, Any]]]]
) -> None:
    """Register a gauge that is read at each collection, on the provider in force now and on later ones.

    Args:
        read: returns (value, attributes) pairs; raising skips one collection.
    """
    with _lock:
        _gauges[name] = (unit, description, read)
        if _current is not None:
            _current.add_gauge(name, unit, description, read)


class CallMetrics:
    """What is counted for the tool calls of one meter provider."""

    def __init__(self, provider: MeterProvider) -> None:
        from acrux_otel._version import VERSION

        self.provider = provider
        self._meter = meter = provider.get_meter(names.SCOPE, VERSION, schema_url=names.SCHEMA_URL)
        self._duration = _histogram(meter)
        self._pending: deque[tuple[float, dict[str, Any]]] = deque()
        self._calls: dict[tuple[str, str, str | None, str | None], int] = {}
        self._tools: set[str] = set()
        self._codes: dict[str, set[str]] = {}
        self._durations: dict[tuple[str, str, str | None], dict[str, Any]] = {}
        self._in_flight: dict[str, int] = {}
        self._retries: dict[str, int] = {}
        meter.create_observable_counter(
            names.CALLS_METRIC, [self._read_calls], "{call}", "Tool calls by verdict."
        )
        meter.create_observable_counter(
            names.RETRIES_METRIC, [self._read(self._retries)], "{retry}", "Attempts after the first."
        )
        meter.create_observable_up_down_counter(
            names.IN_FLIGHT_METRIC, [self._read(self._in_flight)], "{call}", "Tool calls in progress."
        )
        for name, (unit, description, read) in _gauges.items():
            self.add_gauge(name, unit, description, read)

    def add_gauge(
        self,
        name: str,
        unit: str,
        description: str,
        read: Callable[[], Iterable[tuple[float, dict[str, Any]]]],
    ) -> None:
        def callback(_: object) -> Iterable[Observation]:
            return [Observation(value, attributes) for value, attributes in read()]

        self._meter.create_observable_gauge(name, [callback], unit, description)

    def opened(self, tool: str) -> None:
        """A call of ``tool`` began."""
        with _lock:
            self._in_flight[tool] = self._in_flight.get(tool, 0) + 1

    def closed(self, tool: str, verdict: Verdict, seconds: float | None, attempts: int) -> None:
        """A call of ``tool`` ended; ``seconds`` is None where no body ran."""
        outcome = _OUTCOMES[verdict.outcome]
        error_type = _TYPES[verdict.error_type]
        with _lock:
            self._in_flight[tool] = max(self._in_flight.get(tool, 0) - 1, 0)
            if tool not in self._tools:
                tool = self._labelled(tool, verdict)
            key = (tool, outcome, error_type, verdict.code and self._bounded(tool, verdict.code))
            self._calls[key] = self._calls.get(key, 0) + 1
            if attempts > 1:
                self._retries[tool] = self._retries.get(tool, 0) + attempts - 1
        if seconds is None or outcome == "not_executed":
            return
        attributes = self._durations.get(key[:3])
        if attributes is None:
            attributes = {names.TOOL_NAME: tool, names.OUTCOME: outcome}
            if outcome == "error" and error_type is not None:
                attributes[names.SEMCONV_ERROR_TYPE] = error_type
            self._durations[key[:3]] = attributes
        # Recording costs as much as a third of a span; the reader's thread does it at its next
        # collection. Past the bound each call pays for itself, so memory stays bounded too.
        if len(self._pending) < _PENDING:
            self._pending.append((seconds, attributes))
        else:
            self._duration.record(seconds, attributes)

    def _labelled(self, tool: str, verdict: Verdict) -> str:
        """What a tool that has not been seen to exist is called; closed series of it are dropped."""
        unknown = verdict.code == "unknown_tool" and verdict.error_type is ErrorType.SCHEMA_MISMATCH
        if not unknown and len(self._tools) < _TOOLS:
            self._tools.add(tool)
            return tool
        if not self._in_flight[tool]:
            del self._in_flight[tool]
        return _UNKNOWN if unknown else "other"

    def _bounded(self, tool: str, code: str) -> str:
        seen = self._codes.setdefault(tool, set())
        if code in seen:
            return code
        if len(seen) >= _CODES_PER_TOOL:
            return "other"
        seen.add(code)
        return code

    def _record_pending(self) -> None:
        try:
            while True:
                self._duration.record(*self._pending.popleft())
        except IndexError:
            pass

    def _read_calls(self, _: object) -> Iterable[Observation]:
        self._record_pending()
        with _lock:
            counted = list(self._calls.items())
        for (tool, outcome, error_type, code), calls in counted:
            attributes = {names.TOOL_NAME: tool, names.OUTCOME: outcome}
            if error_type and code:
                attributes |= {names.ERROR_TYPE: error_type, names.ERROR_CODE: code}
            yield Observation(calls, attributes)

    @staticmethod
    def _read(counts: dict[str, int]) -> Callable[[object], Iterable[Observation]]:
        def callback(_: object) -> Iterable[Observation]:
            with _lock:
                counted = list(counts.items())
            return [Observation(count, {names.TOOL_NAME: tool}) for tool, count in counted]

        return callback


def _histogram(meter: Any) -> Histogram:
    options: dict[str, Any] = {"unit": "s", "description": "Duration of a tool call."}
    try:
        return meter.create_histogram(  # type: ignore[no-any-return]
            names.DURATION_METRIC, explicit_bucket_boundaries_advisory=_BUCKETS, **options
        )
    except TypeError:  # the advisory came after SDK 1.27
        return meter.create_histogram(names.DURATION_METRIC, **options)  # type: ignore[no-any-return]


def _after_fork() -> None:
    global _lock
    _lock = threading.RLock()
    if _current is not None:
        _current._in_flight.clear()
        # The parent reports its own.
        _current._pending.clear()
        _current._calls.clear()
        _current._retries.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
