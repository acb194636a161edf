# SPDX-License-Identifier: Apache-2.0
"""What the page shows of the catalog that shares the store's file. Without the extra there is none."""

from __future__ import annotations

import dataclasses
import difflib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from acrux_otel import attributes as names
from acrux_otel.local.schema import StoreError
from acrux_otel.query.trace import Trace

if TYPE_CHECKING:
    from acrux_otel.catalog.model import Definition, Page, ToolEntry, Version
    from acrux_otel.catalog.sql import SqlCatalog

__all__ = ["CatalogView", "DiffLine", "ToolView"]

_TOOLS: Final = 50
_VERSIONS: Final = 100
_LINKED: Final = 20  # tools of one trace whose versions are looked up


@dataclasses.dataclass(frozen=True)
class DiffLine:
    """One line of a difference; `kind` is ``added``, ``removed``, ``same`` or ``gap``."""

    kind: str
    text: str


@dataclasses.dataclass(frozen=True)
class ToolView:
    """A tool with its versions, and the difference between two of them."""

    entry: ToolEntry
    versions: list[Version]
    history: list[Any]
    older: int
    newer: int
    change: str
    breaking: list[str]
    difference: list[DiffLine]
    definition: str


class CatalogView:
    """Reads a catalog for the page.

    Attributes:
        problem: why there is nothing to show, else None.
    """

    def __init__(self, path: Path) -> None:
        self.problem: str | None = None
        self.catalog: SqlCatalog | None = None
        try:
            from acrux_otel.catalog.sql import SqlCatalog, sqlite_url
        except ImportError as missing:
            self.problem = f'The catalog needs {missing.name}: pip install "acrux-otel[catalog]"'
            return
        self.catalog = SqlCatalog(sqlite_url(path))

    def close(self) -> None:
        """Give the file back."""
        if self.catalog is not None:
            self.catalog.close()

    def tools(self, page: int) -> Page[ToolEntry] | None:
        """The tools, newest first.

        Raises:
            StoreError: the file cannot be read; so do the others.
        """
        if self.catalog is None:
            return None
        with _translated():
            return self.catalog.tools(None, page, _TOOLS)

    def names(self) -> set[str]:
        """Names of the newest tools, at most a hundred."""
        if self.catalog is None:
            return set()
        with _translated():
            return {entry.name for entry in self.catalog.tools(None, 1, 100).items}

    def tool(self, name: str, older: int, newer: int) -> ToolView | None:
        """A tool and the difference between two versions: the newest two where none are named."""
        if self.catalog is None:
            return None
        from acrux_otel.catalog.comparison import drift
        from acrux_otel.catalog.errors import NotFound

        with _translated():
            try:
                entry = self.catalog.tool(name)
            except NotFound:
                return None
            versions = list(self.catalog.versions(entry.id, 1, _VERSIONS).items)
            history = list(self.catalog.history(entry.id, 1, 20).items)
            numbers = [version.number for version in versions]
            newer = newer if newer in numbers else max(numbers, default=0)
            older = older if older in numbers else max((each for each in numbers if each < newer), default=0)
            after = self.catalog.version(entry.id, newer).definition if newer else None
            before = self.catalog.version(entry.id, older).definition if older else None
        found = drift(before, after) if before is not None and after is not None else None
        return ToolView(
            entry,
            versions,
            history,
            older,
            newer,
            found.change.value if found is not None else "",
            list(found.breaking) if found is not None else [],
            _difference(_text(before), _text(after)) if found is not None else [],
            _text(after),
        )

    def links(self, trace: Trace) -> dict[str, tuple[str, int]]:
        """For each toolVersionId of a trace that this catalog knows: the tool's name and the version."""
        wanted: dict[str, set[str]] = {}
        for span in trace.spans:
            named = span.text(names.TOOL_VERSION_ID)
            if span.tool and named:
                wanted.setdefault(span.tool, set()).add(named)
        if self.catalog is None:
            return {}
        with _translated():
            return {
                each: (tool, version.number)
                for tool, ids in list(wanted.items())[:_LINKED]
                for version in self._versions(self.catalog, tool)
                for each in {version.id, f"{version.tool_id}:{version.number}"} & ids
            }

    def _versions(self, catalog: SqlCatalog, tool: str) -> Sequence[Version]:
        from acrux_otel.catalog.errors import NotFound

        try:
            return catalog.versions(catalog.tool(tool).id, 1, _VERSIONS).items
        except NotFound:
            return ()


@contextmanager
def _translated() -> Iterator[None]:
    from acrux_otel.catalog.errors import CatalogError

    try:
        yield
    except CatalogError as error:
        raise StoreError(str(error)) from None


def _text(definition: Definition | None) -> str:
    """A definition laid out so that people can read it and lines can be compared."""
    if definition is None:
        return ""
    parts = dataclasses.asdict(definition)
    shown = {key: value for key, value in parts.items() if value not in (None, {}, [])}
    description = shown.pop("description", None)
    lines = [f"description: {line}" for line in str(description or "").splitlines()]
    return "\n".join([*lines, json.dumps(shown, indent=2, ensure_ascii=False, default=str, sort_keys=True)])


def _difference(before: str, after: str) -> list[DiffLine]:
    made = []
    kinds = {"+": "added", "-": "removed", " ": "same", "@": "gap"}
    for line in list(difflib.unified_diff(before.splitlines(), after.splitlines(), n=3, lineterm=""))[2:]:
        made.append(DiffLine(kinds.get(line[:1], "same"), "…" if line.startswith("@@") else line[1:]))
    return made
