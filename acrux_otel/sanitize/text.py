# SPDX-License-Identifier: Apache-2.0
"""Any value as bounded, valid, redacted text: the one gate that everything passes before the SDK.

Nothing here raises, short of KeyboardInterrupt and SystemExit. Standard library only, besides the modules
below: `redact` (secrets), `plain` (values without their own code), `payload` (JSON), `arguments` (a hash).
"""

from __future__ import annotations

import linecache
import os.path
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from acrux_otel.sanitize.payload import number, payload, size
from acrux_otel.sanitize.plain import as_text, bound, plain, type_name
from acrux_otel.sanitize.redact import MARGIN, Redactor

if TYPE_CHECKING:
    from types import TracebackType

__all__ = [
    "DESCRIPTION_LIMIT",
    "DETAIL_LIMIT",
    "MESSAGE_LIMIT",
    "PAYLOAD_LIMIT",
    "STACK_LIMIT",
    "exception_type",
    "safe_text",
    "stack",
    "text",
]

# bytes of UTF-8
DETAIL_LIMIT: Final = 1024
DESCRIPTION_LIMIT: Final = 256
MESSAGE_LIMIT: Final = 1024
PAYLOAD_LIMIT: Final = 16384
STACK_LIMIT: Final = 8192

_BYTES: Final = (bytes, bytearray, memoryview)

_FRAMES: Final = 20  # of the outermost exception; the first ones and, mostly, the last ones are kept
_CAUSE_FRAMES: Final = 6
_CAUSES: Final = 4
_GROUP_MEMBERS: Final = 5
_DEEPEST: Final = 20_000
_LINE_BYTES: Final = 200
_HEADER: Final = "Traceback (most recent call last):"
_BY_CAUSE: Final = "\n\nThe above exception was the direct cause of the following exception:\n\n"
_BY_CONTEXT: Final = "\n\nDuring handling of the above exception, another exception occurred:\n\n"
_OURS: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep

_frames: dict[tuple[str, int, str], str] = {}


def text(value: object, limit: int) -> str:
    """``value`` as valid text of at most ``limit`` bytes of UTF-8.

    ``str(value)``; of what `payload` walks (containers, dataclasses, …) its JSON, because that is bounded;
    ``<TypeName>`` where ``__str__`` raises. Lone surrogates and NUL become U+FFFD. Nothing is masked, but for
    the values in such JSON. Never raises.
    """
    if type(value) is str and len(value) <= limit and value.isascii() and "\0" not in value:
        return value
    return bound(_raw(value, limit, _DEFAULT), limit)


def safe_text(value: object, limit: int, redactor: Redactor, key: str = "") -> str:
    """As `text`, redacted: cut to the limit and a margin, masked, cut again.

    Args:
        value: anything.
        limit: bytes of UTF-8.
        redactor: what masks.
        key: what the text is (``errorDetail``, …), for the redactor's hook.
    """
    raw = _raw(value, limit, redactor)
    head = raw[: max(limit, 0) + MARGIN]
    return bound(redactor.mask(key, head, cut=len(head) < len(raw)), limit)


def exception_type(exc: BaseException) -> str:
    """``module.Qualname`` of an exception, without the module for builtins, as OpenTelemetry writes it."""
    kind = type(exc)
    try:
        name = type.__dict__["__qualname__"].__get__(kind)
        module = type.__dict__["__module__"].__get__(kind)
        if type(module) is str and module != "builtins":
            name = f"{module}.{name}"
        return bound(name, 256)
    except Exception:
        return bound(type_name(exc), 256)


def stack(exc: BaseException, limit: int, redactor: Redactor) -> str:
    """The traceback of an exception in Python's own format, bounded and redacted.

    Of many frames the first and the last are kept, of a chain of causes the nearest few; frames of this
    package at the top are left out, and notes. The last line is ``Type: message``. Never raises.

    Args:
        exc: the exception; it is not changed.
        limit: bytes of UTF-8.
        redactor: what masks; its hook gets the whole text as ``exception.stacktrace``.
    """
    try:
        made = _chain(exc, limit)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:
        made = exception_type(exc)
    return bound(redactor.apply_hook("exception.stacktrace", made), limit)


