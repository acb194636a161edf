# SPDX-License-Identifier: Apache-2.0
"""Tools that are one HTTP request: a declaration in place of a body."""

from acrux_otel.http_tool.decorator import http_tool
from acrux_otel.http_tool.errors import ArgumentRefused, ResponseTooLarge, UnreadableResponse

__all__ = ["ArgumentRefused", "ResponseTooLarge", "UnreadableResponse", "http_tool"]
