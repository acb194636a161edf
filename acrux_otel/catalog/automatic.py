# SPDX-License-Identifier: Apache-2.0
"""Syncing by itself: once per process, in the background, from the first tool call on.

`arm` has it begin at the next call; nothing here blocks or fails a call, and a catalog that does not answer
costs one warning. A framework's tool is known from its own first call on, and follows then. Imports at the
top only what every call has imported already.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from acrux_otel import described
from acrux_otel.call import Call, observe, problem, unobserve
from acrux_otel.settings import settings
from acrux_otel.verdict import warn_once

if TYPE_CHECKING:
    from acrux_otel.catalog.protocol import Catalog
    from acrux_otel.catalog.publishing import Plan
    from acrux_otel.seam import ToolSite

_EXIT_TIMEOUT: Final = 3.0
_NAMES_LIMIT: Final = 1000  # of frameworks' tools in one process; one that makes up names is cut short

__all__ = ["arm", "pending", "start", "use"]


class _Sync:
    """One sync of all tools of the process.

    Attributes:
        done: nothing is being synced.
        by_name: what was synced, by the tool's name.
        waiting: frameworks' tools that were called first while or after it ran.
    """

    def __init__(self) -> None:
        self.done = threading.Event()
        self.by_name: dict[str, Plan] = {}
        self.waiting: list[ToolSite] = []
        self._catalog: Catalog | None = None
        self._ending = False

    def opened(self, catalog: Catalog) -> None:
        """Work on that catalog begins."""
        self._catalog = catalog
        if self._ending:
            self._hurry()

    def _hurry(self) -> None:
        hurry = getattr(self._catalog, "hurry", None)
        if hurry is not None:
            hurry()

    # What the end of the process and `flush` see; deadlines are `time.monotonic` seconds.

    def flush_by(self, deadline: float) -> bool:
        return self.done.wait(max(0.0, deadline - monotonic()))

    def end_by(self, deadline: float) -> None:
        self._ending = True
        self._hurry()

    def ended_by(self, deadline: float) -> None:
        self.flush_by(deadline)


_lock = threading.Lock()
_current: _Sync | None = None
_begun: list[_Sync] = []


def use(catalog: str | Catalog | None, mode: str | None) -> None:
    """What ``configure(catalog=, catalog_mode=)`` does; what is None stays as it was.

    Raises:
        ValueError: something that names no catalog, or no mode.
        ImportError: an optional package is missing.
    """
    from acrux_otel.catalog.opening import configured, open_catalog
    from acrux_otel.catalog.opening import mode as checked

    if mode is not None:
        settings.catalog_mode = checked(mode)
    if catalog is not None:
        open_catalog(catalog)  # it connects when it is used
        settings.catalog = catalog
    if configured() is not None:
        arm()


def arm() -> None:
    """Sync once more, beginning at the next tool call, with what is configured then."""
    global _current
    with _lock:
        _current = None
    described.listen(_at_described)
    observe(opened=_at_first_call)


def start() -> None:
    """Begin now, where it has not begun yet: for the batch runner, which knows tools before any call."""
    global _current
    unobserve(opened=_at_first_call)
    with _lock:
        if _current is not None:
            return
        _current = made = _Sync()
        _begun.append(made)
    _hold_exit(made)
    _start_thread(made, everything=True)


def _start_thread(made: _Sync, *, everything: bool) -> None:
    try:
        threading.Thread(target=_run, args=(made, everything), name="acrux-otel-catalog", daemon=True).start()
    except RuntimeError:  # no thread can be had, or the interpreter is ending
        made.done.set()
        raise


def pending(timeout: float = 0.0) -> bool:
    """Whether a sync is still running after ``timeout`` seconds; returns as soon as none is."""
    running = _current
    return running is not None and not running.done.wait(max(0.0, timeout))


def _hold_exit(made: _Sync) -> None:
    """Have the end of the process wait for the sync, within the time that it waits for spans."""
    exiting = sys.modules.get("acrux_otel.export.exit")
    if exiting is not None:
        exiting.add(made)
    else:
        atexit.register(_at_exit, made)


def _at_exit(made: _Sync) -> None:
    deadline = monotonic() + _exit_timeout()
    made.end_by(deadline)
    made.ended_by(deadline)


def _exit_timeout() -> float:
    try:
        told = float(os.environ.get("ACRUX_OTEL_EXIT_TIMEOUT") or _EXIT_TIMEOUT)
    except ValueError:
        return _EXIT_TIMEOUT
    return told if 0 <= told < 1e6 else _EXIT_TIMEOUT


def _at_first_call(_call: Call) -> None:
    start()


def _at_described(site: ToolSite) -> None:
    with _lock:
        running = _current
        if running is None:  # the first call has yet to begin it, and it takes all that is known then
            return
        running.waiting.append(site)
        if not running.done.is_set():
            return
        running.done.clear()
    _start_thread(running, everything=False)


def _after_fork() -> None:
    """A thread does not come along; what it had not finished, the child does itself."""
    global _lock, _current
    _lock = threading.Lock()
    unfinished = _current is not None and not _current.done.is_set()
    for each in _begun:
        each.waiting.clear()
        each.done = threading.Event()  # the old one's lock may be held for ever
        each.done.set()
    if unfinished:
        _current = None
        observe(opened=_at_first_call)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


# -- in the background ----------------------------------------------------------------------------------


def _run(made: _Sync, everything: bool) -> None:
    try:
        _untraced()
        if everything:
            _sync(made, _plans(), described.described_sites())
        while True:
            with _lock:
                sites, made.waiting = made.waiting, []
                if not sites:
                    made.done.set()
                    return
            _sync(made, [], sites)
    except BaseException as error:
        problem("the catalog was synced", error)
        made.done.set()


def _untraced() -> None:
    """The program's own instrumentation of HTTP and SQL clients must not see these requests."""
    from opentelemetry.context import attach, set_value

    context = set_value("suppress_instrumentation", True)
    attach(set_value("suppress_http_instrumentation", True, context))


