# SPDX-License-Identifier: Apache-2.0
"""From an exception, or a framework's own error result, to a `Verdict`.

Types and typed attributes decide, never prose; what they mean is data in `rules`. Imports that,
`.evidence`, `.declared` and `.verdict`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, Literal, NamedTuple

from acrux_otel.classify.evidence import (
    cause_of,
    code_of,
    cut,
    dotted,
    http_status,
    members,
    message_of,
    seconds,
    status_of,
)
from acrux_otel.classify.rules import ENDINGS, GROUPS, Rule, error, http_error, rule_of
from acrux_otel.verdict import ErrorType, Outcome, Verdict, slug, warn_once

__all__ = [
    "circuit_open",
    "classify",
    "classify_arguments",
    "code_of",
    "invalid_result",
    "malformed_arguments",
    "not_executed",
    "policy_denied",
    "register_classifier",
    "unknown_tool",
]

_LINKS: Final = 256  # exceptions looked at for one verdict; also what ends a cycle
_DEPTH: Final = 16  # groups within groups
_TYPES: Final = 1024  # types remembered


# The table's order, for groups.
_RANK: Final[dict[ErrorType | None, int]] = {
    ErrorType.SCHEMA_MISMATCH: 0,
    ErrorType.HTTP_STATUS: 1,
    ErrorType.TRANSPORT: 2,
    ErrorType.PROVIDER_ERROR: 3,
    ErrorType.TRANSFORM: 4,
    ErrorType.TOOL_DECLARED: 5,
}
_FELL_BACK: Final = 8
_ENDED: Final = 9


# ---- what is remembered of a type --------------------------------------------------------------------

Classifier = Callable[[BaseException], "Verdict | None"]
_classifiers: dict[type | str, Classifier] = {}


class _Facts(NamedTuple):
    rule: Rule | None
    code: str
    ending: Outcome | None
    group: bool
    classifiers: tuple[Classifier, ...]


_facts_of: dict[type, _Facts] = {}


def _facts(kind: type) -> _Facts:
    """What the tables say of ``kind``, by its MRO."""
    known = _facts_of  # replaced, not cleared, when a classifier is registered meanwhile
    try:
        found = known.get(kind)
        if found is None:
            found = _look_up(kind)
            if len(known) >= _TYPES:
                known.clear()
            known[kind] = found
    except Exception:  # a metaclass that cannot be hashed
        return _look_up(kind)
    return found


def _look_up(kind: type) -> _Facts:
    ending: Outcome | None = None
    group = False
    classifiers: list[Classifier] = []
    for base in kind.__mro__:
        name = dotted(base)
        ending = ending or ENDINGS.get(name)
        group = group or name in GROUPS
        classifiers += [fn for key in (base, name) if (fn := _registered(key)) is not None]
    return _Facts(rule_of(kind), code_of(kind.__name__), ending, group, tuple(classifiers))


def _registered(key: type | str) -> Classifier | None:
    try:
        return _classifiers.get(key)
    except TypeError:  # not hashable, so never registered
        return None


# ---- the verdict -------------------------------------------------------------------------------------


def _read(exc: BaseException, facts: _Facts) -> Verdict | None:
    """What this one exception means; None: nothing but its class is known."""
    for classifier in facts.classifiers:
        if (verdict := _asked(classifier, exc)) is not None:
            return verdict
    rule = facts.rule
    if rule is not None and rule.before_status:
        return rule.read(exc, rule) if rule.read else _by_rule(rule, facts)
    status = status_of(exc)
    if status >= 400:
        return http_error(exc, status)
    if rule is not None:
        verdict = rule.read(exc, rule) if rule.read else _by_rule(rule, facts)
        if verdict is not None:
            return verdict
    # a status that is no error's says little: whatever the class says goes first
    return http_error(exc, status) if status else None


def _by_rule(rule: Rule, facts: _Facts) -> Verdict:
    return error(rule.error_type, rule.code or facts.code, rule.retryable)


class _Walk:
    """From the outermost exception inwards, along causes and through groups, for one verdict."""

    __slots__ = ("control_flow", "left")

    def __init__(self, control_flow: tuple[type[BaseException], ...]) -> None:
        self.control_flow = control_flow
        self.left = _LINKS

    def judge(self, head: BaseException, depth: int = 0) -> tuple[int, Verdict]:
        """Rank and verdict; the detail is always the message of ``head``, or of a group's member."""
        self.left -= 1
        facts = _facts(type(head))
        if self.control_flow and isinstance(head, self.control_flow):
            return _ENDED, Verdict(Outcome.INTERRUPTED)
        if facts.ending is not None:
            return _ENDED, Verdict(facts.ending)
        link: BaseException | None = head
        fallback: Verdict | None = None
        while link is not None and self.left >= 0:
            found = _read(link, facts) if facts.ending is None else None
            if found is not None:
                return _RANK.get(found.error_type, _ENDED), _detailed(found, head)
            if facts.group and depth < _DEPTH:
                rank, member = self.judge_group(link, depth + 1)
                if rank < _FELL_BACK:
                    return rank, member if link is head else _detailed(member._replace(detail=None), head)
                if link is head:
                    if rank == _ENDED:
                        return rank, member
                    fallback = member
            link = cause_of(link)
            if link is not None:
                self.left -= 1
                facts = _facts(type(link))
        return _FELL_BACK, fallback or _fallback(head)

    def judge_group(self, group: BaseException, depth: int) -> tuple[int, Verdict]:
        """The member that ranks first; retryable only if every member is."""
        judged: list[tuple[int, Verdict]] = []
        complete = True
        for member in members(group):
            if self.left <= 0:
                complete = False
                break
            judged.append(self.judge(member, depth))
        failed = [pair for pair in judged if pair[0] != _ENDED]
        if not failed:
            if not judged:
                return _FELL_BACK, _fallback(group)
            outcomes = {verdict.outcome for _, verdict in judged}
            for outcome in (Outcome.INTERRUPTED, Outcome.CANCELLED):
                if outcome in outcomes:
                    return _ENDED, Verdict(outcome)
            return judged[0]
        rank, verdict = min(failed, key=lambda pair: pair[0])
        answers = {other.retryable for _, other in failed}
        if answers != {True} or not complete:
            verdict = verdict._replace(retryable=False if False in answers else None)
        return rank, verdict


