# SPDX-License-Identifier: Apache-2.0
"""Verdict -> span. The only module that writes spans. It may raise: the seam catches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import opentelemetry.trace as api
from opentelemetry.trace import SpanKind, Status, StatusCode

from acrux_otel import attributes as names
from acrux_otel._version import VERSION
from acrux_otel.sanitize import (
    DESCRIPTION_LIMIT,
    DETAIL_LIMIT,
    LEAST_PAYLOAD,
    MESSAGE_LIMIT,
    STACK_LIMIT,
    exception_type,
    payload,
    safe_text,
    stack,
    text,
)
from acrux_otel.settings import NONE, settings
from acrux_otel.verdict import ErrorType, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from opentelemetry.trace import Span, TracerProvider

    from acrux_otel.verdict import Verdict

__all__ = [
    "INTERNAL",
    "OURS",
    "TracerSource",
    "abandon",
    "attempt_again",
    "attempt_failed",
    "circuit_changed",
    "ended_ok",
    "enrich",
    "error_on",
    "fail",
    "finish",
    "hold",
    "items_attributes",
    "payload_attributes",
    "record_exception",
]

INTERNAL: Final = SpanKind.INTERNAL
_ERROR: Final = StatusCode.ERROR
# An enum member's `.value` is a slow descriptor.
_OUTCOMES: Final = {outcome: outcome.value for outcome in Outcome}
_TYPES: Final = {kind: kind.value for kind in ErrorType}


class TracerSource:
    """One scope's way to start spans; follows the provider that is in force."""

    __slots__ = ("_provider", "_scope", "_start", "_version")

    def __init__(self, scope: str, version: str) -> None:
        self._scope, self._version = scope, version
        self._provider: object = None
        self._start: Callable[..., Span] | None = None

    def starter(self, explicit: TracerProvider | None = None) -> Callable[..., Span] | None:
        """``start_span`` of the tracer to use now; None where no provider is set: there is nothing to do.

        Call it with name, parent context, `INTERNAL` and attributes.
        """
        provider = explicit or settings.tracer_provider or api._TRACER_PROVIDER or _unset_provider()
        if provider is not self._provider:
            self._start = (
                None
                if provider is None
                else provider.get_tracer(self._scope, self._version, schema_url=names.SCHEMA_URL).start_span
            )
            self._provider = provider
        return self._start


OURS: Final = TracerSource(names.SCOPE, VERSION)

# The public getter costs more than the rest of an unrecorded call while no provider is set, so the
# global is read where it lies; a test holds it there.
_asked = False


def _unset_provider() -> TracerProvider | None:
    global _asked
    if not _asked:
        # OTEL_PYTHON_TRACER_PROVIDER makes the first question load a provider.
        _asked = True
        api.get_tracer_provider()
    return api._TRACER_PROVIDER


def abandon(span: Span) -> None:
    """End a span that could not be made a call's."""
    try:
        span.end()
    except Exception:  # said already, of what went wrong first
        pass


def error_on(span: Span) -> str | None:
    """The description of an ERROR that somebody else put on ``span``, else None."""
    status = getattr(span, "status", None)
    return (status.description or "") if status is not None and status.status_code is _ERROR else None


def _payload_limit(span: Span) -> int:
    limit = settings.payload_limit
    own = getattr(getattr(span, "_limits", None), "max_span_attribute_length", None)
    return limit if own is None else min(limit, own)


def items_attributes(span: Span, key: str, items: list[str], size: int, earlier: int) -> dict[str, Any]:
    """What a generator yielded, as one JSON list of as many ``items`` as fit.

    Args:
        items: JSON texts.
        size: of all that was yielded, in bytes.
        earlier: as for `payload_attributes`.
    """
    room = _payload_limit(span) - 2
    kept: list[str] = []
    for item in items:
        room -= len(item.encode()) + 1
        if room < -1:  # the last one has no comma
            break
        kept.append(item)
    json = f"[{','.join(kept)}]"
    if len(json) < size:
        return {key: json, names.TRUNCATED_BYTES: max(size, earlier)}
    return {key: json}


def payload_attributes(span: Span, key: str, value: object, earlier: int = 0) -> dict[str, Any]:
    """``value`` under ``key`` as a JSON string that parses, with its original size where it was cut.

    Args:
        span: whose own limits hold.
        earlier: original size of another payload of the same span, in bytes; the larger is told.
    """
    limit = _payload_limit(span)
    if limit < LEAST_PAYLOAD:
        return {}
    json, cut = payload(value, limit, settings.redactor)
    return {key: json} if cut is None else {key: json, names.TRUNCATED_BYTES: max(cut, earlier)}


def enrich(span: Span, attributes: Mapping[str, Any]) -> None:
    """Add attributes to a span, ours or a framework's."""
    span.set_attributes(attributes)


def ended_ok(span: Span) -> bool:
    """Write the verdict of a call of which there is nothing to say, and end its span.

    Returns:
        False where somebody put ERROR on the span: then nothing was done.
    """
    status = getattr(span, "status", None)
    if status is not None and status.status_code is _ERROR:
        return False
    span.set_attribute(names.OUTCOME, "ok")
    span.end()
    return True


