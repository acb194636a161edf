# SPDX-License-Identifier: Apache-2.0
"""The catalog server's ASGI application: the AcruxCore contract over a `SqlCatalog`, in Starlette."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from anyio import fail_after
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from acrux_otel.catalog import wire
from acrux_otel.catalog.checks import (
    BODY_LIMIT,
    LAST_PAGE,
    PAGE_LIMIT,
    REFS_LIMIT,
    check_alias,
    check_name,
)
from acrux_otel.catalog.errors import (
    CatalogError,
    CatalogRefused,
    InvalidTool,
    KeyRefused,
    MovesBack,
    NotFound,
)
from acrux_otel.catalog.model import PRODUCTION, Definition
from acrux_otel.catalog.server.openapi import BASE_PATH, document
from acrux_otel.catalog.sql import EDITOR, Keys, SqlCatalog

__all__ = ["BODY_TIMEOUT", "catalog_app"]

_log: Final = logging.getLogger("acrux_otel")
_ID: Final = re.compile(r"[0-9a-fA-F-]{36}\Z").match
_SEARCH_LIMIT: Final = 200
_TOO_LARGE: Final = f"the body is larger than {BODY_LIMIT} bytes"
BODY_TIMEOUT: Final = 10  # seconds

Handler = Callable[["_Call"], "Response"]


class _Call:
    """One request as its handler sees it: who asks, for what, with which body."""

    def __init__(self, catalog: SqlCatalog, request: Request, by: str | None, body: Any) -> None:
        self.catalog, self.by, self.body = catalog, by, body
        self._path: Mapping[str, str] = request.path_params
        self._query = request.query_params

    @property
    def tool_id(self) -> str:
        found = self._path["tool_id"]
        if not _ID(found):
            raise NotFound(f"the catalog has no tool {found[:80]!r}", code="TOOL_NOT_FOUND")
        return found

    @property
    def alias(self) -> str:
        return check_alias(self._path["alias"])

    @property
    def number(self) -> int:
        return _whole(self._path["number"], "the version", 2**31 - 1)

    def page(self, default: int = 20) -> tuple[int, int]:
        """Page and limit."""
        page = _whole(self._query.get("page", "1"), "page", LAST_PAGE)
        return page, _whole(self._query.get("limit", str(default)), "limit", PAGE_LIMIT)

    @property
    def search(self) -> str | None:
        found = self._query.get("search")
        if found is not None and (len(found) > _SEARCH_LIMIT or "\x00" in found):
            raise InvalidTool(f"search takes at most {_SEARCH_LIMIT} characters, and no NUL")
        return found


def catalog_app(catalog: SqlCatalog, *, require_key: bool = True) -> Starlette:
    """The server's ASGI application, under ``/api/v1``.

    Args:
        catalog: where it keeps everything, keys included.
        require_key: False answers everybody; only for a server that nobody else can reach.
    """
    keys = Keys(catalog.database) if require_key else None

    def route(path: str, method: str, handler: Handler, *, reads: bool = False) -> Route:
        async def endpoint(request: Request) -> Response:
            return await _answer(catalog, keys, request, handler, reads or method == "GET")

        return Route(BASE_PATH + path, endpoint, methods=[method], name=handler.__name__)

    async def schema(_request: Request) -> Response:
        return JSONResponse(document())

    routes = [
        Route(f"{BASE_PATH}/openapi.json", schema),
        route("/tools/sync", "POST", _sync),
        route("/tools/resolve", "POST", _resolve, reads=True),
        route("/tools", "GET", _list),
        route("/tools", "POST", _create),
        route("/tools/{tool_id}", "GET", _get),
        route("/tools/{tool_id}", "PATCH", _change),
        route("/tools/{tool_id}", "DELETE", _delete),
        route("/tools/{tool_id}/versions", "GET", _versions),
        route("/tools/{tool_id}/versions", "POST", _commit),
        route("/tools/{tool_id}/versions/{number}", "GET", _version),
        route("/tools/{tool_id}/history", "GET", _history),
        route("/tools/{tool_id}/aliases", "GET", _aliases),
        route("/tools/{tool_id}/aliases/{alias:path}/promote", "POST", _promote),
    ]
    app = Starlette(routes=_by_path(routes), exception_handlers={HTTPException: _http_error})
    app.router.redirect_slashes = False
    return app


# -- one request ----------------------------------------------------------------------------------------


async def _answer(
    catalog: SqlCatalog, keys: Keys | None, request: Request, handler: Handler, reads: bool
) -> Response:
    try:
        by = None if keys is None else await run_in_threadpool(_authorised, keys, request, reads)
        body = await _body(request) if request.method in ("POST", "PATCH") else None
        return await run_in_threadpool(handler, _Call(catalog, request, by, body))
    except HTTPException:
        raise
    except ClientDisconnect:
        return Response(status_code=400)
    except (InvalidTool, CatalogRefused) as refused:
        return _refusal(refused)
    except CatalogError as error:
        _log.error("the catalog server cannot answer: %s", error)
        return _error(503, "CATALOG_UNAVAILABLE", "the catalog's database does not answer")
    except Exception as error:
        _log.error("the catalog server failed (%s)", type(error).__name__, exc_info=True)
        return _error(500, "INTERNAL_ERROR", "the catalog server failed; its log says why")


def _authorised(keys: Keys, request: Request, reads: bool) -> str:
    scheme, _, text = request.headers.get("authorization", "").partition(" ")
    owner = keys.owner(text.strip()) if scheme.lower() == "bearer" and text.strip() else None
    if owner is None:
        raise KeyRefused("a valid key is needed; expected the header Authorization: Bearer acx_sk_…")
    if owner.role != EDITOR and not reads:
        raise KeyRefused(f"the key {owner.name!r} may only read", 403, "FORBIDDEN")
    return owner.name


async def _body(request: Request) -> dict[str, Any]:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, "the body must be application/json")
    try:
        with fail_after(BODY_TIMEOUT):
            data = await _read_body(request)
    except TimeoutError:
        raise HTTPException(408, f"the body did not come within {BODY_TIMEOUT} s") from None
    try:
        body = wire.parsed(data)
    except ValueError as error:
        raise InvalidTool(f"the body is not JSON: {str(error)[:200]}") from None
    if not isinstance(body, dict):
        raise InvalidTool("the body is not a JSON object")
    return body


async def _read_body(request: Request) -> bytes:
    told = request.headers.get("content-length", "")
    if told.isdecimal() and len(told) < 20 and int(told) > BODY_LIMIT:
        raise HTTPException(413, _TOO_LARGE)
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > BODY_LIMIT:
            raise HTTPException(413, _TOO_LARGE)
    return bytes(data)


def _refusal(refused: InvalidTool | CatalogRefused) -> Response:
    more: dict[str, Any] = {}
    if isinstance(refused, NotFound) and refused.refs:
        more["refs"] = [wire.ref_json(ref) for ref in refused.refs]
    if isinstance(refused, MovesBack):
        more["toolId"] = refused.tool_id
        more["versionNumber"], more["versionId"] = refused.version_number, refused.version_id
    return _error(refused.status, refused.code, str(refused), **more)


def _error(status: int, code: str, message: str, **more: Any) -> Response:
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
    return JSONResponse({"error": {"code": code, "message": message, **more}}, status, headers)


_CODES: Final = {
    404: "NOT_FOUND",
    405: "METHOD_NOT_ALLOWED",
    408: "BODY_TOO_SLOW",
    413: "BODY_TOO_LARGE",
    415: "NOT_JSON",
}


async def _http_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = _CODES.get(error.status_code, "HTTP_ERROR")
    answer = _error(error.status_code, code, error.detail)
    answer.headers.update(error.headers or {})
    return answer


# -- the endpoints --------------------------------------------------------------------------------------


def _sync(call: _Call) -> Response:
    body = call.body
    definition = _definition(body, check_name(body.get("name")))
    result = call.catalog.sync(
        definition,
        alias=check_alias(body.get("alias", PRODUCTION)),
        changelog=_given(body, "changelog"),
        automatic=_switch(body, "automatic"),
        source=_source(body, "code"),
        keep=[part for key, part in _PARTS.items() if key not in body],
        by=call.by,
    )
    return JSONResponse(wire.result_json(result))


def _resolve(call: _Call) -> Response:
    refs = call.body.get("refs")
    if not isinstance(refs, list) or not 1 <= len(refs) <= REFS_LIMIT:
        raise InvalidTool(f"refs must be a list of 1 to {REFS_LIMIT} references")
    wanted = []
    for data in refs:
        if not isinstance(data, dict):
            raise InvalidTool("a reference is an object with name and alias or version")
        if data.get("alias") is not None and data.get("version") is not None:
            raise InvalidTool("a reference has an alias or a version, not both")
        ref = _read(wire.read_ref, data)
        check_name(ref.name)
        if ref.alias is not None:
            check_alias(ref.alias)
        if ref.version is not None and ref.version < 1:
            raise InvalidTool("a version is a whole number from 1")
        wanted.append(ref)
    return JSONResponse({"data": [wire.resolved_json(each) for each in call.catalog.resolve(wanted)]})


def _list(call: _Call) -> Response:
    return JSONResponse(wire.page_json(call.catalog.tools(call.search, *call.page()), wire.tool_json))


def _create(call: _Call) -> Response:
    name = check_name(call.body.get("name"))
    tool = call.catalog.create(name, _given(call.body, "description"), by=call.by)
    return JSONResponse(wire.tool_json(tool), 201)


def _get(call: _Call) -> Response:
    return JSONResponse(wire.tool_json(call.catalog.tool_by_id(call.tool_id)))


def _change(call: _Call) -> Response:
    body = call.body
    if not {"name", "description"} & body.keys():
        raise InvalidTool("nothing to change; expected name or description")
    changed: dict[str, Any] = {}
    if "name" in body:
        changed["name"] = check_name(body["name"])
    if "description" in body:
        changed["description"] = body["description"]
    return JSONResponse(wire.tool_json(call.catalog.change(call.tool_id, by=call.by, **changed)))


def _delete(call: _Call) -> Response:
    call.catalog.delete(call.tool_id, by=call.by)
    return Response(status_code=204)


def _versions(call: _Call) -> Response:
    return JSONResponse(wire.page_json(call.catalog.versions(call.tool_id, *call.page()), wire.version_json))


def _commit(call: _Call) -> Response:
    body = call.body
    changelog = _given(body, "changelog")
    source = _source(body, "api")
    if source == "code":
        raise InvalidTool("source 'code' is for POST /tools/sync; expected 'dashboard' or 'api'")
    definition = _definition(body, "unnamed")
    version, aliases = call.catalog.commit(
        call.tool_id, definition, changelog=changelog, source=source, by=call.by
    )
    made = wire.version_json(version)
    if aliases:
        made["aliases"] = [wire.alias_json(each) for each in aliases]
    if changelog and version.description is None:
        made["warnings"] = ["this version has a changelog but no description for the model"]
    return JSONResponse(made, 201)


def _version(call: _Call) -> Response:
    return JSONResponse(wire.version_json(call.catalog.version(call.tool_id, call.number)))


def _history(call: _Call) -> Response:
    return JSONResponse(wire.page_json(call.catalog.history(call.tool_id, *call.page(50)), wire.event_json))


def _aliases(call: _Call) -> Response:
    return JSONResponse({"data": [wire.alias_json(each) for each in call.catalog.aliases(call.tool_id)]})


def _promote(call: _Call) -> Response:
    number = _read(wire.whole_number, call.body, "version_number")
    if not 1 <= number <= 2**31 - 1:
        raise InvalidTool("version_number must be a whole number from 1")
    return JSONResponse(wire.alias_json(call.catalog.promote(call.tool_id, call.alias, number, by=call.by)))


# -- fields of a body -----------------------------------------------------------------------------------

_PARTS: Final = {"resultSchema": "result", "annotations": "annotations"}


def _read(read: Callable[..., Any], *data: Any) -> Any:
    try:
        return read(*data)
    except KeyError as missing:
        raise InvalidTool(f"{missing.args[0]} is missing") from None
    except (TypeError, ValueError) as error:
        raise InvalidTool(str(error)) from None


def _definition(body: dict[str, Any], name: str) -> Definition:
    _given(body, "description")
    definition: Definition = _read(wire.read_definition, body, name)
    kind = definition.executor.get("type")
    if kind not in ("client", "http"):
        raise InvalidTool("executor.type must be 'client' or 'http'")
    if not all(isinstance(value, bool) for value in definition.annotations.values()):
        raise InvalidTool("annotations must be true or false each")
    if definition.severity is not None and definition.result is None:
        raise InvalidTool("resultSchemaSeverity needs a resultSchema")
    return definition


def _given(body: dict[str, Any], key: str) -> str | None:
    """A text that may be left out; null is none."""
    if key not in body:
        return None
    if not isinstance(body[key], str):
        raise InvalidTool(f"{key} must be text; leave it out where there is none")
    return str(body[key])


def _source(body: dict[str, Any], default: str) -> str:
    source = body.get("source", default)
    if source not in ("code", "dashboard", "api"):
        raise InvalidTool("source must be 'code', 'dashboard' or 'api'")
    return str(source)


def _switch(body: dict[str, Any], key: str) -> bool:
    if not isinstance(body.get(key, False), bool):
        raise InvalidTool(f"{key} must be true or false")
    return bool(body.get(key, False))


def _whole(text: str, what: str, most: int) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 10 or not 1 <= int(text) <= most:
        raise InvalidTool(f"{what} must be a whole number from 1 to {most}")
    return int(text)


def _by_path(routes: list[Route]) -> list[Route]:
    """One route for each path, so that another method is a 405 that names all that are allowed."""
    made: dict[str, list[Route]] = {}
    for each in routes:
        made.setdefault(each.path, []).append(each)
    return [_together(path, same) if len(same) > 1 else same[0] for path, same in made.items()]


def _together(path: str, routes: list[Route]) -> Route:
    endpoints: dict[str, Callable[[Request], Awaitable[Response]]] = {
        method: each.endpoint for each in routes for method in each.methods or ()
    }

    async def endpoint(request: Request) -> Response:
        return await endpoints[request.method](request)

    return Route(path, endpoint, methods=list(endpoints))
