# SPDX-License-Identifier: Apache-2.0
"""Stops a wave of failures: retries, circuit breaker, budgets, policy and fallback, in one place."""

from __future__ import annotations

from acrux_otel.guard.breaker import CircuitBreaker, CircuitState
from acrux_otel.guard.budget import RunBudget, Spending, record_cost
from acrux_otel.guard.clock import Clock
from acrux_otel.guard.drop_in import ToolFailureGuard, ToolFailureLimits
from acrux_otel.guard.guard import Guard
from acrux_otel.guard.retry import Retry
from acrux_otel.guard.unavailable import ToolUnavailable

__all__ = [
    "CircuitBreaker",
    "CircuitState",
    "Clock",
    "Guard",
    "Retry",
    "RunBudget",
    "Spending",
    "ToolFailureGuard",
    "ToolFailureLimits",
    "ToolUnavailable",
    "record_cost",
]
