# SPDX-License-Identifier: Apache-2.0
"""A span that OpenTelemetry's encoder would refuse, or a backend would, made fit to send.

Our own spans are clean from the start; these are the program's and its libraries'. One bad value must not
cost the batch that it travels in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.trace import Link, Status

__all__ = ["repaired"]

_LARGEST: Final = 2**63 - 1
_SMALLEST: Final = -(2**63)
_DEEPEST: Final = 16
_MOST: Final = 1_000_000


def repaired(span: ReadableSpan, most: int = _MOST) -> ReadableSpan:
    """``span`` itself where nothing is wrong with it, else a copy.

    Args:
        most: characters that one text value may have.
    """
    if _sound(span, most):
        return span
    return ReadableSpan(
        name=_text(span.name, most),
        context=span.context,
        parent=span.parent,
        resource=span.resource,
        attributes=_attributes(span.attributes, most),
        events=[
            Event(_text(event.name, most), _attributes(event.attributes, most), event.timestamp)
            for event in span.events
        ],
        links=[Link(link.context, _attributes(link.attributes, most)) for link in span.links],
        kind=span.kind,
        status=Status(span.status.status_code, _text(span.status.description or "", most) or None),
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=span.instrumentation_scope,
    )


def _sound(span: ReadableSpan, most: int) -> bool:
    return (
        _fit(span.name, most)
        and _fit(span.status.description, most)
        and _all_fit(span.attributes, most)
        and all(_fit(event.name, most) and _all_fit(event.attributes, most) for event in span.events)
        and all(_all_fit(link.attributes, most) for link in span.links)
    )


def _all_fit(attributes: Mapping[str, Any] | None, most: int) -> bool:
    return not attributes or all(_fit(key, most) and _fit(value, most) for key, value in attributes.items())


def _fit(value: object, most: int, depth: int = 0) -> bool:
    kind = type(value)
    if kind is str:
        return len(value) <= most and (value.isascii() or _encodes(value))  # type: ignore[arg-type, attr-defined]
    if kind is bool or kind is float or value is None:
        return True
    if kind is int:
        return _SMALLEST <= value <= _LARGEST  # type: ignore[operator]
    if isinstance(value, (bytes, bytearray)):
        return len(value) <= most
    if depth >= _DEEPEST:
        return False
    if isinstance(value, Mapping):
        return all(_fit(str(k), most) and _fit(v, most, depth + 1) for k, v in value.items())
    if not isinstance(value, (tuple, list)):
        return False
    return all((item is not None or _none_fits()) and _fit(item, most, depth + 1) for item in value)


@cache
def _none_fits() -> bool:
    """Whether this encoder knows None in a list; an older one drops the attribute and logs a traceback."""
    try:
        from opentelemetry.exporter.otlp.proto.common._internal import _encode_value

        _encode_value(None)
    except Exception:
        return False
    return True


def _encodes(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _attributes(attributes: Mapping[str, Any] | None, most: int) -> dict[str, Any]:
    return {_text(key, most): _value(value, most) for key, value in (attributes or {}).items()}


def _value(value: Any, most: int, depth: int = 0) -> Any:
    if _fit(value, most, depth):
        return value
    if isinstance(value, str):
        return _text(value, most)
    if isinstance(value, (bytes, bytearray)):
        return bytes(value[:most])
    if isinstance(value, int):
        return _text(hex(value), most)  # decimal text of a huge int is refused by the interpreter
    if depth < _DEEPEST:
        if isinstance(value, Mapping):
            return {_text(str(k), most): _value(v, most, depth + 1) for k, v in value.items()}
        if isinstance(value, Sequence):
            return [_value(item, most, depth + 1) for item in value if item is not None or _none_fits()]
    return f"<{type(value).__name__}>"


def _text(value: str, most: int) -> str:
    return value[:most].encode("utf-8", "replace").decode()
