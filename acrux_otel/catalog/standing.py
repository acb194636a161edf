# SPDX-License-Identifier: Apache-2.0
"""How tools stand against a catalog, without writing to it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final

from acrux_otel.catalog.comparison import Drift, drift
from acrux_otel.catalog.model import Change, Definition, Resolved
from acrux_otel.catalog.protocol import Browsable, Catalog
from acrux_otel.catalog.publishing import Plan, resolve_all, whole_definition

__all__ = ["Standing", "running_version", "standings"]

_LOOKED_BACK: Final = 20  # versions


@dataclasses.dataclass(frozen=True)
class Standing:
    """One tool against a catalog.

    Attributes:
        plan: the tool and its alias.
        live: what the alias points at; None where the catalog does not have it.
        drift: from there to the code; None where there is nothing to compare.
    """

    plan: Plan
    live: Resolved | None
    drift: Drift | None

    @property
    def current(self) -> bool:
        """Whether the catalog says what the code says; a tool that is only followed needs to be there."""
        if self.live is None or self.drift is None:
            return self.live is not None
        return self.drift.change is Change.NONE


def standings(catalog: Catalog, plans: Sequence[Plan]) -> list[Standing]:
    """How each tool stands.

    Raises:
        CatalogError: the catalog cannot answer.
    """
    found = resolve_all(catalog, [each.ref for each in plans])
    made = []
    for each in plans:
        live = found.get(each.ref)
        told = None
        if live is not None and each.writes:
            told = _drift(catalog, each.definition, live)
        made.append(Standing(each, live, told))
    return made


def running_version(catalog: Catalog, standing: Standing) -> str | None:
    """The id of the version that the code is, the alias's own or an older one; None where there is none.

    Raises:
        CatalogError: the catalog cannot answer.
    """
    live = standing.live
    if live is None:
        return None
    if standing.current:
        return live.tool_version_id
    if not isinstance(catalog, Browsable):
        return None
    for listed in catalog.versions(live.tool_id, 1, _LOOKED_BACK):
        if listed.number == live.version_number:
            continue
        kept = catalog.version(live.tool_id, listed.number)
        if kept.definition is not None and _same(catalog, kept.definition, standing.plan.definition):
            return kept.id or f"{live.tool_id}:{kept.number}"
    return None


def _drift(catalog: Catalog, ours: Definition, live: Resolved) -> Drift:
    if live.fingerprint is not None and ours.keeping(live.definition).fingerprint == live.fingerprint:
        return Drift(Change.NONE, (), ())
    theirs = whole_definition(catalog, live)
    return drift(theirs, _comparable(catalog, ours, theirs))


def _same(catalog: Catalog, theirs: Definition, ours: Definition) -> bool:
    ours = _comparable(catalog, ours, theirs).keeping(theirs)
    return ours.fingerprint == theirs.fingerprint


def _comparable(catalog: Catalog, ours: Definition, theirs: Definition) -> Definition:
    """Our definition in as far as the catalog keeps it."""
    if catalog.whole:
        return ours
    return dataclasses.replace(
        ours, result=theirs.result, severity=theirs.severity, annotations=theirs.annotations
    )
