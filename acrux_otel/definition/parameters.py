# SPDX-License-Identifier: Apache-2.0
"""Signature -> JSON Schema of the arguments, and JSON arguments -> a call.

Imported on first use only, because pydantic is heavy. Whatever a signature holds, a schema comes out: what
cannot be described is described as any value, with one warning.
"""

from __future__ import annotations

import copy
import functools
import inspect
import json
import types
import typing
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pydantic
import pydantic_core
import typing_extensions
from pydantic.fields import FieldInfo

from acrux_otel.definition.fingerprint import as_json, canonical
from acrux_otel.definition.schema import UNSET, first_line, model_schema, polished, portable
from acrux_otel.definition.signature import injected_parameters, read_signature, resolved_hints
from acrux_otel.verdict import warn_once

if TYPE_CHECKING:
    from acrux_otel.definition.contract import ToolDefinition

__all__ = ["bind", "injected_of", "parameters_schema"]

_EMPTY: Final = inspect.Parameter.empty
_POSITIONAL: Final = inspect.Parameter.POSITIONAL_ONLY
_REST: Final = inspect.Parameter.VAR_POSITIONAL
_KEYWORDS: Final = inspect.Parameter.VAR_KEYWORD
_OPEN: Final = "**"  # no parameter can be named so
_Made = tuple[type[pydantic.BaseModel], dict[str, Any]]


class _Parameter(NamedTuple):
    """One parameter as the model sees it."""

    name: str
    kind: Any
    hint: Any
    default: Any = _EMPTY
    field: FieldInfo | None = None
    note: str | None = None

    @property
    def optional(self) -> bool:
        return self.default is not _EMPTY or self.kind in (_REST, _KEYWORDS)


class _Reading(NamedTuple):
    """A signature as the model sees it, and the pydantic model of it."""

    parameters: tuple[_Parameter, ...]
    call: tuple[inspect.Parameter, ...]
    model: type[pydantic.BaseModel]
    made: dict[str, Any]
    readable: bool = True


def parameters_schema(definition: ToolDefinition) -> dict[str, Any]:
    """The schema of a tool's arguments."""
    reading = _reading(definition)
    if not reading.readable:
        return {"type": "object", "properties": {}}
    made = copy.deepcopy(reading.made)
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
    return polished(schema)


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
            first_line(error),
        )
        return _Reading((), (), pydantic.BaseModel, {}, readable=False)
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
        try:
            shown.extend(_shown(each, Any if hint is _EMPTY else hint))
        except Exception as error:
            shown.append(
                _degraded(definition.name, _Parameter(each.name, each.kind, Any, each.default), error)
            )
    parameters, (model, made) = _model(definition.name, tuple(shown))
    return _Reading(parameters, tuple(given), model, made)


def _shown(given: inspect.Parameter, hint: Any) -> Iterable[_Parameter]:
    if given.kind is _KEYWORDS and typing_extensions.get_origin(hint) is typing_extensions.Unpack:
        unpacked = typing.get_args(hint)[0]
        types_of = typing_extensions.get_type_hints(unpacked, include_extras=True)
        for name, one in types_of.items():
            plain, required = _unqualified(one, name in unpacked.__required_keys__)
            yield _Parameter(name, inspect.Parameter.KEYWORD_ONLY, plain, _EMPTY if required else UNSET)
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
        default = field.get_default() if field.default_factory is None else UNSET
    elif default is not _EMPTY:
        field = None
    if kept:
        hint = functools.reduce(lambda made, one: typing.Annotated[made, one], kept, plain)
    if given.kind is _REST:
        hint = list[hint]
    elif given.kind is _KEYWORDS:
        hint = dict[str, hint]
    yield _Parameter(given.name, given.kind, hint, default, field, note)


def _model(owner: str, parameters: tuple[_Parameter, ...]) -> tuple[tuple[_Parameter, ...], _Made]:
    """The pydantic model of the parameters; those that pydantic cannot describe become any value."""
    try:
        return parameters, _attempt(owner, parameters)
    except Exception:
        kept = []
        for each in parameters:
            try:
                _attempt(owner, (each,))
            except Exception as error:
                each = _degraded(owner, each, error)
            kept.append(each)
    try:
        return tuple(kept), _attempt(owner, tuple(kept))
    except Exception as error:  # each works alone, not together
        parameters = tuple(_degraded(owner, each, error) for each in kept)
        return parameters, _attempt(owner, parameters)


def _degraded(owner: str, parameter: _Parameter, error: Exception) -> _Parameter:
    warn_once(
        f"parameter:{owner}:{parameter.name}",
        "parameter %r of tool %r has no JSON Schema and describes any value: %s",
        parameter.name,
        owner,
        first_line(error),
    )
    kinds: dict[Any, Any] = {_REST: list[Any], _KEYWORDS: dict[str, Any]}
    return parameter._replace(hint=kinds.get(parameter.kind, Any))


def _attempt(owner: str, parameters: tuple[_Parameter, ...]) -> _Made:
    fields: dict[str, Any] = {}
    twins: dict[Any, Any] = {}
    make_field: Any = pydantic.Field
    for index, each in enumerate(parameters):
        alias = _OPEN if each.kind is _KEYWORDS else each.name
        names = {"alias": alias, "validation_alias": alias, "serialization_alias": alias}
        field = make_field(UNSET, **names) if each.optional else make_field(**names)
        fields[f"f{index}"] = (portable(each.hint, twins), field)
    # Nothing about extra names: TypedDicts and dataclasses inside would inherit it.
    config = pydantic.ConfigDict(arbitrary_types_allowed=True, regex_engine="python-re")
    model: type[pydantic.BaseModel] = pydantic.create_model(
        owner, __config__=config, __module__=__name__, **fields
    )
    return model, model_schema(model, owner)


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
    if parameter.default is UNSET:
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
