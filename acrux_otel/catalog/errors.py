# SPDX-License-Identifier: Apache-2.0
"""What can go wrong with a catalog. Every text is one line, and none holds a key.

CatalogError
├── NotATool              something that is not a decorated function
├── InvalidTool           a definition, name or alias that no catalog takes
├── CatalogUnreachable    nothing answers, or only with errors of its own
├── AnswerUnreadable      something answers that is not a catalog
├── CatalogRefused        the catalog said no
│   ├── KeyRefused        401, 403
│   ├── NotFound          404
│   ├── NameTaken         409
│   └── MovesBack         409: an automatic sync would undo a newer version
└── DashboardSuperseded   ``on_conflict="error"``: an edit by hand was replaced
"""

from __future__ import annotations

from collections.abc import Sequence

from acrux_otel.catalog.model import Ref, SyncResult

__all__ = [
    "AnswerUnreadable",
    "CatalogError",
    "CatalogRefused",
    "CatalogUnreachable",
    "DashboardSuperseded",
    "InvalidTool",
    "KeyRefused",
    "MovesBack",
    "NameTaken",
    "NotATool",
    "NotFound",
]


class CatalogError(Exception):
    """A catalog could not do what it was asked.

    Attributes:
        synced: the tools that `sync` had committed or found unchanged before this happened; they stay so.
    """

    synced: tuple[SyncResult, ...] = ()


class NotATool(CatalogError, TypeError):
    """Something that is not a function decorated with ``@acrux.tool``."""


class InvalidTool(CatalogError, ValueError):
    """A definition, name or alias that a catalog does not take."""

    status = 400
    code = "VALIDATION_ERROR"


class CatalogUnreachable(CatalogError):
    """Nothing answers, or only with errors of its own."""


class AnswerUnreadable(CatalogError):
    """Something answers that is not a catalog."""


class CatalogRefused(CatalogError):
    """The catalog said no.

    Attributes:
        status: the HTTP status.
        code: the catalog's own code.
    """

    status = 400
    code = "VALIDATION_ERROR"

    def __init__(self, message: str, status: int | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status = self.status if status is None else status
        self.code = self.code if code is None else code


class KeyRefused(CatalogRefused):
    """The key is missing, unknown or may not do this."""

    status = 401
    code = "UNAUTHORIZED"


class NotFound(CatalogRefused):
    """There is no such tool, version or alias.

    Attributes:
        refs: the references that point at nothing.
    """

    status = 404
    code = "NOT_FOUND"

    def __init__(
        self, message: str, refs: Sequence[Ref] = (), status: int | None = None, code: str | None = None
    ) -> None:
        super().__init__(message, status, code)
        self.refs = tuple(refs)


class NameTaken(CatalogRefused):
    """Another tool has that name."""

    status = 409
    code = "TOOL_NAME_TAKEN"


class MovesBack(CatalogRefused):
    """An automatic sync would move an alias back to a definition that an older version already had.

    Attributes:
        version_number, version_id: of that older version, which is the one that the caller runs.
        tool_id: the tool's.
    """

    status = 409
    code = "ALIAS_WOULD_MOVE_BACK"

    def __init__(self, message: str, tool_id: str, version_number: int, version_id: str | None) -> None:
        super().__init__(message)
        self.tool_id, self.version_number, self.version_id = tool_id, version_number, version_id


class DashboardSuperseded(CatalogError):
    """A version edited by hand was replaced; it is still there and can be promoted."""
