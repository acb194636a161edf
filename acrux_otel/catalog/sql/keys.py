# SPDX-License-Identifier: Apache-2.0
"""The bearer keys of a catalog server. The database holds only their hashes.

A key is 256 random bits, so one round of SHA-256 keeps it: there is nothing to guess from.
"""

from __future__ import annotations

import dataclasses
import hashlib
import secrets
from datetime import datetime, timezone
from typing import Final

from sqlalchemy import insert, select, update

from acrux_otel.catalog.errors import NameTaken, NotFound
from acrux_otel.catalog.sql.database import Database
from acrux_otel.catalog.sql.tables import KEYS

__all__ = ["EDITOR", "VIEWER", "Key", "Keys"]

EDITOR: Final = "editor"
VIEWER: Final = "viewer"
_PREFIX: Final = "acx_sk_"


@dataclasses.dataclass(frozen=True)
class Key:
    """What is known of a key; ``role`` is ``editor`` or ``viewer`` (reads and resolves only)."""

    name: str
    role: str
    created_at: str
    revoked_at: str | None = None


class Keys:
    """The keys in one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(self, name: str, role: str = EDITOR) -> str:
        """Make a key; its text is returned this once and cannot be shown again.

        Raises:
            ValueError: an empty name, or an unknown role.
            NameTaken: there is, or was, a key of that name.
        """
        if not name.strip() or len(name) > 64 or not name.isprintable():
            raise ValueError(f"a key's name is 1-64 printable characters, not {name!r:.80}")
        if role not in (EDITOR, VIEWER):
            raise ValueError(f"a key's role is {EDITOR!r} or {VIEWER!r}, not {role!r:.80}")
        text = _PREFIX + secrets.token_urlsafe(32)
        with self._database.write() as connection:
            if connection.scalar(select(KEYS.c.name).where(KEYS.c.name == name)) is not None:
                raise NameTaken(
                    f"there is a key {name!r} already; choose another name", code="KEY_NAME_TAKEN"
                )
            row = {"name": name, "hash": _hash(text), "role": role, "created_at": _now()}
            connection.execute(insert(KEYS), row)
        return text

    def list(self) -> list[Key]:
        """All keys, the revoked ones too."""
        with self._database.read() as connection:
            rows = connection.execute(select(KEYS).order_by(KEYS.c.created_at, KEYS.c.name)).all()
        return [Key(row.name, row.role, row.created_at, row.revoked_at) for row in rows]

    def revoke(self, name: str) -> None:
        """Take a key out of use, for good.

        Raises:
            NotFound: there is none in use of that name.
        """
        with self._database.write() as connection:
            in_use = (KEYS.c.name == name) & KEYS.c.revoked_at.is_(None)
            if not connection.execute(update(KEYS).where(in_use).values(revoked_at=_now())).rowcount:
                raise NotFound(f"there is no key {name!r} in use")

    def owner(self, text: str) -> Key | None:
        """Whose key it is; None for an unknown or revoked one."""
        with self._database.read() as connection:
            query = select(KEYS).where(KEYS.c.hash == _hash(text), KEYS.c.revoked_at.is_(None))
            row = connection.execute(query).one_or_none()
        return None if row is None else Key(row.name, row.role, row.created_at)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
