# SPDX-License-Identifier: Apache-2.0
"""What can be read off a foreign object without trusting it: attributes that raise, numbers that are no
status, headers that are junk. Imports the standard library only.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any, Final

__all__ = [
    "args_of",
    "cause_of",
    "code_of",
    "cut",
    "dotted",
    "get",
    "http_status",
    "is_exception",
    "members",
    "message_of",
    "retry_after",
    "retryable_status",
    "seconds",
    "status_of",
]

_DETAIL_BYTES: Final = 1024
_RETRY_AFTER_MOST: Final = 86_400.0
_LOOKED_AT: Final = 256  # headers of a response, members of a group


def dotted(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


_WORDS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def code_of(cls_name: str) -> str:
    """A class name as an errorCode: ``JSONDecodeError`` -> ``json_decode_error``.

    Args:
        cls_name: the class's bare name.

    Returns:
        A slug of at most 64 characters; ``unspecified`` where nothing of the name is left.
    """
    words = _WORDS.sub("_", cls_name[:256]).lower()
    return re.sub(r"[^a-z0-9]+", "_", words).strip("_")[:64].rstrip("_") or "unspecified"


def cut(text: str) -> str:
    """At most 1,024 bytes of UTF-8, ended at a code point."""
    text = str.__getitem__(text, slice(_DETAIL_BYTES))
    if text.isascii():
        return text
    encoded = text.encode("utf-8", "surrogatepass")
    if len(encoded) <= _DETAIL_BYTES:
        return text
    end = _DETAIL_BYTES
    while encoded[end] & 0xC0 == 0x80:
        end -= 1
    return encoded[:end].decode("utf-8", "surrogatepass")


def message_of(exc: BaseException) -> str:
    """The exception's own message; its class name where that is empty or raises."""
    try:
        text = cut(str(exc))
        if text and not text.isspace():
            return text
    except Exception:
        pass
    return cut(type(exc).__name__)


def get(obj: object, name: str) -> Any:
    """The attribute, or None where there is none or where reading it raises."""
    try:
        return getattr(obj, name, None)
    except Exception:
        return None


def http_status(value: object) -> int:
    """``value`` as an HTTP status, or 0."""
    kind = type(value)
    if kind is bool or not issubclass(kind, int):
        return 0
    number = int.__add__(value, 0)  # type: ignore[operator]  # exact, whatever the subclass overrides
    return number if 100 <= number <= 599 else 0


def status_of(exc: BaseException, *trusted: str) -> int:
    """The typed HTTP status that ``exc`` carries, or 0; ``trusted`` names are HTTP on this class."""
    if found := http_status(get(exc, "status_code")):
        return found
    response = get(exc, "response")
    if response is not None and (
        found := http_status(get(response, "status_code")) or http_status(get(response, "status"))
    ):
        return found
    for name in ("status", "code"):
        value = get(exc, name)
        if value is None:
            continue
        # a bare number under these names is as often an exit code or an application's own
        if (
            name in trusted
            or dotted(type(value)) == "http.HTTPStatus"
            or response is not None
            or get(exc, "headers") is not None
        ) and (found := http_status(value)):
            return found
        if type(value) is int:  # aiohttp warns of its `code`, which only repeats `status`
            break
    return 0


_RETRYABLE: Final = frozenset((408, 425, 429, 500, 502, 503, 504, 529))
_NEVER: Final = frozenset((501, 505))  # the server says that it cannot, not that it could not


def retryable_status(status: int) -> bool | None:
    if status in _RETRYABLE:
        return True
    return False if 400 <= status < 500 or status in _NEVER else None


def retry_after(exc: BaseException) -> float | None:
    """The service's ``Retry-After`` in seconds, at most a day; None where absent or not understood."""
    response = get(exc, "response")
    for holder in (response, exc):
        headers = get(holder, "headers")
        if headers is not None and (value := _header(headers)) is not None:
            return seconds(value)
    if type(response) is dict:  # botocore
        metadata = response.get("ResponseMetadata")
        headers = metadata.get("HTTPHeaders") if type(metadata) is dict else None
        return seconds(_header(headers))
    return None


def _header(headers: object) -> object:
    try:
        if isinstance(headers, dict) or type(headers) in (list, tuple):
            pairs: Any = headers.items() if isinstance(headers, dict) else headers
            for name, value in itertools.islice(pairs, _LOOKED_AT):
                if (name.decode("latin-1") if isinstance(name, bytes) else name).lower() == "retry-after":
                    return value
            return None
        return headers.get("Retry-After")  # type: ignore[attr-defined]
    except Exception:
        return None


_DIGITS: Final = re.compile(r"[0-9]{1,64}(?:\.[0-9]{1,64})?").fullmatch


def seconds(value: object) -> float | None:
    """RFC 9110, 10.2.3: seconds or an HTTP date. What a server sends is bounded, never trusted."""
    try:
        if isinstance(value, bytes):
            value = value[:256].decode("latin-1")
        if isinstance(value, str):
            text = value[:256].strip()
            wait = float(text) if _DIGITS(text) else _until(text)
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            wait = min(value, _RETRY_AFTER_MOST)  # before float(), which a huge int overflows
        else:
            return None
        return min(float(wait), _RETRY_AFTER_MOST) if wait >= 0 else None
    except Exception:
        return None


def _until(text: str) -> float:
    from datetime import datetime, timezone
    from email.utils import parsedate_to_datetime  # costly to import, seldom needed

    when = parsedate_to_datetime(text)
    if when.tzinfo is None:
        when = when.replace(tzinfo=timezone.utc)
    return max(0.0, (when - datetime.now(timezone.utc)).total_seconds())


_own: Final[Any] = BaseException  # read past what a subclass puts under these names
cause_of: Final[Callable[[BaseException], BaseException | None]] = _own.__cause__.__get__
args_of: Final[Callable[[BaseException], tuple[object, ...]]] = _own.args.__get__


def is_exception(value: object) -> bool:
    return issubclass(type(value), BaseException)


def members(exc: BaseException) -> list[BaseException]:
    members = get(exc, "exceptions")
    if type(members) not in (tuple, list):
        return []
    return [member for member in members[:_LOOKED_AT] if is_exception(member)]
