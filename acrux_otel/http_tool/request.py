# SPDX-License-Identifier: Apache-2.0
"""Arguments -> request: which argument goes into the path, the query or the body."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from acrux_otel.http_tool.errors import ArgumentRefused

if TYPE_CHECKING:
    import httpx

__all__ = ["METHODS", "RequestShape"]

METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
_WITHOUT_BODY: Final = ("GET", "HEAD", "DELETE")  # RFC 9110: content in these has no defined meaning
_PLACEHOLDER: Final = re.compile(r"\{([^{}]*)\}")
_OMITTED: Final = object()


class RequestShape:
    """How the arguments of one tool become a request.

    Args:
        method: one of `METHODS`.
        url: with ``{name}`` of parameters in its path or query; absolute unless the client has a base.
        signature: the tool's.
        query: parameters that go into the query whatever the method is.
        body: the parameter that is the whole JSON body.

    Raises:
        ValueError: a name that is no parameter, a placeholder outside path and query.
    """

    def __init__(
        self, method: str, url: str, signature: inspect.Signature, query: Collection[str], body: str | None
    ) -> None:
        self.method, self.url = method, url
        self._optional = {
            each.name for each in signature.parameters.values() if each.default is not each.empty
        }
        names = list(signature.parameters)
        in_url = _placeholders(url)
        for what, given in (("url", in_url), ("query=", query), ("body=", (body,) if body else ())):
            for name in given:
                if name not in names:
                    raise ValueError(
                        f"{what} names {name!r}, which is no parameter; expected {', '.join(names) or 'none'}"
                    )
        self._in_url = frozenset(in_url)
        rest = [name for name in names if name not in self._in_url and name not in query and name != body]
        if body is not None and method in _WITHOUT_BODY:
            raise ValueError(f"body= was given, and a {method} has none; use POST, PUT or PATCH")
        to_query = method in _WITHOUT_BODY or body is not None
        self._query = [name for name in names if name in query or (to_query and name in rest)]
        self._body = body
        self._fields = [] if to_query else rest

    def request(
        self, client: Any, arguments: Mapping[str, Any], headers: Mapping[str, str] | None, timeout: float
    ) -> httpx.Request:
        """The request of one call.

        Args:
            client: an httpx client, sync or async.
            arguments: of every parameter, defaults included.
            timeout: seconds for each step of the exchange.

        Raises:
            ArgumentRefused: a value that cannot be sent.
        """
        import httpx

        filled = _PLACEHOLDER.sub(lambda found: _segment(found[1], arguments[found[1]]), self.url)
        url = httpx.URL(filled)
        for name in self._query:
            for value in self._values(name, arguments[name]):
                url = url.copy_add_param(name, value)
        content = self._content(arguments)
        return client.build_request(  # type: ignore[no-any-return]
            self.method,
            url,
            content=content,
            timeout=timeout,
            headers={**({} if content is None else {"content-type": "application/json"}), **(headers or {})},
        )

    def _values(self, name: str, value: object) -> Iterator[str]:
        plain = _plain(name, value)
        for each in plain if isinstance(plain, list) else [plain]:
            if isinstance(each, (dict, list)):
                raise ArgumentRefused(f"{name} is {type(each).__name__}, which a query cannot hold")
            if each is not None:
                yield _text(name, each)

    def _content(self, arguments: Mapping[str, Any]) -> bytes | None:
        if self._body is not None:
            made = _plain(self._body, arguments[self._body])
            if made is None and self._body in self._optional:
                return None
        elif self._fields:
            made = {
                name: plain
                for name in self._fields
                if (plain := _plain(name, arguments[name])) is not None or name not in self._optional
            }
        else:
            return None
        try:
            return json.dumps(made, allow_nan=False).encode()
        except ValueError as error:
            raise ArgumentRefused(f"the body is no JSON: {error}") from error


def _placeholders(url: str) -> list[str]:
    found = _PLACEHOLDER.findall(url)
    if re.search("[{}]", _PLACEHOLDER.sub("", url)):
        raise ValueError(f"url {url!r:.200} has a brace without its other; write {{name}}")
    authority = re.match(r"[^/?#]*://[^/?#]*", url)
    if authority is not None and "{" in authority[0]:
        raise ValueError(f"url {url!r:.200} has a placeholder before its path; no argument chooses the host")
    return [str(name) for name in found]


def _segment(name: str, value: object) -> str:
    plain = _plain(name, value)
    if plain is None or isinstance(plain, (dict, list)):
        raise ArgumentRefused(f"{name} is {type(value).__name__}, which a path cannot hold")
    text = _text(name, plain)
    if text in ("", ".", ".."):
        raise ArgumentRefused(f"{name} is {text!r}, which would change the path")
    return quote(text, safe="")


def _text(name: str, plain: object) -> str:
    if isinstance(plain, bool):
        return "true" if plain else "false"
    text = str(plain)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ArgumentRefused(f"{name} is no valid text: {error.reason}") from error
    return text


def _plain(name: str, value: object) -> Any:
    """``value`` in JSON's types: what pydantic makes of models, dates, enums and their like."""
    from pydantic_core import to_jsonable_python

    try:
        return to_jsonable_python(value)
    except Exception as error:
        raise ArgumentRefused(f"{name} is {type(value).__name__}, which JSON cannot hold") from error
