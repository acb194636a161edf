# SPDX-License-Identifier: Apache-2.0
"""A keyed hash that tells whether two calls had the same arguments. Imports plain and payload, below it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from acrux_otel.sanitize.payload import key_text, number
from acrux_otel.sanitize.plain import MAX_DEPTH, plain, type_name

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["arguments_hash"]

_MAX_NODES: Final = 5000
_MEMBER_NODES: Final = 16
_TEXT: Final = 65_536
_LIST: Final = 1000
_UNORDERED: Final = 10_000


def arguments_hash(value: object, key: bytes) -> str:
    """A hash of a call's arguments: 16 hexadecimal characters, equal for what is equal as JSON.

    The order of dict keys does not count, nor do tuple or list, 1 or 1.0. The walk is bounded: of a string
    beyond 64 Ki characters both ends and the length count, of a list beyond 1,000 items likewise, of a dict
    or set beyond 10,000 only the length. Never raises.

    Args:
        value: the arguments, usually a dict by parameter name.
        key: the secret that keeps arguments from being guessed by their hash.
    """
    from hashlib import blake2b

    try:
        parts: list[str] = []
        _canonical(value, parts, MAX_DEPTH, [_MAX_NODES])
        text = "".join(parts)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # the user's stack may be nearly used up
        text = f"<{type_name(value)}>"
    if len(key) > 64:
        key = blake2b(key).digest()
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8, key=key).hexdigest()


def _canonical(value: object, parts: list[str], depth: int, fuel: list[int]) -> None:
    """One text for all values that are equal as JSON, appended to ``parts``."""
    fuel[0] -= 1
    if depth < 0 or fuel[0] < 0:
        parts.append("~")
        return
    made = plain(value, 2 * _UNORDERED)
    if isinstance(made, str):
        text = made if len(made) <= _TEXT else made[: _TEXT // 2] + made[-_TEXT // 2 :]
        parts.append(f"s{len(made)}:{text}")
    elif not isinstance(made, tuple):
        parts.append(number(int(made) if isinstance(made, float) and made.is_integer() else made))
    else:
        is_map, children, total = made
        parts.append(f"{'m' if is_map else 'l'}{total}(")
        if is_map:
            _canonical_map(children, total, parts, depth, fuel)
        elif issubclass(type(value), (set, frozenset)):
            _canonical_set(children, total, parts, depth)
        else:
            _canonical_list(value, children, total, parts, depth, fuel)
        parts.append(")")


def _canonical_map(pairs: Sequence[Any], total: int, parts: list[str], depth: int, fuel: list[int]) -> None:
    if total > _UNORDERED:
        return
    named = [(key_text(key), type_name(key), value) for key, value in pairs]
    named.sort(key=lambda entry: entry[:2])
    for name, _, value in named:
        parts.append(f"{len(name)}:{name}=")
        _canonical(value, parts, depth - 1, fuel)
        parts.append(",")


def _canonical_set(items: Sequence[Any], total: int, parts: list[str], depth: int) -> None:
    if total > _UNORDERED:
        return
    texts = []
    for item in items:  # each has its own fuel: the order of a set differs between processes
        own: list[str] = []
        _canonical(item, own, depth - 1, [_MEMBER_NODES])
        texts.append("".join(own))
    parts.extend(sorted(texts))


def _canonical_list(
    value: object, items: Sequence[Any], total: int, parts: list[str], depth: int, fuel: list[int]
) -> None:
    if total > _LIST:
        base = list if issubclass(type(value), list) else tuple if issubclass(type(value), tuple) else None
        last = items[-_LIST // 2 :] if base is None else base.__getitem__(value, slice(-_LIST // 2, None))  # type: ignore[call-overload]
        items = [*items[: _LIST // 2], *last]
    for item in items:
        _canonical(item, parts, depth - 1, fuel)
        parts.append(",")
