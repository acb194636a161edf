# SPDX-License-Identifier: Apache-2.0
"""What every place that can be searched offers, and how one over HTTP is asked."""

from __future__ import annotations

import dataclasses
import json
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Protocol

from acrux_otel.query.terms import Filter
from acrux_otel.query.trace import RunLine, Trace

__all__ = ["DEFAULT_WINDOW", "Answer", "Server", "Target", "TargetError", "window_note"]

DEFAULT_WINDOW = 24 * 3_600_000_000_000  # nanoseconds


class TargetError(Exception):
    """A place that cannot be searched: one line that says which and why."""


@dataclasses.dataclass(frozen=True)
class Answer:
    """The newest runs that meet a filter, newest first, and what a reader must know about them."""

    runs: list[RunLine]
    notes: list[str] = dataclasses.field(default_factory=list)


class Target(Protocol):
    """A place that can be searched."""

    def queries(self, filter: Filter) -> list[str]:
        """What would be sent, for a person. Raises as `find` does."""

    def find(self, filter: Filter, limit: int) -> Answer:
        """At most ``limit`` runs.

        Raises:
            FilterError: the filter has a term that this place cannot express.
            TargetError: it does not answer.
        """

    def trace(self, trace_id: str) -> Trace | None:
        """All that is known of one run; None where nothing is."""


def window_note(what: str) -> str:
    """Says that a filter without ``since:`` was bounded."""
    return f"{what}; the last 24 hours were searched: say since: for more"


class Server:
    """A query API over HTTP.

    Args:
        name: for messages.
        url: its base URL.
        timeout: seconds for one answer.

    Raises:
        TargetError: ``url`` is no http or https URL.
    """

    def __init__(self, name: str, url: str, timeout: float = 30.0) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise TargetError(f"the URL of {name} is {url!r}; expected such as http://127.0.0.1:16686")
        self.url = url.rstrip("/")
        self._name, self._timeout = name, timeout
        local = parts.hostname in ("localhost", "127.0.0.1", "::1")
        proxies = urllib.request.ProxyHandler({}) if local else urllib.request.ProxyHandler()
        self._open = urllib.request.build_opener(proxies).open

    def get(self, path: str) -> Any:
        """The JSON that ``path`` answers; None for 404.

        Raises:
            TargetError: no answer, another status, or no JSON.
        """
        request = urllib.request.Request(self.url + path, headers={"Accept": "application/json"})
        try:
            with self._open(request, timeout=self._timeout) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            said = " ".join(error.read(500).decode("utf-8", "replace").split())[:200]
            raise TargetError(f"{self._name} at {self.url} answered {error.code}: {said}") from None
        except ValueError:
            raise TargetError(f"{self._name} at {self.url} did not answer with JSON") from None
        except OSError as error:
            reason = getattr(error, "reason", error)
            raise TargetError(f"{self._name} at {self.url} does not answer: {reason}") from None
