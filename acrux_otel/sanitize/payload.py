# SPDX-License-Identifier: Apache-2.0
"""Any Python value as bounded JSON text that always parses. Imports what is below it: plain, redact.

A value that fits is written in one walk. One that does not is walked again with a byte budget: in each
container the small children are served first and what they leave goes to the large ones, so that
``{"q": "short", "rows": [...]}`` keeps its ``q``. Both walks are bounded in depth, nodes and bytes; nothing
large is copied or scanned whole.
"""

from __future__ import annotations

import json.encoder
from typing import TYPE_CHECKING, Any, Final

from acrux_otel.sanitize.plain import MAX_DEPTH, bound, plain, type_name
from acrux_otel.sanitize.redact import HARMLESS_LENGTH, MARGIN, MASK, _names

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .redact import Redactor

__all__ = ["LEAST", "key_text", "number", "payload", "size"]

_MAX_NODES: Final = 3000
_SIZED_NODES: Final = 500
_CUT_WIDTH: Final = 256  # entries of a dict that are looked at where not all of them fit
_KEY_BYTES: Final = 256
_INT_BITS: Final = 2000  # str() of an int is quadratic, and refuses above 640 to 4,300 digits
LEAST: Final = 16  # bytes; below that no JSON says anything
_FLAT: Final = 8
_CUT: Final = '"…"'
_CUT_BYTES: Final = 5
_MORE_BYTES: Final = 32  # room for `,"…":"1234567890 more"`
_SHARE: Final = 64  # what a child gets at least, in bytes
_NOT_FINITE: Final = {"nan": '"NaN"', "inf": '"Infinity"', "-inf": '"-Infinity"'}

_quote: Final = json.encoder.encode_basestring
_fragments: dict[str, tuple[str, bool]] = {}


