# SPDX-License-Identifier: Apache-2.0
"""The body of an OTLP/HTTP request -> protobuf messages, and the answers that OTLP wants.

https://opentelemetry.io/docs/specs/otlp/#otlphttp
"""

from __future__ import annotations

import base64
import dataclasses
import json
import re
import zlib
from collections.abc import Iterable
from typing import Any, Final

from google.protobuf import json_format
from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

__all__ = [
    "JSON",
    "PROTOBUF",
    "BadBody",
    "Rejected",
    "TooLarge",
    "decompressed",
    "encode",
    "read_logs",
    "read_metrics",
    "read_spans",
    "refusal",
    "traces_answer",
]

PROTOBUF: Final = "application/x-protobuf"
JSON: Final = "application/json"
_IDS: Final = ("traceId", "spanId", "parentSpanId")
_HEXADECIMAL: Final = re.compile(r"(?:[0-9a-fA-F]{2})*").fullmatch
_GZIP: Final = 16 + zlib.MAX_WBITS


class BadBody(ValueError):
    """A body that is not what its headers say; one line says why."""


class TooLarge(BadBody):
    """A body that unpacks to more than is taken."""


@dataclasses.dataclass
class Rejected:
    """Spans that cannot be kept while the others are, and why the first could not."""

    count: int = 0
    reason: str = ""

    def add(self, reason: str, count: int = 1) -> None:
        self.count += count
        self.reason = self.reason or reason


def decompressed(body: bytes, encoding: str, limit: int) -> bytes:
    """The body without its Content-Encoding.

    Raises:
        BadBody: another encoding than gzip, deflate or none, or not what it says.
        TooLarge: more than ``limit`` bytes.
    """
    if encoding in ("", "identity"):
        return body
    if encoding not in ("gzip", "deflate"):
        raise BadBody(f"Content-Encoding is {encoding[:40]!r}; expected gzip, deflate or none")
    parts: list[bytes] = []
    size = 0
    try:
        while body:
            unpacker = zlib.decompressobj(_GZIP if encoding == "gzip" else zlib.MAX_WBITS)
            part = unpacker.decompress(body, limit - size + 1)
            size += len(part)
            if size > limit:
                raise TooLarge(f"the body unpacks to more than {limit} bytes")
            if not unpacker.eof:
                raise BadBody(f"the {encoding} body ends too early")
            parts.append(part)
            body = unpacker.unused_data
    except zlib.error as error:
        raise BadBody(f"the body is not {encoding}: {error}") from None
    return b"".join(parts)


def read_spans(body: bytes, content_type: str) -> tuple[ExportTraceServiceRequest, Rejected]:
    """The request; of a JSON body, spans that are no spans are left out and counted.

    Raises:
        BadBody: neither protobuf nor JSON of an export request.
    """
    rejected = Rejected()
    request = ExportTraceServiceRequest()
    if content_type == JSON:
        _read_json(body, request, rejected)
    else:
        _parse(request, body)
    return request, rejected


def _parse(request: Message, body: bytes) -> None:
    try:
        request.ParseFromString(body)
    except (DecodeError, ValueError, RecursionError):
        raise BadBody("the body is not the protobuf message of an OTLP export request") from None


def _read_json(body: bytes, request: ExportTraceServiceRequest, rejected: Rejected) -> None:
    groups = _json(body).get("resourceSpans") or []
    for group in _objects(groups, "resourceSpans"):
        made = request.resource_spans.add()
        _fill(made.resource, group.get("resource") or {}, "a resource")
        for scope in _objects(group.get("scopeSpans") or [], "scopeSpans"):
            into = made.scope_spans.add()
            _fill(into.scope, scope.get("scope") or {}, "a scope")
            for span in _objects(scope.get("spans") or [], "spans"):
                try:
                    _fill(into.spans.add(), _with_base64_ids(span), "a span")
                except BadBody as error:
                    del into.spans[-1]
                    rejected.add(str(error))


def _json(body: bytes) -> dict[str, Any]:
    try:
        read = json.loads(body)
    except (ValueError, RecursionError):
        raise BadBody("the body is not JSON") from None
    if not isinstance(read, dict):
        raise BadBody("the body is not a JSON object")
    return read


def _objects(given: Any, name: str) -> Iterable[dict[str, Any]]:
    if not isinstance(given, list) or not all(isinstance(each, dict) for each in given):
        raise BadBody(f"{name} is not a list of JSON objects")
    return given


def _fill(message: Message, data: Any, what: str) -> None:
    try:
        json_format.ParseDict(data, message, ignore_unknown_fields=True)
    except (json_format.Error, ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        told = " ".join(str(error).split())[:200]
        raise BadBody(f"{what} is not as OTLP says: {told}") from None


def _with_base64_ids(span: dict[str, Any]) -> dict[str, Any]:
    """OTLP's JSON writes ids in hexadecimal digits, protobuf's in base64."""
    made = {key: _base64(value) if key in _IDS else value for key, value in span.items()}
    links = span.get("links")
    if isinstance(links, list):
        made["links"] = [_with_base64_ids(link) if isinstance(link, dict) else link for link in links]
    return made


def _base64(value: Any) -> str:
    if not isinstance(value, str) or not _HEXADECIMAL(value):
        raise BadBody(f"an id is {str(value)[:40]!r}; expected hexadecimal digits")
    return base64.b64encode(bytes.fromhex(value)).decode()


def traces_answer(rejected: Rejected) -> Message:
    """The answer to spans; names those that were not taken."""
    answer = ExportTraceServiceResponse()
    if rejected.count:
        answer.partial_success.rejected_spans = rejected.count
        answer.partial_success.error_message = rejected.reason
    return answer


def read_metrics(body: bytes, content_type: str) -> Message:
    """The answer to metrics, which are read and not kept.

    Raises:
        BadBody: as for spans.
    """
    _read_whole(body, content_type, ExportMetricsServiceRequest())
    return ExportMetricsServiceResponse()


def read_logs(body: bytes, content_type: str) -> Message:
    """The answer to log records, which are read and not kept.

    Raises:
        BadBody: as for spans.
    """
    _read_whole(body, content_type, ExportLogsServiceRequest())
    return ExportLogsServiceResponse()


def _read_whole(body: bytes, content_type: str, request: Message) -> None:
    if content_type == JSON:
        # Ids in hexadecimal digits would be taken for base64, and nobody reads them here.
        _fill(request, _without_ids(_json(body)), "the body")
    else:
        _parse(request, body)


def _without_ids(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_ids(each) for key, each in value.items() if key not in _IDS}
    return [_without_ids(each) for each in value] if isinstance(value, list) else value


def encode(message: Message, content_type: str) -> bytes:
    """An answer in the encoding of its request."""
    if content_type == JSON:
        return json_format.MessageToJson(message, indent=None).encode()
    return message.SerializeToString()


def refusal(code: int, reason: str, content_type: str) -> bytes:
    """A google.rpc.Status, which OTLP wants as the body of every refusal.

    Args:
        code: of google.rpc.Code, such as 3 for INVALID_ARGUMENT.
    """
    if content_type == JSON:
        return json.dumps({"code": code, "message": reason}).encode()
    text = reason.encode()[:500]
    return b"\x08" + bytes([code]) + b"\x12" + _varint(len(text)) + text


def _varint(number: int) -> bytes:
    made = bytearray()
    while number > 127:
        made.append(number & 127 | 128)
        number >>= 7
    return bytes([*made, number])
