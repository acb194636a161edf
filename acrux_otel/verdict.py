# SPDX-License-Identifier: Apache-2.0
"""What is known about one tool call, as plain values. Imports nothing of OpenTelemetry."""

from __future__ import annotations

import dataclasses
import enum
import logging
import re
from typing import Any, Final, Generic, NamedTuple, TypeVar

T = TypeVar("T")
V = TypeVar("V", covariant=True)

__all__ = ["ErrorType", "Outcome", "ToolCallResult", "ToolResult", "Verdict", "slug", "warn_once"]

_log = logging.getLogger("acrux_otel")
_SLUG: Final = re.compile(r"[a-z0-9_]+\Z").match
_slugs: set[str] = set()
_warned: set[str] = set()


class Outcome(str, enum.Enum):
    """How a call ended."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"
    CLOSED = "closed"
    NOT_EXECUTED = "not_executed"

    def __str__(self) -> str:
        return self.value


class ErrorType(str, enum.Enum):
    """Which kind of check caught a failure. The list is closed."""

    TRANSPORT = "transport"
    HTTP_STATUS = "http_status"
    TOOL_DECLARED = "tool_declared"
    SCHEMA_MISMATCH = "schema_mismatch"
    TRANSFORM = "transform"
    PROVIDER_ERROR = "provider_error"

    def __str__(self) -> str:
        return self.value


class Verdict(NamedTuple):
    """What is known about one call.

    Attributes:
        outcome: how the call ended.
        error_type: which check caught it; set exactly for ``error`` and ``warning``.
        code: the owner's slug, ``[a-z0-9_]+``; set exactly when ``error_type`` is.
        detail: text for a person, or the reason of ``not_executed``.
        retryable: whether the same call may succeed later; None when not known.
        http_status: a typed HTTP status, 100-599.
        retry_after: seconds that the service asked to wait.
    """

    outcome: Outcome
    error_type: ErrorType | None = None
    code: str | None = None
    detail: str | None = None
    retryable: bool | None = None
    http_status: int | None = None
    retry_after: float | None = None


@dataclasses.dataclass(frozen=True)
class ToolCallResult(Generic[V]):
    """One answered call: ``value`` is what the caller of the tool would have got."""

    id: str | None
    name: str
    value: V
    verdict: Verdict
    executed: bool = True


class _Omitted(enum.Enum):
    """No result was given. A member of an enum stays itself when it is copied or pickled."""

    YES = 0


_OMITTED: Final[Any] = _Omitted.YES
_new: Final = tuple.__new__


class ToolResult:
    """A tool's own verdict beside its result; make one with :meth:`error` or :meth:`warn`.

    The decorated function hands ``.result`` to its caller. The two constructors are typed to fit
    any return annotation, because people annotate what the model sees.
    """

    __slots__ = ("_result", "code", "message", "outcome")

    outcome: Outcome
    code: str
    message: str

    def __init__(self, outcome: Outcome, code: object, message: object, result: object = _OMITTED) -> None:
        # Made by `error` and `warn`; whatever else is asked for fails, which is the safe side.
        self.outcome = Outcome.WARNING if outcome in (Outcome.WARNING, "warn") else Outcome.ERROR
        self.code = slug(code)
        self.message = message if type(message) is str else _as_text(message)
        self._result = result

    @staticmethod
    def error(code: str, message: str, result: object = _OMITTED) -> T:  # type: ignore[type-var]
        """Declare that the call failed.

        Args:
            code: the owner's slug, such as ``location_not_found``.
            message: text for a person.
            result: what the model sees; omitted, it is ``{"error": message}``, or the message itself
                where the tool is annotated ``-> str``.

        Returns:
            A `ToolResult`, typed as whatever the tool returns. Kept in a variable first, it needs an
            annotation: ``failed: Any = ToolResult.error(...)``.
        """
        return ToolResult(Outcome.ERROR, code, message, result)  # type: ignore[return-value]

    @staticmethod
    def warn(code: str, message: str, result: object = _OMITTED) -> T:  # type: ignore[type-var]
        """Declare that the call worked and deserves a look; arguments as for :meth:`error`.

        ``result`` omitted means ``{"warning": message}``.
        """
        return ToolResult(Outcome.WARNING, code, message, result)  # type: ignore[return-value]

    @property
    def result(self) -> Any:
        """What the model sees."""
        return self.result_for(text=False)

    def result_for(self, *, text: bool) -> Any:
        """What the model sees from a tool annotated ``-> str`` (``text``) or otherwise."""
        if self._result is not _OMITTED:
            return self._result
        if text:
            return self.message
        return {"error" if self.outcome is Outcome.ERROR else "warning": self.message}

    @property
    def verdict(self) -> Verdict:
        # What Verdict(...) does, at a third of its cost.
        return _new(
            Verdict, (self.outcome, ErrorType.TOOL_DECLARED, self.code, self.message, None, None, None)
        )

    def __repr__(self) -> str:
        kind = "error" if self.outcome is Outcome.ERROR else "warn"
        return f"ToolResult.{kind}({self.code!r}, {self.message!r})"


def slug(code: object) -> str:
    """``code`` as an errorCode, ``[a-z0-9_]+``; warns once for each code that had to be changed.

    Never raises: a bad code must not fail the tool that declared it.
    """
    if type(code) is str and code in _slugs:
        return code
    if type(code) is str and len(code) <= 64 and _SLUG(code):
        if len(_slugs) < 1024:
            _slugs.add(code)
        return code
    text = _as_text(code)[:256]
    made = re.sub(r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text).lower()).strip("_")
    made = made[:64].rstrip("_") or "unspecified"
    warn_once(
        f"slug:{made}",
        "an errorCode is not a slug ([a-z0-9_]+, at most 64 characters); recorded as %r",
        made,
    )
    return made


def warn_once(problem: str, message: str, *args: object) -> None:
    """Log a warning, once for each kind of ``problem`` in this process."""
    if problem in _warned:
        return
    if len(_warned) < 1000:  # what a program feeds us must not grow without bound
        _warned.add(problem)
    _log.warning(message, *args)


def _as_text(value: object) -> str:
    try:
        return str(value)
    except Exception:
        return f"<{type(value).__name__}>"
