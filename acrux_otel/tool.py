# SPDX-License-Identifier: Apache-2.0
"""`@tool`: a function whose every call carries a verdict."""

from __future__ import annotations

import functools
import importlib
import inspect
import os
import types
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, overload

from acrux_otel import drive
from acrux_otel.definition import ToolAnnotations, ToolDefinition, define
from acrux_otel.definition.signature import returns_text, strip_tool_result, underlying
from acrux_otel.seam import Call, ToolSite, observe, unobserve
from acrux_otel.settings import capture_level, settings
from acrux_otel.verdict import warn_once

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from acrux_otel.guard import Guard
    from acrux_otel.verdict import ToolCallResult

__all__ = [
    "Tool",
    "ToolOptions",
    "check_options",
    "decorate",
    "like",
    "loaded_tools",
    "site_of",
    "tool",
    "tool_of",
]

F = TypeVar("F")


class Tool:
    """What `@tool` knows about one function; its attribute ``__acrux_tool__``.

    Attributes:
        definition: the tool's contract.
        site: how its calls are recorded.
        options: as given to `@tool`.
        function: the undecorated function.
    """

    __slots__ = ("__weakref__", "carrier", "definition", "function", "options", "site")

    def __init__(
        self, function: Any, definition: ToolDefinition, site: ToolSite, options: Mapping[str, Any]
    ) -> None:
        self.function, self.definition, self.site, self.options = function, definition, site, options
        self.carrier: weakref.ref[Any] | None = None

    @property
    def is_method(self) -> bool:
        """Whether the function was written in a class body."""
        target = underlying(self.function)
        return inspect.isfunction(target) and _is_in_class_body(target)

    @property
    def place(self) -> str:
        """Where the function was written, as ``module.qualname``."""
        target = underlying(self.function)
        return f"{getattr(target, '__module__', '?')}.{getattr(target, '__qualname__', '?')}"


class ToolOptions(TypedDict, total=False):
    """What `tool` takes, by name."""

    name: str | None
    description: str | None
    parameters: Mapping[str, Any] | None
    result_schema: Any
    result_severity: Literal["warn", "error"]
    annotations: ToolAnnotations | None
    inject: tuple[type, ...]
    control_flow: tuple[type[BaseException], ...]
    guard: Guard | Literal[False] | None
    capture: Literal["none", "verdict", "full"] | None
    suspect: Literal["warn"] | None
    alias: str | None
    changelog: str | None
    sync: bool


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[F], F]: ...
def tool(function: Any = None, /, **options: Any) -> Any:
    """Record a verdict for every call of a function.

    Args:
        name: the tool's name; the function's own by default.
        description: for the model; the docstring's text by default.
        parameters: a JSON Schema instead of the one made from the signature.
        result_schema: a JSON Schema or a type that results are checked against.
        result_severity: what a result that does not match is, ``"warn"`` or ``"error"``.
        annotations: hints such as ``ToolAnnotations(read_only=True)``.
        inject: types whose parameters the program fills in, not the model.
        control_flow: exceptions that pause or route the agent and are no failure.
        guard: retries, circuit breaker, time limits and fallback for this tool; left out, what
            ``configure(guard=)`` says; False: none.
        capture: how much text is recorded, ``"none"``, ``"verdict"`` or ``"full"``; where the process
            has a setting too, the stricter wins.
        suspect: ``"warn"`` marks a plain dict that looks like an error as a warning.
        alias: the catalog alias to move.
        changelog: what changed, for the catalog.
        sync: False keeps the tool from being written to the catalog.

    Returns:
        The function's equivalent, which hands a returned `ToolResult`'s ``.result`` to its caller and
        has ``.call(...)``, which answers with a `ToolCallResult`.

    Raises:
        TypeError, ValueError: an option that can never work.
    """
    check_options(options)
    if function is None:
        return functools.partial(decorate, options=options)
    return decorate(function, options)


_OF_DEFINITION = (
    "name",
    "description",
    "parameters",
    "result_schema",
    "result_severity",
    "annotations",
    "inject",
    "request",
)


