# SPDX-License-Identifier: Apache-2.0
"""What a model is told about a tool, as one value: `ToolDefinition`.

Making one is cheap; the schemas come from `parameters` and `schema` (pydantic) on first use.
"""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from acrux_otel.definition.signature import default_name, display_name, local_names

__all__ = [
    "ToolAnnotations",
    "ToolDefinition",
    "bind_arguments",
    "define",
    "definition_of",
    "validate_result",
]

_MAX_NAME: Final = 256
_known: weakref.WeakKeyDictionary[Any, ToolDefinition] = weakref.WeakKeyDictionary()


@dataclasses.dataclass(frozen=True)
class ToolAnnotations:
    """What a tool does to the world, as its owner says; None means not said.

    Attributes:
        read_only: it changes nothing.
        destructive: it may delete or overwrite.
        idempotent: the same call twice has the effect of one.
        open_world: it reaches beyond this system (the web, other people).

    Raises:
        TypeError: for a value that is no bool and not None.
        ValueError: for ``read_only=True`` with ``destructive=True``.
    """

    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is not None and not isinstance(value, bool):
                raise TypeError(f"ToolAnnotations({name}=) takes True, False or None, not {value!r:.80}")
        if self.read_only and self.destructive:
            raise ValueError("a tool cannot be both read_only=True and destructive=True; drop one of them")

    def as_dict(self) -> dict[str, bool]:
        """What was said, without what was not."""
        return {name: value for name, value in vars(self).items() if value is not None}


class ToolDefinition:
    """What is known about a tool: name, description, schemas, annotations, executor, hashes.

    Made by `define`. What costs time is computed on first use, once, whichever thread asks. The schemas are
    shared: do not change them.
    """

    __slots__ = (
        "__weakref__",
        "_description",
        "_enforced",
        "_given",
        "_lazy",
        "annotations",
        "executor",
        "fn",
        "inject",
        "name",
        "names",
        "request",
        "result_severity",
        "site",
        "skip_first",
    )

    def __init__(
        self,
        fn: Any,
        name: str,
        *,
        description: str | None = None,
        parameters: dict[str, Any] | None = None,
        result_schema: Any = None,
        result_severity: str = "warn",
        annotations: ToolAnnotations | None = None,
        inject: tuple[type, ...] = (),
        executor: str = "client",
        skip_first: bool | None = None,
        names: Mapping[str, Any] | None = None,
        request: Mapping[str, str] | None = None,
    ) -> None:
        self.fn = fn
        self.name = name
        self.annotations = annotations or ToolAnnotations()
        self.executor = executor
        self.result_severity = result_severity
        self.inject = inject
        self.skip_first = skip_first
        self.names = names or {}
        self.request = request  # of a tool that is called over HTTP
        self.site: Any = None  # what the seam works out once for calls that a framework runs
        self._description = description
        self._given = parameters
        self._enforced = result_schema
        self._lazy: dict[str, Any] = {}

    @property
    def description(self) -> str | None:
        """What the model reads about the tool: as given, else the docstring without its sections."""
        return self._description if self._description is not None else self.docs[0]

    @property
    def docs(self) -> tuple[str | None, dict[str, str]]:
        """The docstring's description, and what it says of each parameter."""
        if "docs" not in self._lazy:
            from acrux_otel.definition.docstring import read_docstring

            self._lazy.setdefault("docs", read_docstring(self.fn))
        return self._lazy["docs"]  # type: ignore[no-any-return]

    @property
    def parameters(self) -> dict[str, Any]:
        """JSON Schema 2020-12 of the arguments: an object, its ``$defs`` at the root."""
        if self._given is not None:
            return self._given
        from acrux_otel.definition.parameters import parameters_schema

        return self._once("parameters", parameters_schema)  # type: ignore[no-any-return]

    @property
    def result(self) -> dict[str, Any] | None:
        """JSON Schema of the result: the enforced one, else from the return annotation, else None.

        It describes what the tool's caller gets: awaitables are looked through, a generator is the array of
        what it yields, a `ToolResult` in the annotation does not count.
        """
        enforced = self.enforced_result
        if enforced is not None:
            return enforced
        from acrux_otel.definition.schema import result_schema

        return self._once("result", result_schema)  # type: ignore[no-any-return]

    @property
    def enforced_result(self) -> dict[str, Any] | None:
        """The schema that results are checked against: what was given as ``result_schema=``."""
        if self._enforced is None or isinstance(self._enforced, dict):
            return self._enforced
        from acrux_otel.definition.schema import enforced_schema

        return self._once("enforced", enforced_schema)  # type: ignore[no-any-return]

    @property
    def result_type(self) -> Any:
        """The type that was given as ``result_schema=``, where it was no schema."""
        return None if isinstance(self._enforced, dict) else self._enforced

    @property
    def injected(self) -> dict[str, Any]:
        """The parameters that the program hands in, with their resolved types."""
        from acrux_otel.definition.parameters import injected_of

        return self._once("injected", injected_of)  # type: ignore[no-any-return]

    @property
    def contract_hash(self) -> str:
        """SHA-256 over schemas (without wording), annotations and executor: equal means interchangeable."""
        if "contract_hash" not in self._lazy:
            from acrux_otel.definition.fingerprint import contract, digest

            made = [
                contract(self.parameters),
                contract(self.result),
                self.annotations.as_dict(),
                self.executor if self.request is None else {"type": self.executor, **self.request},
            ]
            self._lazy.setdefault("contract_hash", digest(made))
        return self._lazy["contract_hash"]  # type: ignore[no-any-return]

    @property
    def text_hash(self) -> str:
        """SHA-256 over the description and every title, description and example in the schemas."""
        if "text_hash" not in self._lazy:
            from acrux_otel.definition.fingerprint import digest, wording

            made = [self.description, wording(self.parameters), wording(self.result)]
            self._lazy.setdefault("text_hash", digest(made))
        return self._lazy["text_hash"]  # type: ignore[no-any-return]

    def replace(self, *, name: str | None = None, executor: str | None = None) -> ToolDefinition:
        """The same definition under another name or executor.

        Raises:
            TypeError, ValueError: as `define` does.
        """
        return ToolDefinition(
            self.fn,
            self.name if name is None else _checked_name(name, self.fn),
            description=self._description,
            parameters=self._given,
            result_schema=self._enforced,
            result_severity=self.result_severity,
            annotations=self.annotations,
            inject=self.inject,
            executor=self.executor if executor is None else _checked_executor(executor),
            skip_first=self.skip_first,
            names=self.names,
            request=self.request,
        )

    def __repr__(self) -> str:
        return f"ToolDefinition({self.name!r}, executor={self.executor!r})"

    def _once(self, key: str, make: Callable[[ToolDefinition], Any]) -> Any:
        # No lock: schema code of the user's runs in here, and two threads that meet make equal values.
        if key not in self._lazy:
            self._lazy.setdefault(key, make(self))
        return self._lazy[key]


