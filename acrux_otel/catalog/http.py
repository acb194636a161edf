# SPDX-License-Identifier: Apache-2.0
"""Requests to a catalog over HTTP: the key, retries, and every way to fail as one clear error."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Mapping
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from ipaddress import ip_address
from time import monotonic
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from acrux_otel.catalog import wire
from acrux_otel.catalog.errors import (
    AnswerUnreadable,
    CatalogError,
    CatalogRefused,
    CatalogUnreachable,
    KeyRefused,
    MovesBack,
    NameTaken,
    NotFound,
)
from acrux_otel.verdict import warn_once

try:
    import httpx
except ImportError as missing:
    raise ImportError(
        f"a catalog over HTTP needs {missing.name}; install it with: pip install 'acrux-otel[catalog]'",
        name=missing.name,
    ) from None

__all__ = ["Requests"]

_RETRIED: Final = frozenset((408, 425, 429))
_LONGEST_WAIT: Final = 30.0
_FIRST_WAIT: Final = 0.5
_ANSWER_LIMIT: Final = 64 * 1024 * 1024


class _Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    content: bytes


class Requests:
    """JSON requests below one base URL, with one bearer key.

    Args:
        base_url: http or https.
        key: sent as ``Authorization: Bearer``; shown nowhere.
        key_variable: where a user sets the key, for messages.
        timeout: seconds for one attempt.
        attempts: how often a request is sent at most.

    Raises:
        ValueError: an address or a key that cannot be used.
    """

    def __init__(self, base_url: str, key: str, key_variable: str, *, timeout: float, attempts: int) -> None:
        self.base_url = _checked(base_url)
        self._key, self._key_variable = _checked_key(key, key_variable, self.base_url), key_variable
        self._timeout, self._attempts = timeout, max(1, attempts)
        self._hurried = threading.Event()
        self._lock = threading.Lock()
        self._client: httpx.Client | None = None
        self._pid = 0

    def close(self) -> None:
        """Give the connections back."""
        with self._lock:
            client, self._client = self._client, None
            if client is not None and self._pid == os.getpid():
                client.close()

    def hurry(self) -> None:
        """Try nothing twice from now on: the process is ending."""
        self._hurried.set()

    def json(self, method: str, path: str, body: bytes | None = None, *, what: str) -> Any:
        """The answer's JSON value.

        Args:
            what: what it is about, for messages.

        Raises:
            CatalogError: of the kind that fits what happened.
        """
        answer = self._answered(method, path, body, what)
        start = f"catalog {self.base_url} answered {answer.status} ({what})"
        if answer.status >= 400:
            raise self._refusal(answer, start)
        if not 200 <= answer.status < 300:
            raise AnswerUnreadable(f"{start} and points elsewhere; give the address that it points to")
        try:
            return wire.parsed(answer.content)
        except ValueError:
            raise AnswerUnreadable(
                f"{start} with a body that is not JSON ({_content_type(answer)}, {len(answer.content)} B); "
                "is the address right? It usually ends in /api/v1"
            ) from None

    def _answered(self, method: str, path: str, body: bytes | None, what: str) -> _Answer:
        """The last answer; waits and asks again where that may help.

        Raises:
            CatalogUnreachable: there is none, or only errors of the server's own.
        """
        attempt = 1
        while True:
            answer, failure = self._tried(method, path, body)
            if answer is not None and not (answer.status in _RETRIED or answer.status >= 500):
                return answer
            asked = None if answer is None else _retry_after(answer)
            wait = max(_FIRST_WAIT * 2 ** (attempt - 1) * random.uniform(0.5, 1.0), asked or 0.0)
            if attempt >= self._attempts or wait > _LONGEST_WAIT or self._hurried.wait(wait):
                break
            attempt += 1
        tried = "1 attempt" if attempt == 1 else f"{attempt} attempts"
        if answer is not None:
            later = f"; it asks to come back in {asked:.0f} s" if asked else ""
            told = _server_message(answer, self._key)
            raise CatalogUnreachable(
                f"catalog {self.base_url} answered {answer.status} ({what}, {tried}){told}{later}"
            )
        raise CatalogUnreachable(
            f"catalog {self.base_url} cannot be reached ({what}, {tried}: {_reason(failure)}); "
            "is it running, and is the address right?"
        )

    def _tried(
        self, method: str, path: str, body: bytes | None
    ) -> tuple[_Answer | None, httpx.TransportError | None]:
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        if body is not None:
            headers["Content-Type"] = "application/json"
        content = bytearray()
        deadline = monotonic() + self._timeout
        try:
            with self._http().stream(method, self.base_url + path, content=body, headers=headers) as response:
                for chunk in response.iter_bytes():
                    content += chunk
                    if len(content) > _ANSWER_LIMIT:
                        raise AnswerUnreadable(
                            f"catalog {self.base_url} answered with more than {_ANSWER_LIMIT:,} bytes"
                        )
                    if monotonic() > deadline:  # httpx itself bounds only the time between two parts
                        raise httpx.ReadTimeout("the answer does not end")
                return _Answer(response.status_code, response.headers, bytes(content)), None
        except httpx.DecodingError:
            return _Answer(response.status_code, response.headers, b""), None
        except httpx.TransportError as error:
            return None, error

    def _http(self) -> httpx.Client:
        with self._lock:
            if self._client is None or self._pid != os.getpid():
                # A connection that came with a fork is the parent process's, and is left alone.
                limits = httpx.Timeout(self._timeout, connect=min(5.0, self._timeout))
                self._client, self._pid = httpx.Client(timeout=limits, follow_redirects=False), os.getpid()
            return self._client

    def _refusal(self, answer: _Answer, start: str) -> CatalogError:
        status, start = answer.status, start + _server_message(answer, self._key)
        error = _error_of(answer)
        code = str(error.get("code", ""))
        if status == 401:
            return KeyRefused(f"{start}; set {self._key_variable} to a valid key", status, code)
        if status == 403:
            return KeyRefused(f"{start}; use a key that may do this", status, code)
        if status == 404:
            return NotFound(start, _refs(error), status, code)
        if status == 409:
            if code == MovesBack.code:
                return _moves_back(error, start)
            return NameTaken(start, status, code)
        return CatalogRefused(start, status, code)


def _moves_back(error: Mapping[str, Any], start: str) -> CatalogError:
    tool_id, number, version_id = (error.get(key) for key in ("toolId", "versionNumber", "versionId"))
    if not isinstance(tool_id, str) or not isinstance(number, int):
        return CatalogRefused(start, 409, MovesBack.code)
    return MovesBack(
        str(error.get("message", start)), tool_id, number, version_id if isinstance(version_id, str) else None
    )


def _error_of(answer: _Answer) -> Mapping[str, Any]:
    try:
        error = wire.parsed(answer.content)["error"]
    except (ValueError, KeyError, TypeError):
        return {}
    return error if isinstance(error, dict) else {}


def _refs(error: Mapping[str, Any]) -> list[Any]:
    found = error.get("refs")
    refs = []
    for each in found if isinstance(found, list) else ():
        try:
            refs.append(wire.read_ref(each))
        except (KeyError, TypeError, ValueError):
            continue
    return refs


def _server_message(answer: _Answer, key: str) -> str:
    message = _error_of(answer).get("message")
    if not isinstance(message, str) or not message.strip():
        return ""
    line = " ".join(message.split())
    if key:
        line = line.replace(key, "***")
    return ": " + "".join(each if each.isprintable() else "?" for each in line)[:400]


def _content_type(answer: _Answer) -> str:
    return answer.headers.get("content-type", "no content type").partition(";")[0][:60]


def _retry_after(answer: _Answer) -> float | None:
    """Seconds that the server asks to wait (RFC 9110, 10.2.3)."""
    told = answer.headers.get("retry-after", "").strip()
    if told.isascii() and told.isdecimal():
        return float(told[:9])
    try:
        when = parsedate_to_datetime(told)
    except (TypeError, ValueError):
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=timezone.utc)
    return max(0.0, (when - datetime.now(timezone.utc)).total_seconds())


def _reason(error: Exception | None) -> str:
    if isinstance(error, httpx.TimeoutException):
        return "no answer in time"
    text = " ".join(str(error).split())
    return text[:200] or type(error).__name__


def _checked(base_url: str) -> str:
    try:
        parts = urlsplit(base_url.strip())
        port = parts.port
    except ValueError:
        raise ValueError("the catalog's address cannot be read; expected https://host/api/v1") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("the catalog's address is not a web address; expected https://host/api/v1")
    if any(ord(each) <= 32 for each in base_url.strip()):
        raise ValueError("the catalog's address holds a space; expected https://host/api/v1")
    if parts.username or parts.password:
        raise ValueError("the catalog's address holds a user or password; give the key on its own instead")
    if parts.query or parts.fragment:
        raise ValueError("the catalog's address has a query; expected https://host/api/v1")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    shown = f"{parts.scheme}://{host}{'' if port is None else f':{port}'}{parts.path.rstrip('/')}"
    if parts.scheme == "http" and not _is_loopback(parts.hostname):
        warn_once(
            f"catalog-http:{parts.hostname}",
            "catalog %s: the key and the tools travel in clear text; use https outside of this machine",
            shown,
        )
    return shown


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:  # a name, of which 127.example.com is one too
        return host == "localhost" or host.endswith(".localhost")


def _checked_key(key: str, variable: str, address: str) -> str:
    key = key.strip()
    if not key and not _is_loopback(urlsplit(address).hostname or ""):
        raise ValueError(f"catalog {address} needs a key; set {variable}")
    # httpx shows a header that cannot be sent, so it never gets one.
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ValueError(f"the key in {variable} (not shown) holds characters that no key has; copy it again")
    return key
