# SPDX-License-Identifier: Apache-2.0
"""Catalogs over HTTP: AcruxCore itself, and our own server, which keeps more."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from acrux_otel.catalog import wire
from acrux_otel.catalog.checks import BODY_LIMIT, PAGE_LIMIT, REFS_LIMIT, check_alias, check_definition
from acrux_otel.catalog.errors import AnswerUnreadable, InvalidTool, NotFound
from acrux_otel.catalog.http import Requests
from acrux_otel.catalog.model import (
    PRODUCTION,
    Alias,
    Definition,
    Event,
    Page,
    Ref,
    Resolved,
    SyncResult,
    ToolEntry,
    Version,
)

__all__ = ["AcruxCoreCatalog", "ServerCatalog"]

T = TypeVar("T")


class AcruxCoreCatalog:
    """The catalog of an AcruxCore server. Safe across threads and forks.

    Args:
        base_url: ends in ``/api/v1``; ``ACRUXCORE_BASE_URL`` by default.
        api_key: ``acx_sk_…``; ``ACRUXCORE_API_KEY`` by default. It goes to ``base_url`` only and is never
            shown.
        timeout: seconds for one attempt.
        attempts: how often a request is sent at most; 408, 425, 429, 5xx and lost connections are repeated.

    Raises:
        ValueError: an address or key that cannot be used; one line says why.
        ImportError: httpx is not installed.
    """

    whole = False
    _key_variable = "ACRUXCORE_API_KEY"

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        timeout: float = 30.0,
        attempts: int = 3,
    ) -> None:
        address = base_url or os.environ.get("ACRUXCORE_BASE_URL", "")
        if not address.strip():
            raise ValueError(
                "the catalog is acruxcore, but its address is not known; set ACRUXCORE_BASE_URL (https://…/api/v1)"
            )
        key = api_key or os.environ.get(self._key_variable, "")
        self._requests = Requests(address, key, self._key_variable, timeout=timeout, attempts=attempts)
        self.label = self._requests.base_url

    def sync(
        self,
        definition: Definition,
        *,
        alias: str = PRODUCTION,
        changelog: str | None = None,
        automatic: bool = False,
    ) -> SyncResult:
        """Make ``alias`` point at this definition; see `acrux_otel.catalog.Catalog`.

        Raises:
            InvalidTool: what the catalog would refuse, before anything is sent.
            CatalogError: of the kind that fits what happened.
        """
        check_definition(definition, changelog)
        check_alias(alias)
        if not self.whole:
            _check_executor(definition)
        body = {
            "name": definition.name,
            **wire.definition_json(definition, whole=self.whole),
            "alias": alias,
            "source": "code",
        }
        if changelog is not None:
            body["changelog"] = changelog
        if automatic and self.whole:
            body["automatic"] = True
        what = f"tool {definition.name!r}"
        data = self._requests.json("POST", "/tools/sync", self._encoded(body, what), what=what)
        return self._read(wire.read_result, data, definition.name)

    def resolve(self, refs: Sequence[Ref]) -> list[Resolved]:
        """What references point at, in their order.

        Raises:
            NotFound: some point at nothing; it names them all.
        """
        if len(refs) > REFS_LIMIT:
            raise InvalidTool(f"{len(refs)} references were asked for; expected at most {REFS_LIMIT}")
        body = {"refs": [wire.ref_json(ref) for ref in refs]}
        what = f"tool {refs[0].name!r}" if len(refs) == 1 else f"{len(refs)} tools"
        data = self._requests.json("POST", "/tools/resolve", self._encoded(body, what), what=what)
        found = self._list(wire.read_resolved, data)
        if [each.name for each in found] != [ref.name for ref in refs]:
            raise AnswerUnreadable(f"catalog {self.label}: it resolved other tools than it was asked for")
        return found

    def close(self) -> None:
        """Give the connections back."""
        self._requests.close()

    def hurry(self) -> None:
        """Try nothing twice from now on: the process is ending."""
        self._requests.hurry()

    # -- what people ask ------------------------------------------------------------------------------

    def tools(self, search: str | None = None, page: int = 1, limit: int = 20) -> Page[ToolEntry]:
        """The tools whose name contains ``search``, newest first."""
        query: dict[str, Any] = {"page": page, "limit": limit}
        if search:
            query["search"] = search
        return self._page(wire.read_tool, f"/tools?{urlencode(query)}", "its tools")

    def tool(self, name: str) -> ToolEntry:
        """One tool by its name.

        Raises:
            NotFound: there is none.
        """
        page = 1
        while True:
            found = self.tools(name, page, PAGE_LIMIT)
            for each in found:
                if each.name == name:
                    return each
            if not found.items or page * found.limit >= found.total:
                raise NotFound(f"the catalog has no tool {name[:80]!r}", code="TOOL_NOT_FOUND")
            page += 1

    def versions(self, tool_id: str, page: int = 1, limit: int = 20) -> Page[Version]:
        """A tool's versions without definitions, newest first."""
        path = f"{_tool(tool_id)}/versions?{urlencode({'page': page, 'limit': limit})}"
        return self._page(lambda data: wire.read_version(data, ""), path, "versions")

    def version(self, tool_id: str, number: int) -> Version:
        """One version with its definition."""
        data = self._requests.json("GET", f"{_tool(tool_id)}/versions/{number}", what=f"version {number}")
        return self._read(wire.read_version, data, "")

    def history(self, tool_id: str, page: int = 1, limit: int = 50) -> Page[Event]:
        """What happened to a tool, newest first; AcruxCore tells of versions only."""
        found = self.versions(tool_id, page, limit)
        return Page([_committed(each) for each in found], found.total, found.page, found.limit)

    def promote(self, tool_id: str, alias: str, number: int) -> Alias:
        """Make an alias, new or not, point at a version."""
        path = f"{_tool(tool_id)}/aliases/{quote(check_alias(alias), safe='')}/promote"
        what = f"alias {alias!r}"
        data = self._requests.json("POST", path, self._encoded({"version_number": number}, what), what=what)
        return self._read(wire.read_alias, data)

    # -- bodies and answers -----------------------------------------------------------------------------

    def _encoded(self, body: Mapping[str, Any], what: str) -> bytes:
        data = wire.encoded(body)
        if len(data) > BODY_LIMIT:
            raise InvalidTool(
                f"{what}: its definition takes {len(data):,} bytes; a catalog takes {BODY_LIMIT:,}; "
                "give a smaller schema with parameters="
            )
        return data

    def _read(self, read: Callable[..., T], *data: Any) -> T:
        try:
            return read(*data)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            why = f"no {error}" if isinstance(error, KeyError) else str(error)[:200]
            raise AnswerUnreadable(
                f"catalog {self.label}: its answer is not of the AcruxCore contract ({why}); "
                "is the address right? It usually ends in /api/v1"
            ) from None

    def _list(self, read: Callable[[Any], T], data: Any) -> list[T]:
        return self._read(lambda: [read(each) for each in data["data"]])

    def _page(self, read: Callable[[Any], T], path: str, what: str) -> Page[T]:
        data = self._requests.json("GET", path, what=what)
        items = self._list(read, data)
        return self._read(lambda: Page(items, int(data["total"]), int(data["page"]), int(data["limit"])))


