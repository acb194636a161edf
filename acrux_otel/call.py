# SPDX-License-Identifier: Apache-2.0
"""A call in progress: what is current, what was declared, and the verdict at its end."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.context import attach, get_current
from opentelemetry.trace import set_span_in_context

from acrux_otel import attributes as names
from acrux_otel import metrics, span
from acrux_otel.classify import classify, classify_arguments, declared_by_result, invalid_result
from acrux_otel.returned import DECLARED, KINDS, PLAIN, kind_of, unwrap
from acrux_otel.sanitize import LEAST_PAYLOAD, arguments_hash, payload, safe_text
from acrux_otel.settings import FULL, NONE, UNREAD, settings
from acrux_otel.verdict import ErrorType, Outcome, ToolResult, Verdict, _log, slug, warn_once

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span

    from acrux_otel.seam import ToolSite

__all__ = [
    "CURRENT",
    "Call",
    "Joined",
    "Unread",
    "current_call",
    "observe",
    "observers",
    "problem",
    "record_error",
    "record_warning",
    "unobserve",
]

_OK: Final = Verdict(Outcome.OK)
_ID_LIMIT: Final = 256
PERHAPS_FULL: Final = (FULL, UNREAD)
_HASH_KEY: Final = os.urandom(32)  # so that nobody finds arguments by hashing guesses
_CALLERS: Final = ("acrux_otel.", "concurrent.futures.")  # a guard may run the body in a thread
_RANK: Final = {Outcome.ERROR: 2, Outcome.WARNING: 1}
CURRENT: Final[ContextVar[Call | Unread | None]] = ContextVar("acrux_otel.call", default=None)


class _Observers:
    """Who is told of calls; replaced whole, so that a call in another thread sees one or the other."""

    opened: tuple[Callable[[Call], None], ...] = ()
    closed: tuple[Callable[[Call, Verdict], None], ...] = ()
    any = False
    gate: Callable[[Call], BaseException | None] | None = None  # asked before a body runs, while it is set


observers: Final = _Observers()
_observing = threading.RLock()  # a signal handler or a finaliser may observe in the middle of it


def _after_fork() -> None:
    global _observing
    _observing = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def observe(
    opened: Callable[[Call], None] | None = None, closed: Callable[[Call, Verdict], None] | None = None
) -> None:
    """Have functions called at the start and at the end of every call of this process.

    An observer of ends makes every verdict be computed, also where no span records; it may add to
    ``call.attributes``. What an observer raises is logged once and ignored.
    """
    with _observing:
        if opened is not None and opened not in observers.opened:
            observers.opened = (*observers.opened, opened)
        if closed is not None and closed not in observers.closed:
            observers.closed = (*observers.closed, closed)
        observers.any = bool(observers.opened or observers.closed)


def unobserve(
    opened: Callable[[Call], None] | None = None, closed: Callable[[Call, Verdict], None] | None = None
) -> None:
    """Take back what :func:`observe` was given."""
    with _observing:
        observers.opened = tuple(each for each in observers.opened if each != opened)
        observers.closed = tuple(each for each in observers.closed if each != closed)
        observers.any = bool(observers.opened or observers.closed)


def current_call() -> Call | None:
    """The innermost call in progress in this context; None where nobody reads its verdict."""
    call = CURRENT.get()
    return call if isinstance(call, Call) else None


def record_error(code: str, message: str) -> None:
    """Declare, from inside a tool, that the innermost call in progress failed.

    Args:
        code: the owner's slug.
        message: text for a person.
    """
    _record(Outcome.ERROR, code, message)


def record_warning(code: str, message: str) -> None:
    """Declare that the innermost call in progress deserves a look; arguments as for `record_error`."""
    _record(Outcome.WARNING, code, message)


def _record(outcome: Outcome, code: str, message: str) -> None:
    call = CURRENT.get()
    if call is None:
        _log.debug("%s %r was recorded outside of a tool call; nothing to put it on", outcome, slug(code))
        return
    call.declare(ToolResult(outcome, code, message).verdict)


def problem(doing: str, error: BaseException) -> None:
    """Log once that telemetry failed; the error's text may hold the user's data and is not logged."""
    try:
        warn_once(
            f"telemetry:{doing}:{type(error).__name__}",
            "telemetry failed while %s (%s); the tool call is not affected",
            doing,
            type(error).__name__,
        )
    except Exception:
        pass


class Unread:
    """A call whose verdict nobody reads: it only has to be current, and to pass things through."""

    __slots__ = ("_outer", "_previous", "site")

    def __init__(self, site: ToolSite, outer: Call | Unread | None, previous: Context | None) -> None:
        self.site, self._outer, self._previous = site, outer, previous

    def ok(self, result: Any) -> Any:
        """The tool returned ``result``; returns what its caller gets."""
        if KINDS.get(type(result)) == PLAIN:
            CURRENT.set(self._outer)
            if self._previous is not None:
                attach(self._previous)
            return result
        return self.followed((), {}).ok(result)

    def raised(self, exc: BaseException) -> None:
        """The tool raised ``exc``."""
        self.followed((), {}).raised(exc)

    def declare(self, verdict: Verdict) -> None:
        """Nobody reads it."""

    def followed(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Call:
        """The same call, for what cannot be passed through at once."""
        call = Call(self.site, self._outer, args, kwargs)
        if self._previous is not None:
            call._previous, call._context = self._previous, get_current()
        if CURRENT.get() is self:
            CURRENT.set(call)
        return call


class Call:
    """One call in progress. Its methods never raise; ``verdict`` is there once it is closed.

    Attributes:
        lean: a span of ours reads it and nobody else, and a plain value is ok as it is.
        read: somebody other than a span or a meter wants the verdict.
        attributes: what an observer adds to the span at its end.
        attempts: attempts made so far, where a guard counts them.
        executed: whether the tool's body was entered.
        deadline: when a guard stops waiting for it, on the guard's clock.
        retried_within: retries that guards made below it, which count for its own guard too.
        passed_on: failures that guards below it have given up on, each with the reason.
        conforms: its result was found to match the enforced schema already.
        budget, admitted: the run's budget that it belongs to, and whether that has counted it.
        repeats: what the budget knows it by when it is made again.
        items: what a generator yielded, as JSON; not None exactly where payloads are recorded.
        items_bytes: size of all that was yielded, in bytes.
        yields: the tool is a generator.
        truncated: original size of the arguments where they were cut, in bytes.
        run: the agent run that the call belongs to; set by the floor that knows runs.
    """

    # Defaults live on the class: a call is made on the hot path and most of these stay as they are.
    id: str | None = None
    span: Span | None = None
    recording = False
    enriches = False
    lean = False
    read = False
    executed = True
    attempts = 1
    deadline: float | None = None
    retried_within = 0
    passed_on: tuple[tuple[BaseException, str], ...] = ()
    conforms = False
    budget: Any = None
    admitted = False
    repeats: bytes | None = None
    meters: metrics.CallMetrics | None = None
    started = 0.0
    verdict: Verdict | None = None
    attributes: dict[str, Any] | None = None
    awaits: Callable[[ToolSite], bool] | None = None
    recorded: Verdict | None = None
    items: list[str] | None = None
    items_bytes = 0
    yields = False
    truncated = 0
    run: Any = None
    _swallowed: tuple[BaseException, Verdict] | None = None
    _context: Context | None = None
    _previous: Context

    def __init__(
        self, site: ToolSite, outer: Call | Unread | None, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> None:
        self.site = site
        self.args, self.kwargs = args, kwargs
        self._outer = outer
        self._unclosed = True

    def start(self, start: Callable[..., Span]) -> None:
        """Start a span of ours and make it current."""
        site = self.site
        parent = get_current()
        started = start(site.span_name, parent, span.INTERNAL, site.attributes())
        context = set_span_in_context(started, parent)
        attach(context)
        self.span, self.recording = started, started.is_recording()
        self._previous, self._context = parent, context
        self.capture_arguments(started)

    def enrich(self, framework_span: Span) -> None:
        """Write on a framework's span instead of one of ours."""
        self.span, self.enriches = framework_span, True
        self.recording = framework_span.is_recording()
        if self.recording:
            span.enrich(framework_span, self.site.attributes())
        self.capture_arguments(framework_span)

    def identify(self, call_id: str) -> None:
        self.id = call_id
        if self.recording and self.span is not None:
            try:
                span.enrich(self.span, {names.TOOL_CALL_ID: safe_text(call_id, _ID_LIMIT, settings.redactor)})
            except Exception as error:
                problem("a call began", error)

    def capture_arguments(self, target: Span) -> None:
        """Record the arguments, or what tells equal ones, where that is wanted."""
        try:
            if not self.recording:
                return
            level = settings.capture_for(self.site.capture)
            if settings.storm_detection and level != NONE:
                span.enrich(target, {names.ARGUMENTS_HASH: arguments_hash(self.arguments(), _HASH_KEY)})
            if level == FULL:
                self.items = []
                written = span.payload_attributes(target, names.TOOL_ARGUMENTS, self.arguments())
                self.truncated = written.get(names.TRUNCATED_BYTES, 0)
                span.enrich(target, written)
        except Exception as error:
            problem("arguments were recorded", error)

    def tell_opened(self, meters: metrics.CallMetrics | None) -> None:
        """Let the meters and the observers know."""
        if meters is not None:
            self.meters, self.started = meters, perf_counter()
            meters.opened(self.site.name)
        for tell in observers.opened:
            try:
                tell(self)
            except Exception as error:
                problem("an observer saw a call begin", error)

    def arguments(self) -> Mapping[str, Any]:
        """The arguments by name, as the model sees them: without self and injected parameters."""
        if self.site.bind is None:
            given = self.kwargs
            if callable(given):
                self.kwargs = given = given()
            return given
        return self.site.bind(self.args, dict(self.kwargs))

    # -- being current ------------------------------------------------------------------------------

    def leave(self) -> None:
        """Stop being current, between two steps of a generator or at the end."""
        if self._context is not None:
            # What the body itself attached across a yield is kept for its next step.
            self._context = get_current()
            attach(self._previous)
        CURRENT.set(self._outer)

    def enter(self) -> None:
        """Become current again, for the next step."""
        self._outer = CURRENT.get()
        CURRENT.set(self)
        if self._context is not None:
            self._previous = get_current()
            attach(self._context)

    def _leave_finally(self) -> None:
        if self._context is not None:
            # Restoring instead of resetting a token cannot fail in another Context.
            attach(self._previous)
            self._context = None
        CURRENT.set(self._outer)

    # -- what is known of it --------------------------------------------------------------------------

    def declare(self, verdict: Verdict) -> None:
        """Take a declaration made during the call.

        Errors beat warnings, which beat the rest; among equals the first wins.
        """
        self.lean = False
        earlier = self.recorded
        if earlier is None or _RANK.get(verdict.outcome, 0) > _RANK.get(earlier.outcome, 0):
            self.recorded = verdict

    def swallowed(self, exc: BaseException, verdict: Verdict | None = None) -> None:
        """The tool raised ``exc``, and its framework answers the model in words of its own.

        Args:
            verdict: what the framework's hook knows better than the exception's type tells.
        """
        try:
            if verdict is None:
                verdict = self.judge_exception(exc)
            self._swallowed = (exc, verdict)
            self.declare(verdict)
        except Exception as error:
            problem("an exception was classified", error)

    def known(self, exc: BaseException, verdict: Verdict) -> None:
        """The tool will raise ``exc``, which was judged already."""
        self._swallowed = (exc, verdict)

    def note(self, name: str, value: Any) -> None:
        """Put an attribute on the span beside the verdict's; a verdict that says the same one wins."""
        self.lean = False
        self.attributes = {**(self.attributes or {}), name: value}

    def retried(self, attempts: int) -> None:
        """A framework is about to run the tool again for the same request; what it said before is void.

        Args:
            attempts: with this one.
        """
        self.recorded = self._swallowed = None
        self.attempts = attempts
        self.note(names.ATTEMPTS, attempts)

    def refuse(self, refusal: Any) -> None:
        """The body will not run: the caller gets ``refusal``, an exception that knows its verdict."""
        self.executed, self.attempts = False, 0
        self.note(names.STOP_REASON, refusal.stop_reason)
        self.known(refusal, refusal.verdict)

    def unwrapped(self, value: Any) -> Any:
        """What a framework gets for a value on its way from the tool: a `ToolResult` is taken at its word."""
        try:
            kind = KINDS.get(type(value))
            if kind is None:
                kind = kind_of(value)
            if kind == DECLARED:
                value, declared = unwrap(value, kind, text=self.site.as_text)
                if declared is not None:
                    self.declare(declared)
        except Exception as error:
            problem("a result was judged", error)
        return value

    def judge(self, result: object, declared: Verdict | None = None) -> Verdict:
        """The verdict on a result; ``declared`` is what the result itself declares."""
        recorded = self.recorded
        if recorded is not None and (
            declared is None or (declared.outcome is Outcome.WARNING and recorded.outcome is Outcome.ERROR)
        ):
            declared = recorded
        if declared is not None and declared.outcome is Outcome.ERROR:
            return declared
        if self.recording and self.span is not None and not self.enriches:
            description = span.error_on(self.span)
            if description is not None:
                return Verdict(Outcome.ERROR, ErrorType.TOOL_DECLARED, "span_error", description or None)
        if declared is not None:
            return declared
        if self.site.enforced is not None and not self.conforms:
            from acrux_otel.definition import validate_result

            mismatch = validate_result(self.site.enforced, result)
            if mismatch is not None:
                return invalid_result(mismatch, self.site.severity)
        return declared_by_result(result) or (_suspected(result) if self.site.suspect else None) or _OK

    def judge_exception(self, exc: BaseException) -> Verdict:
        """The verdict on an exception that escaped from the tool."""
        swallowed = self._swallowed
        if swallowed is not None and _leads_to(exc, swallowed[0]):
            return swallowed[1]
        if isinstance(exc, TypeError) and self._did_not_bind(exc):
            return classify_arguments(exc)
        return classify(exc, control_flow=self.site.control_flow)

    def _did_not_bind(self, exc: BaseException) -> bool:
        # Raised by the call itself: no frame of the body is in the traceback.
        accepts, step = self.site.signature_accepts, exc.__traceback__
        if accepts is None:
            return False
        while step is not None:
            if not str(step.tb_frame.f_globals.get("__name__")).startswith(_CALLERS):
                return False
            step = step.tb_next
        return not accepts(self.args, dict(self.kwargs))

    # -- its end --------------------------------------------------------------------------------------

    def ok(self, result: Any) -> Any:
        """The tool returned ``result``; returns what its caller gets."""
        kind = KINDS.get(type(result))
        if kind == PLAIN and self.lean and self._ended_lean():
            return result
        site = self.site
        if kind == PLAIN and self.recorded is None and site.enforced is None and not site.suspect:
            self._leave_finally()
            if self._is_read:
                self.close(self._judge_plain(result), result)
            return result
        try:
            return self._settle(result, kind_of(result) if kind is None else kind)
        except Exception as error:
            problem("a result was judged", error)
            self._leave_finally()
            self.close(_OK, result)
            return result.result_for(text=site.as_text) if isinstance(result, ToolResult) else result

    def _ended_lean(self) -> bool:
        target = self.span
        if target is None:
            return False
        CURRENT.set(self._outer)
        attach(self._previous)
        self._context = None
        try:
            del self._unclosed
        except AttributeError:
            return True
        self.verdict = _OK
        try:
            if not span.ended_ok(target):  # its body put an error on the span
                self._unclosed = True
                return False
        except Exception as error:
            problem("a span was written", error)
            self._end(target)
        if self.meters is not None:
            self._tell_closed(_OK)
        return True

    def _judge_plain(self, result: Any) -> Verdict:
        try:
            return self.judge(result)
        except Exception as error:
            problem("a result was judged", error)
            return _OK

    @property
    def _is_read(self) -> bool:
        return self.read or self.recording or self.meters is not None or bool(observers.closed)

    def _settle(self, result: Any, kind: int) -> Any:
        if kind > DECLARED:
            from acrux_otel.drive import follow

            return follow(self, result, kind)
        self._leave_finally()
        value, declared = unwrap(result, kind, text=self.site.as_text)
        if self._is_read:
            self.close(self.judge(value, declared), value)
        return value

    def yielded(self, item: Any) -> Any:
        """A generator yielded ``item``; returns what its consumer gets."""
        kind = KINDS.get(type(item))
        if kind is None:
            kind = kind_of(item)
        if kind == DECLARED:
            item, declared = unwrap(item, kind, text=self.site.as_text)
            if declared is not None:
                self.declare(declared)
        if self.items is not None:
            self._keep(self.items, item)
        return item

    def items_follow(self) -> None:
        """What the call gives is what it yields, if only an empty list."""
        self.yields = True

    def _keep(self, items: list[str], item: object) -> None:
        room = settings.payload_limit - self.items_bytes
        if room < LEAST_PAYLOAD:
            self.items_bytes += LEAST_PAYLOAD  # what is not kept still counts
            return
        try:
            json, cut = payload(item, room, settings.redactor)
            items.append(json)
            self.items_bytes += 1 + (cut or len(json.encode()))
        except Exception as error:
            problem("a result was recorded", error)

    def raised(self, exc: BaseException, verdict: Verdict | None = None) -> None:
        """The tool raised ``exc``, which its caller will get.

        Args:
            verdict: what a framework's hook knows better than the exception's type tells.
        """
        # `isinstance` would run the user's own code where an exception overrides `__getattribute__`.
        if issubclass(type(exc), GeneratorExit) and CURRENT.get() is not self:
            # Closed from a Context that never was ours: there is nothing to restore in it.
            self._context = None
        else:
            self._leave_finally()
        if not self._is_read:
            return
        try:
            if verdict is None:
                verdict = self.judge_exception(exc)
        except Exception as error:
            problem("an exception was classified", error)
            verdict = Verdict(Outcome.ERROR, ErrorType.TOOL_DECLARED, "unspecified")
        self.close(verdict, exception=exc)

    def declared(self, verdict: Verdict, result: Any = None) -> None:
        """A framework says itself how the call ended."""
        self._leave_finally()
        self.close(verdict, result)

    def close(self, verdict: Verdict, result: Any = None, exception: BaseException | None = None) -> None:
        """End the call with ``verdict``. Only the first close counts."""
        try:
            del self._unclosed
        except AttributeError:
            return
        self.verdict = verdict
        if self._swallowed is not None:
            if verdict is self._swallowed[1]:
                exception = self._swallowed[0]
            self._swallowed = None
        if not self.executed:
            exception = None  # the guard raised it, not the tool
        if self.meters is not None or observers.closed:
            self._tell_closed(verdict)
        target = self.span
        if target is None or not self.recording:
            return
        try:
            self._write(target, verdict, result, exception)
        except Exception as error:
            problem("a span was written", error)
        if not self.enriches:
            self._end(target)
        elif verdict.outcome is Outcome.ERROR:
            span.hold(target, exception=exception is not None)

    def _end(self, target: Span) -> None:
        try:
            if target.is_recording():
                target.end()
        except Exception as error:
            problem("a span was written", error)

    def _tell_closed(self, verdict: Verdict) -> None:
        for tell in observers.closed:
            try:
                tell(self, verdict)
            except Exception as error:
                problem("an observer saw a call end", error)
        if self.meters is not None:
            try:
                seconds = perf_counter() - self.started if self.executed else None
                self.meters.closed(self.site.name, verdict, seconds, self.attempts)
            except Exception as error:
                problem("metrics were recorded", error)

    def _write(self, target: Span, verdict: Verdict, result: Any, exception: BaseException | None) -> None:
        site = self.site
        extra = self.attributes
        if site.version_id is not None:
            extra = {names.TOOL_VERSION_ID: site.version_id, **(extra or {})}
        if self.items is not None and exception is None and verdict.outcome is not Outcome.NOT_EXECUTED:
            extra = {**self._recorded_result(target, result), **(extra or {})}
        span.finish(target, verdict, settings.capture_for(site.capture), extra, exception)

    def _recorded_result(self, target: Span, result: Any) -> dict[str, Any]:
        if self.yields and (self.items or result is None):
            return span.items_attributes(
                target, names.TOOL_RESULT, self.items or [], self.items_bytes, self.truncated
            )
        return span.payload_attributes(target, names.TOOL_RESULT, result, self.truncated)


