# SPDX-License-Identifier: Apache-2.0
"""What an HTTP tool raises beside httpx's own errors; `acrux_otel.classify` knows them by name."""

from __future__ import annotations

__all__ = ["ArgumentRefused", "ResponseTooLarge", "UnreadableResponse"]


class ArgumentRefused(ValueError):
    """An argument cannot be put into the request; nothing was sent."""


class ResponseTooLarge(ValueError):
    """The answer is longer than ``max_bytes``."""


class UnreadableResponse(ValueError):
    """The answer is not what the tool's declaration needs it to be."""
