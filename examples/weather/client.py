# SPDX-License-Identifier: Apache-2.0
"""Asks Open-Meteo, or a server that speaks like it, for places and their weather."""

from __future__ import annotations

import json
import unicodedata
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Final

from weather.problem import Problem

__all__ = ["OpenMeteo", "folded"]

_TIMEOUT: Final = 10.0  # seconds
# WMO code table 4677, as far as Open-Meteo uses it: the first entry at or above the code names the sky.
_SKY: Final = (
    (0, "clear"),
    (2, "partly cloudy"),
    (3, "overcast"),
    (48, "fog"),
    (57, "drizzle"),
    (67, "rain"),
    (77, "snow"),
    (82, "rain showers"),
    (86, "snow showers"),
    (99, "thunderstorm"),
)


class OpenMeteo:
    """A client of Open-Meteo's geocoding and forecast APIs."""

    def __init__(self) -> None:
        self._geocoding = "https://geocoding-api.open-meteo.com"
        self._forecast = "https://api.open-meteo.com"
        self._open = urllib.request.build_opener().open

    def ask_instead(self, base: str) -> None:
        """Ask the server at this base URL for both, directly: a proxy knows no loopback address of ours."""
        self._geocoding = self._forecast = base
        self._open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open

    def places(self, city: str) -> list[dict[str, Any]]:
        """The places that bear exactly this name, the most important first; empty if there is none."""
        body = self._get(self._geocoding, "/v1/search", name=city, count=10, language="en", format="json")
        name = folded(city.partition(",")[0])
        return [place for place in body.get("results", []) if folded(place["name"]) == name]

    def brief(self, place: dict[str, Any]) -> dict[str, Any]:
        """Today's weather at a place, in a handful of words that a model can use."""
        body = self._get(
            self._forecast,
            "/v1/forecast",
            latitude=place["latitude"],
            longitude=place["longitude"],
            current="temperature_2m,weather_code",
            timezone="auto",
        )
        now = body["current"]
        return {
            "city": place["name"],
            "country": place.get("country", ""),
            "temperature_c": now["temperature_2m"],
            "sky": next((sky for upto, sky in _SKY if now["weather_code"] <= upto), "unknown"),
            "source": "simulated" if body.get("simulated") else "open-meteo.com",
        }

    def _get(self, base: str, path: str, **query: object) -> dict[str, Any]:
        url = f"{base}{path}?{urllib.parse.urlencode(query)}"
        try:
            with self._open(url, timeout=_TIMEOUT) as response:
                body = json.load(response)
        except urllib.error.HTTPError as problem:
            raise Problem(f"{base} answered {problem.code}: {_reason(problem)}") from problem
        except OSError as problem:
            reason = getattr(problem, "reason", problem)
            raise Problem(f"{base} cannot be reached ({reason}): is there a network?") from problem
        except ValueError as problem:
            raise Problem(f"{base} did not answer JSON ({problem})") from problem
        return dict(body)


def folded(text: str) -> str:
    """A name without case and diacritics, as Open-Meteo compares names."""
    decomposed = unicodedata.normalize("NFKD", text.strip())
    return "".join(char for char in decomposed if not unicodedata.combining(char)).casefold()


def _reason(problem: urllib.error.HTTPError) -> str:
    """Open-Meteo says what was wrong in `reason`; anybody else in the status line."""
    try:
        return str(json.load(problem)["reason"])
    except (ValueError, KeyError, TypeError, OSError):
        return str(problem.reason)
