# SPDX-License-Identifier: Apache-2.0
"""Signature and docstring -> JSON Schema 2020-12, and JSON arguments -> a call, by pydantic.

Imported on first use only, because pydantic is heavy. Whatever a signature holds, a schema comes out: what
cannot be described is described as any value, with one warning.
"""

from __future__ import annotations

import copy
import functools
import inspect
import json
import logging
import re
import sys
import types
import typing
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pydantic
import pydantic_core
import typing_extensions
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from acrux_otel.fingerprint import as_json, canonical, children, name_definitions
from acrux_otel.signature import injected_parameters, read_signature, rebuild, resolved_hints
from acrux_otel.verdict import warn_once

if TYPE_CHECKING:
    from pydantic_core import core_schema

    from acrux_otel.definition import ToolDefinition

__all__ = [
    "bind",
    "enforced_schema",
    "injected_of",
    "parameters_schema",
    "result_schema",
    "unusable_type",
]

_log = logging.getLogger("acrux_otel")
_EMPTY: Final = inspect.Parameter.empty
_POSITIONAL: Final = inspect.Parameter.POSITIONAL_ONLY
_REST: Final = inspect.Parameter.VAR_POSITIONAL
_KEYWORDS: Final = inspect.Parameter.VAR_KEYWORD
_OPEN: Final = "**"  # no parameter can be named so
_AUTO: Final = "\0"  # marks a title that pydantic made up
_UNSET: Final[Any] = type("_Unset", (), {"__repr__": lambda self: "<unset>"})()
_ITERATED: Final = frozenset(
    {"Generator", "AsyncGenerator", "Iterator", "AsyncIterator", "Iterable", "AsyncIterable"}
)
_AWAITED: Final = frozenset({"Awaitable", "Coroutine"})


class _Parameter(NamedTuple):
    """One parameter as the model sees it."""

    name: str
    kind: Any
    hint: Any
    default: Any = _EMPTY
    field: FieldInfo | None = None
    note: str | None = None
    degraded: bool = False

    @property
    def optional(self) -> bool:
        return self.default is not _EMPTY or self.kind in (_REST, _KEYWORDS)


class _Reading(NamedTuple):
    """A signature as the model sees it, and the pydantic model of it."""

    parameters: tuple[_Parameter, ...]
    call: tuple[inspect.Parameter, ...]
    model: type[pydantic.BaseModel]
    readable: bool


class _Schema(GenerateJsonSchema):
    """pydantic's generator, without made-up titles and with defaults by value."""

    owner = ""
    untitled: typing.ClassVar[set[str]] = set()

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        if schema.get("default") is _UNSET:
            return self.generate_inner(schema["schema"])
        return super().default_schema(schema)

    def encode_default(self, dft: Any) -> Any:
        try:
            plain = as_json(dft)
            canonical(plain)
        except Exception as error:
            raise pydantic_core.PydanticSerializationError("not JSON") from error
        return plain

    def emit_warning(self, kind: str, detail: str) -> None:
        warn_once(f"schema:{self.owner}:{kind}:{detail[:80]}", "schema of %s: %s", self.owner, detail[:200])

    def get_title_from_name(self, name: str) -> str:
        return _AUTO

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        return self._noted(super().model_schema(schema), schema["cls"].__name__)

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        return self._noted(super().dataclass_schema(schema), schema["cls"].__name__)

    def typed_dict_schema(self, schema: core_schema.TypedDictSchema) -> JsonSchemaValue:
        cls = schema.get("cls")
        name = cls.__name__ if cls else schema.get("ref", "").partition(":")[0].rpartition(".")[2]
        return self._noted(super().typed_dict_schema(schema), name)

    def enum_schema(self, schema: core_schema.EnumSchema) -> JsonSchemaValue:
        self.untitled.add(schema["cls"].__name__)
        made = super().enum_schema(schema)
        if made.get("description") in ("An enumeration.", "A collection of name/value pairs."):
            del made["description"]  # Python's own words on every Enum, in some of its versions
        return made

    def _noted(self, made: JsonSchemaValue, name: str) -> JsonSchemaValue:
        # Noted now and taken out at the end, because some versions of pydantic set the title later.
        if name and made.get("title", name) == name:
            self.untitled.add(name)
        return made