class ServerCatalog(AcruxCoreCatalog):
    """The catalog of our own server, ``acrux-otel catalog serve``: result schemas and annotations too.

    Args:
        base_url, timeout, attempts: as for `AcruxCoreCatalog`.
        api_key: ``ACRUX_OTEL_CATALOG_KEY`` by default.
    """

    whole = True
    _key_variable = "ACRUX_OTEL_CATALOG_KEY"

    def history(self, tool_id: str, page: int = 1, limit: int = 50) -> Page[Event]:
        """What happened to a tool, newest first."""
        path = f"{_tool(tool_id)}/history?{urlencode({'page': page, 'limit': limit})}"
        return self._page(wire.read_event, path, "history")


def _check_executor(definition: Definition) -> None:
    """AcruxCore itself runs a tool whose executor is ``http``, so it must know the request."""
    executor = definition.executor
    if executor.get("type") == "http" and not ("url" in executor and "method" in executor):
        raise InvalidTool(
            f"tool {definition.name!r}: AcruxCore takes an http executor only with its url and method; "
            "add the version there by hand, and follow it with sync=False"
        )


def _tool(tool_id: str) -> str:
    return f"/tools/{quote(tool_id, safe='')}"


def _committed(version: Version) -> Event:
    return Event(
        version.created_at,
        version.created_by,
        "commit",
        version.number,
        source=version.source,
        change=version.change,
        changelog=version.changelog,
    )
