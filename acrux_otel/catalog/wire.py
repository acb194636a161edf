# SPDX-License-Identifier: Apache-2.0
"""The HTTP contract's JSON, both ways: what the client writes the server reads, and back.

Reading raises KeyError, TypeError or ValueError for what is not of the contract.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NoReturn, TypeVar

from acrux_otel.catalog.model import (
    Alias,
    Change,
    Definition,
    Event,
    Page,
    Ref,
    Resolved,
    SyncResult,
    ToolEntry,
    Version,
)

__all__ = [
    "alias_json",
    "definition_json",
    "encoded",
    "event_json",
    "page_json",
    "parsed",
    "read_alias",
    "read_definition",
    "read_event",
    "read_ref",
    "read_resolved",
    "read_result",
    "read_tool",
    "read_version",
    "ref_json",
    "resolved_json",
    "result_json",
    "tool_json",
    "version_json",
    "whole_number",
]

T = TypeVar("T")
_ID_LIMIT: Final = 200


def parsed(data: bytes) -> Any:
    """A JSON text's value.

    Raises:
        ValueError: not JSON; NaN and infinities are none.
    """
    try:
        return json.loads(data, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def encoded(value: Any) -> bytes:
    """A value as JSON text."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "replace")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


# -- references and definitions -------------------------------------------------------------------------


def ref_json(ref: Ref) -> dict[str, Any]:
    if ref.version is not None:
        return {"name": ref.name, "version": ref.version}
    return {"name": ref.name} if ref.alias is None else {"name": ref.name, "alias": ref.alias}


def read_ref(data: Any) -> Ref:
    if isinstance(data, str):
        return Ref.parse(data)
    return Ref(_text(data, "name"), _optional(data, "alias", str), _optional(data, "version", int))


def definition_json(definition: Definition, *, whole: bool) -> dict[str, Any]:
    """The parts of a definition; ``whole`` adds what AcruxCore does not keep."""
    made: dict[str, Any] = {"parametersSchema": definition.parameters, "executor": definition.executor}
    if definition.description is not None:
        made["description"] = definition.description
    if whole:
        made["resultSchema"] = definition.result
        made["resultSchemaSeverity"] = definition.severity
        made["annotations"] = definition.annotations
    return made


def read_definition(data: Any, name: str) -> Definition:
    return Definition(
        name,
        _value(data, "parametersSchema", dict),
        _optional(data, "description", str),
        _value(data, "executor", dict),
        _optional(data, "resultSchema", dict),
        _optional(data, "resultSchemaSeverity", str),
        _optional(data, "annotations", dict) or {},
    )


# -- answers --------------------------------------------------------------------------------------------


def result_json(result: SyncResult) -> dict[str, Any]:
    made = {
        "toolId": result.tool_id,
        "versionNumber": result.version_number,
        "committed": result.committed,
        "alias": result.alias,
        "versionId": result.version_id,
        "change": None if result.change is None else result.change.value,
    }
    if result.superseded_source is not None:
        made["supersededSource"] = result.superseded_source
    return made


def read_result(data: Any, name: str) -> SyncResult:
    committed = _value(data, "committed", bool)
    return SyncResult(
        name,
        _id(data, "toolId"),
        _value(data, "versionNumber", int),
        committed,
        _text(data, "alias"),
        _optional(data, "supersededSource", str),
        None if data.get("versionId") is None else _id(data, "versionId"),
        _change(data) if committed else Change.NONE,
    )


def resolved_json(resolved: Resolved) -> dict[str, Any]:
    definition = resolved.definition
    function: dict[str, Any] = {"name": resolved.name, "parameters": definition.parameters}
    if definition.description is not None:
        function["description"] = definition.description
    made = {
        "toolId": resolved.tool_id,
        "versionNumber": resolved.version_number,
        "versionId": resolved.version_id,
        "executorType": definition.executor.get("type"),
        "function": function,
        "fingerprint": resolved.fingerprint,
    }
    if definition.result is not None:
        made["resultSchema"] = definition.result
        made["resultSchemaSeverity"] = definition.severity
    return made


def read_resolved(data: Any) -> Resolved:
    function = _value(data, "function", dict)
    name = _text(function, "name")
    result = _optional(data, "resultSchema", dict)
    severity = _optional(data, "resultSchemaSeverity", str) or "warn"
    definition = Definition(
        name,
        _value(function, "parameters", dict),
        _optional(function, "description", str),
        {"type": _text(data, "executorType")},
        result,
        None if result is None else severity,
    )
    return Resolved(
        name,
        _id(data, "toolId"),
        _value(data, "versionNumber", int),
        definition,
        None if data.get("versionId") is None else _id(data, "versionId"),
        _optional(data, "fingerprint", str),
    )