def _fallback(exc: BaseException) -> Verdict:
    code = _facts(type(exc)).code
    return Verdict(Outcome.ERROR, ErrorType.TOOL_DECLARED, code, message_of(exc))


def _detailed(found: Verdict, exc: BaseException) -> Verdict:
    outcome, error_type, code, detail, retryable, status, retry_after = found
    if detail is None and outcome is Outcome.ERROR:
        detail = message_of(exc)
    return Verdict(outcome, error_type, code, detail, retryable, status, retry_after)


def classify(exc: BaseException, *, control_flow: tuple[type[BaseException], ...] = ()) -> Verdict:
    """What an exception that escaped a tool's body means.

    Types and typed attributes decide; text never does. The search goes inwards along ``__cause__`` and
    through exception groups, bounded; the exception itself is left as it is.

    Args:
        exc: the exception.
        control_flow: types that the tool raises to pause or hand over.

    Returns:
        ``interrupted`` for control flow, ``cancelled`` or ``closed`` for an ended call, else ``error``.
        ``retry_after`` is the ``Retry-After`` header in seconds, from 0 to a day (more is cut to a day);
        None where it is absent or not understood. ``detail`` is the exception's own message, at most
        1,024 bytes, or its class name where the message is empty or raises. Never raises.
    """
    try:
        return _Walk(control_flow).judge(exc)[1]
    except Exception:
        warn_once("classify", "%s could not be classified; recorded by its class name", type(exc).__name__)
        return Verdict(Outcome.ERROR, ErrorType.TOOL_DECLARED, code_of(type(exc).__name__), message_of(exc))


_NOT_JSON: Final = frozenset(("json.decoder.JSONDecodeError", "simplejson.errors.JSONDecodeError"))


def classify_arguments(exc: BaseException) -> Verdict:
    """What an exception means that was raised while arguments were bound or validated.

    Args:
        exc: the exception; the body must not have run.

    Returns:
        ``schema_mismatch``: ``malformed_arguments`` for text that is no JSON, else ``invalid_arguments``.
        A cancellation stays one. Never raises.
    """
    try:
        facts = _facts(type(exc))
        if facts.ending is not None:
            return Verdict(facts.ending)
        malformed = any(dotted(base) in _NOT_JSON for base in type(exc).__mro__) or _is_json_invalid(exc)
    except Exception:
        malformed = False
    return _mismatch("malformed_arguments" if malformed else "invalid_arguments", message_of(exc))


def _is_json_invalid(exc: BaseException) -> bool:
    """pydantic reports text that is no JSON as one error of this type."""
    if dotted(type(exc)) != "pydantic_core._pydantic_core.ValidationError":
        return False
    errors = exc.errors(include_url=False, include_context=False, include_input=False)  # type: ignore[attr-defined]
    return bool(errors) and errors[0].get("type") == "json_invalid"


def _mismatch(code: str, detail: str) -> Verdict:
    return Verdict(Outcome.ERROR, ErrorType.SCHEMA_MISMATCH, code, detail, False)


def _given(text: object, otherwise: str) -> str:
    try:
        return cut(text if type(text) is str else str(text)) or otherwise
    except Exception:
        return otherwise


