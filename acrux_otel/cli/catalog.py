# SPDX-License-Identifier: Apache-2.0
"""`acrux-otel catalog`: look through a catalog, promote versions, and serve one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

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

if TYPE_CHECKING:
    from acrux_otel.catalog import Browsable, Event, Page, Ref, Resolved, SqlCatalog

__all__ = ["register"]

_Catalog = Annotated[str | None, typer.Option(help="acruxcore, a database URL or a server's address.")]
_Json = Annotated[bool, typer.Option("--json", help="For programs.")]
_Page = Annotated[int, typer.Option(help="From 1.")]
_Limit = Annotated[int, typer.Option(help="A page's length, at most 100.")]
_Ref = Annotated[str, typer.Argument(metavar="NAME[@alias|:version]")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help="Look through a catalog of tools, and serve one.", no_args_is_help=True)
    group.command("list")(list_tools)
    group.command("show")(show)
    group.command("history")(history)
    group.command("diff")(diff)
    group.command("promote")(promote)
    group.command("serve")(serve_catalog)
    keys = typer.Typer(help="The keys of a catalog that is served.", no_args_is_help=True)
    keys.command("create")(create_key)
    keys.command("list")(list_keys)
    keys.command("revoke")(revoke_key)
    group.add_typer(keys, name="keys")
    app.add_typer(group, name="catalog")


def list_tools(
    search: Annotated[str | None, typer.Option(help="A part of the name.")] = None,
    page: _Page = 1,
    limit: _Limit = 50,
    catalog: _Catalog = None,
    as_json: _Json = False,
) -> None:
    """List tools, newest first."""
    from acrux_otel.catalog import wire
    from acrux_otel.catalog.checks import check_page

    with errors_in_one_line(), opened(catalog) as found:
        check_page(page, limit)
        tools = found.tools(search, page, limit)
        if as_json:
            print_json(wire.page_json(tools, wire.tool_json))
            return
        print_table(
            ("tool", "production", "latest", "runs", "aliases", "description"),
            [
                (
                    each.name,
                    each.aliases.get("production"),
                    each.latest_version,
                    each.executor_type,
                    ", ".join(f"{name}:{number}" for name, number in each.aliases.items()),
                    _first_line(each.description),
                )
                for each in tools
            ],
        )
        _tell_of_more(tools, "tools")


def show(ref: _Ref, catalog: _Catalog = None, as_json: _Json = False) -> None:
    """Show a tool and one of its versions, production's by default."""
    from acrux_otel.catalog import wire

    with errors_in_one_line(), opened(catalog) as found:
        resolved = _resolved(found, ref)
        tool = found.tool(resolved.name)
        version = found.version(resolved.tool_id, resolved.version_number)
        if as_json:
            print_json({"tool": wire.tool_json(tool), "version": wire.version_json(version)})
            return
        told = {
            "tool": f"{tool.name}:{version.number}",
            "id": version.id,
            "description": version.description,
            "aliases": ", ".join(f"{name}:{number}" for name, number in tool.aliases.items()),
            "committed": f"{version.created_at} by {version.created_by} from {version.source}",
            "change": version.change,
            "changelog": version.changelog,
        }
        print_table(("", ""), [(key, value) for key, value in told.items() if value])
        definition = version.definition
        if definition is not None:
            for title, value in (
                ("parameters", definition.parameters),
                ("result", definition.result),
                ("annotations", definition.annotations),
                ("executor", definition.executor),
            ):
                if value:
                    typer.echo(f"\n{title}\n{json.dumps(value, indent=2)}")


def history(
    name: Annotated[str, typer.Argument(metavar="NAME")],
    page: _Page = 1,
    limit: _Limit = 50,
    catalog: _Catalog = None,
    as_json: _Json = False,
) -> None:
    """Show what happened to a tool, newest first: who, when, what."""
    from acrux_otel.catalog import Ref, wire
    from acrux_otel.catalog.checks import check_page

    with errors_in_one_line(), opened(catalog) as found:
        check_page(page, limit)
        with _advised(found, Ref(name)):
            tool = found.tool(name)
        events = found.history(tool.id, page, limit)
        if as_json:
            print_json(wire.page_json(events, wire.event_json))
            return
        print_table(
            ("when (UTC)", "who", "what", "alias", "version", "change", "from", "changelog"),
            [_event_row(each) for each in events],
        )
        _tell_of_more(events, "events")


def diff(
    old: Annotated[str, typer.Argument(metavar="A")],
    new: Annotated[str, typer.Argument(metavar="B")],
    catalog: _Catalog = None,
    as_json: _Json = False,
) -> None:
    """Show what changed from one version to another; each is NAME, NAME@alias or NAME:version."""
    from acrux_otel.catalog import drift
    from acrux_otel.catalog.publishing import whole_definition

    with errors_in_one_line(), opened(catalog) as found:
        before, after = (_resolved(found, each) for each in (old, new))
        told = drift(whole_definition(found, before), whole_definition(found, after))
        if as_json:
            print_json({"from": _numbered(before), "to": _numbered(after), **drift_json(told)})
            return
        typer.echo(f"{_numbered(before)} -> {_numbered(after)}: {told.change}")
        print_drift(told)