def parameters_schema(definition: ToolDefinition) -> dict[str, Any]:
    """The schema of a tool's arguments."""
    reading = _reading(definition)
    if not reading.readable:
        return {"type": "object", "properties": {}}
    made = _generate(reading.model, definition.name)
    texts = definition.docs[1]
    properties, required = {}, []
    for parameter in reading.parameters:
        shape = made["properties"].get(parameter.name if parameter.kind is not _KEYWORDS else _OPEN, {})
        if parameter.kind is _REST:
            shape.pop("default", None)
        text = parameter.note or texts.get(parameter.name)
        if text and "description" not in shape:
            shape["description"] = text
        if parameter.default is not _EMPTY:
            _add_default(shape, parameter, definition)
        if not parameter.optional:
            required.append(parameter.name)
        properties[parameter.name] = shape
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = sorted(required)
    schema["additionalProperties"] = _open_schema(reading, properties)
    if "$defs" in made:
        schema["$defs"] = made["$defs"]
    return _polished(schema)


def result_schema(definition: ToolDefinition) -> dict[str, Any] | None:
    """The schema of what a tool's caller gets, from the return annotation; None where there is none."""
    hint = resolved_hints(definition.fn, definition.names).get("return", Any)
    for _ in range(8):
        origin = typing.get_origin(hint)
        name = getattr(origin, "__name__", "") if _is_abc(origin) else ""
        if name in _AWAITED:
            hint = typing.get_args(hint)[-1]
        elif name in _ITERATED:
            hint = list[typing.get_args(hint)[0]]  # type: ignore[misc]
        else:
            break
    if hint in (Any, object, typing.NoReturn, typing_extensions.Never):
        return None
    try:
        made = _of_type(hint, definition.name)
    except Exception as error:
        _log.debug("the result of tool %r has no JSON Schema: %s", definition.name, _first_line(error))
        return None
    return made if made not in ({}, {"type": "array", "items": {}}) else None


def enforced_schema(definition: ToolDefinition) -> dict[str, Any] | None:
    """The schema of the type given as ``result_schema=``."""
    try:
        return _of_type(definition.result_type, definition.name)
    except Exception as error:
        warn_once(
            f"result-type:{definition.name}",
            "tool %r: the type given as result_schema= has no JSON Schema (%s); results are not checked",
            definition.name,
            _first_line(error),
        )
        return None


def unusable_type(given: Any) -> str | None:
    """Why a type has no JSON Schema, in one line; None where it has, or may have once all is imported."""
    try:
        _of_type(given, getattr(given, "__name__", "a type"))
    except pydantic.errors.PydanticUndefinedAnnotation:
        return None
    except pydantic.errors.PydanticUserError as error:
        return None if error.code == "class-not-fully-defined" else _first_line(error)
    except Exception as error:
        return _first_line(error)
    return None


def injected_of(definition: ToolDefinition) -> dict[str, Any]:
    """The injected parameters of a tool, with their types."""
    names = injected_parameters(definition.fn, definition.inject, definition.names)
    fallback = {kind.__name__: kind for kind in definition.inject}
    hints = resolved_hints(definition.fn, definition.names, fallback) if names else {}
    return {name: hints.get(name, Any) for name in sorted(names)}


