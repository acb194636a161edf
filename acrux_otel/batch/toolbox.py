# SPDX-License-Identifier: Apache-2.0
"""The tools that the calls of a turn may reach: what the caller handed in, made ready to run."""

from __future__ import annotations

import functools
import inspect
import os
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from acrux_otel import drive
from acrux_otel.batch import arguments
from acrux_otel.batch.calls import ToolCall
from acrux_otel.definition import ToolDefinition, define, definition_of
from acrux_otel.definition.callables import called
from acrux_otel.definition.signature import returns_text, underlying
from acrux_otel.seam import ToolSite
from acrux_otel.settings import settings
from acrux_otel.tool import tool, tool_of

__all__ = ["Runnable", "Toolbox"]

_NOTHING: Final[Mapping[str, Any]] = {}


class Runnable:
    """One tool as the runner needs it.

    Attributes:
        run: answers with a `ToolCallResult`, or raises what the tool raised.
        is_async: whether ``run`` is a coroutine function.
        writes: annotated ``read_only=False`` or ``destructive=True``.
        injected: what the program fills in, by parameter.
    """

    __slots__ = ("definition", "injected", "is_async", "run", "site", "writes")

    def __init__(
        self,
        run: Callable[..., Any],
        definition: ToolDefinition,
        site: ToolSite,
        injected: Mapping[str, Any] = _NOTHING,
        *,
        is_async: bool,
    ) -> None:
        self.run, self.definition, self.site, self.is_async = run, definition, site, is_async
        self.injected = injected
        hints = definition.annotations
        self.writes = hints.read_only is False or hints.destructive is True

    def bind(self, call: ToolCall) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What to call ``run`` with.

        Raises:
            Refused: the arguments do not fit.
        """
        return arguments.bind(self.definition, call, self.injected)


class Toolbox:
    """Finds the tool of a call.

    Args:
        tools: decorated tools, or tools and plain callables by the name that the model knows.
        client_tools: callables by the name, or ``name@alias``, of their catalog entry, which is not written.
        toolsets: what runs the actions of the ``computer`` and ``browser`` toolsets: callables by action,
            or one callable that takes the action's name and its arguments.
        inject: objects for the parameters that the tools' ``inject=`` hides from the model, by class.

    Raises:
        TypeError, ValueError: what can never work, in one line.
    """

    def __init__(
        self,
        tools: Any,
        client_tools: Mapping[str, Any] | None = None,
        toolsets: Mapping[str, Any] | None = None,
        inject: Mapping[type, Any] | None = None,
    ) -> None:
        self._toolsets = _checked_toolsets(toolsets)
        self._inject: Mapping[type, Any] = inject or {}
        self._tools: dict[str, Any] = {}
        self._filled: dict[str, Mapping[str, Any]] = {}
        for name, fn in (*_named(tools), *_client_tools(client_tools)):
            self._add(name, fn)
        _begin_sync()

    def _add(self, name: str, fn: Any) -> None:
        if name in self._tools:
            raise ValueError(f"two tools are named {name!r}; a model can tell them apart by name only")
        decorated = tool_of(fn)
        definition = decorated.definition if decorated is not None else _runnable(fn, name).definition
        if definition.inject:
            self._filled[name] = self._injected(definition)
        self._tools[name] = fn

    def _injected(self, definition: ToolDefinition) -> dict[str, Any]:
        found = {}
        for name, hint in definition.injected.items():
            fitting = [value for kind, value in self._inject.items() if _takes(hint, kind)]
            if fitting:
                found[name] = fitting[0]
            elif _is_required(definition, name):
                kinds = ", ".join(kind.__name__ for kind in definition.inject)
                raise TypeError(
                    f"tool {definition.name!r} needs its parameter {name!r} filled in; "
                    f"pass inject={{cls: object}} for one of {kinds}"
                )
        return found

    @property
    def has_toolsets(self) -> bool:
        """Whether actions that must run strictly in order can be called at all."""
        return bool(self._toolsets)

    def find(self, call: ToolCall) -> Runnable | None:
        """The tool that ``call`` names; None where there is none.

        An action of a toolset is never looked up among the plain tools: names are not reserved.
        """
        if call.toolset is None:
            fn = self._tools.get(call.name)
            return None if fn is None else _runnable(fn, call.name, self._filled.get(call.name, _NOTHING))
        handler = self._toolsets.get(call.toolset)
        if isinstance(handler, Mapping):
            fn = handler.get(call.name)
            return None if fn is None else _runnable(fn, call.name)
        return None if handler is None else _runnable(_action(handler, call.name), call.name)


def _cached(make: Callable[..., Any]) -> Callable[..., Any]:
    """A turn hands in the same functions again and again."""
    kept = functools.lru_cache(maxsize=128)(make)

    def made(fn: Any, *rest: Any) -> Any:
        try:
            hash(fn)
        except TypeError:
            return make(fn, *rest)
        return kept(fn, *rest)

    return made


def _named(tools: Any) -> Iterable[tuple[str, Any]]:
    if tools is None:
        return ()
    if isinstance(tools, Mapping):
        return tools.items()
    if callable(tools) or isinstance(tools, str) or not isinstance(tools, Iterable):
        raise TypeError(f"tools is {tools!r:.80}; expected a list of tools, or a dict of tools by name")
    named = []
    for fn in tools:
        if not callable(fn):
            raise TypeError(f"tools holds {fn!r:.80}; expected functions decorated with @tool")
        named.append((definition_of(fn).name, fn))
    return named


def _client_tools(given: Mapping[str, Any] | None) -> Iterable[tuple[str, Any]]:
    if given is None:
        return
    if not isinstance(given, Mapping):
        raise TypeError(f"client_tools is a {type(given).__name__}; expected a dict of functions by name")
    for key, fn in given.items():
        name, _, alias = key.partition("@")
        if not callable(fn):
            raise TypeError(f"client_tools[{key!r}] is {fn!r:.80}; expected a function")
        yield name, _client_tool(fn, name, alias or None)


@_cached
def _client_tool(fn: Any, name: str, alias: str | None) -> Any:
    made = tool(name=name, alias=alias, sync=False)(fn)
    if _is_configured():
        from acrux_otel.catalog import automatic

        automatic.arm()  # a sync that is over did not know it
    return made


def _runnable(fn: Any, name: str, injected: Mapping[str, Any] = _NOTHING) -> Runnable:
    decorated = tool_of(fn)
    if decorated is not None:
        is_async = inspect.iscoroutinefunction(getattr(fn, "__func__", fn).call)
        return Runnable(fn.call, decorated.definition, decorated.site, injected, is_async=is_async)
    if not callable(fn):
        raise TypeError(f"the tool {name!r} is {fn!r:.80}; expected a function")
    made: Runnable = _undecorated(fn, name)
    return made


@_cached
def _undecorated(fn: Any, name: str) -> Runnable:
    """A plain callable, recorded like a tool and unknown to any catalog."""
    # A decorator that stands on a tool changes how it runs, not what the model is told of it.
    definition = definition_of(fn) if hasattr(fn, "__acrux_tool__") else define(fn, name=name)
    site = ToolSite(definition, as_text=returns_text(fn), function=underlying(fn), catalogued=False)
    run = drive.wrap_for_result(fn, site)
    return Runnable(run, definition, site, is_async=inspect.iscoroutinefunction(run))


@_cached
def _action(handler: Any, name: str) -> Any:
    """One action of a toolset that a single callable runs."""
    if inspect.iscoroutinefunction(called(handler)):

        async def act_async(**arguments: Any) -> Any:
            return await handler(name, arguments)

        return act_async

    def act(**arguments: Any) -> Any:
        return handler(name, arguments)

    return act


def _checked_toolsets(given: Mapping[str, Any] | None) -> Mapping[str, Any]:
    if given is None:
        return _NOTHING
    if not isinstance(given, Mapping):
        raise TypeError(f"toolsets is a {type(given).__name__}; expected a dict by toolset name")
    for name, handler in given.items():
        if name not in ("computer", "browser"):
            raise ValueError(f"toolsets has {name!r}; there are 'computer' and 'browser'")
        if not callable(handler) and not isinstance(handler, Mapping):
            raise TypeError(
                f"toolsets[{name!r}] is {handler!r:.80}; expected functions by action, "
                "or one function that takes the action and its arguments"
            )
    return given


def _takes(hint: Any, kind: type) -> bool:
    options = typing.get_args(hint) or (hint,)
    return any(isinstance(each, type) and issubclass(kind, each) for each in options)


def _is_required(definition: ToolDefinition, name: str) -> bool:
    from acrux_otel.definition.callables import read_signature

    return read_signature(definition.fn).parameters[name].default is inspect.Parameter.empty


def _is_configured() -> bool:
    return settings.catalog is not None or bool(os.environ.get("ACRUX_OTEL_CATALOG", "").strip())


def _begin_sync() -> None:
    """The tools are known before any call: a configured catalog need not wait for the first one."""
    if _is_configured():
        from acrux_otel.catalog import automatic
        from acrux_otel.seam import problem

        try:
            automatic.start()
        except Exception as error:
            problem("the catalog was synced", error)
