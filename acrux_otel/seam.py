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

The verdicts on what never reaches a tool's body, such as `unknown_tool`, are made here too.
Nothing here raises into the caller, and the first close wins. Upper floors (catalog, run summary,
testing) register observers; nothing here knows them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from opentelemetry.context import attach, get_current
from opentelemetry.trace import set_span_in_context

from acrux_otel import attributes as names
from acrux_otel import described, metrics
from acrux_otel.call import (
    CURRENT,
    PERHAPS_FULL,
    Call,
    Joined,
    Unread,
    current_call,
    observe,
    observers,
    problem,
    record_error,
    record_warning,
    unobserve,
)
from acrux_otel.classify import (
    classify_arguments,
    declared_by_result,
    invalid_result,
    malformed_arguments,
    mcp_failure,
    policy_denied,
    unknown_tool,
)
from acrux_otel.definition.signature import returns_text, underlying
from acrux_otel.expected import EXPECTED
from acrux_otel.sanitize import DETAIL_LIMIT, text
from acrux_otel.settings import FULL, UNSET, settings
from acrux_otel.span import INTERNAL, OURS, TracerSource, abandon

if TYPE_CHECKING:
    from opentelemetry.trace import Span, TracerProvider

    from acrux_otel.definition import ToolDefinition

__all__ = [
    "Call",
    "ToolSite",
    "TracerSource",
    "classify_arguments",
    "current_call",
    "declared_by_result",
    "invalid_result",
    "malformed_arguments",
    "mcp_failure",
    "observe",
    "open_call",
    "policy_denied",
    "problem",
    "record_error",
    "record_warning",
    "unknown_tool",
    "unobserve",
]


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
        source: another scope's spans.
        catalogued: whether the definition is one for the catalog.
        guard: what stands around the body; None: the process's default, False: nothing.

    Attributes:
        body: what runs under a call: the function, or its guard; set where the function is wrapped.
        unguarded: the function, and the one under whatever wraps it.
        layered: whether a call of its source within its own may be the same call.
        guarded: whether a guard asks the run's budget itself.
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
        source: TracerSource = OURS,
        catalogued: bool = True,
        guard: Any = None,
        layered: bool = True,
    ) -> None:
        self.guard = guard
        self.layered = layered
        self.body: Any = None
        self.unguarded: Any = None
        self.guarded = False
        self.definition = definition
        self.catalogued = catalogued
        self.expects = self._is_run_by
        self.name = definition.name
        self.span_name = f"{names.EXECUTE_TOOL} {definition.name}"
        self.capture = capture
        self.control_flow = control_flow
        self.suspect = suspect
        self.as_text = as_text
        self.bind = bind
        self.signature_accepts = signature_accepts
        self.function = function
        self.source = source
        self.version_id: str | None = None
        self.enforced: dict[str, Any] | None = definition.enforced_result
        self.severity: Literal["warn", "error"] = "error" if definition.result_severity == "error" else "warn"
        self._attributes: dict[str, str | int] | None = None

    def _is_run_by(self, inner: ToolSite) -> bool:
        """Whether the call of ``inner`` is the same as the call of this one, a layer further in.

        The function decides, and where this one's is not known the name. A function that calls another tool
        of its own name makes another call: it may handle what comes of it.
        """
        if self.function is None:
            return inner.name == self.name
        return inner.function is self.function and (self.layered or inner.source is not self.source)

    def set_body(self, body: Callable[..., Any], *, guarded: bool) -> None:
        """Have ``body`` run under each call from now on."""
        self.body, self.guarded, self._attributes = body, guarded, None

    def attributes(self) -> dict[str, str | int]:
        """What a span of this tool says from its start."""
        if self._attributes is None:
            name = text(self.name, DETAIL_LIMIT)
            made: dict[str, str | int] = {
                names.OPERATION_NAME: names.EXECUTE_TOOL,
                names.TOOL_NAME: name,
                names.TOOL_TYPE: "function",
                names.EXECUTOR_TYPE: self.definition.executor,
            }
            if self.definition.description:
                made[names.TOOL_DESCRIPTION] = text(self.definition.description, DETAIL_LIMIT)
            if self.guarded:
                # Most calls make one attempt, and at the end it would cost them the shortest way.
                made[names.ATTEMPTS] = 1
            self.span_name = f"{names.EXECUTE_TOOL} {name}"
            self._attributes = made
        return self._attributes

    def open(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Call | Unread | None:
        """Begin a call, make it and its span current; None where nobody would read anything of it.

        Args:
            args, kwargs: as the function gets them.

        Raises:
            Exception: the refusal of a run's budget, for a tool without a guard; the call is closed.
        """
        outer = CURRENT.get()
        if isinstance(outer, Call) and outer.awaits is not None and outer.awaits(self):
            outer.awaits = None
            return self._admitted(Joined(self, outer, args, kwargs))
        started = meters = None
        try:
            meters = metrics.active()
            start = self.source.starter()
            if start is not None:
                parent = get_current()
                started = start(self.span_name, parent, INTERNAL, self._attributes or self.attributes())
                context = set_span_in_context(started, parent)
                recording = started.is_recording()
                attach(context)
        except Exception as error:
            problem("a call began", error)
            if started is not None:
                abandon(started)
                started = None
        if meters is None and not observers.any and (started is None or not recording):
            if started is None and outer is None:
                return None
            unread = Unread(self, outer, parent if started is not None else None)
            CURRENT.set(unread)
            return unread
        call = Call(self, outer, args, kwargs)
        if started is not None:
            call.span, call.recording, call._previous, call._context = started, recording, parent, context
            if self.capture == FULL or settings.capture in PERHAPS_FULL or settings.storm_detection:
                call.capture_arguments(started)
            elif self.version_id is None and not observers.any:
                call.lean = recording and self.enforced is None and not self.suspect
        CURRENT.set(call)
        if meters is not None or observers.opened:
            call.tell_opened(meters)
            return self._admitted(call)
        return call

    def _admitted(self, call: Call) -> Call:
        """The call, unless the budget of the run refuses it."""
        if observers.gate is None or self.guarded:
            return call
        refusal = observers.gate(call)
        if refusal is None:
            return call
        call.refuse(refusal)
        call.raised(refusal)
        raise refusal

    def open_read(
        self,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        *,
        call_id: str | None = None,
        tracer_provider: TracerProvider | None = None,
        on: Span | None = None,
        within: Call | None = None,
    ) -> Call:
        """Begin a call whose verdict the caller wants.

        Args:
            call_id: the model's id of the call.
            tracer_provider: instead of the one in force.
            on: a framework's span to enrich instead of starting one; the framework ends it.
            within: another layer's call that this one is.
        """
        outer = CURRENT.get()
        if within is None and isinstance(outer, Call) and outer.awaits is not None and outer.awaits(self):
            within = outer
        if within is not None:
            within.awaits = None
            joined = Joined(self, within, args, kwargs)
            return _named(joined, call_id)
        call = Call(self, outer, args, kwargs)
        call.read = True
        try:
            if on is not None:
                call.enrich(on)
            elif (start := self.source.starter(tracer_provider)) is not None:
                call.start(start)
        except Exception as error:
            problem("a call began", error)
        CURRENT.set(call)
        call.tell_opened(metrics.active())
        return _named(call, call_id)

    def open_to_follow(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, read: bool = False) -> Call:
        """Begin a call that is followed step by step also where nobody reads it; raises as `open` does."""
        if read:
            return self._admitted(self.open_read(args, kwargs))
        call = self.open(args, kwargs)
        if call is None:
            return Call(self, None, args, kwargs)
        return call.followed(args, kwargs) if isinstance(call, Unread) else call


def _named(call: Call, call_id: str | None) -> Call:
    if call_id is not None:
        call.identify(call_id)
    expected = EXPECTED.get()
    if expected is not None:
        expected.opened(call)
    return call


def open_call(
    definition: ToolDefinition,
    *,
    call_id: str | None = None,
    arguments: Mapping[str, Any] | Callable[[], Mapping[str, Any]] | None = None,
    function: object = None,
    control_flow: tuple[type[BaseException], ...] = (),
    tracer_provider: TracerProvider | None = None,
    span: Span | None = None,
    within: Call | None = None,
    catalogued: bool = True,
    source: TracerSource = OURS,
    layered: bool = True,
) -> Call:
    """Open the call of a tool that a framework runs, and make it current.

    A decorated function that the framework is about to run joins this call instead of opening its own.

    Args:
        definition: the tool's; keep one object for each tool, what is worked out for it is cached.
        call_id: the model's id of the call.
        arguments: what the model asked for, by name; or what makes them, where that costs time.
        function: the function that the framework will run, where the hook can see it; decorated or not.
        control_flow: the framework's hand-off exceptions.
        tracer_provider: instead of the one in force.
        span: the framework's own tool span, to enrich; the framework ends it.
        within: the call of another layer that is this same call; it takes this one's word for its own.
        catalogued: False where only the name of the tool is known, which is no definition.
        source: the instrumentation's own scope.
        layered: False where a framework is watched in one place only, so that a tool that it runs from within
            a tool is another call, also of the same name.

    Returns:
        The call. Hand it over with ``.ok``, ``.raised`` or ``.declared``; use ``.leave`` and
        ``.enter`` around what is not the tool's own step.
    """
    site: ToolSite | None = definition.site
    if site is None:
        site = definition.site = _site_of(definition, function, control_flow, catalogued, source, layered)
        if site.catalogued:
            try:
                described.remember(site)
            except Exception as error:
                problem("a tool was told to the catalog", error)
    given: Any = arguments if arguments is not None else {}
    call = site.open_read((), given, call_id=call_id, tracer_provider=tracer_provider, on=span, within=within)
    call.awaits = site.expects
    return call


def _site_of(
    definition: ToolDefinition,
    function: object,
    control_flow: tuple[type[BaseException], ...],
    catalogued: bool,
    source: TracerSource,
    layered: bool,
) -> ToolSite:
    decorated = getattr(getattr(function, "__acrux_tool__", None), "site", None)
    if isinstance(decorated, ToolSite):
        # What the function's owner said holds however it is run.
        return ToolSite(
            definition,
            capture=decorated.capture,
            control_flow=(*control_flow, *decorated.control_flow),
            as_text=decorated.as_text,
            function=decorated.function,
            source=source,
            layered=layered,
            catalogued=False,
        )
    as_text = False
    if function is not None:
        function = underlying(function)
        as_text = returns_text(function)
    return ToolSite(
        definition,
        control_flow=control_flow,
        as_text=as_text,
        function=function,
        source=source,
        layered=layered,
        catalogued=catalogued,
    )
