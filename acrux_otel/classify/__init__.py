# SPDX-License-Identifier: Apache-2.0
"""Exception or framework result -> `Verdict`. Its table is data (`rules`); nothing here reads prose."""

from acrux_otel.classify.declared import declared_by_result, mcp_failure
from acrux_otel.classify.walk import (
    circuit_open,
    classify,
    classify_arguments,
    code_of,
    invalid_result,
    malformed_arguments,
    not_executed,
    policy_denied,
    register_classifier,
    unknown_tool,
)

__all__ = [
    "circuit_open",
    "classify",
    "classify_arguments",
    "code_of",
    "declared_by_result",
    "invalid_result",
    "malformed_arguments",
    "mcp_failure",
    "not_executed",
    "policy_denied",
    "register_classifier",
    "unknown_tool",
]
