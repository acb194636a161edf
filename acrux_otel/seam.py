# SPDX-License-Identifier: Apache-2.0
"""One tool call from open to close. Public to instrumentations; `@tool` is built on it.

A hook opens a call, runs the framework's own code, and hands over what came back::

    call = open_call(definition, call_id=id, arguments=arguments)
    try:
        result = run()
    except BaseException as exc:
        call.raised(exc)
        raise
    return call.ok(result)

Nothing here raises into the caller, and the first close wins. Upper floors (catalog, run summary,
testing) register observers; nothing here knows them.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, Literal
from weakref import WeakKeyDictionary

from opentelemetry.context import attach, get_current
from opentelemetry.trace import set_span_in_context

from acrux_otel import attributes as names
from acrux_otel import metrics, span
from acrux_otel._version import VERSION
from acrux_otel.classify import classify, classify_arguments, declared_by_result, invalid_result
from acrux_otel.returned import DECLARED, KINDS, PLAIN, kind_of, unwrap
from acrux_otel.sanitize import DETAIL_LIMIT, payload, text
from acrux_otel.settings import FULL, UNSET, settings
from acrux_otel.verdict import ErrorType, Outcome, ToolResult, Verdict, _log, slug, warn_once

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, TracerProvider

    from acrux_otel.definition import ToolDefinition

__all__ = [
    "Call",
    "ToolSite",
    "current_call",
    "observe",
    "open_call",
    "record_error",
    "record_warning",
    "unobserve",
]

_OK: Final = Verdict(Outcome.OK)
_CURRENT: Final[ContextVar[Call | None]] = ContextVar("acrux_otel.call", default=None)
_OUR_TRACER: Final = span.TracerSource(names.SCOPE, VERSION)

_on_open: tuple[Callable[[Call], None], ...] = ()
_on_close: tuple[Callable[[Call, Verdict], None], ...] = ()


def observe(
    opened: Callable[[Call], None] | None = None, closed: Callable[[Call, Verdict], None] | None = None
) -> None:
    """Have functions called at the start and at the end of every call of this process.

    An observer of ends makes every verdict be computed, also where no span records; it may add to
    ``call.attributes``. What an observer raises is logged once and ignored.
    """
    global _on_open, _on_close
    if opened is not None and opened not in _on_open:
        _on_open = (*_on_open, opened)
    if closed is not None and closed not in _on_close:
        _on_close = (*_on_close, closed)


def unobserve(
    opened: Callable[[Call], None] | None = None, closed: Callable[[Call, Verdict], None] | None = None
) -> None:
    """Take back what :func:`observe` was given."""
    global _on_open, _on_close
    _on_open = tuple(each for each in _on_open if each != opened)
    _on_close = tuple(each for each in _on_close if each != closed)


def current_call() -> Call | None:
    """The innermost call in progress in this context."""
    return _CURRENT.get()


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
    call = _CURRENT.get()
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


class ToolSite:
    """What all calls of one tool have in common, worked out once.

    Args:
        definition: names the tool.
        capture: a level of `acrux_otel.settings`.
        control_flow: exception types that pause or route and are no failure.
        suspect: mark a plain dict that looks like an error as a warning.
        as_text: the tool is annotated ``-> str``: an omitted result is the message itself.
        bind: ``(args, kwargs) -> {name: value}`` as the model would see them.
        signature_accepts: whether ``(args, kwargs)`` fit the signature.
        function: what a framework would know the tool by, to join calls.
        tracer: another scope's tracer.
    """

    def __init__(
        self,
        definition: ToolDefinition,
        *,
        capture: int = UNSET,
        control_flow: tuple[type[BaseException], ...] = (),
        suspect: bool = False,
        as_text: bool = False,
        bind: Callable[[tuple[Any, ...], dict[str, Any]], Mapping[str, Any]] | None = None,
        signature_accepts: Callable[[tuple[Any, ...], dict[str, Any]], bool] | None = None,
        function: object = None,
        tracer: span.TracerSource = _OUR_TRACER,
    ) -> None:
        self.definition = definition
        self.name = definition.name
        self.span_name = f"{names.EXECUTE_TOOL} {definition.name}"
        self.capture = capture
        self.control_flow = control_flow
        self.suspect = suspect
        self.as_text = as_text
        self.bind = bind
        self.signature_accepts = signature_accepts
        self.function = function
        self.tracer = tracer
        self.version_id: str | None = None
        self.enforced: dict[str, Any] | None = definition.enforced_result
        self.severity: Literal["warn", "error"] = "error" if definition.result_severity == "error" else "warn"
        self._attributes: dict[str, str] | None = None

    @property
    def judges_values(self) -> bool:
        """Whether a plain value needs a look before it is ok."""
        return self.suspect or self.enforced is not None

    def attributes(self) -> dict[str, str]:
        """What a span of this tool says from its start."""
        if self._attributes is None:
            name = text(self.name, DETAIL_LIMIT)
            made = {
                names.OPERATION_NAME: names.EXECUTE_TOOL,
                names.TOOL_NAME: name,
                names.TOOL_TYPE: "function",
                names.EXECUTOR_TYPE: self.definition.executor,
            }
            if self.definition.description:
                made[names.TOOL_DESCRIPTION] = text(self.definition.description, DETAIL_LIMIT)
            self.span_name = f"{names.EXECUTE_TOOL} {name}"
            self._attributes = made
        return self._attributes

    def open(
        self,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] = types.MappingProxyType({}),
        *,
        read: bool = False,
        call_id: str | None = None,
        tracer_provider: TracerProvider | None = None,
        on: Span | None = None,
    ) -> Call | None:
        """Begin a call, make it and its span current; None where nobody would read anything of it.

        Args:
            args, kwargs: as the function gets them.
            read: the caller wants the verdict.
            call_id: the model's id of the call.
            tracer_provider: instead of the one in force.
            on: a framework's span to enrich instead of starting one; the framework ends it.
        """
        outer = _CURRENT.get()
        if outer is not None and outer.awaits is not None and outer.awaits(self):
            outer.awaits = None
            return Joined(self, outer, args, kwargs)
        meters = metrics.active()
        tracer = self.tracer.tracer(tracer_provider) if on is None else None
        if (
            tracer is None
            and meters is None
            and outer is None
            and on is None
            and not (read or _on_close or _on_open)
        ):
            return None
        call = Call(self, outer, args, kwargs)
        _CURRENT.set(call)
        if call_id is not None:
            call.id = call_id
        try:
            if tracer is not None:
                call._start(tracer)
            elif on is not None:
                call.span, call.enriches = on, True
                call.recording = on.is_recording()
                if call.recording:
                    span.enrich(on, self.attributes())
            if call.recording and (call_id is not None or self._captures()):
                call._describe_start()
            if meters is not None:
                call.meters, call.started = meters, perf_counter()
                meters.opened(self.name)
        except Exception as error:
            problem("a call began", error)
        if _on_open:
            call._tell_opened()
        call.reads = read or call.recording or call.meters is not None or bool(_on_close)
        return call

    def open_to_follow(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, read: bool = False) -> Call:
        """Begin a call that is followed step by step also where nobody reads it."""
        return self.open(args, kwargs, read=read) or Call(self, _CURRENT.get(), args, kwargs)

    def _captures(self) -> bool:
        return settings.capture_for(self.capture) == FULL


class Call:
    """One call in progress. Its methods never raise; ``verdict`` is there once it is closed.

    Attributes:
        attributes: what an observer adds to the span at its end.
        attempts: attempts made so far, where a guard counts them.
        executed: whether the tool's body was entered.
        run: the agent run that the call belongs to; set by the floor that knows runs.
    """

    # Defaults live on the class: a call is made on the hot path and most of these stay as they are.
    id: str | None = None
    span: Span | None = None
    recording = False
    enriches = False
    reads = False
    executed = True
    attempts = 1
    meters: metrics.CallMetrics | None = None
    started = 0.0
    verdict: Verdict | None = None
    attributes: dict[str, Any] | None = None
    awaits: Callable[[ToolSite], bool] | None = None
    recorded: Verdict | None = None
    items: list[str] | None = None
    run: Any = None
    _swallowed: tuple[BaseException, Verdict] | None = None
    _context: Context | None = None
    _previous: Context

    def __init__(
        self, site: ToolSite, outer: Call | None, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> None:
        self.site = site
        self.args, self.kwargs = args, kwargs
        self._outer = outer
        self._unclosed = True

    def _start(self, tracer: Any) -> None:
        parent = get_current()
        site = self.site
        started = span.start(tracer, site.span_name, parent, site._attributes or site.attributes())
        self.span = started
        self.recording = started.is_recording()
        if self.recording or started.get_span_context().is_valid:
            self._previous = parent
            self._context = context = set_span_in_context(started, parent)
            attach(context)

    def _describe_start(self) -> None:
        target = self.span
        if target is None:
            return
        if self.id is not None:
            span.enrich(target, {names.TOOL_CALL_ID: text(self.id, 256)})
        if self.site._captures():
            self.items = []
            span.payload_attributes(target, names.TOOL_ARGUMENTS, self.arguments())

    def _tell_opened(self) -> None:
        for tell in _on_open:
            try:
                tell(self)
            except Exception as error:
                problem("an observer saw a call begin", error)

    def arguments(self) -> Mapping[str, Any]:
        """The arguments by name, as the model sees them: without self and injected parameters."""
        if self.site.bind is None:
            return self.kwargs
        return self.site.bind(self.args, dict(self.kwargs))

    # -- being current ------------------------------------------------------------------------------

    def leave(self) -> None:
        """Stop being current, between two steps of a generator or at the end."""
        if self._context is not None:
            # What the body itself attached across a yield is kept for its next step.
            self._context = get_current()
            attach(self._previous)
        _CURRENT.set(self._outer)

    def enter(self) -> None:
        """Become current again, for the next step."""
        self._outer = _CURRENT.get()
        _CURRENT.set(self)
        if self._context is not None:
            self._previous = get_current()
            attach(self._context)

    def _leave_finally(self) -> None:
        if self._context is not None:
            # Restoring instead of resetting a token cannot fail in another Context.
            attach(self._previous)
            self._context = None
        _CURRENT.set(self._outer)

    # -- what is known of it --------------------------------------------------------------------------

    def declare(self, verdict: Verdict) -> None:
        """Take a declaration made during the call: an error beats a warning, then the first wins."""
        earlier = self.recorded
        if earlier is None or (earlier.outcome is Outcome.WARNING and verdict.outcome is Outcome.ERROR):
            self.recorded = verdict

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
        if self.site.enforced is not None:
            from acrux_otel.definition import validate_result

            mismatch = validate_result(self.site.enforced, result)
            if mismatch is not None:
                return invalid_result(mismatch, self.site.severity)
        return declared_by_result(result) or (_suspected(result) if self.site.suspect else None) or _OK

    def judge_exception(self, exc: BaseException) -> Verdict:
        """The verdict on an exception that escaped from the tool."""
        if self._swallowed is not None and self._swallowed[0] is exc:
            return self._swallowed[1]
        if isinstance(exc, TypeError) and self._did_not_bind(exc):
            return classify_arguments(exc)
        return classify(exc, control_flow=self.site.control_flow)

    def _did_not_bind(self, exc: BaseException) -> bool:
        # Raised by the call itself: no frame of the body is in the traceback.
        accepts, frame = self.site.signature_accepts, exc.__traceback__
        if accepts is None or (frame is not None and frame.tb_next is not None):
            return False
        return not accepts(self.args, dict(self.kwargs))

    # -- its end --------------------------------------------------------------------------------------

    def ok(self, result: Any) -> Any:
        """The tool returned ``result``; returns what its caller gets."""
        kind = KINDS.get(type(result))
        if kind == PLAIN and not self.site.judges_values and self.recorded is None:
            self._leave_finally()
            if self.reads:
                description = span.error_on(self.span) if self.recording and self.span else None
                self.close(_OK if description is None else self.judge(result), result)
            return result
        try:
            return self._settle(result, kind_of(result) if kind is None else kind)
        except Exception as error:
            problem("a result was judged", error)
            self._leave_finally()
            self.close(_OK, result)
            return result.result_for(text=self.site.as_text) if isinstance(result, ToolResult) else result

    def _settle(self, result: Any, kind: int) -> Any:
        if kind > DECLARED:
            from acrux_otel.drive import follow

            return follow(self, result, kind)
        self._leave_finally()
        value, declared = unwrap(result, kind, text=self.site.as_text)
        if self.reads:
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
            self._keep(item)
        return item

    def _keep(self, item: object) -> None:
        items, room = self.items, settings.payload_limit
        if items is not None and len(items) < 1000 and sum(map(len, items)) < room // 2:
            items.append(payload(item, max(16, room // 4), settings.redactor)[0])

    def raised(self, exc: BaseException) -> None:
        """The tool raised ``exc``, which its caller will get."""
        if isinstance(exc, GeneratorExit) and _CURRENT.get() is not self:
            # Closed from a Context that never was ours: there is nothing to restore in it.
            self._context = None
        else:
            self._leave_finally()
        if not self.reads:
            return
        try:
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
        swallowed, self._swallowed = self._swallowed, None
        if exception is None and swallowed is not None and verdict is swallowed[1]:
            exception = swallowed[0]
        for tell in _on_close:
            try:
                tell(self, verdict)
            except Exception as error:
                problem("an observer saw a call end", error)
        if self.meters is not None:
            try:
                self.meters.closed(self.site.name, verdict, perf_counter() - self.started, self.attempts)
            except Exception as error:
                problem("metrics were recorded", error)
        if self.span is not None and self.recording:
            try:
                self._write(self.span, verdict, result, exception)
            except Exception as error:
                problem("a verdict was recorded", error)
            if not self.enriches:
                try:
                    self.span.end()
                except Exception as error:
                    problem("a span ended", error)

    def _write(self, target: Span, verdict: Verdict, result: Any, exception: BaseException | None) -> None:
        site = self.site
        level = settings.capture_for(site.capture)
        extra = self.attributes
        if site.version_id is not None:
            extra = {names.TOOL_VERSION_ID: site.version_id, **(extra or {})}
        span.finish(target, verdict, level, extra, exception)
        if level == FULL and exception is None and verdict.outcome is not Outcome.NOT_EXECUTED:
            if self.items:
                span.enrich(target, {names.TOOL_RESULT: f"[{','.join(self.items)}]"})
            else:
                span.payload_attributes(target, names.TOOL_RESULT, result)


class Joined(Call):
    """A decorated function that a framework hook is already running: its word goes to that call."""

    def __init__(self, site: ToolSite, outer: Call, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        super().__init__(site, outer, args, kwargs)
        self.joined = outer
        self.span, self.recording, self.reads = outer.span, outer.recording, True
        self.enriches = outer.enriches
        _CURRENT.set(self)

    def close(self, verdict: Verdict, result: Any = None, exception: BaseException | None = None) -> None:
        self.verdict = verdict
        if exception is not None:
            # The framework may pass it on, or answer the model in its own words.
            self.joined._swallowed = (exception, verdict)
        if verdict.outcome is Outcome.ERROR or verdict.outcome is Outcome.WARNING:
            self.joined.declare(verdict)


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


def open_call(
    definition: ToolDefinition,
    *,
    call_id: str | None = None,
    arguments: Mapping[str, Any] | None = None,
    function: object = None,
    control_flow: tuple[type[BaseException], ...] = (),
    tracer_provider: TracerProvider | None = None,
    span: Span | None = None,
    tracer: span.TracerSource = _OUR_TRACER,
) -> Call:
    """Open the call of a tool that a framework runs, and make it current.

    A decorated function that the framework is about to run joins this call instead of opening its own.

    Args:
        definition: the tool's; keep one object for each tool, what is worked out for it is cached.
        call_id: the model's id of the call.
        arguments: what the model asked for, by name.
        function: the function that the framework will run, where the hook can see it.
        control_flow: the framework's hand-off exceptions.
        tracer_provider: instead of the one in force.
        span: the framework's own tool span, to enrich; the framework ends it.
        tracer: the instrumentation's own scope.

    Returns:
        The call. Hand it over with ``.ok``, ``.raised`` or ``.declared``; use ``.leave`` and
        ``.enter`` around what is not the tool's own step.
    """
    site = _site_of(definition, control_flow, tracer)
    given = arguments if arguments is not None else {}
    call = site.open((), given, call_id=call_id, tracer_provider=tracer_provider, on=span)
    if call is None:
        return Call(site, _CURRENT.get(), (), given)
    name = definition.name

    def expected(inner: ToolSite) -> bool:
        return (function is not None and inner.function is function) or inner.name == name

    call.awaits = expected
    return call


def _site_of(
    definition: ToolDefinition, control_flow: tuple[type[BaseException], ...], tracer: span.TracerSource
) -> ToolSite:
    site = _sites.get(definition)
    if site is None:
        site = ToolSite(definition, control_flow=control_flow, tracer=tracer)
        _sites[definition] = site
    return site


_sites: WeakKeyDictionary[ToolDefinition, ToolSite] = WeakKeyDictionary()
