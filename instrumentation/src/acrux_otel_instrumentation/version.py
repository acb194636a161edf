# SPDX-License-Identifier: Apache-2.0
"""The version of this distribution."""

from typing import Final

__all__ = ["VERSION"]

VERSION: Final = "0.1.0"
