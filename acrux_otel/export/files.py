# SPDX-License-Identifier: Apache-2.0
"""Spans into a file: one OTLP request as JSON on each line, what collectors read and write.

https://opentelemetry.io/docs/specs/otel/protocol/file-exporter/
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, Final

from acrux_otel.export.delivery import SendFailed

__all__ = ["FileSender", "as_json"]

_IDS: Final = frozenset(("traceId", "spanId", "parentSpanId"))


class FileSender:
    """Appends; lines of several processes do not mix.

    Args:
        path: the file; it is made where there is none, and its folder has to be there.
    """

    def __init__(self, path: str) -> None:
        self._path = path

    def send(self, body: bytes, timeout: float) -> None:
        """See `Sender`."""
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        line = json.dumps(as_json(ExportTraceServiceRequest.FromString(body)), separators=(",", ":")) + "\n"
        try:
            handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                left = memoryview(line.encode())
                while left:
                    left = left[os.write(handle, left) :]
            finally:
                os.close(handle)
        except OSError as error:
            raise SendFailed(f"{error.strerror or error}") from None

    def close(self) -> None:
        """Nothing is held open."""


def as_json(request: Any) -> dict[str, Any]:
    """A request in OTLP's JSON mapping, which writes ids as hex and enums as numbers."""
    from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped,unused-ignore]

    made: dict[str, Any] = _with_hex_ids(MessageToDict(request, use_integers_for_enums=True))
    return made


def _with_hex_ids(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            key: _hex(each) if key in _IDS and isinstance(each, str) else _with_hex_ids(each)
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [_with_hex_ids(each) for each in value]
    return value


def _hex(base64: str) -> str:
    from base64 import b64decode

    return b64decode(base64).hex()
