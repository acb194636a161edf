# SPDX-License-Identifier: Apache-2.0
"""`acrux-otel run`: opentelemetry-instrument with our defaults."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Annotated, Final

import typer

__all__ = ["command_line", "environment", "register"]

_OURS: Final = "acrux_otel"
_NEEDS: Final = 'acrux-otel run needs {name}; install it with: pip install "acrux-otel[cli]"'


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        "run",
        context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    )(run)


def run(
    command: Annotated[
        list[str],
        typer.Argument(metavar="APP.py|-m MODULE|COMMAND [ARGS]...", help="What to run, and its arguments."),
    ],
    service_name: Annotated[str | None, typer.Option(help="ACRUX_OTEL_SERVICE_NAME")] = None,
    endpoint: Annotated[str | None, typer.Option(help="ACRUX_OTEL_ENDPOINT")] = None,
    protocol: Annotated[str | None, typer.Option(help="ACRUX_OTEL_PROTOCOL")] = None,
    backend: Annotated[str | None, typer.Option(help="ACRUX_OTEL_BACKEND")] = None,
    capture: Annotated[str | None, typer.Option(help="ACRUX_OTEL_CAPTURE")] = None,
) -> None:
    """Run a Python program so that its tools are recorded, without a change to it.

    It is opentelemetry-instrument with these defaults: the service is named after the program, spans and
    metrics go over OTLP/HTTP, and the end of the program is held for at most ACRUX_OTEL_EXIT_TIMEOUT seconds.
    Every OTEL_… and ACRUX_OTEL_… variable works.
    """
    options = {
        "SERVICE_NAME": service_name,
        "ENDPOINT": endpoint,
        "PROTOCOL": protocol,
        "BACKEND": backend,
        "CAPTURE": capture,
    }
    os.environ.update({f"ACRUX_OTEL_{name}": value for name, value in options.items() if value is not None})
    line = command_line(command)
    try:
        os.environ.update(environment(line, os.environ))
    except (ValueError, ImportError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None
    _instrument(line)


def command_line(command: Sequence[str]) -> list[str]:
    """What to execute: a script and ``-m module`` are run by this Python."""
    if command[0] == "-m" or command[0].endswith((".py", ".pyw", ".pyz")):
        return [sys.executable, *command]
    return list(command)


def environment(line: Sequence[str], given: Mapping[str, str]) -> dict[str, str]:
    """The standard variables to set for ``line``; what the user has set stays.

    Raises:
        ValueError: a variable that cannot be used.
        ImportError: an optional package is missing.
    """
    from acrux_otel.export.backends import NONE, OTLP, chosen_backends, destination
    from acrux_otel.export.delivery import require
    from acrux_otel.export.options import boolean, seconds
    from acrux_otel.export.options import given as option

    names = chosen_backends(option(None, "backend"), option(None, "file")) or [OTLP]
    places = [destination(name, alone=len(names) == 1) for name in names if name != NONE]
    for place in places:
        require(place.traces)
    seconds(option(None, "exit_timeout"), 0.0)
    made: dict[str, str] = {}
    if not _named(given):
        made["OTEL_SERVICE_NAME"] = given.get("ACRUX_OTEL_SERVICE_NAME") or _service(line)
    # The distribution's exporters wait at exit for as long as an endpoint likes; ours know when to stop.
    if _otlp(given, "OTEL_TRACES_EXPORTER"):
        made["OTEL_TRACES_EXPORTER"] = _OURS
    if _otlp(given, "OTEL_METRICS_EXPORTER"):
        wanted = boolean(option(None, "metrics"), True) and any(place.metrics for place in places)
        made["OTEL_METRICS_EXPORTER"] = _OURS if wanted else "none"
    if not places and not given.get("OTEL_LOGS_EXPORTER"):
        made["OTEL_LOGS_EXPORTER"] = "none"
    if not given.get("OTEL_EXPORTER_OTLP_PROTOCOL"):
        protocol = next((place.traces.protocol for place in places if place.backend == OTLP), "http/protobuf")
        made["OTEL_EXPORTER_OTLP_PROTOCOL"] = protocol  # the distribution's default is gRPC
    return made


def _named(given: Mapping[str, str]) -> bool:
    if given.get("ACRUX_OTEL_SERVICE_NAME"):
        return False
    pairs = given.get("OTEL_RESOURCE_ATTRIBUTES", "").split(",")
    return bool(given.get("OTEL_SERVICE_NAME")) or any(
        pair.strip().startswith("service.name=") for pair in pairs
    )


def _otlp(given: Mapping[str, str], variable: str) -> bool:
    return given.get(variable, "").strip().lower() in ("", "otlp")


def _service(line: Sequence[str]) -> str:
    """`app` of `python app.py`, `module` of `python -m module`, else the command's own name."""
    words = list(line)
    if PurePath(words[0]).name.startswith("python"):
        for position, word in enumerate(words[1:], 1):
            if word == "-m" and position + 1 < len(words):
                return words[position + 1]
            if not word.startswith("-"):
                path = PurePath(word)
                return path.parent.name if path.stem == "__main__" and path.parent.name else path.stem
    return PurePath(words[0]).stem


def _instrument(line: Sequence[str]) -> None:
    try:
        import opentelemetry.distro  # noqa: F401
        from opentelemetry.instrumentation import auto_instrumentation
    except ImportError as missing:
        typer.echo(f"error: {_NEEDS.format(name=missing.name)}", err=True)
        raise typer.Exit(2) from None
    import shutil

    if shutil.which(line[0]) is None:
        typer.echo(
            f"error: there is no command {line[0]!r}; expected a script.py, -m module or a command", err=True
        )
        raise typer.Exit(127)
    script = next((word for word in line[1:2] if word.endswith((".py", ".pyw", ".pyz"))), None)
    if script is not None and not os.path.exists(script):
        typer.echo(f"error: there is no file {script!r}", err=True)
        raise typer.Exit(2)
    sys.argv = ["opentelemetry-instrument", *line]
    auto_instrumentation.run()  # replaces this process
