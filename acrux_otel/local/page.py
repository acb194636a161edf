# SPDX-License-Identifier: Apache-2.0
"""The page: *Traces*, one trace, *Tools*, *Catalog*. Rendered here; scripts only complete and refresh."""

from __future__ import annotations

import time
import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.templating import Jinja2Templates

from acrux_otel.local import presenting
from acrux_otel.local.catalog_view import CatalogView
from acrux_otel.local.guarding import COOKIE, LOGIN, Access
from acrux_otel.local.schema import StoreError
from acrux_otel.local.store import Store
from acrux_otel.query import Filter, FilterError, Term, Trace, parse
from acrux_otel.query.completing import complete, quoted
from acrux_otel.query.matching import as_text

__all__ = ["Pages"]

_HERE: Final = Path(__file__).parent
_RUNS: Final = 50  # on one page
_SPANS: Final = 500  # of a trace on one page
_MARKED: Final = 50  # failed and warned spans that are linked at the head of a trace
_HOUR: Final = 3_600_000_000_000
_SINCE: Final = {"1h": _HOUR, "24h": 24 * _HOUR, "7d": 168 * _HOUR}


class Pages:
    """Every page, over one store and one catalog."""

    def __init__(self, store: Store, catalog: CatalogView, access: Access) -> None:
        self._store, self._catalog, self._access = store, catalog, access
        self._templates = Jinja2Templates(directory=_HERE / "templates")
        self._templates.env.trim_blocks = self._templates.env.lstrip_blocks = True
        self._templates.env.globals.update(
            {name: getattr(presenting, name) for name in presenting.__all__ if name != "Row"},
            quote=urllib.parse.quote,
            quoted=quoted,
            as_text=as_text,
        )

    def routes(self) -> list[BaseRoute]:
        """Paths and what they show."""
        return [
            Route("/", _home),
            Route("/traces", self._traces),
            Route("/traces/{trace_id}", self._trace),
            Route("/tools", self._tools),
            Route("/catalog", self._catalogue),
            Route("/catalog/{name}", self._tool),
            Route("/complete", self._complete),
            Route("/newest", self._newest),
            Route(LOGIN, self._login, methods=["GET", "POST"]),
            Mount("/static", StaticFiles(directory=_HERE / "static")),
        ]

    def error(self, request: Request, status: int, what: str) -> Response:
        """A page that says what is wrong."""
        return self._shown(request, "error.html", {"what": what, "status": status}, status)

    def handlers(self) -> dict[Any, Any]:
        """What to answer to errors, by their types."""
        return {HTTPException: self._refused, StoreError: self._unavailable}

    def _refused(self, request: Request, error: HTTPException) -> Response:
        if error.status_code == 404:
            return self.error(request, 404, f"There is no page {request.url.path[:80]!r}.")
        return Response(f"{error.detail}\n", error.status_code, error.headers)

    def _unavailable(self, request: Request, error: Exception) -> Response:
        return self.error(request, 503, str(error))

    # -- pages -----------------------------------------------------------------------------------------

    def _traces(self, request: Request) -> Response:
        text = request.query_params.get("q", "").strip()
        shown: dict[str, Any] = {"q": text, "runs": [], "chips": [], "error": None, "notes": [], "next": None}
        status = 200
        try:
            filter = parse(text)
            shown["chips"] = [_chip(filter, term) for term in filter]
            page = self._store.page(filter, _RUNS, _place(request.query_params.get("after")))
            shown |= {"runs": page.runs, "notes": page.notes}
            if page.after is not None:
                shown["next"] = _address(text, "-".join(map(str, page.after)))
        except FilterError as error:
            shown["error"], status = error.pointed(), 400
        except StoreError as error:
            shown["error"], status = str(error), 503
        shown["dropped"] = self._store.dropped
        shown["limits"] = self._store.limits
        shown["empty"] = not text and not shown["runs"] and not shown["error"]
        shown["url"] = f"{request.url.scheme}://{request.url.netloc}"
        return self._shown(request, "traces.html", shown, status)

    def _trace(self, request: Request) -> Response:
        trace_id = request.path_params["trace_id"].replace("-", "").lower()
        trace = self._store.trace(trace_id)
        if trace is None:
            dropped = self._store.dropped
            gone = " It may be one of those that the store let go." if dropped.runs else ""
            return self.error(request, 404, f"The store has no trace {trace_id[:80]}.{gone}")
        first = _whole(request.query_params.get("from"), 0)
        marked = [span for span in trace.spans if span.is_error or span.warned]
        shown = {
            "trace": trace,
            "line": trace.line(),
            "rows": presenting.rows(trace, first, _SPANS),
            "first": first,
            "per_page": _SPANS,
            "marked": marked[:_MARKED],
            "more_marked": max(0, len(marked) - _MARKED),
            "places": _places(trace, marked[:_MARKED]),
            "versions": self._catalog.links(trace),
        }
        return self._shown(request, "trace.html", shown)

    def _tools(self, request: Request) -> Response:
        since = request.query_params.get("since", "24h")
        since = since if since in (*_SINCE, "all") else "24h"
        start = 0 if since == "all" else time.time_ns() - _SINCE[since]
        shown = {
            "tools": self._store.tools(start),
            "since": since,
            "choices": [*_SINCE, "all"],
            "known": self._catalog.names(),
        }
        return self._shown(request, "tools.html", shown)

    def _catalogue(self, request: Request) -> Response:
        page = max(1, _whole(request.query_params.get("page"), 1))
        shown = {"page": self._catalog.tools(page), "problem": self._catalog.problem}
        return self._shown(request, "catalog.html", shown)

    def _tool(self, request: Request) -> Response:
        name = request.path_params["name"]
        given = request.query_params
        tool = self._catalog.tool(name, _whole(given.get("from"), 0), _whole(given.get("to"), 0))
        if tool is None:
            return self.error(request, 404, f"The catalog has no tool {name[:80]!r}.")
        return self._shown(request, "tool.html", {"tool": tool})

    # -- for scripts -----------------------------------------------------------------------------------

    def _complete(self, request: Request) -> Response:
        text = request.query_params.get("q", "")[:4096]
        at = min(_whole(request.query_params.get("at"), len(text)), len(text))
        found = complete(text, at, self._store.seen)
        return JSONResponse(
            [{"text": one.text, "help": one.help, "start": one.start, "end": one.end} for one in found]
        )

    def _newest(self, request: Request) -> Response:
        """The id of the newest run that meets the filter, so that a page can say that there are new ones."""
        try:
            runs = self._store.page(parse(request.query_params.get("q", "")), 1).runs
        except (FilterError, StoreError):
            runs = []
        return JSONResponse({"trace": f"{runs[0].trace_id}-{runs[0].spans}" if runs else None})

    # -- the key ---------------------------------------------------------------------------------------

    async def _login(self, request: Request) -> Response:
        then = request.query_params.get("then", "/traces")
        # Only a path of ours: `//host` and `/\host` would be another's.
        then = then if then.startswith("/") and then[1:2] not in ("/", "\\") else "/traces"
        if self._access.key is None:
            return RedirectResponse("/traces", 303)
        if request.method == "GET":
            return self._shown(request, "login.html", {"then": then, "wrong": False})
        form = urllib.parse.parse_qs((await request.body())[:4096].decode("utf-8", "replace"))
        if not self._access.opens(form.get("key", [""])[0]):
            return self._shown(request, "login.html", {"then": then, "wrong": True}, 403)
        answer = RedirectResponse(then, 303)
        secure = request.url.scheme == "https"
        answer.set_cookie(COOKIE, self._access.cookie, httponly=True, samesite="strict", secure=secure)
        return answer

    def _shown(self, request: Request, name: str, shown: Mapping[str, Any], status: int = 200) -> Response:
        section = request.url.path.split("/")[1]
        return self._templates.TemplateResponse(
            request, name, {"section": section, **shown}, status_code=status
        )


def _home(request: Request) -> Response:
    return RedirectResponse("/traces", 307)


def _chip(filter: Filter, term: Term) -> dict[str, str]:
    return {"text": term.source, "without": _address(filter.without(term))}


def _address(text: str, after: str = "") -> str:
    query = {key: value for key, value in (("q", text), ("after", after)) if value}
    return f"/traces?{urllib.parse.urlencode(query)}" if query else "/traces"


def _place(text: str | None) -> tuple[int, int] | None:
    start, _, run = (text or "").partition("-")
    if not (start.isdecimal() and run.isdecimal() and len(start) < 20 and len(run) < 20):
        return None
    return int(start), int(run)


def _whole(text: str | None, default: int) -> int:
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) < 10 else default


def _places(trace: Trace, spans: list[Any]) -> dict[str, int]:
    """On which page of the waterfall each of these spans is: the number of that page's first row."""
    wanted = {span.span_id for span in spans}
    return {
        span.span_id: number // _SPANS * _SPANS
        for number, (_, span) in enumerate(trace.tree())
        if span.span_id in wanted
    }
