# SPDX-License-Identifier: Apache-2.0
"""The process-wide settings that calls read; `configure()` writes them. Imports only plain parts."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from acrux_otel.sanitize import PAYLOAD_LIMIT, Redactor
from acrux_otel.verdict import warn_once

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from acrux_otel.catalog.protocol import Catalog

__all__ = ["FULL", "NONE", "OFF", "ON", "UNREAD", "UNSET", "VERDICT", "Settings", "capture_level", "settings"]

# How much free text may leave the process, strictest first; UNSET leaves the choice to the other side.
NONE: Final = 0
VERDICT: Final = 1
FULL: Final = 2
UNSET: Final = 3
UNREAD: Final = -1  # the environment was not asked yet
# The words of a switch in a variable.
OFF: Final = ("0", "false", "no", "off")
ON: Final = ("1", "true", "yes", "on")
_LEVELS: Final = {"none": NONE, "verdict": VERDICT, "full": FULL}


def capture_level(value: object, source: str) -> int:
    """The level that ``value`` names.

    Raises:
        ValueError: not one of ``none``, ``verdict``, ``full`` or None.
    """
    if value is None:
        return UNSET
    level = _LEVELS.get(value.strip().lower()) if isinstance(value, str) else None
    if level is None:
        raise ValueError(f"{source} is {value!r}; expected 'none', 'verdict' or 'full'")
    return level


def _capture_from_environment() -> int:
    ours = os.environ.get("ACRUX_OTEL_CAPTURE")
    if ours:
        try:
            return capture_level(ours, "ACRUX_OTEL_CAPTURE")
        except ValueError as error:
            # A typing error in a privacy switch must not open it.
            warn_once("capture", "%s; nothing but types and codes is recorded", error)
            return NONE
    genai = os.environ.get("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "").strip().lower()
    return FULL if genai in ("span_only", "span_and_event", "true") else UNSET


def _value_limit_from_environment() -> int | None:
    limits = []
    for name in ("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT"):
        text = os.environ.get(name, "").strip()
        if text.isdecimal():
            limits.append(int(text))
    return min(limits, default=None)


class Settings:
    """What `configure()` was told, or the environment says."""

    def __init__(self) -> None:
        self.tracer_provider: TracerProvider | None = None
        self.meter_provider: MeterProvider | None = None
        self.metrics = os.environ.get("ACRUX_OTEL_METRICS", "").strip().lower() not in OFF
        self.storm_detection = os.environ.get("ACRUX_OTEL_STORM_DETECTION", "").strip().lower() in ON
        self.redactor = Redactor()
        self.guard: Any = None  # around every tool that has none of its own
        self.capture: int = UNREAD
        self.catalog: str | Catalog | None = None
        self.catalog_mode: str | None = None
        self._payload_limit: int | None = None

    @property
    def payload_limit(self) -> int:
        """Bytes that one argument or result payload may take; the SDK's limit wins where smaller."""
        if self._payload_limit is None:
            ours = os.environ.get("ACRUX_OTEL_PAYLOAD_LIMIT", "").strip()
            self.payload_limit = int(ours) if ours.isdecimal() and int(ours) else PAYLOAD_LIMIT
        return self._payload_limit or PAYLOAD_LIMIT

    @payload_limit.setter
    def payload_limit(self, limit: int) -> None:
        self._payload_limit = min(limit, _value_limit_from_environment() or limit)

    def capture_for(self, tool_level: int) -> int:
        """The level in force for a tool: the stricter of those that were given, else ``verdict``."""
        if self.capture == UNREAD:
            self.capture = _capture_from_environment()
        level = self.capture if self.capture < tool_level else tool_level
        return VERDICT if level == UNSET else level


settings: Final = Settings()
