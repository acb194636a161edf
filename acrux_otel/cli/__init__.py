# SPDX-License-Identifier: Apache-2.0
"""The command `acrux-otel`. A group of commands is a module here with a function ``register(app)``."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import typer

__all__ = ["app", "main"]

_GROUPS: Final = ("run", "doctor", "sync", "catalog", "find", "up")


def app() -> typer.Typer:
    """The application with all its commands.

    Raises:
        ImportError: the extra ``[cli]`` is not installed.
    """
    import typer

    made = typer.Typer(
        help="OpenTelemetry for the tools of LLM agents.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    made.callback()(lambda: None)
    for group in _GROUPS:
        import_module(f"acrux_otel.cli.{group}").register(made)
    return made


def main() -> None:
    """The entry point."""
    try:
        made = app()
    except ImportError as missing:
        if (missing.name or "").partition(".")[0] not in ("typer", "rich"):
            raise
        sys.exit('acrux-otel needs optional packages; install them with: pip install "acrux-otel[cli]"')
    made(prog_name="acrux-otel")
