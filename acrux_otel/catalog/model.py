# SPDX-License-Identifier: Apache-2.0
"""What a catalog is told and what it answers, as plain values. Imports only fingerprints."""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from acrux_otel.definition.fingerprint import canonical, children, digest

if TYPE_CHECKING:
    from acrux_otel.definition import ToolDefinition

__all__ = [
    "FIRST_ALIASES",
    "PRODUCTION",
    "Alias",
    "Change",
    "Definition",
    "Event",
    "Page",
    "Ref",
    "Resolved",
    "SyncResult",
    "ToolEntry",
    "Version",
]

T = TypeVar("T")

PRODUCTION: Final = "production"
FIRST_ALIASES: Final = (PRODUCTION, "staging")  # a tool's first version gets both
_REF: Final = re.compile(r"(?P<name>[^@:]+)(?:@(?P<alias>.+)|:(?P<version>[0-9]{1,9}))?\Z", re.DOTALL)


class Change(str, enum.Enum):
    """How one definition differs from another, for those who use the tool."""

    NONE = "none"
    DESCRIPTION = "description"
    COMPATIBLE = "compatible"
    BREAKING = "breaking"

    def __str__(self) -> str:
        return self.value


@dataclasses.dataclass(frozen=True)
class Definition:
    """A tool's definition as a catalog keeps it.

    Attributes:
        name: the tool's.
        parameters: JSON Schema of the arguments.
        description: what the model reads; None leaves it to the catalog.
        executor: ``{"type": "client"}`` or ``{"type": "http", …}``.
        result: JSON Schema of the result.
        severity: ``warn`` or ``error`` where results are checked against ``result``; None where that only
            describes.
        annotations: what the tool does to the world, as its owner says.
    """

    name: str
    parameters: Mapping[str, Any]
    description: str | None = None
    executor: Mapping[str, Any] = dataclasses.field(default_factory=lambda: {"type": "client"})
    result: Mapping[str, Any] | None = None
    severity: str | None = None
    annotations: Mapping[str, bool] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, tool: ToolDefinition) -> Definition:
        """The definition of a function, with every ``required`` sorted."""
        enforced = tool.enforced_result is not None
        return cls(
            tool.name,
            _required_sorted(tool.parameters),
            tool.description,
            {"type": tool.executor, **(tool.request or {})},
            None if tool.result is None else _required_sorted(tool.result),
            tool.result_severity if enforced else None,
            tool.annotations.as_dict(),
        )

    @property
    def fingerprint(self) -> str:
        """SHA-256 over all parts but the name: equal means that nothing changed."""
        parts = (self.description, self.parameters, self.executor, self.result, self.severity)
        return digest([*parts, self.annotations])

    def same_call(self, other: Definition) -> bool:
        """Whether description, parameters and executor are the same, key order aside."""
        return canonical([self.description, self.parameters, self.executor]) == canonical(
            [other.description, other.parameters, other.executor]
        )

    def keeping(self, live: Definition) -> Definition:
        """The same definition with the description that a catalog keeps where none is said."""
        if self.description is not None or live.description is None:
            return self
        return dataclasses.replace(self, description=live.description)


@dataclasses.dataclass(frozen=True)
class Ref:
    """One version of a tool: by alias (``production`` where neither is said) or by number."""

    name: str
    alias: str | None = None
    version: int | None = None

    @classmethod
    def parse(cls, text: str) -> Ref:
        """A reference from ``NAME``, ``NAME@alias`` or ``NAME:3``.

        Raises:
            ValueError: anything else.
        """
        found = _REF.match(text)
        if found is None:
            raise ValueError(f"{text!r} is no reference to a tool; expected NAME, NAME@alias or NAME:version")
        number = found["version"]
        return cls(found["name"], found["alias"], None if number is None else int(number))

    def __str__(self) -> str:
        if self.version is not None:
            return f"{self.name}:{self.version}"
        return f"{self.name}@{self.alias or PRODUCTION}"


@dataclasses.dataclass(frozen=True)
class _Numbered:
    name: str
    tool_id: str
    version_number: int

    @property
    def tool_version_id(self) -> str:
        """What a span calls this version: the catalog's id of it, else ``{toolId}:{versionNumber}``."""
        found = getattr(self, "version_id", None)
        return found if isinstance(found, str) and found else f"{self.tool_id}:{self.version_number}"


@dataclasses.dataclass(frozen=True)
class SyncResult(_Numbered):
    """What became of one tool.

    Attributes:
        name: the tool's.
        tool_id: the catalog's id of it.
        version_number: the version that ``alias`` points at now.
        committed: whether that version is new.
        alias: the alias that was moved, or followed.
        superseded_source: ``dashboard`` where an edit by hand was replaced.
        version_id: the catalog's id of the version; None from a catalog older than that field.
        change: what kind of change the version is; None where the catalog does not say, or for a first one.
    """

    committed: bool
    alias: str
    superseded_source: str | None = None
    version_id: str | None = None
    change: Change | None = None


@dataclasses.dataclass(frozen=True)
class Resolved(_Numbered):
    """What a reference points at.

    Attributes:
        definition: as far as the catalog tells it; ``result`` only where results are checked against it.
        version_id: the catalog's id of the version.
        fingerprint: of the whole definition, where the catalog tells it.
    """

    definition: Definition
    version_id: str | None = None
    fingerprint: str | None = None


@dataclasses.dataclass(frozen=True)
class Version:
    """One immutable version. In lists ``definition`` is None."""

    id: str
    tool_id: str
    number: int
    source: str
    created_by: str
    created_at: str
    description: str | None = None
    changelog: str | None = None
    change: Change | None = None
    definition: Definition | None = None


@dataclasses.dataclass(frozen=True)
class Alias:
    """Where an alias points."""

    id: str
    alias: str
    version_id: str
    version_number: int
    updated_at: str


@dataclasses.dataclass(frozen=True)
class ToolEntry:
    """One tool of a catalog; ``aliases`` has the version number of each, production first."""

    id: str
    name: str
    description: str | None
    created_by: str
    created_at: str
    version_count: int
    latest_version: int | None
    executor_type: str | None
    aliases: Mapping[str, int]


@dataclasses.dataclass(frozen=True)
class Event:
    """Something that happened to a tool, newest first in a history.

    Attributes:
        at: ISO 8601, UTC.
        by: a person or the name of a key.
        action: ``commit``, ``promote``, ``rename`` or ``delete``.
        version: the version that was made or promoted.
        alias: the alias that was moved.
        previous: the version that the alias pointed at before.
        source, change, changelog: of a commit.
    """

    at: str
    by: str
    action: str
    version: int | None = None
    alias: str | None = None
    previous: int | None = None
    source: str | None = None
    change: Change | None = None
    changelog: str | None = None


@dataclasses.dataclass(frozen=True)
class Page(Generic[T]):
    """A page of a list; ``total`` counts all pages."""

    items: Sequence[T]
    total: int
    page: int
    limit: int

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)


def _required_sorted(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    if not any(isinstance(node.get("required"), list) for node in _nodes(schema)):
        return schema
    made = _copied(schema)
    for node in _nodes(made):
        if isinstance(node.get("required"), list):
            node["required"].sort(key=str)
    return made


def _nodes(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        yield schema
        for _, child in children(schema):
            yield from _nodes(child)


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(one) for key, one in value.items()}
    return [_copied(one) for one in value] if isinstance(value, list) else value
