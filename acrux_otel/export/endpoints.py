# SPDX-License-Identifier: Apache-2.0
"""Where one signal goes, by the OTLP exporter specification: every form of an endpoint becomes one URL.

The general endpoint is a base URL, a signal's own endpoint is used verbatim
(https://opentelemetry.io/docs/specs/otel/protocol/exporter/).
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import SplitResult, urlsplit, urlunsplit

from acrux_otel.export.options import Given, given, header_map, masked_url, seconds

__all__ = ["FILE", "GRPC", "HTTP", "METRICS", "TRACES", "Target", "target"]

HTTP: Final = "http/protobuf"
GRPC: Final = "grpc"
FILE: Final = "file"
TRACES: Final = "traces"
METRICS: Final = "metrics"

_DEFAULTS: Final = {HTTP: "http://localhost:4318", GRPC: "http://localhost:4317"}
_PROTOCOLS: Final = {"http/protobuf": HTTP, "http": HTTP, "grpc": GRPC}
_SIGNAL_PATH: Final = re.compile(r"/v1/(traces|metrics|logs)/?\Z")
_GRPC_PORT: Final = re.compile(r"https?://[^/?#]*:4317/?\Z").match
_HTTP_PORT: Final = re.compile(r"(?:https?://)?[^/?#]*:4318(?:[/?#]|\Z)").match
_COMPRESSIONS: Final = ("none", "gzip", "deflate")


@dataclasses.dataclass(frozen=True)
class Target:
    """One signal at one place.

    Attributes:
        signal: ``traces`` or ``metrics``.
        protocol: ``http/protobuf``, ``grpc``, or how else a backend is reached.
        url: the full URL; for gRPC ``http(s)://host:port``, where https means TLS; a file's path.
        source: the argument or variable that named the endpoint.
        headers: sent with every request; never logged.
        timeout: seconds for one attempt.
        compression: ``none``, ``gzip`` or ``deflate``.
        certificate: file of the certificate authorities to trust.
        client_certificate: file of our own certificate, for mutual TLS.
        client_key: file of its key.
        implicit: nobody named an endpoint; it is OpenTelemetry's default.
    """

    signal: str
    protocol: str
    url: str
    source: str
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)
    timeout: float = 10.0
    compression: str = "none"
    certificate: str | None = None
    client_certificate: str | None = None
    client_key: str | None = None
    implicit: bool = False

    @property
    def shown(self) -> str:
        """The URL without anything secret."""
        return masked_url(self.url)


def target(
    signal: str,
    endpoint: object = None,
    protocol: object = None,
    headers: object = None,
    *,
    place: Given | None = None,
    path: str | None = None,
) -> Target:
    """Resolve arguments and variables for one signal.

    Args:
        signal: ``traces`` or ``metrics``.
        endpoint: as given to `configure`.
        protocol: as given to `configure`.
        headers: as given to `configure`.
        place: a backend's own base URL; ``OTEL_EXPORTER_OTLP_…`` variables then do not concern it.
        path: what follows that base URL, instead of ``/v1/traces``.

    Raises:
        ValueError: one line that names the argument or variable, its value and what was expected.
    """
    variables = _Variables(signal if place is None else None)
    if place is None:
        place = given(endpoint, "endpoint", *variables("ENDPOINT"))
    chosen = _protocol(given(protocol, "protocol", *variables("PROTOCOL")), place)
    where = place or Given(_DEFAULTS[chosen], "default")
    return Target(
        signal=signal,
        protocol=chosen,
        url=_url(signal, chosen, where, path or f"/v1/{signal}"),
        source=where.source,
        headers=header_map(given(headers, "headers", *variables("HEADERS"))),
        timeout=seconds(variables.given("TIMEOUT"), 10.0) or 10.0,
        compression=_compression(variables.given("COMPRESSION"), chosen),
        certificate=variables.file("CERTIFICATE"),
        client_certificate=variables.file("CLIENT_CERTIFICATE"),
        client_key=variables.file("CLIENT_KEY"),
        implicit=place is None,
    )


class _Variables:
    """The standard variables of one signal, its own before the general ones."""

    def __init__(self, signal: str | None) -> None:
        self._signal = signal

    def __call__(self, name: str) -> tuple[str, ...]:
        if self._signal is None:
            return ()
        return f"OTEL_EXPORTER_OTLP_{self._signal.upper()}_{name}", f"OTEL_EXPORTER_OTLP_{name}"

    def given(self, name: str) -> Given | None:
        for variable in self(name):
            value = os.environ.get(variable, "").strip()
            if value:
                return Given(value, variable)
        return None

    def file(self, name: str) -> str | None:
        option = self.given(name)
        if option is None:
            return None
        if not os.path.isfile(option.value):
            raise ValueError(f"{option.source} is {option.value!r}; expected a file, and there is none")
        return str(option.value)


def _protocol(option: Given | None, endpoint: Given | None) -> str:
    # What a nearer endpoint implies outranks a farther variable, which a distribution may have set.
    near = endpoint is not None and not endpoint.source.startswith("OTEL_")
    implied = _implied(endpoint.value) if endpoint is not None and isinstance(endpoint.value, str) else None
    if option is None or (near and implied and option.source.startswith("OTEL_")):
        return implied or HTTP
    word = option.value.strip().lower() if isinstance(option.value, str) else ""
    if word not in _PROTOCOLS:
        raise ValueError(f"{option.source} is {option.value!r}; expected 'http/protobuf' or 'grpc'")
    return _PROTOCOLS[word]


def _implied(endpoint: str) -> str | None:
    """By the registered ports, the signal's path, or a form that only gRPC knows."""
    if _HTTP_PORT(endpoint) or _SIGNAL_PATH.search(endpoint):
        return HTTP
    return GRPC if "://" not in endpoint or _GRPC_PORT(endpoint) else None


def _url(signal: str, protocol: str, endpoint: Given, path: str) -> str:
    text, source = endpoint
    shown = masked_url(text) if isinstance(text, str) else text
    text = text.strip() if isinstance(text, str) else ""
    if "://" not in text and protocol == GRPC:
        insecure = os.environ.get("OTEL_EXPORTER_OTLP_INSECURE", "").strip().lower()
        host = text.rpartition(":")[0]
        local = host in ("localhost", "127.0.0.1", "[::1]")
        text = ("http://" if insecure == "true" or (local and insecure != "false") else "https://") + text
    try:
        parts = urlsplit(text)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid or any(char.isspace() for char in text):
        example = (
            "'host:4317' or 'http://host:4317'" if protocol == GRPC else "a URL such as 'http://host:4318'"
        )
        raise ValueError(f"{source} is {shown!r}; expected {example}")
    if protocol == GRPC:
        return f"{parts.scheme}://{parts.netloc}"
    if source == f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT":
        return text if parts.path else urlunsplit(parts._replace(path="/"))
    return _under_base(parts, path)


def _under_base(base: SplitResult, path: str) -> str:
    stem = _SIGNAL_PATH.sub("", base.path).rstrip("/").removesuffix(path)
    return urlunsplit(base._replace(path=stem + path, fragment=""))


def _compression(option: Given | None, protocol: str) -> str:
    if option is None:
        return "none"
    word = option.value.lower()
    known = _COMPRESSIONS[:2] if protocol == GRPC else _COMPRESSIONS
    if word not in known:
        raise ValueError(f"{option.source} is {option.value!r}; expected one of {', '.join(known)}")
    return str(word)
