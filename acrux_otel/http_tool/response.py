# SPDX-License-Identifier: Apache-2.0
"""Response -> what the tool returns: its data, or the verdict that the declaration finds in it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from acrux_otel.http_tool.errors import UnreadableResponse
from acrux_otel.verdict import ToolResult

if TYPE_CHECKING:
    import httpx

__all__ = ["ResponseMeaning"]

_TOLD = 500  # characters of the service's own words in a message


class ResponseMeaning:
    """What the responses of one tool mean; the expressions are JMESPath over the JSON body.

    Args:
        failure_when: true where the call failed although its status says otherwise.
        warn_when: true where the answer deserves a look.
        code, message: the errorCode and the text of either; the latter of a failing status too.
        value: what the tool returns of the body; all of it by default.
        returns: makes the declared return type of that.

    Raises:
        ValueError: an expression that is no JMESPath.
    """

    def __init__(
        self,
        *,
        failure_when: str | None,
        warn_when: str | None,
        code: str | None,
        message: str | None,
        value: str | None,
        returns: Callable[[Any], Any],
    ) -> None:
        self._failure_when = _compiled("failure_when", failure_when)
        self._warn_when = _compiled("warn_when", warn_when)
        self._code = _compiled("error_code", code)
        self._message = _compiled("error_message", message)
        self._value = _compiled("response", value)
        self._returns = returns
        self._needs_json = any((failure_when, warn_when, value))

    def of(self, response: httpx.Response) -> Any:
        """What the tool returns for ``response``, which is read and below 300.

        Raises:
            ValueError: json.JSONDecodeError, UnicodeDecodeError, jmespath's and pydantic's errors: the body
                is not what the declaration says.
        """
        data = self._data(response)
        if self._failure_when and _true(self._failure_when.search(data)):
            return ToolResult.error(*self._told(data, "reported_failure", self._failure_when), result=data)
        value = self._returns(self._value.search(data) if self._value else data)
        if self._warn_when and _true(self._warn_when.search(data)):
            return ToolResult.warn(*self._told(data, "reported_warning", self._warn_when), result=value)
        return value

    def fail(self, response: httpx.Response) -> NoReturn:
        """Raise what a status of 300 and above means: httpx.HTTPStatusError, with the service's own words."""
        import httpx

        request = response.request
        told = f"{request.method} {request.url.host} answered {response.status_code} {response.reason_phrase}"
        words = self._words(response)
        raise httpx.HTTPStatusError(
            f"{told.rstrip()}: {words[:_TOLD]}" if words else told.rstrip(),
            request=request,
            response=response,
        )

    def _words(self, response: httpx.Response) -> str | None:
        try:
            data = json.loads(response.content)
            found = self._message.search(data) if self._message else None
            if not found and _media_type(response) == "application/problem+json":  # RFC 9457
                found = data.get("detail") or data.get("title")
        except Exception:  # a failing server may answer anything; its status is what counts
            return None
        return found if isinstance(found, str) else None

    def _data(self, response: httpx.Response) -> Any:
        if not response.content:
            return None
        kind = _media_type(response)
        if self._needs_json or kind == "application/json" or kind.endswith("+json"):
            return _json(response.content)
        if kind.startswith("text/"):
            return response.content.decode(response.charset_encoding or "utf-8")
        return response.content

    def _told(self, data: Any, code: str, condition: Any) -> tuple[str, str]:
        named = self._code.search(data) if self._code else None
        if isinstance(named, (str, int)) and not isinstance(named, bool) and named != "":
            code = str(named)
        words = self._message.search(data) if self._message else None
        if not isinstance(words, str) or not words:
            words = f"the response matches {condition.expression!r}"
        return code, words[:_TOLD]


def _compiled(option: str, expression: str | None) -> Any:
    if expression is None:
        return None
    import jmespath
    from jmespath.exceptions import JMESPathError

    if not isinstance(expression, str):
        raise TypeError(f"{option}= is {expression!r:.80}; expected a JMESPath expression")
    try:
        return jmespath.compile(expression)
    except JMESPathError as error:
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"{option}= is {expression!r:.200}, which is no JMESPath expression: {reason}"
        ) from None


def _true(found: Any) -> bool:
    """JMESPath's own notion: a number is true, 0 too."""
    return (isinstance(found, (int, float)) and not isinstance(found, bool)) or bool(found)


def _media_type(response: httpx.Response) -> str:
    return str(response.headers.get("content-type", "")).partition(";")[0].strip().lower()


def _json(content: bytes) -> Any:
    try:
        return json.loads(content, parse_constant=_no_number)
    except RecursionError:
        raise UnreadableResponse("the JSON is nested too deeply") from None


def _no_number(constant: str) -> NoReturn:
    raise UnreadableResponse(f"{constant} is no JSON")
