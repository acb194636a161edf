# SPDX-License-Identifier: Apache-2.0
"""Any Python value as a plain scalar or as its children, bounded and without running the value's own code.

Values are walked only where that neither consumes them nor calls into them: the built-in containers and
their subclasses (through the built-in methods), dataclasses, attrs classes and pydantic models (through
their stored fields). `repr` is never called: it may be slow, ask a database, or show a secret. Everything
unknown is ``<TypeName>``. Standard library only.
"""

from __future__ import annotations

import enum
import re
import types
from collections import UserDict, UserList, deque
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, cast

from acrux_otel.sanitize.redact import MARGIN, MASK

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["MAX_DEPTH", "Node", "Scalar", "as_text", "bound", "plain", "type_name"]

Scalar = bool | int | float | str | None
Node = tuple[bool, "Sequence[Any]", int]
"""Whether it is a mapping; the first children (pairs, for a mapping); how many there are in all."""

MAX_DEPTH: Final = 24
_SMALL: Final = 20_000  # characters, roughly

_SURROGATES: Final = re.compile("[\ud800-\udfff]").sub


def bound(text: str, limit: int) -> str:
    """``text`` as valid UTF-8 of at most ``limit`` bytes: U+FFFD for lone surrogates and NUL."""
    if len(text) > limit:
        text = text[: max(limit, 0)]
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
    if not text.isascii():
        try:
            data = text.encode()
        except UnicodeEncodeError:
            text = _SURROGATES("\ufffd", text)
            data = text.encode()
        if len(data) > limit:
            text = data[:limit].decode("utf-8", "ignore")
    return text


def type_name(value: object) -> str:
    """``TypeName`` of a value, whatever its class pretends."""
    return _name(type(value))


def as_text(value: object, room: int) -> str:
    """``str(value)``, guarded: ``<TypeName>`` where it raises. Of a KeyError about ``room`` characters."""
    try:
        if _is_a(value, str) and not _is_a(value, enum.Enum):
            return str.__str__(cast("str", value))
        if _is_a(value, BaseException):
            return _exception_text(cast("BaseException", value), room)
        return str.__str__(str(value))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:
        return f"<{type_name(value)}>"


def _is_a(value: object, kind: type) -> bool:
    # Not isinstance: it asks the value for its __class__.
    return issubclass(type(value), kind)


