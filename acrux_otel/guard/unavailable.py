# SPDX-License-Identifier: Apache-2.0
"""Why a guard stopped, and what its caller gets where no body ran: `ToolUnavailable`."""

from __future__ import annotations

import datetime
from typing import Any, Final, Literal

from acrux_otel.classify import register_classifier
from acrux_otel.verdict import ErrorType, Outcome, Verdict

__all__ = [
    "BUDGET_EXHAUSTED",
    "CIRCUIT_OPEN",
    "DEADLINE_EXCEEDED",
    "HTTP_5XX",
    "NON_RETRYABLE",
    "POLICY_DENIED",
    "RETRY_EXHAUSTED",
    "TIMEOUT",
    "NextStep",
    "ToolUnavailable",
]

# Stop reasons: the values of `acrux.tool.stop_reason`.
NON_RETRYABLE: Final = "tool_failure:non_retryable"
RETRY_EXHAUSTED: Final = "tool_failure:retry_exhausted"
HTTP_5XX: Final = "tool_failure:http_5xx"
TIMEOUT: Final = "tool_failure:timeout"
DEADLINE_EXCEEDED: Final = "tool_failure:deadline_exceeded"
POLICY_DENIED: Final = "tool_failure:policy_denied"
CIRCUIT_OPEN: Final = "tool_unavailable:circuit_open"
BUDGET_EXHAUSTED: Final = "run_stopped:budget_exhausted"

NextStep = Literal["fallback", "partial", "escalate"]
_ADVICE: Final[dict[str, str]] = {
    "fallback": "use the alternative that is defined for this tool",
    "partial": "answer with what is known, and say what is missing",
    "escalate": "tell the user, or hand over to a person",
}


class ToolUnavailable(Exception):
    """A tool's body did not run because its guard or the run's budget refused the call.

    Attributes:
        verdict: as on the call's span.
        stop_reason: why, such as ``tool_unavailable:circuit_open``.
        checked: names of the tools that have answered in this run, which is what there is to work with.
        next_step: what to do instead: ``fallback``, ``partial`` or ``escalate``.
        retry_at: when the same call may work again (UTC); None where that is not known, or never.
    """

    def __init__(
        self,
        verdict: Verdict,
        stop_reason: str,
        checked: tuple[str, ...] = (),
        next_step: NextStep = "escalate",
        retry_at: datetime.datetime | None = None,
    ) -> None:
        super().__init__(verdict, stop_reason, checked, next_step, retry_at)
        self.verdict, self.stop_reason = verdict, stop_reason
        self.checked, self.next_step, self.retry_at = tuple(checked), next_step, retry_at

    def __str__(self) -> str:
        parts = [self.verdict.detail or self.stop_reason]
        if self.retry_at is not None:
            parts.append(f"Not before {self._retry_at()}.")
        parts.append(f"Next step: {_ADVICE.get(self.next_step, self.next_step)}.")
        return " ".join(parts)

    def _retry_at(self) -> str | None:
        return None if self.retry_at is None else self.retry_at.isoformat(timespec="seconds")

    @property
    def answer(self) -> dict[str, Any]:
        """The same as a small JSON object, for a model to go on with."""
        return {
            "unavailable": self.verdict.detail or self.stop_reason,
            "stop_reason": self.stop_reason,
            "checked": list(self.checked),
            "next_step": self.next_step,
            "retry_at": self._retry_at(),
        }


def _of_a_tool_within(exc: BaseException) -> Verdict | None:
    """One that escaped from a tool whose body did run: a tool that it called was refused."""
    if not isinstance(exc, ToolUnavailable):
        return None
    verdict = exc.verdict
    if verdict.outcome is Outcome.ERROR:
        return verdict
    code = exc.stop_reason.partition(":")[2] or "tool_unavailable"
    return Verdict(Outcome.ERROR, ErrorType.TOOL_DECLARED, code, verdict.detail, False)


register_classifier(ToolUnavailable, _of_a_tool_within)