class Joined(Call):
    """A decorated function that a framework hook is already running: its word goes to that call."""

    def __init__(self, site: ToolSite, outer: Call, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        super().__init__(site, CURRENT.get(), args, kwargs)
        self.joined = outer
        self.span, self.recording, self.read = outer.span, outer.recording, True
        self.enriches = outer.enriches
        if outer is not self._outer and self.span is not None:
            # The other side of a queue: what is current over there is not current here.
            self._previous = get_current()
            attach(set_span_in_context(self.span, self._previous))
            self._context = get_current()
        CURRENT.set(self)

    def identify(self, call_id: str) -> None:
        if self.joined.id is None:
            self.joined.identify(call_id)

    def close(self, verdict: Verdict, result: Any = None, exception: BaseException | None = None) -> None:
        self.verdict = verdict
        if exception is not None:
            # The framework may pass it on, or answer the model in its own words.
            self.joined._swallowed = (exception, verdict)
        if verdict.outcome is not Outcome.OK:
            self.joined.declare(verdict)
        self.joined.attempts, self.joined.executed = self.attempts, self.executed
        if self.site.version_id is not None or self.attributes:
            added = self.attributes or {}
            if self.site.version_id is not None:
                added = {names.TOOL_VERSION_ID: self.site.version_id, **added}
            self.joined.attributes = {**(self.joined.attributes or {}), **added}


def _leads_to(exc: BaseException, wanted: BaseException) -> bool:
    """Whether ``wanted`` is ``exc`` or one of its causes: frameworks wrap what a tool raised."""
    link: BaseException | None = exc
    for _ in range(16):
        if link is wanted:
            return True
        if link is None:
            return False
        link = link.__cause__
    return False


def _suspected(result: object) -> Verdict | None:
    if type(result) is not dict:
        return None
    for key in ("error", "isError", "is_error"):
        if result.get(key):
            return Verdict(
                Outcome.WARNING,
                ErrorType.TOOL_DECLARED,
                "suspected_failure",
                f"the result has a truthy {key!r}; return ToolResult.error(...) if the call failed",
            )
    if result.get("status") == "error":
        return Verdict(
            Outcome.WARNING,
            ErrorType.TOOL_DECLARED,
            "suspected_failure",
            "the result has status 'error'; return ToolResult.error(...) if the call failed",
        )
    return None
