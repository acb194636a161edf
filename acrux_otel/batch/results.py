# SPDX-License-Identifier: Apache-2.0
"""What became of one call of a turn, in words for the model and in facts for the program."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from acrux_otel.batch.calls import ToolCall
from acrux_otel.guard.unavailable import ToolUnavailable
from acrux_otel.verdict import ErrorType, Outcome, ToolCallResult, Verdict

__all__ = [
    "BatchResult",
    "answered",
    "failed",
    "of_exception",
    "refused",
    "said",
    "skipped",
    "stopped",
    "timed_out",
]

_NOT_EXECUTED: Final = "Not executed: "
_FAILURES: Final = frozenset((Outcome.ERROR, Outcome.NOT_EXECUTED, Outcome.CANCELLED))


@dataclasses.dataclass(frozen=True)
class BatchResult(ToolCallResult[Any]):
    """A `ToolCallResult` whose ``value`` is what the model reads, before it is put in a provider's form.

    Attributes:
        call: what was asked.
        exception: what the tool raised.
    """

    call: ToolCall | None = dataclasses.field(default=None, repr=False)
    exception: BaseException | None = dataclasses.field(default=None, repr=False)


def failed(result: ToolCallResult[Any]) -> bool:
    """Whether the model is told that the call failed; a warning or a fallback is no failure."""
    return result.verdict.outcome in _FAILURES


def answered(call: ToolCall, answer: ToolCallResult[Any]) -> BatchResult:
    """The tool returned, or a fallback in its place."""
    return BatchResult(call.id, call.name, answer.value, answer.verdict, answer.executed, call)


def of_exception(call: ToolCall, exc: BaseException, verdict: Verdict, *, executed: bool) -> BatchResult:
    """The tool raised, and the model reads the exception's own message; or its guard refused the call."""
    if isinstance(exc, ToolUnavailable) and not executed:
        return BatchResult(call.id, call.name, _refusal(exc), verdict, False, call, exc)
    message = said(exc)
    if verdict.outcome is Outcome.CANCELLED:
        message = f"Cancelled: {message or 'the tool was cancelled before it finished'}"
    elif verdict.outcome is Outcome.INTERRUPTED:
        message = f"Interrupted: {message or type(exc).__name__}"
    elif not message:
        message = f"{type(exc).__name__} without a message"
    return BatchResult(call.id, call.name, message, verdict, executed, call, exc)


def _refusal(exc: ToolUnavailable) -> dict[str, Any]:
    """What a guard has to say to the model: why, what this run has, what to do instead."""
    facts = dict(exc.answer)
    return {"error": f"{_NOT_EXECUTED}{facts.pop('unavailable')}", **facts}


def said(exc: BaseException) -> str:
    """The exception's message; empty where it has none or cannot say it."""
    try:
        message = str(exc)
    except Exception:
        return ""
    return "" if message.isspace() else message


def refused(call: ToolCall, verdict: Verdict, answer: str) -> BatchResult:
    """The body did not run because the call itself is wrong."""
    return BatchResult(call.id, call.name, answer, verdict, False, call)


def skipped(call: ToolCall, reason: str) -> BatchResult:
    """The body did not run because of something else.

    Args:
        reason: a sentence with its full stop.
    """
    verdict = Verdict(Outcome.NOT_EXECUTED, detail=reason)
    return BatchResult(call.id, call.name, f"{_NOT_EXECUTED}{reason}", verdict, False, call)


def stopped(call: ToolCall, verdict: Verdict) -> BatchResult:
    """The call was running when the turn ended; ``verdict`` is what its span got."""
    if verdict.outcome is Outcome.CANCELLED:
        text = "Cancelled: the turn was cancelled before this call finished."
    else:
        text = f"Timed out: {verdict.detail}. What the call has done until then is not known."
    return BatchResult(call.id, call.name, text, verdict, True, call)


def timed_out(seconds: float) -> Verdict:
    """The verdict on a call that was still running when the turn's time ran out."""
    detail = f"no answer within the turn's {seconds:g} s"
    return Verdict(Outcome.ERROR, ErrorType.TRANSPORT, "timeout", detail)
