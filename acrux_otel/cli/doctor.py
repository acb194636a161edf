# SPDX-License-Identifier: Apache-2.0
"""`acrux-otel doctor`: what is configured and from where, and whether a span arrives."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from acrux_otel.export.diagnosis import Check, Diagnosis

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("doctor")(doctor)


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for an endpoint.")] = 5.0,
) -> None:
    """Tell what is configured and from where, and send one test span to every backend.

    Exit code 0: every span was taken. 1: one was not, or none is sent. 2: a setting cannot be used.
    """
    from acrux_otel.export.diagnosis import diagnose

    found = diagnose(timeout)
    if as_json:
        typer.echo(json.dumps(found.as_dict(), indent=2))
    else:
        _show(found)
    raise typer.Exit(found.exit_code)


def _show(found: Diagnosis) -> None:
    _table("settings", [(each.name, each.value, f"({each.source})") for each in found.settings])
    _table("versions", list(found.versions.items()))
    _table("conflicts", [(each,) for each in found.conflicts])
    _table("checks", [_told(each) for each in found.checks])
    verdicts = {
        0: "works: every test span was taken",
        1: "does not work: " + ("see the checks" if found.checks else "no span is sent anywhere"),
        2: f"does not work: {found.error}",
    }
    works = found.exit_code == 0
    typer.secho(verdicts[found.exit_code], fg=typer.colors.GREEN if works else typer.colors.RED)


def _table(title: str, rows: list[tuple[str, ...]]) -> None:
    if not rows:
        return
    typer.secho(title, bold=True)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        typer.echo(f"  {'  '.join(cells)}".rstrip())


def _told(check: Check) -> tuple[str, ...]:
    if check.signal == "metrics":
        outcome = "takes metrics" if check.ok else f"takes no metrics: {check.told}"
        return (check.backend, check.signal, check.place, outcome, "")
    trace = f"trace {check.trace_id}" if check.ok and check.trace_id else ""
    return (check.backend, check.signal, check.place, check.told, trace)