def _raw(value: object, limit: int, redactor: Redactor) -> str:
    kind = type(value)
    if kind is str:
        return value  # type: ignore[return-value]
    room = max(limit, 0)
    if not issubclass(kind, (str, BaseException)):
        made = plain(value, room)
        if isinstance(made, tuple):
            return payload(value, limit, redactor)[0]
        if kind is int:
            return number(made).strip('"')  # type: ignore[arg-type]
        if issubclass(kind, _BYTES):
            return str(made)
    return as_text(value, room)


def _chain(exc: BaseException, limit: int) -> str:
    made = _block(exc, limit, _FRAMES)
    seen = {id(exc)}
    link: BaseException = exc
    for _ in range(_CAUSES):
        cause, words = _own(link, "__cause__"), _BY_CAUSE
        if cause is None and not _own(link, "__suppress_context__"):
            cause, words = _own(link, "__context__"), _BY_CONTEXT
        if cause is None or id(cause) in seen:
            break
        room = limit - size(made) - len(words)
        block = _block(cause, room, _CAUSE_FRAMES)
        if not block:
            break
        made = block + words + made
        seen.add(id(cause))
        link = cause
    return made


def _block(exc: BaseException, limit: int, most: int) -> str:
    """One exception, without its causes, with as many frames as fit; empty where not even its line does."""
    last = _last_line(exc)
    members = _members(exc)
    if members:
        shown = [f"  + {_last_line(member)}" for member in members[:_GROUP_MEMBERS]]
        if len(members) > _GROUP_MEMBERS:
            shown.append(f"  + {len(members) - _GROUP_MEMBERS} more")
        last = "\n".join([*shown, last])
    room = limit - size(last) - len(_HEADER) - 2
    if room < 0:
        return bound(last, limit) if most == _FRAMES else ""
    frames = _trace(_own(exc, "__traceback__"), most)
    while frames and size("\n".join(frames)) > room:
        middle = len(frames) // 2
        frames[middle : middle + 2] = ["  ..."] if len(frames) > 2 else []
    return "\n".join([_HEADER, *frames, last])


def _own(exc: BaseException, name: str) -> Any:
    # Past whatever the class of the exception says about its attributes.
    return BaseException.__dict__[name].__get__(exc)


def _members(exc: BaseException) -> tuple[BaseException, ...]:
    """What is in an ExceptionGroup, or in the backport's."""
    try:
        if all(base.__name__ != "BaseExceptionGroup" for base in type(exc).__mro__):
            return ()
        members = exc.exceptions  # type: ignore[attr-defined]
    except Exception:
        return ()
    return members if type(members) is tuple else ()


def _last_line(exc: BaseException) -> str:
    raw = as_text(exc, MESSAGE_LIMIT)
    head = raw[: MESSAGE_LIMIT + MARGIN]
    message = bound(_DEFAULT.mask_known(head, cut=len(head) < len(raw)), MESSAGE_LIMIT)
    return f"{exception_type(exc)}: {message}" if message else exception_type(exc)


def _trace(trace: TracebackType | None, most: int) -> list[str]:
    while trace is not None and trace.tb_next and trace.tb_frame.f_code.co_filename.startswith(_OURS):
        trace = trace.tb_next
    first: list[TracebackType] = []
    last: deque[TracebackType] = deque(maxlen=most - most // 4)
    count = 0
    while trace is not None and count < _DEEPEST:
        if count < most // 4:
            first.append(trace)
        else:
            last.append(trace)
        count += 1
        trace = trace.tb_next
    made = [_frame(step) for step in first]
    if count > most:
        made.append(f"  ... {count - most} more frames ...")
    made += [_frame(step) for step in last]
    return made


def _frame(step: TracebackType) -> str:
    code = step.tb_frame.f_code
    place = (code.co_filename, step.tb_lineno or 0, code.co_name)
    known = _frames.get(place)
    if known is not None:
        return known
    line = linecache.getline(*place[:2]).strip()
    made = f'  File "{bound(place[0], _LINE_BYTES)}", line {place[1]}, in {bound(place[2], _LINE_BYTES)}'
    if line:
        head = line[: _LINE_BYTES + MARGIN]
        made += "\n    " + bound(_DEFAULT.mask_known(head, cut=len(head) < len(line)), _LINE_BYTES)
    if len(_frames) >= 2048:
        _frames.clear()
    _frames[place] = made
    return made


_DEFAULT: Final = Redactor()