def check_options(options: Mapping[str, Any], owner: str = "tool") -> None:
    """Refuse, in one line, what `tool` cannot take.

    Args:
        owner: the decorator that was given them.

    Raises:
        TypeError, ValueError: an option that can never work.
    """
    known = ToolOptions.__annotations__
    for name in options:
        if name not in known:
            raise TypeError(f"{owner}() has no option {name!r}; it takes {', '.join(sorted(known))}")
    for name, base in (("inject", object), ("control_flow", BaseException)):
        given = options.get(name, ())
        if not isinstance(given, tuple) or not all(
            isinstance(each, type) and issubclass(each, base) for each in given
        ):
            wanted = "types" if base is object else "exception types"
            raise TypeError(f"{owner}({name}=) is {given!r}; expected a tuple of {wanted}")
    if options.get("suspect") not in (None, "warn"):
        raise ValueError(f"{owner}(suspect=) is {options['suspect']!r}; expected 'warn' or None")
    for name in ("alias", "changelog"):
        if not isinstance(options.get(name), (str, type(None))):
            raise TypeError(f"{owner}({name}=) is {options[name]!r}; expected a string")
    if not isinstance(options.get("sync", True), bool):
        raise TypeError(f"{owner}(sync=) is {options['sync']!r}; expected True or False")
    if options.get("sync") is False and options.get("changelog"):
        raise ValueError(f"{owner}(sync=False) never writes to the catalog; leave changelog= out")
    capture_level(options.get("capture"), f"{owner}(capture=)")
    if options.get("guard"):
        from acrux_otel.guard import Guard

        if not isinstance(options["guard"], Guard):
            raise TypeError(f"{owner}(guard=) is {options['guard']!r:.60}; expected a Guard, or False")


def decorate(function: Any, options: Mapping[str, Any]) -> Any:
    """The tool that ``function`` becomes; options as `check_options` lets them pass."""
    earlier = tool_of(function)
    if earlier is not None:
        if not options:
            return function
        # Decorated twice, it is still one tool; what is said last counts.
        options = {**earlier.options, **options}
        bound = function.__self__ if isinstance(function, types.MethodType) else None
        function = earlier.function if bound is None else types.MethodType(earlier.function, bound)
    elif isinstance(function, functools.partial) and (inner := tool_of(function.func)) is not None:
        options = {**inner.options, **options}
        bare = inner.function
        if isinstance(function.func, types.MethodType):
            bare = types.MethodType(bare, function.func.__self__)
        function = functools.partial(bare, *function.args, **function.keywords)
    if isinstance(function, (staticmethod, classmethod)):
        takes_instance = isinstance(function, classmethod)
        return ToolMethod(_build(function.__func__, options, function, takes_instance), function)
    if isinstance(function, property) or inspect.isclass(function) or not callable(function):
        what = f"the class {function.__name__!r}" if inspect.isclass(function) else repr(function)[:80]
        raise TypeError(f"@tool was given {what}; expected a function or another callable")
    if inspect.isfunction(function) and _is_in_class_body(function):
        return ToolMethod(_build(function, options, function, _names_its_instance(function)), function)
    return _build(function, options, function, False)


def _is_in_class_body(function: types.FunctionType) -> bool:
    outer = function.__qualname__.rpartition(".")[0]
    return bool(outer) and not outer.endswith("<locals>")


def _names_its_instance(function: Any) -> bool:
    """Whether a function in a class body takes an instance, as far as its first parameter's name tells.

    `@staticmethod` above `@tool` cannot be seen from here.
    """
    code = getattr(function, "__code__", None)
    return code is not None and code.co_argcount > 0 and code.co_varnames[0] in ("self", "cls")


def _build(function: Any, options: Mapping[str, Any], given: Any, takes_instance: bool) -> Any:
    definition = define(
        function,
        skip_first=takes_instance,
        **{name: options[name] for name in _OF_DEFINITION if name in options},
    )
    site = site_of(function, definition, options, takes_instance)
    wrapper = like(drive.wrap(function, site), function, definition.name)
    wrapper.call = like(drive.wrap_for_result(function, site), function, definition.name)
    made = Tool(given, definition, site, dict(options))
    made.carrier = weakref.ref(wrapper)
    wrapper.__acrux_tool__ = made
    _register(made)
    return wrapper


def tool_of(function: Any) -> Tool | None:
    """What `@tool` knows of ``function`` itself; None for a decorator's wrapper around a tool.

    ``functools.wraps`` copies our attributes to whatever is put on top of a tool, an access check say.
    """
    made = getattr(function, "__acrux_tool__", None)
    if not isinstance(made, Tool) or made.carrier is None:
        return None
    carrier = made.carrier()
    held = function
    if type(function) is ToolMethod:
        held = function.wrapper
    elif isinstance(function, types.MethodType):
        held = function.__func__
    return made if held is carrier else None


