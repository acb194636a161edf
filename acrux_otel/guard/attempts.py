# SPDX-License-Identifier: Apache-2.0
"""One guarded call, from its first attempt to its end: what is decided, without running or waiting.

The functions that run and wait, for each kind of function, are in `.driving`. Retries of nested guards add
up instead of multiplying: what one makes counts for those around it, and a failure that one has given up on
is not tried again further out.
"""

from __future__ import annotations

import copy
import datetime
from typing import TYPE_CHECKING, Any, Final

from acrux_otel import attributes as names
from acrux_otel import span
from acrux_otel.call import CURRENT, Call, Unread, observers, problem
from acrux_otel.classify import circuit_open, not_executed, policy_denied
from acrux_otel.classify.evidence import cause_of, members
from acrux_otel.deadline import DeadlineExceeded
from acrux_otel.guard import unavailable as stop
from acrux_otel.guard.part import Part
from acrux_otel.guard.retry import Worth
from acrux_otel.guard.unavailable import ToolUnavailable
from acrux_otel.returned import kind_of, unwrap
from acrux_otel.verdict import ErrorType, Outcome, Verdict, warn_once

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from acrux_otel.guard.breaker import Circuit
    from acrux_otel.guard.guard import Guard

__all__ = ["Attempts", "call_of", "leads_to"]

UNSET: Final[Any] = object()
_RATED: Final = frozenset((408, 425, 429))
_LINKS: Final = 16


def call_of(site: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Call, bool]:
    """The call that the guarded body runs in, and whether it has to be taken back at the end.

    A guard reads verdicts also where nobody else does.
    """
    current = CURRENT.get()
    if isinstance(current, Call):
        return current, False
    if current is not None:
        return current.followed(args, kwargs), False
    call = Call(site, None, args, kwargs)
    CURRENT.set(call)
    return call, True


