# SPDX-License-Identifier: Apache-2.0
"""`acrux-otel find` and `acrux-otel codes`: runs by a filter, and the codes that were seen."""

from __future__ import annotations

import dataclasses
import datetime
import difflib
import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from acrux_otel.local.store import Code, Store
    from acrux_otel.query import Filter, RunLine, Span, Target, Trace

__all__ = ["register"]

_COLOURS: Final = {"error": "red", "warning": "yellow", "ok": "green"}
_PIPE_WIDTH: Final = 400  # columns where nobody looks: nothing is cut


def register(app: typer.Typer) -> None:
    """Add the commands."""
    # A filter may begin with `-`, so there is no option of one letter here.
    app.command("find", context_settings={"ignore_unknown_options": True, "help_option_names": ["--help"]})(
        find
    )
    app.command("codes")(codes)


def find(
    filter: Annotated[
        list[str] | None, typer.Argument(metavar="FILTER", help="Such as 'error_type:http_status since:1h'.")
    ] = None,
    jaeger: Annotated[str | None, typer.Option(help="Search this Jaeger's query service.")] = None,
    tempo: Annotated[str | None, typer.Option(help="Search this Grafana Tempo.")] = None,
    home: Annotated[Path | None, typer.Option(help="The local store's folder.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most so many runs.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
    tree: Annotated[bool, typer.Option("--tree", help="Show each run's spans.")] = False,
    print_query: Annotated[bool, typer.Option("--print-query", help="Show what would be sent.")] = False,
) -> None:
    """Find runs: in the local store, in Jaeger or in Grafana Tempo, with one filter.

    Terms: status:error|ok  error_type:  error_code:  warning:yes|no  tool:  outcome:  attempts:>2
    duration:>1s  service:  tag:NAME  tag.KEY:VALUE  run:ID  since:1h  until:  free text. All must hold; those
    about a call must hold on one span; - before a term negates it.

    Exit code 0: runs were found. 1: none was. 2: the filter or the place to search cannot be used.
    """
    with _told():
        from acrux_otel.query import parse

        wanted = parse(" ".join(filter or ()))
        target = _target(jaeger, tempo, home)
        if print_query:
            typer.echo("\n".join(target.queries(wanted)))
            return
        answer = target.find(wanted, limit)
        if as_json:
            typer.echo(json.dumps([_as_json(run, target if tree else None) for run in answer.runs], indent=2))
        elif tree:
            for run in answer.runs:
                _show_tree(run, target.trace(run.trace_id))
        else:
            _show_table(answer.runs)
        for note in answer.notes:
            typer.echo(f"note: {note}", err=True)
        if not answer.runs:
            typer.echo(f"no run meets the filter{_hint(wanted, target)}", err=True)
            raise typer.Exit(1)


def codes(
    since: Annotated[str | None, typer.Option(help="How long ago, such as 1h or 7d, or a time.")] = None,
    home: Annotated[Path | None, typer.Option(help="The local store's folder.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """List the error codes in the local store: how often, first and last."""
    with _told():
        from acrux_otel.query import values

        start = None if since is None else values.moment(since, time.time_ns())
        if since is not None and start is None:
            typer.echo(f"error: --since is {since!r}; expected such as 1h, 7d or 2026-11-30T18:00", err=True)
            raise typer.Exit(2)
        found = _store(home).codes(start)
        if as_json:
            typer.echo(json.dumps([dataclasses.asdict(code) for code in found], indent=2))
        else:
            rows = [_code_row(code) for code in found]
            _table(("error_code", "error_type", "count", "tools", "first", "last"), rows, right=(2, 3))
        if not found:
            typer.echo("no code was seen", err=True)
            raise typer.Exit(1)


def _target(jaeger: str | None, tempo: str | None, home: Path | None) -> Target:
    if jaeger is not None and tempo is not None:
        typer.echo("error: --jaeger and --tempo are two places; name one", err=True)
        raise typer.Exit(2)
    if jaeger is not None:
        from acrux_otel.query.jaeger import Jaeger

        return Jaeger(jaeger)
    if tempo is not None:
        from acrux_otel.query.tempo import Tempo

        return Tempo(tempo)
    return _store(home)


def _store(home: Path | None) -> Store:
    from acrux_otel.local.store import Store

    return Store(None if home is None else home / "acrux.db", create=False)


@contextmanager
def _told() -> Iterator[None]:
    """What a user can cause ends in one line, or three with the place in the filter."""
    from acrux_otel.query import FilterError, TargetError

    try:
        from acrux_otel.local.schema import StoreError
    except ImportError:
        StoreError = TargetError  # type: ignore[misc,assignment]
    try:
        yield
    except FilterError as error:
        typer.echo(f"error: {error.pointed()}", err=True)
    except (TargetError, StoreError) as error:
        typer.echo(f"error: {error}", err=True)
    else:
        return
    raise typer.Exit(2)


def _hint(filter: Filter, target: Target) -> str:
    """A code that was seen and looks like the one that was asked for."""
    from acrux_otel.local.store import Store

    asked = next((term.text for term in filter.on_span if term.key == "error_code"), None)
    if asked is None or not isinstance(target, Store):
        return ""
    near = difflib.get_close_matches(asked, [code.code for code in target.codes()], n=1)
    return f"; did you mean error_code:{near[0]}?" if near and near[0] != asked else ""


# -- showing --------------------------------------------------------------------------------------------


def _as_json(run: RunLine, target: Target | None) -> dict[str, Any]:
    shown = dataclasses.asdict(run)
    trace = target.trace(run.trace_id) if target is not None else None
    if trace is not None:
        shown["tree"] = [{"depth": depth, **dataclasses.asdict(span)} for depth, span in trace.tree()]
    return shown


def _show_table(runs: Sequence[RunLine]) -> None:
    from acrux_otel.local.presenting import length, money

    rows = [
        (
            _clock(run.start),
            run.name,
            run.status,
            ", ".join(run.tools),
            str(run.failed or ""),
            str(run.warned or ""),
            length(run.duration),
            money(run.cost),
            " ".join(run.tags),
            run.trace_id,
        )
        for run in runs
    ]
    titles = ("time", "name", "status", "tools", "failed", "warned", "duration", "cost", "tags", "trace")
    if runs:
        _table(titles, rows, right=(4, 5, 6, 7))


def _code_row(code: Code) -> tuple[str, ...]:
    counts = (str(code.count), str(code.tools))
    return (code.code, code.error_type, *counts, _clock(code.first), _clock(code.last))


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> None:
    """Columns that hold nothing are left out."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    kept = [at for at in range(len(titles)) if any(row[at] for row in rows)]
    for at in kept:
        justify = "right" if at in right else "left"
        table.add_column(titles[at], justify=justify, overflow="fold")  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*(Text(_printable(row[at]), style=_COLOURS.get(row[at], "")) for at in kept))
    if kept:
        _console().print(table)


def _show_tree(run: RunLine, trace: Trace | None) -> None:
    from rich.text import Text
    from rich.tree import Tree

    from acrux_otel.local.presenting import length

    head = Text.assemble(
        (_printable(run.name), "bold"),
        (f"  {run.status}", _COLOURS[run.status]),
        f"  {_clock(run.start)}  {length(run.duration)}  {run.trace_id}",
    )
    tree = Tree(head)
    branches = [tree]
    for depth, span in trace.tree() if trace is not None else ():
        del branches[depth + 1 :]
        branches.append(branches[-1].add(_told_span(span)))
    _console().print(tree)


def _told_span(span: Span) -> Any:
    from rich.text import Text

    from acrux_otel.local.presenting import length

    colour = "red" if span.is_error else "yellow" if span.warned else ""
    parts = [(_printable(span.name), colour), (f"  {length(span.duration)}", "dim")]
    verdict = " ".join(filter(None, [span.outcome, span.error_type, span.error_code]))
    if verdict:
        parts.append((f"  {_printable(verdict)}", colour))
    detail = span.text("errorDetail") or span.message
    if detail:
        parts.append((f"  {_printable(detail)}", colour))
    return Text.assemble(*parts)


def _console() -> Console:
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else _PIPE_WIDTH)


def _clock(nanoseconds: int) -> str:
    moment = datetime.datetime.fromtimestamp(nanoseconds // 1_000_000_000)
    return moment.isoformat(sep=" ", timespec="seconds")


def _printable(text: str) -> str:
    """Without the control characters that somebody's span could send to a terminal."""
    return "".join(char if char.isprintable() else " " for char in text)
