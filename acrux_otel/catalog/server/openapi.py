# SPDX-License-Identifier: Apache-2.0
"""The catalog server's contract as an OpenAPI document."""

from __future__ import annotations

from typing import Any, Final

from acrux_otel._version import VERSION
from acrux_otel.catalog.checks import BODY_LIMIT, LAST_PAGE, PAGE_LIMIT, REFS_LIMIT, TEXT_LIMIT

__all__ = ["BASE_PATH", "document"]

BASE_PATH: Final = "/api/v1"

_STORABLE: Final = r"^[^\u0000]*$"
_TEXT: Final = {"type": "string", "maxLength": TEXT_LIMIT, "pattern": _STORABLE}
_NAME: Final = {"type": "string", "pattern": "^[a-zA-Z0-9_-]{1,64}$"}
_ALIAS: Final = {"type": "string", "pattern": "^(?![0-9]+$)[!-~]([ -~]{0,62}[!-~])?$"}
_ANY_ALIAS: Final = {"type": "string", "minLength": 1, "maxLength": 64}
_NUMBER: Final = {"type": "integer", "minimum": 1, "maximum": 2**31 - 1}
_TEXT_OR_NULL: Final = {"type": ["string", "null"]}
_CHANGE: Final = {"enum": ["none", "description", "compatible", "breaking", None]}
_JSON_OBJECT: Final = {
    "type": "object",
    "propertyNames": {"pattern": _STORABLE},
    "additionalProperties": {"$ref": "#/components/schemas/Json"},
}
_JSON: Final = {
    "description": "Any JSON without a NUL in its texts.",
    "anyOf": [
        {"type": ["null", "boolean", "integer", "number"]},
        {"type": "string", "pattern": _STORABLE},
        {"type": "array", "items": {"$ref": "#/components/schemas/Json"}},
        _JSON_OBJECT,
    ],
}
_EXECUTOR: Final = {
    "type": "object",
    "required": ["type"],
    "properties": {"type": {"enum": ["client", "http"]}},
    "propertyNames": {"pattern": _STORABLE},
    "additionalProperties": {"$ref": "#/components/schemas/Json"},
}
_ANNOTATIONS: Final = {
    "type": "object",
    "propertyNames": {"pattern": _STORABLE},
    "additionalProperties": {"type": "boolean"},
}