def define(
    fn: Any,
    *,
    name: str | None = None,
    description: str | None = None,
    parameters: dict[str, Any] | None = None,
    result_schema: Any = None,
    result_severity: str = "warn",
    annotations: ToolAnnotations | None = None,
    inject: type | Iterable[type] = (),
    executor: str | None = None,
    skip_first: bool | None = None,
    request: Mapping[str, str] | None = None,
) -> ToolDefinition:
    """The definition of a callable.

    Args:
        fn: any callable; arguments that a ``functools.partial`` has bound are not the model's to give.
        name: the tool's name, 1-256 printable characters; the function's own by default.
        description: what the model reads; the docstring by default.
        parameters: JSON Schema of the arguments in place of the derived one.
        result_schema: JSON Schema of the result, or a type that stands for one; results are checked
            against it. Without it the return annotation describes the result and nothing is checked.
        result_severity: what a mismatch is, ``warn`` or ``error``.
        inject: the classes whose instances the program hands in; such parameters are hidden from the model.
        executor: ``client`` (this process runs it) or ``http``; the latter where there is a ``request``.
        skip_first: whether the first parameter is an instance or class (``self``). By default it is for a
            function written in a class body whose first parameter is named ``self``, ``cls`` or ``mcs``.
        request: method and url of a tool that is called over HTTP.

    Raises:
        TypeError, ValueError: for what can never work, in one line.
    """
    named = _checked_name(name if name is not None else default_name(fn), fn)
    if not callable(fn) and not isinstance(fn, (staticmethod, classmethod)):
        raise TypeError(f"tool {named!r}: expected a callable, got {type(fn).__name__}")
    if description is not None and not isinstance(description, str):
        raise TypeError(f"tool {named!r}: description= takes text, not {type(description).__name__}")
    if parameters is not None:
        _check_schema(named, "parameters", parameters)
        if parameters.get("type", "object") != "object":
            raise ValueError(
                f"tool {named!r}: parameters= must describe an object, not type {parameters['type']!r:.80}"
            )
    if result_severity not in ("warn", "error"):
        raise ValueError(
            f"tool {named!r}: result_severity= is 'warn' or 'error', not {result_severity!r:.80}"
        )
    if annotations is not None and not isinstance(annotations, ToolAnnotations):
        raise TypeError(
            f"tool {named!r}: annotations= takes ToolAnnotations(...), not {type(annotations).__name__}"
        )
    if isinstance(result_schema, dict):
        _check_schema(named, "result_schema", result_schema)
    elif result_schema is not None:
        _check_type(named, result_schema)
    return ToolDefinition(
        fn,
        named,
        description=description,
        parameters=parameters,
        result_schema=result_schema,
        result_severity=result_severity,
        annotations=annotations,
        inject=_checked_inject(named, inject),
        executor=_checked_executor(executor or ("client" if request is None else "http")),
        skip_first=skip_first,
        names=local_names(fn),
        request=request,
    )