def plain(value: object, room: int) -> Scalar | Node:
    """``value`` as a scalar of a built-in type, or as a `Node` with the children that ``room`` bytes hold."""
    kind = type(value)
    if kind is str or kind is int or value is None or kind is bool or kind is float:
        return value  # type: ignore[return-value]  # a cast costs as much as the rest of this function
    if kind is dict:
        return _mapping(value, room)
    if kind is list or kind is tuple:
        return False, value[: room // 2 + 1], len(value)  # type: ignore[index,arg-type]
    try:
        return _unusual(value, room)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:
        return f"<{_name(kind)}>"


def _unusual(value: Any, room: int) -> Scalar | Node:
    first = value
    for _ in range(4):  # an enum member of an enum member …
        kind = type(value)
        if kind in _PLAIN:
            return cast("Scalar", value)
        rule = _rules.get(kind)
        if rule is None:
            if len(_rules) >= 512:  # classes made at run time must not be kept for ever
                _rules.clear()
            rule = _rules[kind] = _rule(kind)
        value = rule(value, room)
        if type(value) is tuple:
            return value  # a Node
    return cast("Scalar", value) if type(value) in _PLAIN else f"<{type_name(first)}>"


_PLAIN: Final = frozenset((str, int, float, bool, type(None)))
_rules: dict[type, Callable[[Any, int], Any]] = {}


def _rule(kind: type) -> Callable[[Any, int], Any]:
    for base, rule in _BY_BASE:
        if issubclass(kind, base):
            return rule
    bases = type.__dict__["__mro__"].__get__(kind)
    for base in bases:
        found = _BY_NAME.get(f"{_module(base)}.{_name(base)}")
        if found is not None:
            return found
    for base in bases:
        fields = type.__dict__["__dict__"].__get__(base)
        if "__dataclass_fields__" in fields:
            return _stored([n for n, f in fields["__dataclass_fields__"].items() if f.repr and _is_field(f)])
        if "__attrs_attrs__" in fields:
            return _stored([a.name for a in fields["__attrs_attrs__"] if a.repr is not False])
    return _placeholder


def _is_field(field: Any) -> bool:
    return getattr(field._field_type, "name", "") == "_FIELD"  # neither ClassVar nor InitVar


def _stored(names: list[str]) -> Callable[[Any, int], Any]:
    # A field kept out of the repr is kept out of telemetry too: that is how secrets are hidden.
    def rule(value: Any, room: int) -> Node:
        pairs = []
        for name in names[: room // 2 + 1]:
            try:
                pairs.append((name, object.__getattribute__(value, name)))
            except Exception:
                continue
        return True, pairs, len(names)

    return rule


def _model(value: Any, room: int) -> Node:
    # Not model_dump: it runs the model's serializers and computed fields, unbounded.
    kind = type(value)
    fields = getattr(kind, "__pydantic_fields__", None) or getattr(kind, "model_fields", {})
    stored = object.__getattribute__(value, "__dict__")
    pairs = [(k, v) for k, v in islice(stored.items(), room // 2 + 1) if k in fields and _shown(fields[k])]
    extra = object.__getattribute__(value, "__pydantic_extra__")
    if type(extra) is dict:
        pairs += islice(extra.items(), room // 2 + 1)
    return True, pairs, len(pairs)


def _shown(field: Any) -> bool:
    return bool(field.repr) and not field.exclude


def _mapping(value: Any, room: int) -> Node:
    return True, list(islice(dict.items(value), room // 2 + 1)), dict.__len__(value)


def _list(value: Any, room: int) -> Node:
    return False, list.__getitem__(value, slice(room // 2 + 1)), list.__len__(value)


def _tuple(value: Any, room: int) -> Node:
    return False, tuple.__getitem__(value, slice(room // 2 + 1)), tuple.__len__(value)


def _set(value: Any, room: int) -> Node:
    base = set if issubclass(type(value), set) else frozenset
    items = list(islice(base.__iter__(value), room // 2 + 1))
    if len(items) <= 1000 and set(map(type, items)) in ({str}, {int}):
        items.sort()
    return False, items, base.__len__(value)


def _deque(value: Any, room: int) -> Node:
    return False, list(islice(deque.__iter__(value), room // 2 + 1)), deque.__len__(value)


def _view(value: Any, room: int) -> Node:
    items = list(islice(iter(value), room // 2 + 1))
    return False, items, len(value)


def _proxy(value: Any, room: int) -> Node:
    return True, list(islice(value.items(), room // 2 + 1)), len(value)


def _wrapped(value: Any, room: int) -> Any:
    data = object.__getattribute__(value, "__dict__").get("data")
    return data if type(data) in (dict, list) else _placeholder(value, room)


def _bytes(value: Any, room: int) -> str:
    size = memoryview(value).nbytes
    if issubclass(type(value), memoryview):
        return f"<{size} bytes>"
    head = bytes(memoryview(value)[: room + MARGIN])
    try:
        text = head.decode()
    except UnicodeDecodeError as problem:
        if len(head) == size or problem.start < len(head) - 3:
            return f"<{size} bytes>"
        text = head[: problem.start].decode()
    return f"<{size} bytes>" if "\0" in text else text


def _exception(value: Any, room: int) -> str:
    message = as_text(value, room)
    return f"{type_name(value)}: {message}" if message else type_name(value)


def _exception_text(error: BaseException, room: int) -> str:
    # str() of most exceptions is the str() or repr() of their arguments, whatever the size of those.
    args = BaseException.__dict__["args"].__get__(error)
    own = type(error).__str__
    if own is BaseException.__str__ and len(args) == 1 and type(args[0]) is str:
        return args[0]
    if (own is not BaseException.__str__ and own is not KeyError.__str__) or _small(args, [_SMALL], 0):
        return str.__str__(str(error))
    texts = [repr(a[: room + MARGIN]) if type(a) is str else f"<{type_name(a)}>" for a in args[:8]]
    return texts[0] if len(args) == 1 else f"({', '.join(texts)})"


def _small(value: Any, fuel: list[int], depth: int) -> bool:
    """Whether the repr of a value is short, as far as the built-in containers tell."""
    kind = type(value)
    fuel[0] -= len(value) if kind is str or kind is bytes or kind is bytearray else 10
    if kind is dict or kind is list or kind is tuple or kind is set or kind is frozenset:
        if len(value) > fuel[0] or depth > MAX_DEPTH:
            return False
        children = list(value)
        if kind is dict:
            children += value.values()
        return all(_small(child, fuel, depth + 1) for child in children)
    return fuel[0] >= 0


def _enum(value: Any, room: int) -> Any:
    return value._value_


def _text(value: Any, room: int) -> str:
    return str.__str__(str(value))


def _moment(value: Any, room: int) -> Any:
    return value.isoformat()


def _array(value: Any, room: int) -> Any:
    if value.dtype.kind in "OV" or value.size > room // 2 + 1:
        return f"<{type_name(value)} {value.dtype} {value.shape}>"
    return value.tolist()


def _placeholder(value: Any, room: int) -> str:
    return f"<{type_name(value)}>"


_BY_BASE: Final[tuple[tuple[type, Callable[[Any, int], Any]], ...]] = (
    (enum.Enum, _enum),
    (str, lambda value, room: str.__str__(value)),
    (int, lambda value, room: int.__int__(value)),
    (float, lambda value, room: float.__float__(value)),
    (complex, _text),
    (dict, _mapping),
    (list, _list),
    (tuple, _tuple),
    (set, _set),
    (frozenset, _set),
    (deque, _deque),
    (bytes, _bytes),
    (bytearray, _bytes),
    (memoryview, _bytes),
    (range, _text),
    (type({}.keys()), _view),
    (type({}.values()), _view),
    (type({}.items()), _view),
    (types.MappingProxyType, _proxy),
    (UserDict, _wrapped),
    (UserList, _wrapped),
    (BaseException, _exception),
    (type, lambda value, room: f"<class {_name(value)}>"),
    (types.FunctionType, lambda value, room: f"<function {value.__name__}>"),
)
# By dotted name, so that none of these is imported for us.
_BY_NAME: Final[dict[str, Callable[[Any, int], Any]]] = {
    "uuid.UUID": _text,
    "decimal.Decimal": _text,
    "fractions.Fraction": _text,
    "datetime.date": _moment,
    "datetime.time": _moment,
    "datetime.timedelta": _text,
    "datetime.tzinfo": _text,
    "pathlib.PurePath": _text,
    "pathlib._local.PurePath": _text,
    "ipaddress._IPAddressBase": _text,
    "pydantic_core._pydantic_core.Url": _text,
    "pydantic.networks._BaseUrl": _text,
    "pydantic.types._SecretBase": lambda value, room: MASK,
    "pydantic.main.BaseModel": _model,
    "numpy.generic": lambda value, room: value.item(),
    "numpy.ndarray": _array,
}


def _name(kind: type) -> str:
    return str(type.__dict__["__name__"].__get__(kind))[:80]


def _module(kind: type) -> str:
    module = type.__dict__["__module__"].__get__(kind)
    return module if type(module) is str else ""