def document() -> dict[str, Any]:
    """OpenAPI 3.1."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "acrux-otel catalog",
            "version": VERSION,
            "description": f"Bodies are JSON of at most {BODY_LIMIT} bytes; unknown keys are ignored.",
        },
        "servers": [{"url": BASE_PATH}],
        "security": [{"key": []}],
        "paths": _paths(),
        "components": {
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
            "schemas": _schemas(),
        },
    }


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _object(properties: dict[str, Any], *optional: str) -> dict[str, Any]:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required}


def _page(of: str) -> dict[str, Any]:
    count = {"type": "integer", "minimum": 0}
    data = {"type": "array", "items": _ref(of)}
    return _object({"data": data, "total": count, "page": count, "limit": count})


def _schemas() -> dict[str, Any]:
    listed = {
        "id": {"type": "string"},
        "toolId": {"type": "string"},
        "versionNumber": _NUMBER,
        "description": _TEXT_OR_NULL,
        "changelog": _TEXT_OR_NULL,
        "source": {"enum": ["code", "dashboard", "api"]},
        "change": _CHANGE,
        "createdBy": {"type": "string"},
        "createdAt": {"type": "string", "format": "date-time"},
    }
    contract = {
        "parametersSchema": {"type": "object"},
        "executor": {"type": "object"},
        "resultSchema": {"type": ["object", "null"]},
        "resultSchemaSeverity": {"enum": ["warn", "error", None]},
        "annotations": {"type": "object"},
    }
    alias = _object(
        {
            "id": {"type": "string"},
            "alias": _ANY_ALIAS,
            "versionId": {"type": "string"},
            "versionNumber": _NUMBER,
            "updatedAt": {"type": "string", "format": "date-time"},
        }
    )
    commit_answer = _object(
        {
            **listed,
            **contract,
            "aliases": {"type": "array", "items": _ref("Alias")},
            "warnings": {"type": "array", "items": {"type": "string"}},
        },
        "aliases",
        "warnings",
    )
    return {
        "Json": _JSON,
        "Error": _object(
            {
                "error": _object(
                    {"code": {"type": "string"}, "message": {"type": "string"}, "refs": {"type": "array"}},
                    "refs",
                )
            }
        ),
        "Tool": _object(
            {
                "id": {"type": "string"},
                "name": _NAME,
                "description": _TEXT_OR_NULL,
                "teamId": {"type": "string"},
                "createdBy": {"type": "string"},
                "createdAt": {"type": "string", "format": "date-time"},
                "callable": {"type": "boolean"},
                "versionCount": {"type": "integer", "minimum": 0},
                "latestVersionNumber": {"type": ["integer", "null"]},
                "executorType": _TEXT_OR_NULL,
                "aliases": {
                    "type": "array",
                    "items": _object({"alias": _ANY_ALIAS, "versionNumber": _NUMBER}),
                },
            }
        ),
        "ToolPage": _page("Tool"),
        "Alias": alias,
        "AliasList": _object({"data": {"type": "array", "items": _ref("Alias")}}),
        "ListedVersion": _object(listed),
        "VersionPage": _page("ListedVersion"),
        "Version": _object({**listed, **contract}),
        "CommittedVersion": commit_answer,
        "Event": _object(
            {
                "at": {"type": "string", "format": "date-time"},
                "by": {"type": "string"},
                "action": {"enum": ["commit", "promote", "rename", "delete"]},
                "versionNumber": {"type": ["integer", "null"]},
                "alias": _TEXT_OR_NULL,
                "previousVersionNumber": {"type": ["integer", "null"]},
                "source": {"enum": ["code", "dashboard", "api", None]},
                "change": _CHANGE,
                "changelog": _TEXT_OR_NULL,
            }
        ),
        "EventPage": _page("Event"),
        "SyncAnswer": _object(
            {
                "toolId": {"type": "string"},
                "versionNumber": _NUMBER,
                "committed": {"type": "boolean"},
                "alias": _ANY_ALIAS,
                "versionId": {"type": "string"},
                "change": _CHANGE,
                "supersededSource": {"const": "dashboard"},
            },
            "supersededSource",
        ),
        "Resolved": _object(
            {
                "toolId": {"type": "string"},
                "versionNumber": _NUMBER,
                "versionId": {"type": "string"},
                "executorType": {"enum": ["client", "http"]},
                "function": _object(
                    {"name": _NAME, "description": {"type": "string"}, "parameters": {"type": "object"}},
                    "description",
                ),
                "fingerprint": {"type": "string"},
                "resultSchema": {"type": "object"},
                "resultSchemaSeverity": {"enum": ["warn", "error"]},
            },
            "resultSchema",
            "resultSchemaSeverity",
        ),
        "ResolveAnswer": _object({"data": {"type": "array", "items": _ref("Resolved")}}),
    }


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


_ERRORS: Final = {
    "400": "The request is not of the contract.",
    "401": "No valid key.",
    "403": "The key may only read.",
    "404": "There is no such tool, version or alias.",
    "409": "A name is taken, or an automatic sync would move an alias back.",
    "408": "The body does not come.",
    "413": "The body is too large.",
    "415": "The body is not application/json.",
    "503": "The database does not answer.",
}


def _operation(
    summary: str,
    status: str,
    answer: dict[str, Any] | None,
    errors: str,
    body: dict[str, Any] | None = None,
    parameters: tuple[dict[str, Any], ...] = (),
) -> dict[str, Any]:
    codes = ["400", "401", "503", *errors.split()]
    if body is not None:
        codes += ["408", "413", "415"]
    made: dict[str, Any] = {
        "summary": summary,
        "responses": {
            status: {"description": "Done."} | ({} if answer is None else {"content": _json(answer)}),
            **{code: {"description": _ERRORS[code], "content": _json(_ref("Error"))} for code in codes},
        },
    }
    if body is not None:
        made["requestBody"] = {"required": True, "content": _json(body)}
    if parameters:
        made["parameters"] = list(parameters)
    return made


def _path_parameter(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _query(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "query", "schema": schema}


_PAGE: Final = (
    _query("page", {"type": "integer", "minimum": 1, "maximum": LAST_PAGE}),
    _query("limit", {"type": "integer", "minimum": 1, "maximum": PAGE_LIMIT}),
)


def _paths() -> dict[str, Any]:
    tool_id = _path_parameter("tool_id", {"type": "string", "format": "uuid"})
    number = _path_parameter("number", _NUMBER)
    alias = _path_parameter("alias", _ALIAS)
    search = _query("search", {"type": "string", "maxLength": 200, "pattern": _STORABLE})
    contract = {
        "description": _TEXT,
        "changelog": _TEXT,
        "parametersSchema": _JSON_OBJECT,
        "executor": _EXECUTOR,
        "resultSchema": {"anyOf": [_JSON_OBJECT, {"type": "null"}]},
        "annotations": _ANNOTATIONS,
    }
    sync = _object(
        {
            "name": _NAME,
            **contract,
            "alias": _ALIAS,
            "source": {"enum": ["code", "dashboard", "api"]},
            "automatic": {"type": "boolean"},
        },
        *("description", "changelog", "resultSchema", "annotations", "alias", "source", "automatic"),
    )
    commit = _object(
        {**contract, "source": {"enum": ["dashboard", "api"]}},
        *("description", "changelog", "resultSchema", "annotations", "source"),
    )
    by_alias = {"type": "object", "required": ["name"], "properties": {"name": _NAME, "alias": _ALIAS}}
    by_number = _object({"name": _NAME, "version": _NUMBER})
    reference = {
        "anyOf": [
            by_alias | {"not": {"required": ["version"]}},
            by_number | {"not": {"required": ["alias"]}},
        ]
    }
    refs = {"type": "array", "minItems": 1, "maxItems": REFS_LIMIT, "items": reference}
    return {
        "/tools/sync": {
            "post": _operation(
                "Make an alias point at a definition", "200", _ref("SyncAnswer"), "403 409", sync
            )
        },
        "/tools/resolve": {
            "post": _operation(
                "What references point at", "200", _ref("ResolveAnswer"), "404", _object({"refs": refs})
            )
        },
        "/tools": {
            "get": _operation("Tools, newest first", "200", _ref("ToolPage"), "", None, (search, *_PAGE)),
            "post": _operation(
                "A tool without a version",
                "201",
                _ref("Tool"),
                "403 409",
                _object({"name": _NAME, "description": _TEXT}, "description"),
            ),
        },
        "/tools/{tool_id}": {
            "parameters": [tool_id],
            "get": _operation("One tool", "200", _ref("Tool"), "404"),
            "patch": _operation(
                "Rename or describe a tool",
                "200",
                _ref("Tool"),
                "403 404 409",
                {
                    "type": "object",
                    "properties": {"name": _NAME, "description": {"anyOf": [_TEXT, {"type": "null"}]}},
                }
                | {"anyOf": [{"required": ["name"]}, {"required": ["description"]}]},
            ),
            "delete": _operation("Take a tool out of the catalog", "204", None, "403 404"),
        },
        "/tools/{tool_id}/versions": {
            "parameters": [tool_id],
            "get": _operation("Versions, newest first", "200", _ref("VersionPage"), "404", None, _PAGE),
            "post": _operation("Add a version by hand", "201", _ref("CommittedVersion"), "403 404", commit),
        },
        "/tools/{tool_id}/versions/{number}": {
            "parameters": [tool_id, number],
            "get": _operation("One version", "200", _ref("Version"), "404"),
        },
        "/tools/{tool_id}/history": {
            "parameters": [tool_id],
            "get": _operation("What happened, newest first", "200", _ref("EventPage"), "404", None, _PAGE),
        },
        "/tools/{tool_id}/aliases": {
            "parameters": [tool_id],
            "get": _operation("Where the aliases point", "200", _ref("AliasList"), "404"),
        },
        "/tools/{tool_id}/aliases/{alias}/promote": {
            "parameters": [tool_id, alias],
            "post": _operation(
                "Make an alias point at a version",
                "200",
                _ref("Alias"),
                "403 404",
                _object({"version_number": _NUMBER}),
            ),
        },
    }