def unknown_tool(name: str) -> Verdict:
    """A call of a tool that does not exist."""
    return _mismatch("unknown_tool", cut(f"no tool is named {_given(name, '')[:256]!r}"))


def malformed_arguments(detail: str) -> Verdict:
    """A call whose argument text is no JSON object."""
    return _mismatch("malformed_arguments", _given(detail, "the arguments are not valid JSON"))


def circuit_open(detail: str) -> Verdict:
    """A call that the circuit breaker refused."""
    return Verdict(Outcome.ERROR, ErrorType.TRANSPORT, "circuit_open", _given(detail, "the circuit is open"))


def policy_denied(detail: str) -> Verdict:
    """A call that a policy refused."""
    detail = _given(detail, "denied by policy")
    return Verdict(Outcome.ERROR, ErrorType.TOOL_DECLARED, "policy_denied", detail, False)


def not_executed(reason: str) -> Verdict:
    """A call whose body did not run, for ``reason``."""
    return Verdict(Outcome.NOT_EXECUTED, detail=_given(reason, "not executed"))


def invalid_result(detail: str, severity: Literal["warn", "error"]) -> Verdict:
    """A result that does not match the schema enforced on it.

    Args:
        detail: what does not match.
        severity: ``error``, or ``warn`` for a warning.
    """
    detail = _given(detail, "the result does not match its schema")
    if severity == "error":
        return _mismatch("invalid_result", detail)
    return Verdict(Outcome.WARNING, ErrorType.SCHEMA_MISMATCH, "invalid_result", detail)


# ---- a user's own rules ------------------------------------------------------------------------------


def register_classifier(type_or_dotted_name: type[BaseException] | str, fn: Classifier) -> None:
    """Add a rule for one exception class and its subclasses, asked before the table.

    Args:
        type_or_dotted_name: the class, or its dotted name (``redis.exceptions.ConnectionError``), which
            spares the import. The most derived class is asked first; a later rule for the same class
            replaces the earlier one.
        fn: takes the exception; returns its `Verdict`, or None to leave it to the next rule. The outcome
            must be ``error`` with an errorType and an errorCode, ``interrupted``, ``cancelled`` or
            ``closed``. Without a detail, the exception's message is taken. A function that raises or
            returns anything else is passed over, with one warning.

    Raises:
        TypeError: an argument is neither.
    """
    global _facts_of
    key: type | str = type_or_dotted_name
    if isinstance(key, str):
        if not re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*|\.<locals>)+", key):
            raise TypeError(
                f"register_classifier: {key!r} is no dotted class name; "
                "give the full path, such as 'redis.exceptions.ConnectionError'"
            )
    elif not (isinstance(key, type) and issubclass(key, BaseException)):
        raise TypeError(
            f"register_classifier: expected an exception class or its dotted name, got {_shown(key)}"
        )
    if not callable(fn):
        raise TypeError(
            "register_classifier: expected a function from an exception to a Verdict or None, "
            f"got {_shown(fn)}"
        )
    _classifiers[key] = fn
    _facts_of = {}


def _shown(value: object) -> str:
    try:
        return repr(value)[:80]
    except Exception:
        return f"<{type(value).__name__}>"


def _asked(classifier: Classifier, exc: BaseException) -> Verdict | None:
    """The classifier's verdict, brought into order; None where it has none or none that can be used."""
    try:
        verdict = classifier(exc)
    except Exception as problem:
        warn_once(
            f"classifier:{id(classifier)}:raised",
            "the classifier registered for %s raised %s; it is passed over",
            type(exc).__name__,
            type(problem).__name__,
        )
        return None
    if verdict is None:
        return None
    if isinstance(verdict, Verdict):
        if verdict.outcome in (Outcome.INTERRUPTED, Outcome.CANCELLED, Outcome.CLOSED):
            return Verdict(Outcome(verdict.outcome))
        if verdict.outcome == Outcome.ERROR and verdict.error_type in _RANK and verdict.code is not None:
            return _in_order(verdict)
    warn_once(
        f"classifier:{id(classifier)}:returned",
        "the classifier registered for %s returned %s; expected None or a Verdict with outcome error, "
        "errorType and errorCode, or with outcome interrupted, cancelled or closed; it is passed over",
        type(exc).__name__,
        _shown(verdict),
    )
    return None


def _in_order(given: Verdict) -> Verdict:
    return Verdict(
        Outcome.ERROR,
        ErrorType(given.error_type),
        slug(given.code),
        None if given.detail is None else _given(given.detail, "") or None,
        given.retryable if type(given.retryable) is bool else None,
        http_status(given.http_status) or None,
        seconds(given.retry_after),
    )