def site_of(
    function: Any,
    definition: ToolDefinition,
    options: Mapping[str, Any],
    takes_instance: bool = False,
    kind: type[ToolSite] = ToolSite,
) -> ToolSite:
    """How the calls of a function are recorded, with options as `@tool` takes them."""
    arguments = _Arguments(function, options.get("inject", ()), takes_instance)
    return kind(
        definition,
        capture=capture_level(options.get("capture"), "tool(capture=)"),
        control_flow=options.get("control_flow", ()),
        suspect=options.get("suspect") == "warn",
        as_text=returns_text(function),
        bind=arguments.bind,
        signature_accepts=arguments.accepts,
        function=underlying(function),
        guard=options.get("guard"),
    )


def like(wrapper: Any, function: Any, name: str) -> Any:
    """Make ``wrapper`` look like ``function``; returns it."""
    functools.update_wrapper(wrapper, function)
    if not isinstance(function, (types.FunctionType, types.BuiltinFunctionType)):
        # An lru_cache, say, has more than a function has.
        for extra in dir(function):
            if not extra.startswith("_") and not hasattr(wrapper, extra):
                setattr(wrapper, extra, getattr(function, extra))
    if not hasattr(function, "__name__"):  # a partial or a callable object
        wrapper.__name__ = wrapper.__qualname__ = name
        wrapper.__module__ = getattr(underlying(function), "__module__", wrapper.__module__)
        wrapper.__doc__ = getattr(underlying(function), "__doc__", None)
    if inspect.isfunction(function):
        # `*args` and `**kwargs` take every argument, so these are only there to be read.
        wrapper.__defaults__, wrapper.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
    stripped = strip_tool_result(getattr(function, "__annotations__", None) or {}, function)
    if stripped is not None:
        wrapper.__annotations__ = stripped
        signature = inspect.signature(function)
        wrapper.__signature__ = signature.replace(
            parameters=[
                each.replace(annotation=stripped.get(each.name, inspect.Parameter.empty))
                for each in signature.parameters.values()
            ],
            return_annotation=stripped.get("return", inspect.Signature.empty),
        )
    return wrapper


class _Arguments:
    """Gives the arguments of a call their names, as the model sees them."""

    def __init__(self, function: Any, inject: tuple[type, ...], takes_instance: bool) -> None:
        self._function, self._inject, self._takes_instance = function, inject, takes_instance
        self._names: tuple[str, ...] | None = None
        self._hidden: frozenset[str] = frozenset()
        self._signature: inspect.Signature | None = None
        self._rest: str | None = None
        self._keywords: str | None = None

    def _read(self) -> inspect.Signature:
        signature = self._signature
        if signature is None:
            signature = inspect.signature(self._function)
            for each in signature.parameters.values():
                if each.kind is each.VAR_POSITIONAL:
                    self._rest = each.name
                elif each.kind is each.VAR_KEYWORD:
                    self._keywords = each.name
            self._names = tuple(
                each.name
                for each in signature.parameters.values()
                if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
            )
            hidden = set(self._names[:1]) if self._takes_instance else set()
            if self._inject:
                from acrux_otel.definition.signature import injected_parameters

                hidden |= injected_parameters(self._function, self._inject)
            self._hidden = frozenset(hidden)
            self._signature = signature
        return signature

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Mapping[str, Any]:
        self._read()
        positional = self._names or ()
        bound = dict(zip(positional, args, strict=False)) if args else {}
        if self._rest and len(args) > len(positional):
            bound[self._rest] = list(args[len(positional) :])
        clash = {name: value for name, value in kwargs.items() if name in bound}
        bound.update((name, value) for name, value in kwargs.items() if name not in bound)
        if clash:  # a keyword of the name of a positional-only parameter
            bound[self._keywords or "kwargs"] = clash
        for name in self._hidden:
            bound.pop(name, None)
        return bound

    def accepts(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        try:
            self._read().bind(*args, **kwargs)
        except TypeError:
            return False
        return True


class ToolMethod:
    """A decorated function in a class body: like the function it stands for, and ``.call`` binds too.

    Whatever a decorator above reads or writes is the wrapper's, because that is what the class hands out.
    """

    __slots__ = ("__weakref__", "__wrapped__", "wrapper")

    def __init__(self, wrapper: Any, given: Any) -> None:
        object.__setattr__(self, "wrapper", wrapper)
        object.__setattr__(self, "__wrapped__", given)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self.__wrapped__)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self.wrapper(*args, **kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        given = self.__wrapped__
        if isinstance(given, staticmethod):
            return self.wrapper
        if isinstance(given, classmethod):
            return BoundTool(self.wrapper, owner if owner is not None else type(instance))
        return self.wrapper if instance is None else BoundTool(self.wrapper, instance)

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "wrapper"), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.wrapper, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self.wrapper, name)

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        return self.wrapper.__doc__  # type: ignore[no-any-return]

    @property
    def __module__(self) -> str:  # type: ignore[override]
        return self.wrapper.__module__  # type: ignore[no-any-return]

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        return self.wrapper.__dict__  # type: ignore[no-any-return]

    def __set_name__(self, owner: type, name: str) -> None:
        given = self.__wrapped__
        if inspect.isfunction(given) and not _names_its_instance(given):
            # Nothing stands between us and the class, so it is a method whatever it calls its instance.
            made = _build(given, self.wrapper.__acrux_tool__.options, given, True)
            for extra, value in vars(self.wrapper).items():
                vars(made).setdefault(extra, value)
            object.__setattr__(self, "wrapper", made)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _named, (self.__module__, self.wrapper.__qualname__)

    def __copy__(self) -> ToolMethod:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> ToolMethod:
        return self

    def __repr__(self) -> str:
        return repr(self.__wrapped__)


