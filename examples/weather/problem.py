# SPDX-License-Identifier: Apache-2.0
"""The one exception that the example shows as a single line."""

from __future__ import annotations

__all__ = ["Problem"]


class Problem(Exception):
    """Something outside the example is missing or does not answer; the text says what to do."""
