# SPDX-License-Identifier: Apache-2.0
"""One decorated tool and one catalog: written or followed, and its spans told which version runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Literal

from acrux_otel.catalog.checks import REFS_LIMIT, check_alias, check_definition
from acrux_otel.catalog.errors import InvalidTool, NotFound
from acrux_otel.catalog.model import PRODUCTION, Change, Definition, Ref, Resolved, SyncResult
from acrux_otel.catalog.nullable import nullable_spelt_out
from acrux_otel.catalog.protocol import Browsable, Catalog
from acrux_otel.catalog.reordered import has_joined_default, reordered_defaults
from acrux_otel.tool import Tool
from acrux_otel.verdict import warn_once

__all__ = ["Plan", "follow", "plan", "publish", "resolve_all", "superseded", "whole_definition"]


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is to be done with one tool.

    Attributes:
        writes: False only follows the alias (``@tool(sync=False)``).
    """

    tool: Tool
    definition: Definition
    alias: str
    changelog: str | None
    writes: bool

    @property
    def ref(self) -> Ref:
        return Ref(self.definition.name, self.alias)


def plan(tool: Tool, alias: str | None = None, changelog: str | None = None) -> Plan:
    """What is to be done with a tool; ``alias`` and ``changelog`` win over the tool's own.

    Raises:
        InvalidTool: no catalog would take it.
    """
    options = tool.options
    where = check_alias(alias or options.get("alias") or PRODUCTION)
    try:
        definition = Definition.of(tool.definition)
    except Exception as error:
        told = " ".join(str(error).split())[:200]
        raise InvalidTool(f"tool {tool.definition.name!r} has no JSON Schema: {told}") from error
    note = changelog if changelog is not None else options.get("changelog")
    check_definition(definition, note)
    return Plan(tool, definition, where, note, options.get("sync", True))


def publish(catalog: Catalog, made: Plan, *, automatic: bool = False) -> SyncResult:
    """Bring the catalog up to date with one tool, or follow it, and stamp the version on the tool's spans.

    Raises:
        CatalogError: of the kind that fits what happened.
    """
    if not made.writes:
        found = catalog.resolve([made.ref])[0]
        follow(made.tool, found)
        return _as_result(made, found)
    result = _only_reordered(catalog, made)
    if result is None:
        result = catalog.sync(
            made.definition, alias=made.alias, changelog=made.changelog, automatic=automatic
        )
    made.tool.site.version_id = result.tool_version_id
    return result


def follow(tool: Tool, found: Resolved) -> None:
    """Stamp a catalog's version on a tool's spans, and check results against its result schema."""
    site = tool.site
    schema = found.definition.result
    if schema is not None:
        from acrux_otel.definition.conformance import check_schema

        usable = nullable_spelt_out(schema)
        wrong = check_schema(usable)
        if wrong:
            warn_once(
                f"catalog-result:{found.name}",
                "the catalog's result schema of tool %r cannot be used and checks nothing: %s",
                found.name,
                wrong,
            )
        else:
            severity: Literal["warn", "error"] = "error" if found.definition.severity == "error" else "warn"
            site.severity, site.enforced = severity, usable
    site.version_id = found.tool_version_id


def resolve_all(catalog: Catalog, refs: Iterable[Ref]) -> dict[Ref, Resolved]:
    """What references point at, without those that point at nothing.

    Raises:
        CatalogError: the catalog cannot answer.
    """
    wanted = list(dict.fromkeys(refs))
    found: dict[Ref, Resolved] = {}
    for start in range(0, len(wanted), REFS_LIMIT):
        found.update(_resolve_some(catalog, wanted[start : start + REFS_LIMIT]))
    return found


def whole_definition(catalog: Catalog, found: Resolved) -> Definition:
    """All that a catalog keeps of a version, of which resolving tells a part."""
    if catalog.whole and isinstance(catalog, Browsable):
        told = catalog.version(found.tool_id, found.version_number).definition
        if told is not None:
            return dataclasses.replace(told, name=found.name)
    return found.definition


def superseded(result: SyncResult) -> str:
    """What to tell where a version edited by hand was replaced."""
    return (
        f"tool {result.name!r}: version {result.version_number} from code is now {result.alias!r} and "
        "replaces one that was edited in the dashboard; that one is still there and can be promoted"
    )


def _resolve_some(catalog: Catalog, refs: Sequence[Ref]) -> dict[Ref, Resolved]:
    while refs:
        try:
            return dict(zip(refs, catalog.resolve(refs), strict=True))
        except NotFound as error:
            missing = {(each.name, each.alias or PRODUCTION) for each in error.refs}
            left = [ref for ref in refs if (ref.name, ref.alias or PRODUCTION) not in missing]
            if len(left) == len(refs):
                # It does not say which, so each is asked for alone.
                if len(refs) == 1:
                    return {}
                return {ref: one for each in refs for ref, one in _resolve_some(catalog, [each]).items()}
            refs = left
    return {}


def _only_reordered(catalog: Catalog, made: Plan) -> SyncResult | None:
    """The live version, where nothing but the order of parts inside of default texts differs from it.

    A text joined from a set has another order in every process; it must not make a version each time.
    """
    if not has_joined_default(made.definition):
        return None
    found = resolve_all(catalog, [made.ref]).get(made.ref)
    if found is None:
        return None
    live = whole_definition(catalog, found)
    ours = made.definition
    if not catalog.whole:
        ours = dataclasses.replace(ours, result=live.result, severity=live.severity, annotations={})
    names = reordered_defaults(live, ours)
    if not names:
        return None
    warn_once(
        f"catalog-order:{found.name}",
        "tool %r: the default of %s has the same parts in another order than in the catalog (a text joined "
        "from a set?); no version is made of that; sort it",
        found.name,
        ", ".join(map(repr, names)),
    )
    return _as_result(made, found)


def _as_result(made: Plan, found: Resolved) -> SyncResult:
    return SyncResult(
        found.name,
        found.tool_id,
        found.version_number,
        False,
        made.alias,
        None,
        found.version_id,
        Change.NONE,
    )
