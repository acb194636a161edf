# SPDX-License-Identifier: Apache-2.0
"""`acrux-otel sync`: the deploy step that brings a catalog up to date with decorated tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from acrux_otel.cli.reporting import (
    drift_json,
    errors_in_one_line,
    opened,
    print_drift,
    print_json,
    print_table,
    shown,
)
from acrux_otel.cli.targets import load

if TYPE_CHECKING:
    from acrux_otel.catalog import Browsable, SyncResult
    from acrux_otel.catalog.standing import Standing
    from acrux_otel.tool import Tool

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("sync")(sync)


def sync(
    modules: Annotated[
        list[str], typer.Argument(metavar="MODULE...", help="package.module or path/to/file.py")
    ],
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit code 1 on drift.")] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Write nothing; show what differs.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
    catalog: Annotated[
        str | None, typer.Option(help="acruxcore, a database URL or a server's address.")
    ] = None,
    alias: Annotated[str | None, typer.Option(help="To move, instead of each tool's own.")] = None,
    changelog: Annotated[str | None, typer.Option(help="What changed, for people.")] = None,
    on_conflict: Annotated[
        Literal["warn", "error"], typer.Option(help="Where a version edited in a dashboard is replaced.")
    ] = "warn",
) -> None:
    """Import modules and sync every decorated tool that they load.

    The catalog is --catalog, else ACRUX_OTEL_CATALOG, else AcruxCore by its variables, else .acrux/acrux.db.

    Exit code 0: done. 1: with --check, a tool differs from the catalog or is not in it. 2: an error; tools
    before it stay committed.
    """
    with errors_in_one_line():
        for module in modules:
            load(module)
        tools = _loaded(modules)
        with opened(catalog) as found:
            if check or diff:
                current = _compare(found, tools, alias, diff=diff, as_json=as_json)
                raise typer.Exit(0 if current or not check else 1)
            _write(found, tools, alias, changelog, on_conflict, as_json=as_json)


def _loaded(modules: list[str]) -> list[Tool]:
    from acrux_otel.tool import loaded_tools

    tools = list(loaded_tools())
    if not tools:
        raise ValueError(
            f"{', '.join(modules)} loads no decorated tool; name the module whose functions have @acrux.tool"
        )
    return tools


def _write(
    catalog: Browsable,
    tools: list[Any],
    alias: str | None,
    changelog: str | None,
    on_conflict: str,
    *,
    as_json: bool,
) -> None:
    from acrux_otel.catalog import CatalogError
    from acrux_otel.catalog import sync as sync_tools

    try:
        results = sync_tools(
            tools, catalog=catalog, alias=alias, changelog=changelog, on_conflict=on_conflict
        )
    except CatalogError as error:
        if as_json:
            told = {"error": shown(str(error)), "tools": [_result_json(each) for each in error.synced]}
            print_json({"catalog": catalog.label, **told})
            raise typer.Exit(2) from None
        raise
    if as_json:
        print_json({"catalog": catalog.label, "tools": [_result_json(each) for each in results]})
        return
    print_table(
        ("tool", "alias", "version", "", "change"),
        [(each.name, each.alias, each.version_number, _outcome(each), each.change) for each in results],
    )


def _outcome(result: SyncResult) -> str:
    return "committed" if result.committed else "unchanged"


def _result_json(result: SyncResult) -> dict[str, Any]:
    return {
        "name": result.name,
        "toolId": result.tool_id,
        "versionNumber": result.version_number,
        "versionId": result.version_id,
        "committed": result.committed,
        "alias": result.alias,
        "supersededSource": result.superseded_source,
        "change": None if result.change is None else result.change.value,
    }


def _compare(catalog: Browsable, tools: list[Any], alias: str | None, *, diff: bool, as_json: bool) -> bool:
    from acrux_otel.catalog.explicit import plans_for
    from acrux_otel.catalog.standing import standings

    found = standings(catalog, plans_for(tools, alias=alias))
    current = all(each.current for each in found)
    if as_json:
        told = [_standing_json(each, diff=diff) for each in found]
        print_json({"catalog": catalog.label, "current": current, "tools": told})
        return current
    print_table(
        ("tool", "alias", "version", ""),
        [
            (each.plan.definition.name, each.plan.alias, each.live and each.live.version_number, _word(each))
            for each in found
        ],
    )
    for each in found:
        if diff and each.drift is not None and not each.current:
            typer.echo(f"\n{each.plan.ref} -> code: {each.drift.change}")
            print_drift(each.drift)
    return current


def _word(standing: Standing) -> str:
    if standing.live is None:
        return "not in the catalog"
    if standing.drift is None:
        return "followed"
    return "current" if standing.current else f"differs: {standing.drift.change}"


def _standing_json(standing: Standing, *, diff: bool) -> dict[str, Any]:
    live = standing.live
    made: dict[str, Any] = {
        "name": standing.plan.definition.name,
        "alias": standing.plan.alias,
        "current": standing.current,
        "versionNumber": None if live is None else live.version_number,
        "versionId": None if live is None else live.version_id,
        "change": None if standing.drift is None else standing.drift.change.value,
    }
    if diff and standing.drift is not None:
        made |= drift_json(standing.drift)
    return made
