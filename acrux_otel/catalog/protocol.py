# SPDX-License-Identifier: Apache-2.0
"""What a catalog is: `Catalog` is all that syncing needs, `Browsable` is what people look at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from acrux_otel.catalog.model import (
    Alias,
    Definition,
    Event,
    Page,
    Ref,
    Resolved,
    SyncResult,
    ToolEntry,
    Version,
)

__all__ = ["Browsable", "Catalog"]


@runtime_checkable
class Catalog(Protocol):
    """Keeps the versions of tools' definitions. Whoever has these methods can be a catalog.

    Errors are `acrux_otel.catalog.CatalogError` and its kinds.
    """

    @property
    def label(self) -> str:
        """How messages call it; never with a password or key."""

    @property
    def whole(self) -> bool:
        """Whether result schemas and annotations are kept and compared too."""

    def sync(
        self, definition: Definition, *, alias: str, changelog: str | None = None, automatic: bool = False
    ) -> SyncResult:
        """Make ``alias`` point at this definition, by a new version where it differs from the live one.

        Args:
            definition: without a description the live one is kept.
            alias: the only one that moves.
            changelog: what changed, for people.
            automatic: nobody asked for it: it must not undo a newer version.
        """

    def resolve(self, refs: Sequence[Ref]) -> list[Resolved]:
        """What at most 50 references point at, in their order; `NotFound` names all that point at nothing."""

    def close(self) -> None:
        """Give connections back; the catalog can be used again."""


@runtime_checkable
class Browsable(Catalog, Protocol):
    """A catalog that can be looked through. Pages count from 1."""

    def tools(self, search: str | None = None, page: int = 1, limit: int = 20) -> Page[ToolEntry]:
        """The tools whose name contains ``search``, newest first."""

    def tool(self, name: str) -> ToolEntry:
        """One tool by its name."""

    def versions(self, tool_id: str, page: int = 1, limit: int = 20) -> Page[Version]:
        """A tool's versions without definitions, newest first."""

    def version(self, tool_id: str, number: int) -> Version:
        """One version with its definition."""

    def history(self, tool_id: str, page: int = 1, limit: int = 50) -> Page[Event]:
        """What happened to a tool, newest first."""

    def promote(self, tool_id: str, alias: str, number: int) -> Alias:
        """Make an alias, new or not, point at a version."""