def definition_of(fn: Any) -> ToolDefinition:
    """The definition of a decorated tool, or of a plain callable as `define` makes it.

    Raises:
        TypeError, ValueError: as `define` does.
    """
    tool = getattr(fn, "__acrux_tool__", None)
    if tool is None and isinstance(fn, (staticmethod, classmethod)):
        tool = getattr(fn.__func__, "__acrux_tool__", None)
    found = getattr(tool, "definition", None)
    if isinstance(found, ToolDefinition):
        return found
    if not isinstance(fn, types.FunctionType):
        return define(fn)
    if fn not in _known:
        _known[fn] = define(fn)
    return _known[fn]


def validate_result(schema: ToolDefinition | Mapping[str, Any], result: Any) -> str | None:
    """Why a result does not match an enforced schema; None where it does.

    Args:
        schema: a definition (its enforced schema counts, if it has one) or a JSON Schema.
        result: what the tool returned; neither changed nor consumed.

    Returns:
        One line of at most 512 bytes, such as ``$.tempC: expected number, got string``; no value of the
        result is in it.
    """
    wanted = schema.enforced_result if isinstance(schema, ToolDefinition) else schema
    if wanted is None:
        return None
    from acrux_otel.definition.conformance import mismatch

    return mismatch(wanted, result)


def bind_arguments(
    definition: ToolDefinition,
    arguments: Mapping[str, Any],
    injected: Mapping[str, Any] | None = None,
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What to call a tool's function with, from the JSON arguments of a model.

    Values are validated and coerced by pydantic: the body gets model instances where the signature has them.

    Args:
        definition: of the tool.
        arguments: a decoded JSON object. ``*args`` is an array under its own name; names that the signature
            does not have go to ``**kwargs``.
        injected: the program's own objects by parameter name (see `ToolDefinition.injected`).

    Returns:
        Positional and keyword arguments for the callable that the definition was made from.

    Raises:
        pydantic.ValidationError: for missing, ill-typed and unknown arguments.
        TypeError: where ``arguments`` is no mapping, or an annotation's constraint does not suit its type.
    """
    if not isinstance(arguments, Mapping):
        raise TypeError(
            f"arguments of tool {definition.name!r} must be an object, got {type(arguments).__name__}"
        )
    from acrux_otel.definition.parameters import bind

    return bind(definition, arguments, injected or {})


def _checked_name(name: Any, fn: Any) -> str:
    if name is None:
        raise ValueError(f"{display_name(fn)} has no name that a tool can have; give one with name=")
    if not isinstance(name, str):
        raise TypeError(f"a tool's name is text, not {type(name).__name__}")
    if not name.strip() or len(name) > _MAX_NAME or not name.isprintable():
        raise ValueError(f"a tool's name is 1 to {_MAX_NAME} printable characters, not {name!r:.80}")
    return name


def _checked_executor(executor: Any) -> str:
    if executor not in ("client", "http"):
        raise ValueError(f"executor= is 'client' or 'http', not {executor!r:.80}")
    return str(executor)


def _checked_inject(name: str, inject: Any) -> tuple[type, ...]:
    given = (inject,) if inspect.isclass(inject) else inject
    classes = tuple(given) if isinstance(given, Iterable) and not isinstance(given, str) else (given,)
    for one in classes:
        if not inspect.isclass(one):
            raise TypeError(f"tool {name!r}: inject= takes classes, not {one!r:.80}")
    return classes


def _check_schema(name: str, keyword: str, schema: Any) -> None:
    if not isinstance(schema, dict):
        raise TypeError(
            f"tool {name!r}: {keyword}= takes a JSON Schema (a dict), not {type(schema).__name__}"
        )
    from acrux_otel.definition.conformance import check_schema

    wrong = check_schema(schema)
    if wrong:
        raise ValueError(f"tool {name!r}: {keyword}= is not a valid JSON Schema: {wrong}")


def _check_type(name: str, given: Any) -> None:
    if not (inspect.isclass(given) or typing.get_origin(given) or hasattr(given, "__value__")):
        raise TypeError(
            f"tool {name!r}: result_schema= takes a JSON Schema (dict) or a type, not {type(given).__name__}"
        )
    from acrux_otel.definition.schema import unusable_type

    wrong = unusable_type(given)
    if wrong:
        raise TypeError(f"tool {name!r}: result_schema= {given!r:.80} has no JSON Schema: {wrong}")
