# SPDX-License-Identifier: Apache-2.0
"""OTLP over HTTP, one attempt at a time, with requests: proxies and CA bundles work as everywhere."""

from __future__ import annotations

import gzip
import zlib
from typing import Final

import requests
import urllib3

from acrux_otel._version import VERSION
from acrux_otel.export.delivery import SendFailed
from acrux_otel.export.endpoints import Target

__all__ = ["HttpSender"]

# https://opentelemetry.io/docs/specs/otlp/#failures-1
_RETRYABLE: Final = frozenset((408, 429, 502, 503, 504))
_MOST_ANSWER: Final = 65536


class HttpSender:
    """Posts protobuf to one URL."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._session = requests.Session()
        if target.client_certificate:
            key = target.client_key
            self._session.cert = (target.client_certificate, key) if key else target.client_certificate
        self._headers = {
            "user-agent": f"acrux-otel/{VERSION} OTLP",
            **target.headers,
            "content-type": "application/x-protobuf",
        }
        if "authorization" in self._headers:
            self._session.auth = _as_it_is
        if target.compression != "none":
            self._headers["content-encoding"] = target.compression

    def send(self, body: bytes, timeout: float) -> str | None:
        """See `Sender`."""
        if self._target.compression == "gzip":
            body = gzip.compress(body, 6)
        elif self._target.compression == "deflate":
            body = zlib.compress(body)
        try:
            # Followed, a redirection would turn the POST into a GET and look like success.
            answer = self._session.post(
                self._target.url,
                body,
                headers=self._headers,
                timeout=timeout,
                # Given here and not to the session, where REQUESTS_CA_BUNDLE would outrank it.
                verify=self._target.certificate,
                # Followed, a redirection would turn the POST into a GET and look like success.
                allow_redirects=False,
                stream=True,
            )
            with answer:
                return self._read(answer)
        except SendFailed:
            raise
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
            raise _connection_failure(error) from None

    def _read(self, answer: requests.Response) -> str | None:
        status = answer.status_code
        if 200 <= status < 300:
            return _partial(answer.raw.read(_MOST_ANSWER, decode_content=True), self._target.signal)
        answer.raw.read(_MOST_ANSWER)
        raise SendFailed(
            f"HTTP {status}",
            retryable=status in _RETRYABLE,
            retry_after=_retry_after(answer.headers.get("retry-after")),
            too_large=status == 413,
            unsupported=status in (404, 405, 501),
        )

    def close(self) -> None:
        """See `Sender`."""
        self._session.close()


def _as_it_is(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """An entry in ~/.netrc must not replace the header that was configured."""
    return request


def _connection_failure(error: Exception) -> SendFailed:
    if isinstance(error, requests.exceptions.SSLError):
        return SendFailed("TLS failed: is the certificate trusted, and is it https there?", answered=False)
    if isinstance(error, (requests.exceptions.Timeout, urllib3.exceptions.TimeoutError)):
        return SendFailed("no answer in time", retryable=True, answered=False)
    seen = repr(error).lower()
    for sign, reason in (
        ("refused", "connection refused"),
        ("name or service", "unknown host"),
        ("resolve", "unknown host"),
        ("unreachable", "network unreachable"),
        ("proxy", "the proxy failed"),
    ):
        if sign in seen:
            return SendFailed(reason, retryable=True, answered=False)
    return SendFailed("connection failed", retryable=True, answered=False)


def _retry_after(value: str | None) -> float | None:
    try:
        return min(max(float(value or ""), 0.0), 60.0)
    except ValueError:
        return None


def _partial(body: bytes, signal: str) -> str | None:
    if not body:
        return None
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

    try:
        if signal == "traces":
            spans = ExportTraceServiceResponse.FromString(body).partial_success
            rejected, why = spans.rejected_spans, spans.error_message
        else:
            points = ExportMetricsServiceResponse.FromString(body).partial_success
            rejected, why = points.rejected_data_points, points.error_message
    except Exception:
        return None  # many receivers answer with text
    return f"{rejected} rejected, {why[:200]}" if rejected or why else None
