# SPDX-License-Identifier: Apache-2.0
"""What every catalog demands of names, texts and schemas, checked before anything is sent or stored."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from acrux_otel.catalog.errors import InvalidTool
from acrux_otel.catalog.model import Definition
from acrux_otel.definition.fingerprint import canonical

__all__ = [
    "BODY_LIMIT",
    "LAST_PAGE",
    "PAGE_LIMIT",
    "REFS_LIMIT",
    "TEXT_LIMIT",
    "check_alias",
    "check_definition",
    "check_name",
    "check_page",
    "check_text",
]

BODY_LIMIT: Final = 100 * 1024
LAST_PAGE: Final = 1_000_000
PAGE_LIMIT: Final = 100
REFS_LIMIT: Final = 50
TEXT_LIMIT: Final = 2000
_DEPTH_LIMIT: Final = 100
_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z").match
_UNFIT: Final = re.compile(r"[^a-zA-Z0-9_-]+")
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]").search
_NOT_TEXT: Final = "a NUL or half a surrogate pair, which no catalog can store; take it out"
_SEVERITIES: Final = (None, "warn", "error")


def check_definition(definition: Definition, changelog: str | None = None) -> None:
    """Refuse what a catalog would refuse.

    Raises:
        InvalidTool: one line that says what was given, what was expected and what to do.
    """
    name = definition.name
    check_name(name)
    owner = f"tool {name!r}"
    check_text(
        definition.description, f"{owner}: its description", "shorten the docstring, or give description="
    )
    check_text(changelog, f"{owner}: its changelog", "shorten it")
    if definition.severity not in _SEVERITIES:
        raise InvalidTool(f"{owner}: its severity is {definition.severity!r:.80}; expected 'warn' or 'error'")
    parts = (definition.parameters, definition.executor, definition.result, definition.annotations)
    if any(_deeper(part, _DEPTH_LIMIT) for part in parts):
        raise InvalidTool(f"{owner}: its schemas nest more than {_DEPTH_LIMIT} levels; give simpler ones")
    try:
        made = canonical(parts)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidTool(f"{owner}: its definition is not JSON: {str(error)[:200]}") from None
    if len(made) > BODY_LIMIT:
        raise InvalidTool(
            f"{owner}: its schemas take {len(made):,} bytes; a catalog takes {BODY_LIMIT:,}; "
            "give smaller ones with parameters= or result_schema="
        )
    if ("\\u0000" in made or "\\ud" in made) and _unstorable(parts):
        raise InvalidTool(f"{owner}: its schemas hold {_NOT_TEXT}")


def check_name(name: object) -> str:
    """A tool's name that every catalog takes.

    Raises:
        InvalidTool: it names the characters that are refused, and a name that is not.
    """
    if not isinstance(name, str):
        raise InvalidTool(f"a tool's name is text, not {type(name).__name__}")
    if _NAME(name):
        return name
    suggestion = _UNFIT.sub("_", name).strip("_")[:64] or "my_tool"
    refused = sorted(set("".join(_UNFIT.findall(name))))
    why = (
        f"refuses {', '.join(map(repr, refused[:10]))}"
        if refused
        else f"takes at most 64 characters, not {len(name)}"
        if name
        else "takes no empty name"
    )
    raise InvalidTool(
        f"tool {name[:80]!r}: a catalog {why}; expected 1-64 of a-z A-Z 0-9 _ -; try name={suggestion!r}"
    )


def check_alias(alias: object) -> str:
    """An alias of 1 to 64 printable characters, which are not all digits: those are a version.

    Raises:
        InvalidTool: anything else.
    """
    if isinstance(alias, str) and 1 <= len(alias) <= 64 and alias.isprintable() and alias == alias.strip():
        if not alias.isdecimal():
            return alias
        raise InvalidTool(f"alias {alias!r} looks like a version; expected a name, such as 'staging'")
    raise InvalidTool(
        f"alias {alias!r:.80} cannot be used; expected 1-64 printable characters, such as 'staging'"
    )


def check_page(page: int, limit: int) -> None:
    """A page of a list.

    Raises:
        ValueError: there is no such page.
    """
    for name, given, most in (("page", page, LAST_PAGE), ("limit", limit, PAGE_LIMIT)):
        if isinstance(given, bool) or not isinstance(given, int) or not 1 <= given <= most:
            raise ValueError(f"{name} is {given!r:.80}; expected a whole number from 1 to {most:,}")


def check_text(text: object, what: str, advice: str = "shorten it") -> None:
    """A text of at most 2,000 characters that a database can hold, or None.

    Raises:
        InvalidTool: anything else.
    """
    if text is None:
        return
    if not isinstance(text, str):
        raise InvalidTool(f"{what} is a {type(text).__name__}; expected text")
    if len(text) > TEXT_LIMIT:
        raise InvalidTool(f"{what} has {len(text):,} characters; a catalog takes {TEXT_LIMIT:,}; {advice}")
    if _UNSTORABLE(text):
        raise InvalidTool(f"{what} holds {_NOT_TEXT}")


def _deeper(value: Any, levels: int) -> bool:
    if not isinstance(value, (Mapping, list, tuple)):
        return False
    held = value.values() if isinstance(value, Mapping) else value
    return levels == 0 or any(_deeper(one, levels - 1) for one in held)


def _unstorable(value: Any) -> bool:
    if isinstance(value, str):
        return _UNSTORABLE(value) is not None
    if isinstance(value, Mapping):
        return any(_unstorable(key) or _unstorable(one) for key, one in value.items())
    return isinstance(value, (list, tuple)) and any(map(_unstorable, value))