def _sync(made: _Sync, decorated: list[Plan], sites: list[ToolSite]) -> None:
    from acrux_otel.catalog.errors import CatalogError
    from acrux_otel.catalog.opening import configured, open_catalog

    named = configured()
    if named is None:
        return
    made.by_name.update((each.definition.name, each) for each in decorated)
    alike = _alike(made, sites)
    plans = [*decorated, *(each for each, first in alike if each is first)]
    if plans:
        try:
            catalog = open_catalog(named)
        except (ValueError, ImportError, CatalogError) as error:
            _warn("the catalog cannot be used, and spans carry no version: %s", error)
            return
        made.opened(catalog)
        try:
            _settle(catalog, plans)
        finally:
            if catalog is not named:
                catalog.close()
    for each, first in alike:
        each.tool.site.version_id = first.tool.site.version_id


def _settle(catalog: Catalog, plans: list[Plan]) -> None:
    from acrux_otel.catalog.errors import CatalogError

    written = [each for each in plans if each.writes]
    try:
        if _mode() == "sync":
            _write(catalog, written)
        else:
            _compare(catalog, written)
        _follow(catalog, [each for each in plans if not each.writes])
    except CatalogError as error:
        _warn("tools run as ever, but their spans carry no version, because they were not synced: %s", error)


def _mode() -> str:
    from acrux_otel.catalog.opening import mode

    try:
        return mode()
    except ValueError as error:
        # A typing error must not write.
        _warn("%s; nothing is written to the catalog", error)
        return "resolve"


def _plans() -> list[Plan]:
    from acrux_otel.catalog.errors import CatalogError
    from acrux_otel.catalog.publishing import plan
    from acrux_otel.tool import loaded_tools

    places: dict[str, list[Any]] = {}
    for tool in loaded_tools():
        places.setdefault(tool.definition.name, []).append(tool)
    made = []
    for name, tools in places.items():
        if len(tools) > 1:
            where = " and ".join(tool.place for tool in tools)
            _warn("tools named %r (%s) are not synced: one name is one tool in a catalog", name, where)
            continue
        try:
            made.append(plan(tools[0]))
        except CatalogError as error:
            _warn("%s; the tool is not synced", error)
    return made


def _alike(made: _Sync, sites: list[ToolSite]) -> list[tuple[Plan, Plan]]:
    """What to do with frameworks' tools, each with the one of its name that is the one in the catalog."""
    from acrux_otel.catalog.errors import InvalidTool
    from acrux_otel.catalog.publishing import plan
    from acrux_otel.tool import Tool

    found = []
    for site in sites:
        try:
            candidate = plan(Tool(site.function, site.definition, site, {}))
        except InvalidTool as error:
            if not isinstance(error.__cause__, ReferenceError):  # the tool is gone; another one may come
                _warn("%s; the tool is not synced", error)
            continue
        if len(made.by_name) >= _NAMES_LIMIT and site.name not in made.by_name:
            _warn("more than %d tools were called; the others are not synced", _NAMES_LIMIT)
            continue
        first = made.by_name.setdefault(site.name, candidate)
        if first.definition == candidate.definition:
            found.append((candidate, first))
        else:
            _warn(
                "a tool named %r differs from the one of that name that was synced, and its spans carry no "
                "version: one name is one tool in a catalog",
                site.name,
            )
    return found


def _write(catalog: Catalog, plans: list[Plan]) -> None:
    from acrux_otel.catalog.errors import CatalogRefused, InvalidTool, KeyRefused, MovesBack
    from acrux_otel.catalog.publishing import publish, superseded

    for each in plans:
        try:
            result = publish(catalog, each, automatic=True)
        except MovesBack as error:
            each.tool.site.version_id = error.version_id or f"{error.tool_id}:{error.version_number}"
            _warn("%s", error)
        except KeyRefused:
            raise
        except (InvalidTool, CatalogRefused) as error:
            _warn("%s; the tool is not synced", error)
        else:
            if result.superseded_source == "dashboard":
                _warn("%s", superseded(result))


def _compare(catalog: Catalog, plans: list[Plan]) -> None:
    from acrux_otel.catalog.standing import running_version, standings

    unknown = []
    for each in standings(catalog, plans):
        version = running_version(catalog, each)
        if version is None:
            unknown.append(each.plan.definition.name)
        else:
            each.plan.tool.site.version_id = version
    if unknown:
        _warn(
            "catalog %s has no version of %s as the code has it, and their spans carry none; "
            "acrux-otel sync --diff shows the difference",
            catalog.label,
            _listed(unknown),
        )


def _follow(catalog: Catalog, plans: list[Plan]) -> None:
    from acrux_otel.catalog.publishing import follow, resolve_all

    found = resolve_all(catalog, [each.ref for each in plans])
    for each in plans:
        if each.ref in found:
            follow(each.tool, found[each.ref])
    missing = [str(each.ref) for each in plans if each.ref not in found]
    if missing:
        _warn("catalog %s does not have %s; their spans carry no version", catalog.label, _listed(missing))


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"


def _warn(message: str, *args: object) -> None:
    warn_once(f"catalog:{message % args}"[:500], message, *args)