def finish(
    span: Span, verdict: Verdict, level: int, extra: Mapping[str, Any] | None, exception: BaseException | None
) -> None:
    """Write ``verdict`` on ``span``; ending it is the caller's.

    Args:
        level: the capture level in force.
        extra: attributes that upper floors add, written with the verdict's.
        exception: what escaped from the tool; adds the ``exception`` event where outcome is error.
    """
    outcome = verdict.outcome
    written: dict[str, Any] = {**extra} if extra else {}
    if outcome is Outcome.ERROR or outcome is Outcome.WARNING:
        _describe(span, verdict, level, written)
    elif outcome is Outcome.NOT_EXECUTED and verdict.detail and level != NONE:
        written[names.NOT_EXECUTED_REASON] = safe_text(verdict.detail, DETAIL_LIMIT, settings.redactor)
    # Last, because an SDK that holds few attributes drops the oldest.
    written[names.OUTCOME] = _OUTCOMES[outcome]
    if exception is not None and outcome is not Outcome.ERROR:
        _clean_description(span, level)
    span.set_attributes(written)
    if exception is not None and outcome is Outcome.ERROR:
        record_exception(span, exception, level)


def _clean_description(span: Span, level: int) -> None:
    """What the body itself put on its span as an ERROR passes the same gate as our own text."""
    description = error_on(span)
    if description:
        clean = safe_text(description, DESCRIPTION_LIMIT, settings.redactor) if level != NONE else ""
        span.set_status(Status(_ERROR, clean or "span_error"))


def _describe(span: Span, verdict: Verdict, level: int, written: dict[str, Any]) -> None:
    code = verdict.code or "unspecified"
    value = _TYPES[verdict.error_type or ErrorType.TOOL_DECLARED]
    detail = verdict.detail
    detail = safe_text(detail, DETAIL_LIMIT, settings.redactor) if detail and level != NONE else None
    if detail:
        written[names.ERROR_DETAIL] = detail
    if verdict.http_status is not None:
        written[names.HTTP_STATUS] = verdict.http_status
    if verdict.outcome is Outcome.WARNING:
        written[names.WARNING_TYPE] = code
        if detail:
            written[names.WARNING_MESSAGE] = detail
        written[names.ERROR_CODE] = code
        written[names.ERROR_TYPE] = value
        return
    written[names.SEMCONV_ERROR_TYPE] = value
    written[names.ERROR_CODE] = code
    written[names.ERROR_TYPE] = value
    if verdict.retryable is not None:
        written[names.RETRYABLE] = verdict.retryable
    if detail and len(detail) > DESCRIPTION_LIMIT // 4:
        detail = text(detail, DESCRIPTION_LIMIT)
    span.set_status(Status(_ERROR, detail or code))


def attempt_failed(
    span: Span, verdict: Verdict, number: int, delay: float | None, floor: float | None
) -> None:
    """Add the event of a failed attempt.

    Args:
        number: counts from 1.
        delay: seconds until the next attempt; None: there is none.
        floor: seconds that the service asked to wait.
    """
    attributes: dict[str, Any] = {
        names.ATTEMPT_NUMBER: number,
        names.ERROR_TYPE: _TYPES[verdict.error_type or ErrorType.TOOL_DECLARED],
        names.ERROR_CODE: verdict.code or "unspecified",
    }
    if delay is not None:
        attributes[names.RETRY_DELAY] = delay
    if floor is not None:
        attributes[names.RETRY_AFTER] = floor
    span.add_event(names.ATTEMPT_EVENT, attributes)


def circuit_changed(span: Span, name: str, state: str) -> None:
    """Add the event of a circuit that this call opened, probed or closed."""
    span.add_event(names.CIRCUIT_EVENT, {names.CIRCUIT_NAME: name, names.CIRCUIT_STATE: state})


def attempt_again(span: Span) -> None:
    """Forget the ERROR that a failed attempt's body put on its span; the SDK has no way to take it back."""
    if error_on(span) is not None:
        span._status = Status(StatusCode.UNSET)  # type: ignore[attr-defined]


def hold(span: Span, *, exception: bool) -> None:
    """Keep the ERROR on a framework's span until the framework ends it.

    Frameworks close a tool span with OK, which is final, or with an ERROR without a description, once they
    have an answer for the model.

    Args:
        exception: the ``exception`` event is on the span, and one is enough.
    """
    try:
        span.set_status = _held  # type: ignore[method-assign]
        if exception:
            span.record_exception = _held  # type: ignore[method-assign]
    except AttributeError:  # a span of another SDK, with slots
        pass


def _held(*args: object, **kwargs: object) -> None:
    """In place of what would say again, or take back, what is said already."""


def record_exception(span: Span, exception: BaseException, level: int) -> None:
    """Add the ``exception`` event, unless the tool or its framework already did."""
    kind = exception_type(exception)
    for event in getattr(span, "events", ()):
        if event.name == names.EXCEPTION_EVENT and (event.attributes or {}).get(names.EXCEPTION_TYPE) == kind:
            return
    attributes = {names.EXCEPTION_TYPE: kind}
    if level != NONE:
        attributes[names.EXCEPTION_MESSAGE] = safe_text(exception, MESSAGE_LIMIT, settings.redactor)
        attributes[names.EXCEPTION_STACKTRACE] = stack(exception, STACK_LIMIT, settings.redactor)
    span.add_event(names.EXCEPTION_EVENT, attributes)


def fail(span: Span, exception: BaseException, level: int) -> None:
    """Mark a span that is not a tool's as failed by ``exception``, unless somebody said more already."""
    if error_on(span) is None:
        kind = exception_type(exception)
        detail = safe_text(exception, DESCRIPTION_LIMIT, settings.redactor) if level != NONE else ""
        span.set_status(Status(_ERROR, detail or kind))
    record_exception(span, exception, level)