def bind(
    definition: ToolDefinition, arguments: Mapping[str, Any], injected: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """`definition.bind_arguments`, past its first checks."""
    reading = _reading(definition)
    if not reading.readable:
        return (), {**arguments, **injected}
    values = {**_validated(definition, reading, arguments), **injected}
    rest = values.pop(next((each.name for each in reading.call if each.kind is _REST), _OPEN), ())
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    head = [
        each for each in reading.call if each.kind in (_POSITIONAL, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    ]
    given = [index for index, each in enumerate(head) if each.name in values and each.kind is _POSITIONAL]
    by_place = len(head) if rest else max(given, default=-1) + 1
    for each in head[:by_place]:
        if each.name in values or each.default is not _EMPTY:
            args.append(values.pop(each.name, each.default))
    kwargs.update(values)
    return (*args, *rest), kwargs


def _validated(definition: ToolDefinition, reading: _Reading, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as the body gets them, by parameter name, those of ``**kwargs`` among them."""
    known = [each.name for each in reading.parameters if each.kind is not _KEYWORDS]
    data = {name: value for name, value in arguments.items() if name in known}
    extra = {name: value for name, value in arguments.items() if name not in known}
    if len(known) < len(reading.parameters):
        data[_OPEN], extra = extra, {}
    try:
        made = _validate(reading.model, data)
    except pydantic.ValidationError as error:
        if extra:
            raise _refused(definition.name, extra, known, error.errors()) from None
        raise
    if extra:
        raise _refused(definition.name, extra, known, [])
    values: dict[str, Any] = {}
    for index, each in enumerate(reading.parameters):
        if f"f{index}" in made.model_fields_set:
            value = getattr(made, f"f{index}")
            if each.kind is _KEYWORDS:
                values.update(value)
            else:
                values[each.name] = value
        elif each.field is not None and each.optional:
            values[each.name] = each.field.get_default(call_default_factory=True)
    return values


def _validate(model: type[pydantic.BaseModel], data: dict[str, Any]) -> pydantic.BaseModel:
    try:
        text = json.dumps(data)
    except (TypeError, ValueError, RecursionError):
        return model.model_validate(data)
    return model.model_validate_json(text)


def _refused(
    tool: str, extra: dict[str, Any], known: list[str], others: list[Any]
) -> pydantic_core.ValidationError:
    """One error for all that is wrong, the arguments that the tool does not take among it."""
    make: Any = pydantic_core.PydanticCustomError
    takes = f"Unexpected argument; the tool takes {', '.join(known) or 'no arguments'}"
    lines: list[Any] = [
        {"type": make(one["type"], one["msg"]), "loc": one["loc"], "input": one["input"]} for one in others
    ]
    lines += [
        {"type": make("extra_forbidden", takes), "loc": (name,), "input": one} for name, one in extra.items()
    ]
    return pydantic_core.ValidationError.from_exception_data(tool, lines)


def _reading(definition: ToolDefinition) -> _Reading:
    found = definition._lazy.get("reading")
    if found is None:
        found = definition._lazy.setdefault("reading", _read(definition))
    return found  # type: ignore[no-any-return]


def _read(definition: ToolDefinition) -> _Reading:
    try:
        given = list(read_signature(definition.fn).parameters.values())
    except (TypeError, ValueError) as error:
        warn_once(
            f"signature:{definition.name}",
            "tool %r has no readable signature (%s); its parameters describe any object",
            definition.name,
            _first_line(error),
        )
        return _Reading((), (), pydantic.BaseModel, readable=False)
    if _skips_first(definition, given):
        given = given[1:]
    bound = _bound_keywords(definition.fn)
    given = [each for each in given if each.name not in bound]
    fallback = {kind.__name__: kind for kind in definition.inject}
    hints = resolved_hints(definition.fn, definition.names, fallback)
    shown: list[_Parameter] = []
    for each in given:
        if each.name in definition.injected:
            continue
        hint = hints.get(each.name, Any if isinstance(each.annotation, str) else each.annotation)
        shown.extend(_shown(each, Any if hint is _EMPTY else hint))
    parameters, model = _model(definition.name, tuple(shown))
    return _Reading(parameters, tuple(given), model, readable=True)


def _shown(given: inspect.Parameter, hint: Any) -> Iterable[_Parameter]:
    if given.kind is _KEYWORDS and typing_extensions.get_origin(hint) is typing_extensions.Unpack:
        unpacked = typing.get_args(hint)[0]
        types_of = typing_extensions.get_type_hints(unpacked, include_extras=True)
        for name, one in types_of.items():
            plain, required = _unqualified(one, name in unpacked.__required_keys__)
            yield _Parameter(name, inspect.Parameter.KEYWORD_ONLY, plain, _EMPTY if required else _UNSET)
        return
    note, field, metadata, plain = None, None, (), hint
    if typing.get_origin(hint) is typing.Annotated:
        plain, metadata = hint.__origin__, hint.__metadata__
        note = next((one for one in metadata if isinstance(one, str)), None) or next(
            (one.documentation for one in metadata if type(one).__name__ == "Doc"), None
        )
    default = given.default
    kept: list[Any] = []
    for one in (*metadata, *([default] if isinstance(default, FieldInfo) else [])):
        if isinstance(one, FieldInfo):
            field = one if not one.is_required() else field
            one = _without_default(one)
        kept.append(one)
    if isinstance(default, FieldInfo):
        default = _EMPTY
    if field is not None and default is _EMPTY:
        default = field.get_default() if field.default_factory is None else _UNSET
    elif default is not _EMPTY:
        field = None
    if kept:
        hint = functools.reduce(lambda made, one: typing.Annotated[made, one], kept, plain)
    if given.kind is _REST:
        hint = list[hint]
    elif given.kind is _KEYWORDS:
        hint = dict[str, hint]
    yield _Parameter(given.name, given.kind, hint, default, field, note)


def _model(
    owner: str, parameters: tuple[_Parameter, ...]
) -> tuple[tuple[_Parameter, ...], type[pydantic.BaseModel]]:
    """The pydantic model of the parameters; those that pydantic cannot describe become any value."""
    try:
        return parameters, _attempt(owner, parameters)
    except Exception:
        kept = []
        for each in parameters:
            try:
                _attempt(owner, (each,))
            except Exception as error:
                warn_once(
                    f"parameter:{owner}:{each.name}",
                    "parameter %r of tool %r has no JSON Schema and describes any value: %s",
                    each.name,
                    owner,
                    _first_line(error),
                )
                each = each._replace(hint=_ANY_OF_KIND.get(each.kind, Any), degraded=True)
            kept.append(each)
    parameters = tuple(kept)
    try:
        return parameters, _attempt(owner, parameters)
    except Exception as error:  # each works alone, not together
        warn_once(f"tool:{owner}", "parameters of tool %r describe any value: %s", owner, _first_line(error))
        parameters = tuple(
            each._replace(hint=_ANY_OF_KIND.get(each.kind, Any), degraded=True) for each in parameters
        )
        return parameters, _attempt(owner, parameters)


_ANY_OF_KIND: Final[dict[Any, Any]] = {_REST: list[Any], _KEYWORDS: dict[str, Any]}


def _attempt(owner: str, parameters: tuple[_Parameter, ...]) -> type[pydantic.BaseModel]:
    fields: dict[str, Any] = {}
    made: dict[Any, Any] = {}
    make_field: Any = pydantic.Field
    for index, each in enumerate(parameters):
        alias = _OPEN if each.kind is _KEYWORDS else each.name
        names = {"alias": alias, "validation_alias": alias, "serialization_alias": alias}
        field = make_field(_UNSET, **names) if each.optional else make_field(**names)
        fields[f"f{index}"] = (_portable(each.hint, made), field)
    # Nothing about extra names: TypedDicts and dataclasses inside would inherit it.
    config = pydantic.ConfigDict(arbitrary_types_allowed=True, regex_engine="python-re")
    model: type[pydantic.BaseModel] = pydantic.create_model(
        owner, __config__=config, __module__=__name__, **fields
    )
    _generate(model, owner)
    return model


def _generate(model: type[pydantic.BaseModel], owner: str) -> dict[str, Any]:
    generator = _generator(f"tool {owner!r}")
    made = model.model_json_schema(by_alias=True, schema_generator=generator, mode="validation")
    made.setdefault("properties", {})
    return _marked(made, generator.untitled)


def _of_type(given: Any, owner: str) -> dict[str, Any]:
    generator = _generator(f"tool {owner!r} (result)")
    adapter: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(_portable(given, {}))
    made = adapter.json_schema(schema_generator=generator, mode="serialization")
    return _polished(_marked(made, generator.untitled))


def _generator(owner: str) -> type[_Schema]:
    return type("_Schema", (_Schema,), {"owner": owner, "untitled": set()})


def _marked(made: dict[str, Any], untitled: set[str]) -> dict[str, Any]:
    for named in (made, *made.get("$defs", {}).values()):
        if named.get("title") in untitled:
            named["title"] = _AUTO + named["title"]
    return made


def _open_schema(reading: _Reading, properties: dict[str, Any]) -> Any:
    """What ``additionalProperties`` says; the property of ``**kwargs`` is taken out for it."""
    rest = next((each for each in reading.parameters if each.kind is _KEYWORDS), None)
    if rest is None:
        return False
    shape = properties.pop(rest.name)
    inner = shape.get("additionalProperties", True)
    if "description" in shape:
        inner = {"description": shape["description"], **(inner if isinstance(inner, dict) else {})}
    return inner


def _add_default(shape: dict[str, Any], parameter: _Parameter, definition: ToolDefinition) -> None:
    if parameter.default is _UNSET:
        return
    try:
        plain = as_json(parameter.default)
        canonical(plain)
    except Exception:
        warn_once(
            f"default:{definition.name}:{parameter.name}",
            "default of parameter %r of tool %r (a %s) is not JSON; the schema leaves it out",
            parameter.name,
            definition.name,
            type(parameter.default).__name__,
        )
        return
    shape["default"] = plain


def _polished(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with definitions under stable names, without made-up titles, unordered lists sorted."""
    schema = name_definitions(schema, _definition_name)

    def visit(node: Any) -> None:
        if not isinstance(node, dict):
            return
        if isinstance(node.get("title"), str) and node["title"].startswith(_AUTO):
            del node["title"]
        if isinstance(node.get("required"), list):
            node["required"].sort()
        only = node.get("allOf")
        if isinstance(only, list) and len(only) == 1 and list(only[0]) == ["$ref"]:
            node.update(node.pop("allOf")[0])  # older pydantic's way to put words beside a $ref
        for _, child in children(node):
            visit(child)
        if isinstance(node.get("anyOf"), list):
            # typing caches unions regardless of order, so the first module imported would decide it.
            node["anyOf"].sort(key=lambda one: (one == {"type": "null"}, canonical(one)))

    visit(schema)
    return schema


def _definition_name(old: str, definition: Any, _position: int) -> str:
    title = definition.get("title", "") if isinstance(definition, dict) else ""
    if title.startswith(_AUTO) and len(title) > 1:
        return re.sub(r"[^A-Za-z0-9_.-]", "_", title[1:])
    return re.sub(r"-(Input|Output)(__\d+)?\Z", "", old).rsplit("__", 1)[-1] or old


def _skips_first(definition: ToolDefinition, given: list[inspect.Parameter]) -> bool:
    fn = definition.fn
    if not given or isinstance(fn, (staticmethod, types.MethodType, functools.partial)):
        return False
    if isinstance(fn, classmethod):
        return True
    if definition.skip_first is not None:
        return definition.skip_first
    if not isinstance(fn, types.FunctionType):
        return False
    owner = fn.__qualname__.rpartition(".")[0]
    written_in_class = bool(owner) and not owner.endswith("<locals>")
    return written_in_class and given[0].name in ("self", "cls", "mcs")


def _bound_keywords(fn: Any) -> set[str]:
    found: set[str] = set()
    while isinstance(fn, functools.partial):
        found.update(fn.keywords)
        fn = fn.func
    return found


def _without_default(field: FieldInfo) -> FieldInfo:
    field = copy.copy(field)
    field.default, field.default_factory = pydantic_core.PydanticUndefined, None
    field._attributes_set = {
        name: value
        for name, value in field._attributes_set.items()
        if name not in ("default", "default_factory", "alias", "validation_alias", "serialization_alias")
    }
    return field


def _unqualified(hint: Any, required: bool) -> tuple[Any, bool]:
    """A TypedDict key's type without its qualifiers, and whether the key is required.

    Where annotations are text, the class itself does not know its qualifiers.
    """
    read_only = getattr(typing_extensions, "ReadOnly", None)
    while (origin := typing.get_origin(hint)) is not None:
        if origin in (typing_extensions.Required, typing_extensions.NotRequired):
            required = origin is typing_extensions.Required
        elif origin is not read_only:
            break
        hint = typing.get_args(hint)[0]
    return hint, required


def _portable(hint: Any, made: dict[Any, Any]) -> Any:
    """The same type with every ``typing.TypedDict`` as one of typing_extensions, as pydantic wants them.

    Without it, one half of the tools that take a TypedDict would have no schema before Python 3.12.
    """
    if sys.version_info >= (3, 12):
        return hint
    if typing.is_typeddict(hint) and type(hint).__module__ == "typing":
        if hint not in made:
            twin = made[hint] = typing_extensions.TypedDict(hint.__name__, {})  # type: ignore[operator]
            twin.__module__, twin.__qualname__, twin.__doc__ = (
                hint.__module__,
                hint.__qualname__,
                hint.__doc__,
            )
            twin.__required_keys__, twin.__optional_keys__ = hint.__required_keys__, hint.__optional_keys__
            hints = typing_extensions.get_type_hints(hint, include_extras=True)
            twin.__annotations__ = {name: _portable(one, made) for name, one in hints.items()}
        return made[hint]
    arguments = typing.get_args(hint)
    if not arguments or typing.get_origin(hint) in (typing.Literal, typing_extensions.Literal):
        return hint
    if typing.get_origin(hint) is typing.Annotated:
        arguments = arguments[:1]
    return rebuild(hint, tuple(_portable(one, made) for one in arguments))


def _is_abc(origin: Any) -> bool:
    return getattr(origin, "__module__", None) == "collections.abc"


def _first_line(error: BaseException) -> str:
    try:
        return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
    except Exception:
        return type(error).__name__
