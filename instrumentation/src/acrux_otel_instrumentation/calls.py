# SPDX-License-Identifier: Apache-2.0
"""Runs a framework's own function as one tool call, without ever raising into the framework.

A framework module says how to open the call from the arguments of the function (`Opening`), and, where the
seam cannot tell by itself, what its result or exception means (`Ended`, `Failed`).
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable, Mapping
from typing import Any

from opentelemetry.trace import Span, TracerProvider, get_current_span

from acrux_otel import ToolDefinition, Verdict
from acrux_otel.seam import Call, TracerSource, classify_arguments, current_call, open_call
from acrux_otel_instrumentation.definitions import Definitions
from acrux_otel_instrumentation.version import VERSION

__all__ = [
    "Ended",
    "Failed",
    "Framework",
    "Opening",
    "binding_error",
    "body_entered",
    "changed",
    "declared_error",
    "given",
    "passed_through",
    "swallowing",
    "tolerant",
    "unwrapping",
]

_log = logging.getLogger("acrux_otel")

Opening = Callable[..., "Call | None"]
Ended = Callable[[Call, Any], "Verdict | None"]
Failed = Callable[[Call, BaseException], "Verdict | BaseException | None"]


class Framework:
    """What all tool calls of one framework have in common.

    Args:
        name: of our module; part of the scope of the spans.
        scopes: how the instrumentation scopes of the framework's own spans begin.
        layered: whether one call passes through more than one watched function of it.

    Attributes:
        on: whether calls are recorded.
        tracer_provider: instead of the one in force.
        definitions: of its tools.
    """

    def __init__(self, name: str, scopes: tuple[str, ...] = (), *, layered: bool = True) -> None:
        self.name = name
        self.on = False
        self.tracer_provider: TracerProvider | None = None
        self.definitions = Definitions()
        self._source = TracerSource(f"acrux_otel_instrumentation.{name}", VERSION)
        self._scopes = scopes
        self._layered = layered

    def open(self, definition: ToolDefinition, **known: Any) -> Call:
        """Open a call, on the framework's own span if there is one; ``known`` is for `open_call`."""
        if "span" not in known:
            known["span"] = self.own_span(definition.name)
        return open_call(
            definition,
            source=self._source,
            layered=self._layered,
            tracer_provider=self.tracer_provider,
            **known,
        )

    def record(
        self, name: str, verdict: Verdict, *, definition: ToolDefinition | None = None, **known: Any
    ) -> None:
        """Record a call whose body did not run, such as one of an unknown tool."""
        if not self.on:
            return
        try:
            if definition is None:
                definition, known["catalogued"] = self.definitions.named(name), False
            call = self.open(definition, **known)
            call.executed = False
            call.declared(verdict)
        except Exception as error:
            _unknown_shape(self, error)

    def own_span(self, tool: str) -> Span | None:
        """The framework's own span of a call of ``tool``, if it is current and nobody writes on it yet."""
        if not self._scopes:
            return None
        span = get_current_span()
        scope = getattr(span, "instrumentation_scope", None)
        if scope is None or not scope.name.startswith(self._scopes) or not span.is_recording():
            return None
        outer = current_call()
        if outer is not None and outer.span is span:
            return None
        named = (getattr(span, "attributes", None) or {}).get("gen_ai.tool.name")
        if named is None:
            return span if str(getattr(span, "name", "")).endswith(f" {tool}") else None
        return span if named == tool else None

    def observed(
        self, opening: Opening, ended: Ended | None = None, failed: Failed | None = None
    ) -> Callable[[Any], Any]:
        """A patch: the function runs as the tool call that ``opening`` opens.

        Args:
            opening: takes what the function is called with; None means that this is no tool call.
            ended: takes the call and the function's result; a verdict is what the framework says of it.
            failed: takes the call and what the function raised; a verdict is what that means, an exception
                what to judge in its place.
        """

        def patch(original: Any) -> Any:
            if inspect.iscoroutinefunction(original):

                async def ahook(*args: Any, **kwargs: Any) -> Any:
                    call = self._begin(opening, args, kwargs) if self.on else None
                    if call is None:
                        return await original(*args, **kwargs)
                    try:
                        result = await original(*args, **kwargs)
                    except BaseException as exc:
                        self._failed(call, failed, exc)
                        raise
                    return self._ended(call, ended, result)

                return functools.wraps(original)(ahook)

            def hook(*args: Any, **kwargs: Any) -> Any:
                call = self._begin(opening, args, kwargs) if self.on else None
                if call is None:
                    return original(*args, **kwargs)
                try:
                    result = original(*args, **kwargs)
                except BaseException as exc:
                    self._failed(call, failed, exc)
                    raise
                return self._ended(call, ended, result)

            return functools.wraps(original)(hook)

        return patch

    def _begin(self, opening: Opening, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call | None:
        try:
            return opening(*args, **kwargs)
        except Exception as error:
            _unknown_shape(self, error)
        try:
            # What is left to say: that a tool of this name was called.
            name = next((each.name for each in (*args, *kwargs.values()) if _is_named(each)), None)
            return None if name is None else self.open(self.definitions.named(name), catalogued=False)
        except Exception:
            return None

    def _ended(self, call: Call, ended: Ended | None, result: Any) -> Any:
        if ended is not None:
            try:
                verdict = ended(call, result)
                if verdict is not None:
                    call.declare(verdict)
            except Exception as error:
                _unknown_shape(self, error)
        return call.ok(result)

    def _failed(self, call: Call, failed: Failed | None, exc: BaseException) -> None:
        meaning: Verdict | BaseException | None = None
        if _is_ours(exc) and call.recorded is not None:
            # A declared error in the framework's own words: nothing was raised by the tool.
            call.declared(call.recorded)
            return
        if failed is not None:
            try:
                meaning = failed(call, exc)
            except Exception as error:
                _unknown_shape(self, error)
        if isinstance(meaning, BaseException):
            call.raised(meaning)
        else:
            call.raised(exc, meaning)


def _is_named(thing: Any) -> bool:
    return isinstance(getattr(thing, "name", None), str)


def _unknown_shape(framework: Framework, error: BaseException) -> None:
    _log.debug("a tool call of %s has an unknown shape (%s)", framework.name, type(error).__name__)


def declared_error(kind: type[Exception], call: Call) -> Exception:
    """The framework's own exception for the error that ``call`` declared, where its result does not fit."""
    declared = call.recorded
    made = kind((declared.detail or declared.code) if declared is not None else "the tool failed")
    made.__acrux_declared__ = True  # type: ignore[attr-defined]
    return made


def _is_ours(exc: BaseException) -> bool:
    return any(getattr(each, "__acrux_declared__", False) for each in (exc, exc.__cause__))


_Args = tuple[Any, ...]


def given(args: _Args, kwargs: Mapping[str, Any], position: int, name: str) -> Any:
    """An argument, however it was passed; None where it is not there."""
    return args[position] if len(args) > position else kwargs.get(name)


def changed(
    args: _Args, kwargs: dict[str, Any], position: int, name: str, value: Any
) -> tuple[_Args, dict[str, Any]]:
    """The arguments with another ``value`` for the one that was passed by position or by name."""
    if len(args) > position:
        return (*args[:position], value, *args[position + 1 :]), kwargs
    return args, {**kwargs, name: value}


def tolerant(look: Callable[..., Any]) -> Callable[[Any], Any]:
    """A patch: ``look`` sees what the function is called with, before it is.

    Args:
        look: takes the arguments; what it raises is ignored. It may return a pair ``(args, kwargs)`` to
            call the function with.
    """

    def patch(original: Any) -> Any:
        def seen(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
            try:
                return look(*args, **kwargs) or (args, kwargs)
            except Exception as error:
                _log.debug("%s has an unknown shape (%s)", original, type(error).__name__)
                return args, kwargs

        if inspect.iscoroutinefunction(original):

            async def ahook(*args: Any, **kwargs: Any) -> Any:
                args, kwargs = seen(args, kwargs)
                return await original(*args, **kwargs)

            return functools.wraps(original)(ahook)

        def hook(*args: Any, **kwargs: Any) -> Any:
            args, kwargs = seen(args, kwargs)
            return original(*args, **kwargs)

        return functools.wraps(original)(hook)

    return patch


def swallowing(parameter: int | str, meaning: Callable[[BaseException], Verdict | None] | None = None) -> Any:
    """A patch for the function that gets an exception to make an answer for the model of it.

    Args:
        parameter: where the exception is among its arguments.
        meaning: what the exception means, where its type does not tell.
    """

    def look(*args: Any, **kwargs: Any) -> None:
        call = current_call()
        exc = kwargs.get(parameter) if isinstance(parameter, str) else args[parameter]
        if call is not None and isinstance(exc, BaseException):
            call.swallowed(exc, meaning(exc) if meaning is not None else None)

    return tolerant(look)


def unwrapping(parameter: int | str) -> Any:
    """A patch for the function that a tool's plain result passes through: a `ToolResult` is unwrapped."""

    def look(*args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        call = current_call()
        if call is None:
            return None
        if isinstance(parameter, str) and parameter in kwargs:
            return args, {**kwargs, parameter: call.unwrapped(kwargs[parameter])}
        if isinstance(parameter, int) and len(args) > parameter:
            return changed(args, kwargs, parameter, "", call.unwrapped(args[parameter]))
        return None

    return tolerant(look)


def passed_through(exc: BaseException, *functions: str) -> bool:
    """Whether ``exc`` came out of one of the functions of these names, by its traceback."""
    trace = exc.__traceback__
    for _ in range(1000):
        if trace is None:
            return False
        if trace.tb_frame.f_code.co_name in functions:
            return True
        trace = trace.tb_next
    return False


def body_entered(exc: BaseException, function: Any) -> bool | None:
    """Whether ``exc`` came out of the body of ``function``; None where that cannot be told."""
    code, trace = getattr(inspect.unwrap(function), "__code__", None), exc.__traceback__
    if code is None:
        return None
    while trace is not None:
        if trace.tb_frame.f_code is code:
            return True
        trace = trace.tb_next
    return False


def binding_error(exc: BaseException, function: Any, arguments: Mapping[str, Any]) -> Verdict | None:
    """The verdict on a TypeError that the call of ``function`` itself raised, before its body ran."""
    if not isinstance(exc, TypeError) or function is None or body_entered(exc, function):
        return None
    function = inspect.unwrap(function)
    try:
        inspect.signature(function).bind(**arguments)
    except TypeError:
        return classify_arguments(exc)
    except ValueError:  # a builtin without a signature
        return None
    return None