class Attempts:
    """The attempts of one call. Not thread-safe: one call is in one place at a time.

    Attributes:
        number: attempts begun.
        covered: it ended, and the guard's fallback answers.
        committed: a consumer has got something already, so nothing may be tried again.
        refusal: why no body ran.
    """

    __slots__ = (
        "_alone",
        "_deadline",
        "_last",
        "_outcome",
        "_permit",
        "_stop",
        "call",
        "circuit",
        "committed",
        "covered",
        "guard",
        "number",
        "refusal",
    )

    def __init__(self, guard: Guard, call: Call, circuit: Circuit | None, *, alone: bool = False) -> None:
        self.guard, self.call, self.circuit = guard, call, circuit
        self.number = 0
        self.covered = self.committed = False
        self.refusal: ToolUnavailable | None = None
        self._alone = alone
        self._permit: int | None = None
        self._deadline: float | None = None
        self._stop: str | None = None
        self._outcome: Verdict | None = None
        self._last: tuple[BaseException | None, Any] = (None, None)

    def begun(self, permit: int) -> None:
        """The first attempt was begun on the shortest way, with ``permit``."""
        self.number, self._permit = 1, permit

    # -- before an attempt -----------------------------------------------------------------------------

    def start(self) -> bool:
        """Whether the next attempt may run; False ends the call."""
        if self.number == 0:
            if self.refusal is None:
                self.refusal = self._refused()
            if self.refusal is not None:
                self.covered = self.guard.has_fallback and self.refusal.stop_reason != stop.POLICY_DENIED
                self._outcome = self.refusal.verdict
                return False
        elif not self._enter():
            self._end(stop.CIRCUIT_OPEN)
            return False
        if self.number == 0:
            self.guard.allowance.count()
        self.number += 1
        self.call.passed_on = ()
        if self.number > 1:
            self._reset()
        return True

    def _reset(self) -> None:
        """What the failed attempt declared, or put on the span, is not the next one's."""
        call = self.call
        call.recorded, call._swallowed, call.attempts = None, None, self.number
        for each in self._around():
            each.retried_within += 1
        if call.recording and call.span is not None and not call.enriches:
            try:
                span.attempt_again(call.span)
            except Exception as error:
                problem("a call was tried again", error)

    def _refused(self) -> ToolUnavailable | None:
        call, guard = self.call, self.guard
        name = call.site.name
        denial = guard.policy.denial(call) if guard.policy is not None else None
        if denial is not None:
            return self._unavailable(policy_denied(denial), stop.POLICY_DENIED, "escalate")
        if observers.gate is not None and not isinstance(call, Part):
            over: Any = observers.gate(call)
            if over is not None:
                return over  # type: ignore[no-any-return]
        now = guard.clock.now()
        around = [each.deadline for each in self._around() if each.deadline is not None]
        if guard.deadline is not None:
            around.append(now + guard.deadline)
        if around:
            self._deadline = call.deadline = min(around)
            if self._deadline <= now:
                reason = f"{stop.DEADLINE_EXCEEDED}: no time is left for {name}."
                return self._unavailable(not_executed(reason), stop.DEADLINE_EXCEEDED)
        if self._enter():
            return None
        assert self.circuit is not None
        cause = f", last with {self.circuit.cause}" if self.circuit.cause else ""
        detail = f"{name} is unavailable: it failed repeatedly{cause}, so it is not asked for now."
        return self._unavailable(circuit_open(detail), stop.CIRCUIT_OPEN, wait=self.circuit.wait())

    def _enter(self) -> bool:
        if self.circuit is None:
            return True
        before = self.circuit.generation
        self._permit = self.circuit.enter()
        if self.circuit.generation != before:
            self._circuit_changed()
        return self._permit is not None

    def _unavailable(
        self, verdict: Verdict, reason: str, step: Any = None, wait: float | None = None
    ) -> ToolUnavailable:
        from acrux_otel.run import completed

        checked = completed()
        step = self.guard.next_step or step or ("partial" if checked else "escalate")
        retry_at = None
        if wait is not None:
            now = datetime.datetime.now(datetime.timezone.utc)
            retry_at = now + datetime.timedelta(seconds=wait)
        return ToolUnavailable(verdict, reason, checked, step, retry_at)

    def limit(self) -> float | None:
        """Seconds that the attempt may take; None: any."""
        limit = self.guard.timeout
        if self._deadline is not None:
            left = max(0.001, self._deadline - self.guard.clock.now())
            limit = left if limit is None else min(limit, left)
        return limit

    # -- after an attempt ------------------------------------------------------------------------------

    def failed(self, exc: BaseException) -> float | None:
        """The attempt raised ``exc``. Seconds to wait before the next; None: the call has ended."""
        try:
            verdict = self.call.judge_exception(exc)
            self.call.known(exc, verdict)
            return self._ended(verdict, exc, None)
        except Exception as error:
            problem("a guarded call was judged", error)
            self._settle(None)
            return None

    def answered(self, result: Any) -> float | None:
        """The attempt returned ``result``; as `failed`. The result stands where the call has ended."""
        try:
            value, declared = unwrap(result, kind_of(result), text=self.call.site.as_text)
            verdict = self.call.judge(value, declared)
            if verdict.outcome is not Outcome.ERROR:
                self.call.conforms = verdict.outcome is Outcome.OK
            return self._ended(verdict, None, result)
        except Exception as error:
            problem("a guarded call was judged", error)
            self._settle(None)
            return None

    def abandoned(self) -> None:
        """The attempt ended without telling anything: cancelled, closed, dropped."""
        self._settle(None)

    def _ended(self, verdict: Verdict, exc: BaseException | None, result: Any) -> float | None:
        served = _served(verdict, exc, self.guard.retry_codes)
        opened = self._settle(served, verdict.code)
        if verdict.outcome is not Outcome.ERROR:
            self._note(self.number)
            return None
        self._outcome, self._last = verdict, (exc, result)
        reason, wait = self._decide(verdict, exc, opened)
        self._tell_failed(verdict, wait)
        if wait is None:
            self._end(reason)
            self.covered = self.guard.has_fallback and served is False and not self.committed
        return wait

    def _decide(self, verdict: Verdict, exc: BaseException | None, opened: bool) -> tuple[str, float | None]:
        """Why to stop, and the wait where not to."""
        retry, call = self.guard.retry, self.call
        late = self._deadline is not None and self.guard.clock.now() >= self._deadline
        if late and isinstance(exc, DeadlineExceeded):
            return stop.DEADLINE_EXCEEDED, None
        if verdict.code == "policy_denied":
            return stop.POLICY_DENIED, None
        if opened:
            return stop.CIRCUIT_OPEN, None
        for given_up, reason in call.passed_on:
            if exc is not None and leads_to(exc, given_up):
                return reason, None
        worth = retry.worth(verdict, exc, call.site.definition.annotations)
        if worth is not Worth.YES:
            if worth is Worth.UNSAFE and verdict.code == "timeout":
                return stop.TIMEOUT, None
            if worth is Worth.UNSAFE and (verdict.http_status or 0) >= 500:
                return stop.HTTP_5XX, None
            return stop.NON_RETRYABLE, None
        if self.committed or self._made() >= retry.max_attempts - 1 or call.verdict is not None:
            return stop.RETRY_EXHAUSTED, None
        wait = retry.delay(self.number, verdict.retry_after)
        if wait is None:
            return stop.RETRY_EXHAUSTED, None
        left = self._seconds_left()
        if left is not None and wait >= left:
            return stop.DEADLINE_EXCEEDED, None
        if not self.guard.allowance.take(retry.budget):
            return stop.RETRY_EXHAUSTED, None
        return "", wait

    def _made(self) -> int:
        """Retries that count for this call: its own, those below it, and those around it."""
        made = self.number - 1 + self.call.retried_within
        return made + sum(max(0, each.attempts - 1) for each in self._around())

    def _seconds_left(self) -> float | None:
        from acrux_otel.guard.budget import spending

        current = spending()
        left = current.seconds_left() if current is not None else None
        if self._deadline is not None:
            own = self._deadline - self.guard.clock.now()
            left = own if left is None else min(own, left)
        return left

    def _around(self) -> Iterator[Call]:
        """The calls in progress that this one is made in, from the inside out."""
        each: Call | Unread | None = self.call._outer
        for _ in range(64):
            if each is None:
                return
            if isinstance(each, Call) and each.verdict is None:
                yield each
            each = each._outer

    def _settle(self, served: bool | None, code: str | None = None) -> bool:
        """Give the permit back; whether this opened the circuit."""
        permit, self._permit = self._permit, None
        if permit is None or self.circuit is None:
            return False
        if served is None:
            self.circuit.neutral(permit)
            return False
        changed = self.circuit.succeeded(permit) if served else self.circuit.failed(permit, code)
        if changed:
            self._circuit_changed()
        return changed and not served

    # -- its end ---------------------------------------------------------------------------------------

    def _end(self, reason: str) -> None:
        self._stop = reason
        self._note(self.number, reason)
        exc = self._last[0]
        if exc is not None:
            self._pass_on(exc, reason)

    def _pass_on(self, exc: BaseException, reason: str) -> None:
        for each in self._around():
            each.passed_on = (*each.passed_on[-_LINKS:], (exc, reason))

    def _note(self, attempts: int, reason: str | None = None) -> None:
        call = self.call
        call.attempts = attempts
        noted: dict[str, Any] = {**(call.attributes or {}), names.ATTEMPTS: attempts}
        if reason is not None:
            noted[names.STOP_REASON] = reason
        if reason is not None or attempts != 1 or call.__class__ is not Call or call.enriches:
            call.lean, call.attributes = False, noted

    def last(self) -> Any:
        """The last attempt's result, or its exception raised again: nothing more may be tried.

        Raises:
            ToolUnavailable: no attempt was made.
            BaseException: what the last one raised.
        """
        if self.refusal is not None:
            self.call.refuse(self.refusal)
            self._note(0, self.refusal.stop_reason)
            self._pass_on(self.refusal, self.refusal.stop_reason)
            raise self.refusal
        exc, result = self._last
        if exc is not None:
            raise exc
        return result

    def fallback(self) -> Any:
        """What the guard's fallback answers, perhaps an awaitable; `UNSET` where it failed itself."""
        assert self._outcome is not None
        given = self.guard.fallback
        try:
            return given(self._outcome) if callable(given) else copy.deepcopy(given)
        except Exception as error:
            self.fallback_failed(error)
            return UNSET

    def fallback_failed(self, error: Exception) -> None:
        """The fallback raised, so the failure that it was for stands."""
        warn_once(
            f"fallback:{type(error).__name__}",
            "Guard(fallback=) of %s raised %s; the failure stands",
            self.call.site.name,
            type(error).__name__,
        )

    def answered_by_fallback(self, value: Any) -> Any:
        """Record that the fallback answered; returns what the caller gets."""
        call, failed = self.call, self._outcome
        assert failed is not None
        value, declared = unwrap(value, kind_of(value), text=call.site.as_text)
        kind, code = failed.error_type, failed.code
        if self.refusal is not None:
            call.refuse(self.refusal)
            self._note(0, self.refusal.stop_reason)
        what = f"{kind}/{code}" if kind is not None else self.refusal and self.refusal.stop_reason
        detail = f"a fallback answered for {what}"
        if failed.detail:
            detail = f"{detail}: {failed.detail}"
        verdict = Verdict(Outcome.WARNING, ErrorType.TOOL_DECLARED, "fallback_used", detail)
        if declared is not None and declared.outcome is Outcome.ERROR:
            verdict = declared
        call.recorded, call.conforms, call._swallowed = verdict, True, None
        covers = {} if kind is None else {names.FALLBACK_ERROR_TYPE: kind.value}
        if code is not None:
            covers[names.FALLBACK_ERROR_CODE] = code
        call.attributes = {**(call.attributes or {}), **covers}
        if call.recording and call.span is not None and not call.enriches:
            try:
                span.attempt_again(call.span)
            except Exception as error:
                problem("a fallback answered", error)
        return value

    def close(self) -> None:
        """The call is over for its guard, whatever happened."""
        self._settle(None)
        self._last = (None, None)
        self.call.passed_on = ()
        self.left()

    def left(self) -> None:
        """The function has returned, perhaps with work that is still to be done."""
        if self._alone:
            self._alone = False
            CURRENT.set(None)

    def __del__(self) -> None:
        # A generator that was dropped half-way; no lock may be taken here.
        if self._permit is not None and self.circuit is not None:
            self.circuit.dropped(self._permit)

    # -- events ----------------------------------------------------------------------------------------

    def _target(self) -> Any:
        """The span that shows this call: its own, or that of the call it is a part of."""
        each: Call | Unread | None = self.call
        while isinstance(each, Part):
            each = each.whole
        return each.span if isinstance(each, Call) and each.recording else None

    def _tell_failed(self, verdict: Verdict, wait: float | None) -> None:
        target = self._target()
        if target is None:
            return
        try:
            span.attempt_failed(target, verdict, self.number, wait, verdict.retry_after)
        except Exception as error:
            problem("an attempt was recorded", error)

    def _circuit_changed(self) -> None:
        target = self._target()
        if target is None or self.circuit is None:
            return
        try:
            span.circuit_changed(target, self.circuit.name, self.circuit.state.value)
        except Exception as error:
            problem("a circuit's state was recorded", error)


def _served(verdict: Verdict, exc: BaseException | None, listed: Collection[str]) -> bool | None:
    """Whether the service did its work; None where the failure is the caller's, or nobody's."""
    if verdict.outcome is Outcome.OK or verdict.outcome is Outcome.WARNING:
        return True
    if verdict.outcome is not Outcome.ERROR or isinstance(exc, ToolUnavailable):
        return None
    if verdict.code in listed or verdict.code == "quota_exhausted":
        return False
    if verdict.error_type is ErrorType.SCHEMA_MISMATCH:
        return False if verdict.code == "invalid_result" else None
    status = verdict.http_status
    if status is not None and 400 <= status < 500 and status not in _RATED:
        return None
    if verdict.error_type is ErrorType.TOOL_DECLARED and (exc is None or verdict.code == "policy_denied"):
        return None if verdict.code != "span_error" else False
    return False


def leads_to(exc: BaseException, wanted: BaseException) -> bool:
    """Whether ``wanted`` is ``exc``, one of its causes, or in a group among them."""
    link: BaseException | None = exc
    for _ in range(_LINKS):
        if link is None:
            return False
        if link is wanted or any(each is wanted for each in members(link)):
            return True
        link = cause_of(link)
    return False
