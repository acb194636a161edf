# SPDX-License-Identifier: Apache-2.0
"""`acrux-otel up`: a receiver, a store, a catalog and a page, in one process and one file."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated, Final, NoReturn

import typer

__all__ = ["register"]

_NEEDS: Final = 'acrux-otel up needs {name}; install it with: pip install "acrux-otel[local]"'
_HOST: Final = "127.0.0.1"
_SIZES: Final = {"MB": 10**6, "GB": 10**9, "MiB": 2**20, "GiB": 2**30}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("up", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})(up)


def up(
    program: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PROGRAM [ARGS]...]", help="Run this into it, and go on serving."),
    ] = None,
    host: Annotated[str, typer.Option(help="Where to listen; others than loopback need a key.")] = _HOST,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 4318,
    key: Annotated[
        str | None, typer.Option(envvar="ACRUX_OTEL_UP_KEY", help="What every visitor must know.")
    ] = None,
    home: Annotated[
        Path | None, typer.Option(help="Folder of the store; ACRUX_OTEL_HOME, or .acrux.")
    ] = None,
    keep: Annotated[str, typer.Option(help="How long runs are kept.")] = "14d",
    max_size: Annotated[str, typer.Option(help="How large the store may grow.")] = "2GB",
) -> None:
    """Receive OpenTelemetry traces, keep them in one file, and show them on a local page.

    Programs send to it by default: acrux.configure(), or OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318.
    """
    from acrux_otel.local.guarding import is_loopback

    try:
        from acrux_otel.local.app import local_app
        from acrux_otel.local.connecting import default_path
        from acrux_otel.local.retention import Limits
        from acrux_otel.local.schema import StoreError
        from acrux_otel.local.serving import CannotListen, listen, program_environment, serve
        from acrux_otel.local.store import Store
    except ImportError as missing:
        _stop(_NEEDS.format(name=missing.name))
    if not is_loopback(host) and not key:
        _stop(
            f"--host {host} can be reached by others; give a key with --key or ACRUX_OTEL_UP_KEY, "
            "or leave out --host"
        )
    limits = Limits(_age(keep), _size(max_size))
    if home is not None:
        os.environ["ACRUX_OTEL_HOME"] = str(home)
    path = default_path()
    try:
        bound = listen(host, port)
        store = Store(path, limits=limits)
    except (CannotListen, StoreError) as error:
        _stop(str(error))
    name = "127.0.0.1" if host in ("0.0.0.0", "::", "") else f"[{host}]" if ":" in host else host
    url = f"http://{name}:{bound.getsockname()[1]}"

    def ready() -> None:
        typer.echo(
            f"page      {url}/traces\n"
            f"send to   OTEL_EXPORTER_OTLP_ENDPOINT={url} (traces are kept, metrics and logs are not)\n"
            f"catalog   ACRUX_OTEL_CATALOG={url}/api/v1\n"
            f"store     {path}, {keep} and {max_size}\n"
            "Ctrl-C ends it."
        )

    serve(local_app(store, key or None), bound, ready, program or (), program_environment(url, key or None))


def _age(text: str) -> int:
    from acrux_otel.query.values import duration

    age = duration(text)
    if not age:
        _stop(f"--keep is {text!r}; expected a length of time such as 12h or 14d")
    return age


def _size(text: str) -> int:
    match = re.fullmatch(r"([0-9]{1,6})\s*([KMG]i?B)", text)
    size = int(match[1]) * _SIZES.get(match[2], 0) if match else 0
    if size < 10**7:
        _stop(f"--max-size is {text!r}; expected at least 10MB, such as 500MB or 2GB")
    return size


def _stop(problem: str) -> NoReturn:
    typer.echo(f"error: {problem}", err=True)
    raise typer.Exit(2)
