# SPDX-License-Identifier: Apache-2.0
"""The example as a command: its options, and an end that is no traceback."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Iterator
from typing import TextIO

from weather.problem import Problem

__all__ = ["export_only_where_asked", "one_line_problems", "parse"]


def parse(description: str) -> argparse.Namespace:
    """The command line: `forms` to run, whether `live`, the name of a `model` or None."""
    parser = argparse.ArgumentParser(
        description=description,
        epilog="Places by GeoNames, CC BY 4.0. The live weather by Open-Meteo.com, CC BY 4.0.",
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    form = parser.add_mutually_exclusive_group()
    for name in ("silent", "declared"):
        form.add_argument(
            f"--{name}", dest="forms", action="store_const", const=(name,), help=f"only the {name} form"
        )
    parser.set_defaults(forms=("silent", "declared"))
    parser.add_argument("--live", action="store_true", help="ask the real Open-Meteo; needs a network")
    parser.add_argument(
        "--model",
        metavar="NAME",
        help="ask this model at OPENAI_BASE_URL with OPENAI_API_KEY, instead of following a script",
    )
    return parser.parse_args()


def export_only_where_asked() -> None:
    """Switch off OpenTelemetry's default endpoint, localhost: a first try has nobody listening there.

    Whatever names an endpoint or an exporter in the environment still counts.
    """
    for signal in ("TRACES", "METRICS"):
        endpoints = ("OTEL_EXPORTER_OTLP_ENDPOINT", f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT")
        if not any(map(os.environ.get, endpoints)):
            os.environ.setdefault(f"OTEL_{signal}_EXPORTER", "none")


@contextlib.contextmanager
def one_line_problems() -> Iterator[None]:
    """End the process with one line for a `Problem`, and quietly when interrupted or no longer read."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # a narrow encoding must not cost the answer
    try:
        yield
        sys.stdout.flush()
    except Problem as problem:
        sys.exit(f"error: {problem}")
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        _discard(sys.stdout)


def _discard(stream: TextIO) -> None:
    """Or the interpreter would complain about the same closed pipe once more at its exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
