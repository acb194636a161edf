# SPDX-License-Identifier: Apache-2.0
"""Types -> JSON Schema 2020-12, by pydantic, in one form on every Python and pydantic.

Imported on first use only, because pydantic is heavy.
"""

from __future__ import annotations

import logging
import re
import sys
import typing
from typing import TYPE_CHECKING, Any, Final

import pydantic
import pydantic_core
import typing_extensions
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from acrux_otel.definition.fingerprint import as_json, canonical, children, name_definitions
from acrux_otel.definition.signature import rebuild, resolved_hints
from acrux_otel.verdict import warn_once

if TYPE_CHECKING:
    from pydantic_core import core_schema

    from acrux_otel.definition.contract import ToolDefinition

__all__ = [
    "UNSET",
    "enforced_schema",
    "first_line",
    "model_schema",
    "polished",
    "portable",
    "result_schema",
    "unusable_type",
]

UNSET: Final[Any] = type("_Unset", (), {"__repr__": lambda self: "<unset>"})()  # a default that is not shown
_log = logging.getLogger("acrux_otel")
_AUTO: Final = "\0"  # marks a title that pydantic made up
_ITERATED: Final = frozenset(
    {"Generator", "AsyncGenerator", "Iterator", "AsyncIterator", "Iterable", "AsyncIterable"}
)
_AWAITED: Final = frozenset({"Awaitable", "Coroutine"})


class _Schema(GenerateJsonSchema):
    """pydantic's generator, without made-up titles and with defaults by value."""

    owner = ""
    untitled: typing.ClassVar[set[str]] = set()

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        if schema.get("default") is UNSET:
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
        _log.debug("the result of tool %r has no JSON Schema: %s", definition.name, first_line(error))
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
            first_line(error),
        )
        return None


def unusable_type(given: Any) -> str | None:
    """Why a type has no JSON Schema, in one line; None where it has, or may have once all is imported."""
    try:
        _of_type(given, getattr(given, "__name__", "a type"))
    except pydantic.errors.PydanticUndefinedAnnotation:
        return None
    except pydantic.errors.PydanticUserError as error:
        return None if error.code == "class-not-fully-defined" else first_line(error)
    except Exception as error:
        return first_line(error)
    return None


def model_schema(model: type[pydantic.BaseModel], owner: str) -> dict[str, Any]:
    """The schema of a model's fields, for `polished`; raises as pydantic does."""
    generator = _generator(f"tool {owner!r}")
    made = model.model_json_schema(by_alias=True, schema_generator=generator, mode="validation")
    made.setdefault("properties", {})
    canonical(made)
    return _marked(made, generator.untitled)


def polished(schema: dict[str, Any]) -> dict[str, Any]:
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


def portable(hint: Any, made: dict[Any, Any]) -> Any:
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
            twin.__annotations__ = {name: portable(one, made) for name, one in hints.items()}
        return made[hint]
    arguments = typing.get_args(hint)
    if not arguments or typing.get_origin(hint) in (typing.Literal, typing_extensions.Literal):
        return hint
    if typing.get_origin(hint) is typing.Annotated:
        arguments = arguments[:1]
    return rebuild(hint, tuple(portable(one, made) for one in arguments))


def first_line(error: BaseException) -> str:
    try:
        return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
    except Exception:
        return type(error).__name__


def _of_type(given: Any, owner: str) -> dict[str, Any]:
    generator = _generator(f"tool {owner!r} (result)")
    adapter: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(portable(given, {}))
    made = adapter.json_schema(schema_generator=generator, mode="serialization")
    canonical(made)
    return polished(_marked(made, generator.untitled))


def _generator(owner: str) -> type[_Schema]:
    return type("_Schema", (_Schema,), {"owner": owner, "untitled": set()})


def _marked(made: dict[str, Any], untitled: set[str]) -> dict[str, Any]:
    for named in (made, *made.get("$defs", {}).values()):
        if named.get("title") in untitled:
            named["title"] = _AUTO + named["title"]
    return made


def _definition_name(old: str, definition: Any, _position: int) -> str:
    title = definition.get("title", "") if isinstance(definition, dict) else ""
    if title.startswith(_AUTO) and len(title) > 1:
        return re.sub(r"[^A-Za-z0-9_.-]", "_", title[1:])
    return re.sub(r"-(Input|Output)(__\d+)?\Z", "", old).rsplit("__", 1)[-1] or old


def _is_abc(origin: Any) -> bool:
    return getattr(origin, "__module__", None) == "collections.abc"