def _named(module: str, qualname: str) -> Any:
    return functools.reduce(getattr, qualname.split("."), importlib.import_module(module))


class BoundTool:
    """A decorated method of one instance, or a class method of one class."""

    __slots__ = ("__func__", "__self__", "__weakref__")

    def __init__(self, function: Any, instance: Any) -> None:
        self.__func__ = function
        self.__self__ = instance

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return types.MethodType

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self.__func__(self.__self__, *args, **kwargs)

    def call(self, /, *args: Any, **kwargs: Any) -> ToolCallResult[Any]:
        """Like calling it, but answers with a `ToolCallResult`."""
        return self.__func__.call(self.__self__, *args, **kwargs)  # type: ignore[no-any-return]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__func__, name)

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        return self.__func__.__doc__  # type: ignore[no-any-return]

    @property
    def __module__(self) -> str:  # type: ignore[override]
        return self.__func__.__module__  # type: ignore[no-any-return]

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, types.MethodType)
            and other.__func__ is self.__func__
            and other.__self__ is self.__self__
        )

    def __hash__(self) -> int:
        return hash((id(self.__self__), self.__func__))

    def __reduce__(self) -> Any:
        return getattr, (self.__self__, self.__func__.__name__)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.__reduce__()

    def __copy__(self) -> BoundTool:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> BoundTool:
        from copy import deepcopy

        return BoundTool(self.__func__, deepcopy(self.__self__, memo))

    def __repr__(self) -> str:
        return repr(types.MethodType(self.__func__, self.__self__))


def _at_first_call(_call: Call) -> None:
    """Have the catalog synced; it is a floor above, and imported only where one is configured."""
    unobserve(opened=_at_first_call)
    if settings.catalog is not None or os.environ.get("ACRUX_OTEL_CATALOG", "").strip():
        from acrux_otel.catalog import automatic

        automatic.start()


observe(opened=_at_first_call)
_tools: dict[str, list[weakref.ref[Tool]]] = {}


def _register(made: Tool) -> None:
    known = [ref for ref in _tools.get(made.definition.name, ()) if ref() is not None]
    for ref in known:
        other = ref()
        # A method of another class is no other tool of the same name: inheritance makes it so.
        if other is not None and other.place != made.place and not (made.is_method and other.is_method):
            warn_once(
                f"name:{made.definition.name}",
                "two tools are named %r: %s and %s; both work, but their spans and catalog entries mix",
                made.definition.name,
                other.place,
                made.place,
            )
            break
    if len(known) < 1000:
        known.append(weakref.ref(made))
    _tools[made.definition.name] = known


def loaded_tools() -> Iterable[Tool]:
    """Every decorated tool that is still alive, the newest of each place, by name."""
    for name in sorted(_tools):
        newest: dict[str, Tool] = {}
        for ref in _tools[name]:
            made = ref()
            if made is not None:
                newest[made.place] = made
        yield from newest.values()
