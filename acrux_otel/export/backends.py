# SPDX-License-Identifier: Apache-2.0
"""The named backends, as data: where each one's spans and metrics go, and what it needs."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
from typing import Any, Final

from acrux_otel.export.endpoints import FILE, GRPC, METRICS, TRACES, Target, target
from acrux_otel.export.options import Given, given

__all__ = [
    "BACKENDS",
    "CONSOLE",
    "FILE",
    "NONE",
    "TEMPO",
    "TEMPO_PAYLOAD",
    "Destination",
    "chosen_backends",
    "destination",
    "standard_backends",
]

ACRUXCORE: Final = "acruxcore"
CONSOLE: Final = "console"
JAEGER: Final = "jaeger"
NONE: Final = "none"
OTLP: Final = "otlp"
TEMPO: Final = "tempo"
BACKENDS: Final = (OTLP, JAEGER, TEMPO, ACRUXCORE, CONSOLE, FILE, NONE)

TEMPO_PAYLOAD: Final = 2048  # bytes of an attribute that Tempo keeps by default
_DEFAULT_FILE: Final = "acrux-otel.jsonl"
_ACRUXCORE_TIMEOUT: Final = 30.0  # 512 spans took a small server 6.5 s
_ACRUXCORE_MOST: Final = 100


@dataclasses.dataclass(frozen=True)
class Destination:
    """Where one backend's telemetry goes.

    Attributes:
        backend: its name.
        traces: the spans' target.
        metrics: None where it takes none.
        rewrite: changes an encoded request of spans for its sake.
        most: spans in one request.
    """

    backend: str
    traces: Target
    metrics: Target | None = None
    rewrite: Callable[[Any], None] | None = None
    most: int = 512

    @property
    def key(self) -> object:
        """Equal for two that send the same to the same place."""
        return self.traces.protocol, self.traces.url, tuple(sorted(self.traces.headers.items()))


def chosen_backends(option: Given | None, file: Given | None) -> list[str]:
    """The backends that were named, without repetition; naming a file names that backend.

    Args:
        option: one name, several separated by commas, or a list of them.
        file: the file that was named.

    Raises:
        ValueError: an unknown one.
    """
    chosen: list[str] = []
    if option is not None:
        names = option.value.split(",") if isinstance(option.value, str) else option.value
        for name in names if isinstance(names, (list, tuple)) else [names]:
            word = name.strip().lower() if isinstance(name, str) else None
            if word not in BACKENDS:
                raise ValueError(f"{option.source} is {name!r}; expected one of {', '.join(BACKENDS)}")
            chosen.append(word)
    if file is not None:
        chosen.append(FILE)
    return list(dict.fromkeys(chosen))


def standard_backends(*, asked: bool) -> list[str]:
    """What ``OTEL_TRACES_EXPORTER`` says where no backend of ours was named.

    Args:
        asked: an endpoint was named, which outweighs ``none``.
    """
    made = []
    for name in os.environ.get("OTEL_TRACES_EXPORTER", "").lower().split(","):
        word = name.strip()
        if word == CONSOLE:
            made.append(CONSOLE)
        elif asked or word != NONE:
            made.append(OTLP)
    return list(dict.fromkeys(made))


def destination(
    backend: str,
    endpoint: str | None = None,
    protocol: str | None = None,
    headers: Mapping[str, str] | str | None = None,
    file: str | os.PathLike[str] | None = None,
    *,
    alone: bool = True,
) -> Destination:
    """What a backend's name and the options mean.

    Args:
        backend: one of `BACKENDS`.
        endpoint: see `configure`.
        protocol: see `configure`.
        headers: see `configure`.
        file: see `configure`.
        alone: whether it is the only backend; then the endpoint's options concern AcruxCore too.

    Raises:
        ValueError: an option that cannot be used.
    """
    if backend == ACRUXCORE:
        return _acruxcore(endpoint, protocol, headers, alone=alone)
    if backend in (CONSOLE, NONE):
        return Destination(backend, Target(TRACES, backend, backend, "backend"))
    if backend == FILE:
        return _file(given(file, "file") or Given(_DEFAULT_FILE, "default"))
    traces = target(TRACES, endpoint, protocol, headers)
    if backend != OTLP:
        traces = _chosen(traces)
    metrics = None
    if os.environ.get("OTEL_METRICS_EXPORTER", "").strip().lower() != NONE:
        metrics = target(METRICS, endpoint, protocol, headers)
        if backend == JAEGER and not metrics.source.startswith("OTEL_EXPORTER_OTLP_METRICS"):
            metrics = None
    return Destination(backend, traces, metrics)


def _file(option: Given) -> Destination:
    try:
        path = os.path.abspath(os.path.expanduser(os.fspath(option.value)))
    except TypeError:
        raise ValueError(f"{option.source} is {option.value!r}; expected a path") from None
    if os.path.isdir(path) or not os.path.isdir(os.path.dirname(path)):
        raise ValueError(f"{option.source} is {option.value!r}; expected a file in a folder that exists")
    return Destination(FILE, Target(TRACES, FILE, path, option.source))


def _chosen(made: Target) -> Target:
    """Who names a backend wants to hear that nobody answers at its default."""
    return dataclasses.replace(made, implicit=False)


def _acruxcore(
    endpoint: str | None,
    protocol: str | None,
    headers: Mapping[str, str] | str | None,
    *,
    alone: bool,
) -> Destination:
    from acrux_otel.export.acruxcore import rewrite

    base = given(endpoint, "endpoint") if alone else None
    key = os.environ.get("ACRUXCORE_API_KEY", "").strip()
    if base is None:
        address = os.environ.get("ACRUXCORE_BASE_URL", "").strip()
        if not address:
            raise ValueError(
                "backend 'acruxcore' needs its address: set ACRUXCORE_BASE_URL, such as "
                "https://acruxcore.example/api/v1"
            )
        base = Given(address, "ACRUXCORE_BASE_URL")
    made = target(TRACES, protocol=protocol, headers=headers, place=base, path="/traces/otlp")
    if made.protocol == GRPC:
        raise ValueError("backend 'acruxcore' takes OTLP over HTTP; set protocol to 'http/protobuf'")
    sent = dict(made.headers)
    if "authorization" not in sent:
        if not key:
            raise ValueError("backend 'acruxcore' needs a key: set ACRUXCORE_API_KEY")
        sent["authorization"] = f"Bearer {key}"
    made = dataclasses.replace(made, headers=sent, timeout=_ACRUXCORE_TIMEOUT)
    return Destination(ACRUXCORE, made, None, rewrite, _ACRUXCORE_MOST)