def payload(value: object, limit: int, redactor: Redactor) -> tuple[str, int | None]:
    """``value`` as JSON text that always parses.

    NaN, infinities and ints beyond 64 bits become strings, bytes become text or ``<N bytes>``, a cycle
    ``<circular>``, what is nested too deep ``<deep>``, and whatever JSON cannot say ``<TypeName>``. A cut
    string, list or object ends with ``…`` where there is room for it.

    Args:
        value: anything; iterators, files and lazy objects are not touched.
        limit: bytes of UTF-8, at least 16.
        redactor: masks dict values by key, and secrets inside strings and keys.

    Returns:
        The JSON text; and None, or where something was cut the size in bytes that ``value`` would have had
        as compact JSON: exact for plain data of less than 500 nodes and 64 Ki characters beyond ASCII, but
        for escapes; else an estimate from the first parts, at least the size of what is returned. Never
        raises.
    """
    limit = max(limit, LEAST)
    if type(value) is dict:
        flat = _flat(value, redactor)
        if flat is not None and len(flat) <= limit:
            return flat, None
    try:
        whole = _whole(value, "", limit, redactor)
        if whole is not None:
            return whole, None
        cut = _Cut(redactor)
        made = cut.value(value, "", 0, limit)
        return made, max(_original_size(value), size(made)) if cut.happened else None
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # the user's stack may be nearly used up
        return _quote(bound(f"<{type_name(value)}>", limit // 6 - 2)), None


def _flat(value: dict[Any, Any], redactor: Redactor) -> str | None:
    """A small dict of short, harmless scalars, which most arguments are; None for anything else."""
    if len(value) > _FLAT or redactor.hook is not None:
        return None
    parts = []
    for key, item in value.items():
        # A key known to be no secret was looked at before, so it is text without surprises.
        if type(key) is not str or _names.get(key) is not False or not key.isascii():
            return None
        kind = type(item)
        if kind is str:
            if len(item) >= HARMLESS_LENGTH or ":" in item or "=" in item or not item.isascii():
                return None
            parts.append(f"{_quote(key)}:{_quote(item)}")
        elif kind is int and -(2**63) <= item < 2**63:
            parts.append(f"{_quote(key)}:{item}")
        elif item is None or kind is bool:
            parts.append(f"{_quote(key)}:{number(item)}")
        else:
            return None
    made = f"{{{','.join(parts)}}}"
    return None if "\\u0000" in made else made


def size(text: str) -> int:
    """How many bytes of UTF-8."""
    return len(text) if text.isascii() else len(text.encode())


def number(value: bool | int | float | None) -> str:
    """A scalar that is not a str, as JSON."""
    if value is None:
        return "null"
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, int):
        if -(2**63) <= value < 2**63:
            return int.__repr__(value)
        bits = value.bit_length()
        return f'"{value}"' if bits <= _INT_BITS else f'"<int of {bits} bits>"'
    made = float.__repr__(value)
    return _NOT_FINITE.get(made, made)


def key_text(key: object) -> str:
    """A dict key as JSON would name it; a tuple by its members."""
    made = plain(key, _KEY_BYTES)
    if isinstance(made, str):
        return made
    if not isinstance(made, tuple):
        return number(made).strip('"')
    is_map, children, total = made
    if is_map or total > 8:
        return f"<{type_name(key)}>"
    members = [plain(child, _KEY_BYTES) for child in children]
    texts = [
        m[:_KEY_BYTES] if isinstance(m, str) else "…" if isinstance(m, tuple) else number(m) for m in members
    ]
    return f"({', '.join(texts)})"


class _Overflow(Exception):
    """The value does not fit whole."""


def _whole(value: object, key: str, limit: int, redactor: Redactor) -> str | None:
    """``value`` as JSON, or None where that takes more than ``limit`` bytes."""
    try:
        made = _Whole(limit, redactor).value(value, key, 0)
    except _Overflow:
        return None
    return made if size(made) <= limit else None


class _Whole:
    """The walk over a value that fits; raises `_Overflow` as soon as it is clear that it does not."""

    __slots__ = ("_left", "_mask", "_nodes", "_path", "_plain_text", "_redactor")

    def __init__(self, limit: int, redactor: Redactor) -> None:
        self._left = limit
        self._nodes = _MAX_NODES
        self._path: tuple[int, ...] = ()
        self._redactor = redactor
        self._mask = redactor.mask
        self._plain_text = 15 if redactor.hook is None else 0  # below this length there are shortcuts

    def value(self, value: object, key: str, depth: int) -> str:
        made = plain(value, self._left)
        if isinstance(made, str):
            return self._text(made, key)
        if not isinstance(made, tuple):
            piece = number(made)
            self._left -= len(piece)
            return piece
        mark = id(value)
        if mark in self._path:
            self._left -= 12
            return '"<circular>"'
        is_map, children, total = made
        self._nodes -= total
        self._left -= 1 + max(total, 1)  # brackets and commas
        if self._left < 0 or (self._nodes < 0 and not _all_numbers(children)) or depth >= MAX_DEPTH:
            raise _Overflow
        path = self._path
        self._path = (*path, mark)
        made_text = self._pairs(children, depth + 1) if is_map else self._items(children, key, depth + 1)
        self._path = path
        return made_text

    def _pairs(self, pairs: Sequence[Any], depth: int) -> str:
        parts = []
        for key, item in pairs:
            name = key if type(key) is str else key_text(key)
            fragment, secret = _fragments.get(name) or self._new_fragment(name)
            self._left -= len(fragment)
            kind = type(item)
            if secret:
                parts.append(f'{fragment}"{MASK}"')
                self._left -= 12
            elif kind is str:
                parts.append(fragment + self._text(item, name))
            elif kind is int and -(2**63) <= item < 2**63:
                parts.append(f"{fragment}{item}")
            else:
                parts.append(fragment + self.value(item, name, depth))
        if self._left < 0:
            raise _Overflow
        return "{" + ",".join(parts) + "}"

    def _items(self, items: Sequence[Any], key: str, depth: int) -> str:
        numbers = _numbers(items) if len(items) > 8 else None
        if numbers is not None:
            self._left -= len(numbers) - len(items)
            return f"[{numbers}]"
        if len(items) > 64 and sum(map(_weight, items[:8])) * len(items) > 16 * self._left:
            raise _Overflow  # not proven, but the other walk writes all of it too if it does fit
        return "[" + ",".join([self.value(item, key, depth) for item in items]) + "]"

    def _text(self, text: str, key: str) -> str:
        self._left -= len(text) + 2
        if self._left < 0:
            raise _Overflow
        if len(text) >= self._plain_text or ":" in text or "=" in text:
            text = self._mask(key, text)
        if not text.isascii() or "\0" in text:
            text = bound(text, 4 * len(text))
        return _quote(text)

    def _new_fragment(self, name: str) -> tuple[str, bool]:
        if len(name) * 4 > _KEY_BYTES and size(bound(name, _KEY_BYTES + 1)) > _KEY_BYTES:
            raise _Overflow
        return _fragment(name, self._redactor)


def _fragment(name: str, redactor: Redactor) -> tuple[str, bool]:
    """``"name":`` as JSON, of bounded length, and whether the value is secret."""
    head = name[: _KEY_BYTES + MARGIN]
    masked = redactor.mask_known(head, cut=len(head) < len(name))
    shown = bound(masked, _KEY_BYTES)
    if len(shown) < len(masked):
        shown += "…"
    made = _quote(shown) + ":", redactor.secret_key(name)
    if len(name) <= 64:
        if len(_fragments) >= 2048:  # keys may be data
            _fragments.clear()
        _fragments[name] = made
    return made


def _all_numbers(items: Sequence[Any]) -> bool:
    return set(map(type, items)) in ({int}, {float})


def _numbers(items: Sequence[Any]) -> str | None:
    """Finite floats or 64-bit ints, joined by commas; None for anything else. Made for long lists."""
    kinds = set(map(type, items))
    if kinds == {int} and min(items) >= -(2**63) and max(items) < 2**63:
        return ",".join(map(int.__repr__, items))
    if kinds == {float}:
        made = ",".join(map(float.__repr__, items))
        return None if "n" in made else made
    return None


class _Cut:
    """The walk over a value that does not fit."""

    __slots__ = ("_nodes", "_path", "_redactor", "happened")

    def __init__(self, redactor: Redactor) -> None:
        self.happened = False
        self._nodes = _MAX_NODES
        self._path: set[int] = set()
        self._redactor = redactor

    def value(self, value: object, key: str, depth: int, budget: int) -> str:
        """``value`` as JSON of at most ``budget`` bytes, which is at least 5."""
        self._nodes -= 1
        made = plain(value, budget)
        if isinstance(made, str):
            return self._text(made, key, budget)
        if not isinstance(made, tuple):
            piece = number(made)
            return piece if len(piece) <= budget else self._cut()
        mark = id(value)
        if mark in self._path:
            return '"<circular>"' if budget >= 12 else self._cut()
        if budget < LEAST or self._nodes < 0 or depth >= MAX_DEPTH:
            return self._cut('"<deep>"' if depth >= MAX_DEPTH and budget >= 8 else _CUT)
        is_map, children, total = made
        self._path.add(mark)
        try:
            if is_map:
                return self._map(children, total, depth + 1, budget)
            return self._list(children, total, key, depth + 1, budget)
        finally:
            self._path.discard(mark)

    def _cut(self, instead: str = _CUT) -> str:
        self.happened = True
        return instead

    def _text(self, text: str, key: str, budget: int) -> str:
        head = text[: budget + MARGIN]
        cut = len(head) < len(text)
        masked = self._redactor.mask(key, head, cut=cut)
        made = _quote(bound(masked, 4 * len(masked)))
        if not cut and size(made) <= budget:
            return made
        self.happened = True
        head = bound(masked, budget - _CUT_BYTES)
        while True:
            made = _quote(head + "…")
            taken = size(made)
            if taken <= budget or not head:
                return made
            head = head[: min(len(head) - 1, len(head) * budget // taken)]  # escapes took more room

    def _map(self, pairs: Sequence[Any], total: int, depth: int, budget: int) -> str:
        entries = []
        for key, value in pairs[: min(_CUT_WIDTH, 1 + budget // 6)]:
            name = key_text(key)
            self.happened = self.happened or len(name) > _KEY_BYTES
            fragment, secret = _fragments.get(name) or _fragment(name, self._redactor)
            entries.append((fragment, name, secret, value))
        self._nodes -= len(entries)
        shown = self._share_out(entries, depth, _room(budget))
        return "{" + self._with_more(shown, total - len(shown), '"…":"%d more"', budget - 2) + "}"

    def _list(self, items: Sequence[Any], total: int, key: str, depth: int, budget: int) -> str:
        numbers = _numbers(items) if total > 8 else None
        if numbers is not None:
            shown, count = self._first_numbers(numbers, total, budget)
        else:
            if total * _SHARE <= budget:
                entries = [("", key, False, item) for item in items]
                shown = self._share_out(entries, depth, _room(budget))
            else:
                shown = self._first(items, key, depth, budget)
            count = len(shown)
        return "[" + self._with_more(shown, total - count, '"… %d more"', budget - 2) + "]"

    def _first_numbers(self, numbers: str, total: int, budget: int) -> tuple[list[str], int]:
        if len(numbers) > budget - 2 or numbers.count(",") + 1 < total:
            numbers = numbers[: max(numbers.rfind(",", 0, _room(budget)), 0)]
        return ([numbers], numbers.count(",") + 1) if numbers else ([], 0)

    def _first(self, items: Sequence[Any], key: str, depth: int, budget: int) -> list[str]:
        """The first items of a long list: some of them readable is better than many in shreds."""
        room = _room(budget)
        share = max(budget // 8, _SHARE)
        shown: list[str] = []
        for item in items:
            own = min(share, room) - 1
            if own < _CUT_BYTES or self._nodes < 0:
                break
            text = type(item) is str
            piece = None if text else _whole(item, key, own, self._redactor)  # the faster where it works
            if piece is None:
                last = own < share - 1 and shown
                if last and not (text and len(item) < own):
                    break
                piece = self.value(item, key, depth, own)
            shown.append(piece)
            room -= size(piece) + 1
        return shown

    def _share_out(self, entries: list[tuple[str, str, bool, Any]], depth: int, room: int) -> list[str]:
        """The entries as JSON: the lightest are served first, each within its share of what is left."""
        made: list[str | None] = [None] * len(entries)
        deep = 2 if len(entries) <= 16 else 1 if len(entries) <= 64 else 0
        weights = [0 if secret else _weight(value, deep) for _, _, secret, value in entries]
        waiting = len(entries)
        for place in sorted(range(len(entries)), key=weights.__getitem__):
            fragment, key, secret, value = entries[place]
            own = size(fragment) + 1
            share = min(max(room // waiting, _SHARE), room) - own
            waiting -= 1
            if share < _CUT_BYTES or self._nodes < 0:
                continue
            if secret:
                piece = f'"{MASK}"' if share >= 12 else self._cut()
            else:
                piece = self.value(value, key, depth, share)
            room -= own + size(piece)
            made[place] = fragment + piece
        return [piece for piece in made if piece is not None]

    def _with_more(self, shown: list[str], missing: int, words: str, room: int) -> str:
        """The pieces, joined, and how many more there were, where that fits."""
        joined = ",".join(shown)
        if missing <= 0:
            return joined
        self.happened = True
        more = words % missing
        if size(joined) + size(more) + 1 > room:
            return joined
        return f"{joined},{more}" if joined else more


def _room(budget: int) -> int:
    return budget - 2 - _MORE_BYTES if budget > 3 * _MORE_BYTES else budget - 2


def _weight(value: object, deep: int = 1) -> int:
    """Roughly how many bytes a value takes, by a glance."""
    kind = type(value)
    if kind is str or kind is bytes or kind is bytearray:
        return len(value) + 2  # type: ignore[arg-type]
    if kind is not dict and kind is not list and kind is not tuple:
        return 24
    items: Any = value
    if not deep or len(items) > 16:
        return 12 * len(items) + 2
    children: Iterable[Any] = list(items.values()) if kind is dict else items
    return sum([_weight(child, deep - 1) + 2 for child in children]) + 2


def _original_size(value: object) -> int:
    try:
        return _estimate(value, [_SIZED_NODES], (), 0)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:
        return 0


def _estimate(value: object, fuel: list[int], path: tuple[int, ...], depth: int) -> int:
    """How many bytes ``value`` takes as compact JSON; what is not visited counts as what was."""
    fuel[0] -= 1
    made = plain(value, 2 * max(fuel[0], 0))
    if isinstance(made, str):
        text = value if type(value) is str else made
        if text.isascii():
            return len(text) + 2
        head = text[:65_536] if fuel[0] > 256 else text[:256]
        fuel[0] -= len(head) >> 8
        return len(head.encode("utf-8", "surrogatepass")) * len(text) // len(head) + 2
    if not isinstance(made, tuple):
        return len(number(made))
    is_map, children, total = made
    if id(value) in path or depth > MAX_DEPTH:
        return 8
    path = (*path, id(value))
    brackets = 1 + max(total, 1)
    numbers = None if is_map or total <= 8 else _numbers(children)
    if numbers is not None:
        return brackets + (len(numbers) - len(children) + 1) * total // len(children)
    inside = seen = 0
    for child in children:
        if fuel[0] <= 0:
            break
        seen += 1
        if is_map:
            inside += len(key_text(child[0])) + 3
            child = child[1]
        inside += _estimate(child, fuel, path, depth + 1)
    return brackets + (inside * total // seen if seen else 4 * total)
