# SPDX-License-Identifier: Apache-2.0
"""OTLP over gRPC, one attempt at a time. Needs the extra ``[grpc]``."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlsplit

from acrux_otel._version import VERSION
from acrux_otel.export.delivery import SendFailed
from acrux_otel.export.endpoints import Target

try:
    import grpc  # type: ignore[import-untyped,unused-ignore]
except ImportError as missing:
    raise ImportError(
        'OTLP over gRPC needs an optional package; install it with: pip install "acrux-otel[grpc]" '
        "(or use protocol 'http/protobuf')"
    ) from missing

__all__ = ["GrpcSender"]

_METHODS: Final = {
    "traces": "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
    "metrics": "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
}
# https://opentelemetry.io/docs/specs/otlp/#failures
_RETRYABLE: Final = frozenset(
    (
        "CANCELLED",
        "DEADLINE_EXCEEDED",
        "ABORTED",
        "OUT_OF_RANGE",
        "UNAVAILABLE",
        "DATA_LOSS",
        "RESOURCE_EXHAUSTED",
    )
)


class GrpcSender:
    """Calls ``Export`` on one channel."""

    def __init__(self, target: Target) -> None:
        self._target = target
        parts = urlsplit(target.url)
        compression = (
            grpc.Compression.Gzip if target.compression == "gzip" else grpc.Compression.NoCompression
        )
        options = [("grpc.primary_user_agent", f"acrux-otel/{VERSION}")]
        if parts.scheme == "https":
            self._channel = grpc.secure_channel(parts.netloc, _credentials(target), options, compression)
        else:
            self._channel = grpc.insecure_channel(parts.netloc, options, compression)
        self._export = self._channel.unary_unary(_METHODS[target.signal])
        self._metadata = tuple(target.headers.items())

    def send(self, body: bytes, timeout: float) -> str | None:
        """See `Sender`."""
        try:
            answer = self._export(body, timeout=timeout, metadata=self._metadata)
        except grpc.RpcError as error:
            raise _failure(error) from None
        return self._partial(answer)

    def _partial(self, answer: bytes) -> str | None:
        from acrux_otel.export.over_http import _partial

        return _partial(answer, self._target.signal)

    def close(self) -> None:
        """See `Sender`."""
        self._channel.close()


def _credentials(target: Target) -> Any:
    def read(path: str | None) -> bytes | None:
        if path is None:
            return None
        with open(path, "rb") as file:
            return file.read()

    return grpc.ssl_channel_credentials(
        read(target.certificate), read(target.client_key), read(target.client_certificate)
    )


def _failure(error: Any) -> SendFailed:
    code = error.code().name if callable(getattr(error, "code", None)) and error.code() else "UNKNOWN"
    details = (error.details() or "").lower() if callable(getattr(error, "details", None)) else ""
    if code == "UNAVAILABLE":
        reason = "unavailable"
        if "refused" in details:
            reason = "connection refused"
        elif "ssl" in details or "tls" in details:
            reason = "TLS failed; a plain-text endpoint is written http://host:port"
        return SendFailed(reason, retryable=True, answered=False)
    if code == "DEADLINE_EXCEEDED":
        return SendFailed("no answer in time", retryable=True, answered=False)
    large = code == "RESOURCE_EXHAUSTED" and "larger than max" in details
    return SendFailed(
        f"gRPC {code}",
        retryable=code in _RETRYABLE and not large,
        too_large=large,
        unsupported=code == "UNIMPLEMENTED",
    )