def version_json(version: Version) -> dict[str, Any]:
    made: dict[str, Any] = {
        "id": version.id,
        "toolId": version.tool_id,
        "versionNumber": version.number,
        "description": version.description,
        "changelog": version.changelog,
        "source": version.source,
        "change": None if version.change is None else version.change.value,
        "createdBy": version.created_by,
        "createdAt": version.created_at,
    }
    if version.definition is not None:
        made |= {"description": None, **definition_json(version.definition, whole=True)}
    return made


def read_version(data: Any, name: str) -> Version:
    return Version(
        _text(data, "id"),
        _text(data, "toolId"),
        _value(data, "versionNumber", int),
        _text(data, "source"),
        str(data.get("createdBy", "")),
        _text(data, "createdAt"),
        _optional(data, "description", str),
        _optional(data, "changelog", str),
        _change(data),
        read_definition(data, name) if "parametersSchema" in data else None,
    )


def alias_json(alias: Alias) -> dict[str, Any]:
    return {
        "id": alias.id,
        "alias": alias.alias,
        "versionId": alias.version_id,
        "versionNumber": alias.version_number,
        "updatedAt": alias.updated_at,
    }


def read_alias(data: Any) -> Alias:
    return Alias(
        _text(data, "id"),
        _text(data, "alias"),
        _text(data, "versionId"),
        _value(data, "versionNumber", int),
        _text(data, "updatedAt"),
    )


def tool_json(tool: ToolEntry) -> dict[str, Any]:
    return {
        "id": tool.id,
        "name": tool.name,
        "description": tool.description,
        "teamId": "local",
        "createdBy": tool.created_by,
        "createdAt": tool.created_at,
        "callable": "production" in tool.aliases,
        "versionCount": tool.version_count,
        "latestVersionNumber": tool.latest_version,
        "executorType": tool.executor_type,
        "aliases": [{"alias": name, "versionNumber": number} for name, number in tool.aliases.items()],
    }


def read_tool(data: Any) -> ToolEntry:
    aliases = _optional(data, "aliases", list) or []
    return ToolEntry(
        _text(data, "id"),
        _text(data, "name"),
        _optional(data, "description", str),
        str(data.get("createdBy", "")),
        _text(data, "createdAt"),
        _optional(data, "versionCount", int) or 0,
        _optional(data, "latestVersionNumber", int),
        _optional(data, "executorType", str),
        {_text(each, "alias"): _value(each, "versionNumber", int) for each in aliases},
    )


def event_json(event: Event) -> dict[str, Any]:
    return {
        "at": event.at,
        "by": event.by,
        "action": event.action,
        "versionNumber": event.version,
        "alias": event.alias,
        "previousVersionNumber": event.previous,
        "source": event.source,
        "change": None if event.change is None else event.change.value,
        "changelog": event.changelog,
    }


def read_event(data: Any) -> Event:
    return Event(
        _text(data, "at"),
        _text(data, "by"),
        _text(data, "action"),
        _optional(data, "versionNumber", int),
        _optional(data, "alias", str),
        _optional(data, "previousVersionNumber", int),
        _optional(data, "source", str),
        _change(data),
        _optional(data, "changelog", str),
    )


def page_json(page: Page[T], each: Any) -> dict[str, Any]:
    data = [each(one) for one in page.items]
    return {"data": data, "total": page.total, "page": page.page, "limit": page.limit}


# -- fields ---------------------------------------------------------------------------------------------


def whole_number(data: Mapping[str, Any], key: str) -> int:
    """A field that is a whole number, ``1.0`` too."""
    return _value(data, key, int)


def _value(data: Mapping[str, Any], key: str, kind: type[T]) -> T:
    if not isinstance(data, Mapping):
        raise TypeError(f"expected an object, not {_named(data)}")
    if key not in data:
        raise KeyError(key)
    value = data[key]
    if kind is int and isinstance(value, float) and value.is_integer():
        value = int(value)  # JSON knows one kind of number
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise TypeError(f"{key} is {_named(value)}, expected {_NAMES[kind]}")
    return value


def _text(data: Mapping[str, Any], key: str) -> str:
    return _value(data, key, str)


def _id(data: Mapping[str, Any], key: str) -> str:
    """What goes to a tool's spans, so it must be fit for them."""
    found = _text(data, key)
    if not 1 <= len(found) <= _ID_LIMIT or not found.isprintable():
        raise ValueError(f"{key} is not 1 to {_ID_LIMIT} printable characters")
    return found


def _optional(data: Mapping[str, Any], key: str, kind: type[T]) -> T | None:
    if not isinstance(data, Mapping):
        raise TypeError(f"expected an object, not {_named(data)}")
    return None if data.get(key) is None else _value(data, key, kind)


def _change(data: Mapping[str, Any]) -> Change | None:
    told = _optional(data, "change", str)
    return Change(told) if told in Change._value2member_map_ else None


_NAMES: dict[type[Any], str] = {
    str: "text",
    int: "a whole number",
    bool: "true or false",
    dict: "an object",
    list: "a list",
    float: "a number",
    type(None): "null",
}


def _named(value: object) -> str:
    return _NAMES.get(type(value), type(value).__name__)