def promote(
    ref: _Ref,
    alias: Annotated[str, typer.Argument(help="The alias to move there; it is made where it is new.")],
    catalog: _Catalog = None,
    as_json: _Json = False,
) -> None:
    """Make an alias point at a version, such as: promote get_weather@staging production."""
    from acrux_otel.catalog import Ref, wire

    with errors_in_one_line(), opened(catalog) as found:
        if alias.isdecimal():
            name = Ref.parse(ref).name
            raise ValueError(f"{alias!r} looks like a version; write: promote {name}:{alias} production")
        resolved = _resolved(found, ref)
        moved = found.promote(resolved.tool_id, alias, resolved.version_number)
        if as_json:
            print_json({"name": resolved.name, **wire.alias_json(moved)})
            return
        typer.echo(f"{resolved.name}@{shown(moved.alias)} is now version {moved.version_number}")


def serve_catalog(
    host: Annotated[str, typer.Option(help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8765,
    catalog: Annotated[str | None, typer.Option(help="A database URL; .acrux/acrux.db by default.")] = None,
) -> None:
    """Serve a catalog in a database to a team, by AcruxCore's HTTP contract."""
    from acrux_otel.catalog import serve

    with errors_in_one_line():
        serve(_database(catalog), host, port, ready=_listening)


def create_key(
    name: Annotated[str, typer.Argument(help="Whose it is; the history names it.")],
    read_only: Annotated[bool, typer.Option("--read-only", help="It may list and resolve only.")] = False,
    catalog: _Catalog = None,
) -> None:
    """Make a key and print it, this once: the catalog keeps only its hash."""
    from acrux_otel.catalog import Keys
    from acrux_otel.catalog.sql import EDITOR, VIEWER

    with errors_in_one_line():
        typer.echo(Keys(_database(catalog).database).create(name, VIEWER if read_only else EDITOR))


def list_keys(catalog: _Catalog = None, as_json: _Json = False) -> None:
    """List the keys, revoked ones too."""
    from acrux_otel.catalog import Keys

    with errors_in_one_line():
        keys = Keys(_database(catalog).database).list()
        if as_json:
            print_json([vars(each) for each in keys])
            return
        rows = [(each.name, each.role, each.created_at, each.revoked_at) for each in keys]
        print_table(("key", "role", "made", "revoked"), rows)


def revoke_key(
    name: Annotated[str, typer.Argument(help="As it was made.")], catalog: _Catalog = None
) -> None:
    """Take a key out of use, for good."""
    from acrux_otel.catalog import Keys

    with errors_in_one_line():
        Keys(_database(catalog).database).revoke(name)
        typer.echo(f"the key {shown(name)} cannot be used any more")


def _database(named: str | None) -> SqlCatalog:
    from acrux_otel.catalog import SqlCatalog
    from acrux_otel.catalog.opening import embedded

    catalog = SqlCatalog(named if named is not None else embedded())
    typer.echo(f"catalog: {catalog.label}", err=True)
    return catalog


def _listening(address: str) -> None:
    typer.echo(f"serving on {address}", err=True)


def _resolved(catalog: Browsable, text: str) -> Resolved:
    from acrux_otel.catalog import Ref

    ref = Ref.parse(text)
    with _advised(catalog, ref):
        return catalog.resolve([ref])[0]


@contextmanager
def _advised(catalog: Browsable, ref: Ref) -> Iterator[None]:
    """What is not there is told with what there is."""
    from acrux_otel.catalog import NotFound

    try:
        yield
    except NotFound as missing:
        raise ValueError(f"{missing}{_what_there_is(catalog, ref)}") from None


def _what_there_is(catalog: Browsable, ref: Ref) -> str:
    from difflib import get_close_matches

    from acrux_otel.catalog import NotFound

    try:
        tool = catalog.tool(ref.name)
    except NotFound:
        near = get_close_matches(ref.name, [each.name for each in catalog.tools(None, 1, 100)], 3)
        return f"; did you mean {' or '.join(near)}?" if near else ""
    if ref.version is None:
        return (
            f"; {tool.name} has the aliases {', '.join(tool.aliases)}"
            if tool.aliases
            else "; it has no version yet"
        )
    if tool.latest_version == 1:
        return f"; {tool.name} has the version 1 only"
    return f"; {tool.name} has the versions 1 to {tool.latest_version}"


def _tell_of_more(page: Page[Any], what: str) -> None:
    if page.page * page.limit < page.total:
        told = f"{len(page.items)} of {page.total} {what}; --page {page.page + 1} for more"
    elif not page.items and page.page > 1:
        told = f"{page.total} {what} are on page 1 to {max(1, -(-page.total // page.limit))}"
    else:
        return
    typer.echo(told, err=True)


def _numbered(found: Resolved) -> str:
    return f"{found.name}:{found.version_number}"


def _event_row(event: Event) -> tuple[object, ...]:
    when = event.at[:19].replace("T", " ")
    moved = event.version if event.previous is None else f"{event.previous} -> {event.version}"
    return (when, event.by, event.action, event.alias, moved, event.change, event.source, event.changelog)


def _first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0][:100]
