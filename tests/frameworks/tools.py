# SPDX-License-Identifier: Apache-2.0
"""The tools that every rig offers: what they do is asked for by the name of a city."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from opentelemetry import trace

from acrux_otel import ToolResult

__all__ = ["CASES", "aforecast", "answer_for", "forecast", "limit", "released"]

# case -> what the model asks for
CASES: dict[str, dict[str, Any]] = {
    "ok": {"city": "Berlin"},
    "error_dict": {"city": "Errorburg"},
    "declared": {"city": "Atlantis"},
    "warned": {"city": "Staleville"},
    "recorded": {"city": "Recordia"},
    "soft": {"city": "Softown"},
    "raise": {"city": "Nowhere"},
    "connection": {"city": "Refusal"},
    "timeout": {"city": "Slowwater"},
    "mismatch": {"town": 7},
    "unknown": {"city": "Berlin"},
}
released = threading.Event()  # ends a sleeping sync tool early


def limit(arguments: dict[str, Any]) -> float:
    """A tool's time limit, in seconds: short only where the case is about it."""
    return 0.2 if arguments == CASES["timeout"] else 30.0


def answer_for(city: str) -> Any:
    """What the tool does for ``city``; also puts a span of its own inside the call."""
    with trace.get_tracer("the tool").start_as_current_span("inside"):
        pass
    if city == "Errorburg":
        return {"error": "upstream 503"}
    if city == "Atlantis":
        return ToolResult.error("location_not_found", "no such city: Atlantis")
    if city == "Staleville":
        return ToolResult.warn("stale", "from the cache", result={"city": city, "tempC": 3})
    if city == "Recordia":
        from acrux_otel import record_error

        record_error("no_station", "no station nearby")
    if city == "Nowhere":
        raise LookupError("there is no Nowhere")
    if city == "Refusal":
        raise ConnectionRefusedError("nobody listens")
    return {"city": city, "tempC": 21}


def forecast(city: str) -> dict:
    """Tell the weather of a city.

    Args:
        city: its name.
    """
    if city == "Slowwater":
        released.wait(5)
        return {"city": city}  # nobody listens any more
    return answer_for(city)


async def aforecast(city: str) -> dict:
    """Tell the weather of a city.

    Args:
        city: its name.
    """
    await asyncio.sleep(5 if city == "Slowwater" else 0)
    return answer_for(city)
