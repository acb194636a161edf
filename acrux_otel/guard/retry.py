# SPDX-License-Identifier: Apache-2.0
"""Which failures are worth another attempt, and after how long.

Why not tenacity: it can be made to meet the rules for cancellation and ``Retry-After`` (a wait function
sees the exception; ``stop_before_delay`` sees the wait), but it retries functions and coroutine functions
only: a generator or an awaitable that a plain function returns has to be driven by hand beside it, so the
loop would exist twice. It also hands every outcome through a Future, which adds frames of its own to the
traceback of an exception that the caller must get untouched, and keeps exceptions and their frames alive in
a cycle. What it would have spared is one ``while``. `tests/guard/test_tenacity.py` holds these findings.
"""

from __future__ import annotations

import dataclasses
import enum
import random
from collections.abc import Collection
from typing import Any, Final

from acrux_otel.classify.evidence import cause_of, dotted
from acrux_otel.definition import ToolAnnotations
from acrux_otel.guard.allowance import SHARE
from acrux_otel.guard.checks import number
from acrux_otel.verdict import ErrorType, Outcome, Verdict

__all__ = ["Retry", "Worth"]


class Worth(enum.Enum):
    """Whether another attempt may help, and may be made."""

    YES = "yes"
    UNSAFE = "unsafe"  # it may help, but the first may have been carried out
    NO = "no"


# What the service refused before it did anything.
_REFUSED: Final = frozenset((425, 429, 503))
_NOT_SENT: Final = frozenset(("connection_refused", "dns"))
# The connection was never made, so nothing was sent.
_BEFORE_SENDING: Final = frozenset(
    (
        *(
            f"{library}.{name}"
            for library in ("httpx", "httpx2", "httpcore", "httpcore2")
            for name in ("ConnectTimeout", "PoolTimeout", "ConnectError")
        ),
        "builtins.ConnectionError",
        "requests.exceptions.ConnectTimeout",
        "urllib3.exceptions.ConnectTimeoutError",
        "urllib3.exceptions.NewConnectionError",
        "aiohttp.client_exceptions.ConnectionTimeoutError",
        "aiohttp.client_exceptions.ClientConnectorError",
        "botocore.exceptions.ConnectTimeoutError",
        "botocore.exceptions.EndpointConnectionError",
    )
)


@dataclasses.dataclass(frozen=True)
class Retry:
    """How often, and after how long, a failed call is tried again.

    Args:
        max_attempts: attempts in total, the first included; 1 never retries.
        base_delay: seconds; the wait before attempt n+1 is random, up to ``base_delay * 2 ** (n - 1)``.
        max_delay: seconds; bounds that wait. A service whose ``Retry-After`` asks for more is not tried
            again in this call: waiting less would ignore it.
        jitter: how much of the wait is random, 0 to 1; 1 keeps clients that failed together apart.
        budget: retries per call of the process that are allowed beyond ten in ten seconds; None: no limit.
        retry_codes: errorCodes to retry whatever else is known of them; the only way to have a declared
            error retried. Listing one says that trying again is safe.
        retry_ambiguous: retry also what may have been carried out (timeouts and resets after sending, 408,
            500, 502, 504) for a tool that is annotated neither idempotent nor read-only.

    Raises:
        ValueError: a setting out of its range.
    """

    max_attempts: int = 2
    base_delay: float = 0.5
    max_delay: float = 30.0
    jitter: float = 1.0
    budget: float | None = SHARE
    retry_codes: Collection[str] = frozenset()
    retry_ambiguous: bool = False

    def __post_init__(self) -> None:
        number("Retry", "max_attempts", self.max_attempts, 1, 100, whole=True)
        number("Retry", "base_delay", self.base_delay, 0, 3_600)
        number("Retry", "max_delay", self.max_delay, 0, 86_400)
        number("Retry", "jitter", self.jitter, 0, 1)
        number("Retry", "budget", self.budget, 0, 1, optional=True)
        if self.max_delay < self.base_delay:
            raise ValueError(
                f"Retry(max_delay=) is {self.max_delay:g}; expected at least base_delay, {self.base_delay:g}"
            )
        codes: Any = self.retry_codes
        named = isinstance(codes, Collection) and not isinstance(codes, str)
        if not named or not all(isinstance(each, str) for each in codes):
            raise ValueError(f"Retry(retry_codes=) is {codes!r:.60}; expected a set of errorCodes")
        object.__setattr__(self, "retry_codes", frozenset(codes))
        if not isinstance(self.retry_ambiguous, bool):
            raise ValueError(
                f"Retry(retry_ambiguous=) is {self.retry_ambiguous!r:.60}; expected True or False"
            )

    def worth(self, verdict: Verdict, exc: BaseException | None, tool: ToolAnnotations) -> Worth:
        """Whether the failed attempt may be repeated.

        Args:
            verdict: on the attempt.
            exc: what it raised; None for a declared failure.
            tool: what its owner says of the tool.
        """
        if verdict.outcome is not Outcome.ERROR or verdict.code in ("policy_denied", "circuit_open"):
            return Worth.NO
        if verdict.code in self.retry_codes:
            return Worth.YES
        ambiguous = verdict.retryable is None and verdict.error_type is ErrorType.TRANSPORT
        if exc is None or not (verdict.retryable or ambiguous):
            return Worth.NO
        if self.retry_ambiguous or tool.idempotent or tool.read_only or _did_not_run(verdict, exc):
            return Worth.YES
        return Worth.UNSAFE

    def delay(self, attempt: int, floor: float | None) -> float | None:
        """Seconds to wait after attempt number ``attempt``; None: longer than a call may wait.

        Args:
            floor: what the service's ``Retry-After`` asks for; jitter only adds to it.
        """
        if floor is not None and floor > self.max_delay:
            return None
        most = min(self.max_delay, self.base_delay * 2.0 ** min(attempt - 1, 60))
        wait = most * (1 - self.jitter) + random.uniform(0, most * self.jitter)
        return wait if floor is None else max(floor, wait) if not self.jitter else floor + wait


def _did_not_run(verdict: Verdict, exc: BaseException) -> bool:
    """Whether the service certainly did not carry the request out."""
    if verdict.http_status is not None:
        return verdict.http_status in _REFUSED
    if verdict.code in _NOT_SENT:
        return True
    if verdict.error_type is ErrorType.PROVIDER_ERROR:
        return verdict.code == "rate_limited"
    if verdict.error_type is not ErrorType.TRANSPORT:
        return False
    link: BaseException | None = exc
    for _ in range(16):
        if link is None:
            break
        # Subclasses of ConnectionError (a reset, a broken pipe) come after sending.
        if dotted(type(link)) in _BEFORE_SENDING:
            return True
        link = cause_of(link)
    return False
