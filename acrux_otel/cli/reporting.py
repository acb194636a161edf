# SPDX-License-Identifier: Apache-2.0
"""What commands about the catalog print: tables for people, JSON for programs, one line for an error."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import typer

if TYPE_CHECKING:
    from acrux_otel.catalog import Browsable, Drift

__all__ = ["drift_json", "errors_in_one_line", "opened", "print_drift", "print_json", "print_table", "shown"]

_PIPE_WIDTH: Final = 200


@contextmanager
def errors_in_one_line() -> Iterator[None]:
    """What a user can cause ends the command with one line and exit code 2."""
    from acrux_otel.catalog import CatalogError

    try:
        yield
    except (CatalogError, ValueError, ImportError, OSError) as error:
        typer.echo(f"error: {shown(str(error))}{_synced_before(error)}", err=True)
        raise typer.Exit(2) from None


@contextmanager
def opened(named: str | None) -> Iterator[Browsable]:
    """The catalog that a command works on, named on stderr."""
    from acrux_otel.catalog import Browsable, open_catalog

    catalog = open_catalog(named)
    if not isinstance(catalog, Browsable):
        raise ValueError(f"catalog {catalog.label} cannot be looked through")
    typer.echo(f"catalog: {catalog.label}", err=True)
    try:
        yield catalog
    finally:
        catalog.close()


def shown(text: str) -> str:
    """A text from a catalog without what would steer a terminal."""
    return "".join(
        each if each.isprintable() or each == "\n" else "\N{REPLACEMENT CHARACTER}" for each in text
    )


def print_json(value: Any) -> None:
    """For programs."""
    typer.echo(json.dumps(value, indent=2))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """For people."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text("" if cell is None else shown(str(cell))) for cell in row))
    width = None if sys.stdout.isatty() else _PIPE_WIDTH
    Console(highlight=False, width=width).print(table)


def print_drift(drift: Drift) -> None:
    """What changed: reasons why it breaks first, then every place."""
    for reason in drift.breaking:
        typer.secho(f"  ! {shown(reason)}", fg="red")
    for edit in drift.edits:
        path = shown(edit.path)
        if edit.before is not None:
            typer.secho(f"  - {path}: {shown(edit.before)}", fg="yellow")
        if edit.after is not None:
            typer.secho(f"  + {path}: {shown(edit.after)}", fg="green")


def drift_json(drift: Drift) -> dict[str, Any]:
    """A difference for programs; ``before`` and ``after`` are JSON texts."""
    edits = [{"path": each.path, "before": each.before, "after": each.after} for each in drift.edits]
    return {"change": drift.change.value, "breaking": list(drift.breaking), "edits": edits}


def _synced_before(error: Exception) -> str:
    synced = getattr(error, "synced", ())
    if not synced:
        return ""
    names = ", ".join(f"{each.name} (version {each.version_number})" for each in synced)
    return f"\nsynced before it, and kept: {names}"
