# SPDX-License-Identifier: Apache-2.0
"""Any value -> bounded, valid, redacted text. Nothing here raises."""

from acrux_otel.sanitize.arguments import arguments_hash
from acrux_otel.sanitize.payload import LEAST as LEAST_PAYLOAD
from acrux_otel.sanitize.payload import payload
from acrux_otel.sanitize.redact import Redactor
from acrux_otel.sanitize.text import (
    DESCRIPTION_LIMIT,
    DETAIL_LIMIT,
    MESSAGE_LIMIT,
    PAYLOAD_LIMIT,
    STACK_LIMIT,
    exception_type,
    safe_text,
    stack,
    text,
)

__all__ = [
    "DESCRIPTION_LIMIT",
    "DETAIL_LIMIT",
    "LEAST_PAYLOAD",
    "MESSAGE_LIMIT",
    "PAYLOAD_LIMIT",
    "STACK_LIMIT",
    "Redactor",
    "arguments_hash",
    "exception_type",
    "payload",
    "safe_text",
    "stack",
    "text",
]
