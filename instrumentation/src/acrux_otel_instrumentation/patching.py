# SPDX-License-Identifier: Apache-2.0
"""Replaces functions of a framework by watching ones once their module is imported, and puts them back.

Nothing is imported for its own sake: a program that never uses a framework does not pay for it, and one that
imports it after `instrument()` is seen too.
"""

from __future__ import annotations

import dataclasses
import inspect
import logging
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any, Final

from wrapt import register_post_import_hook

__all__ = ["Hook", "Patches", "same_kind", "warn_once"]

_log = logging.getLogger("acrux_otel")
_MISSING: Final[Any] = object()
_warned: set[str] = set()


def warn_once(problem: str, message: str, *args: object) -> None:
    """Log a warning, once for each ``problem`` in this process."""
    if problem not in _warned:
        _warned.add(problem)
        _log.warning(message, *args)


@dataclasses.dataclass(frozen=True)
class Hook:
    """One function of a framework that is watched.

    Attributes:
        module: where it lives; patched once that is imported.
        path: its dotted name in there. Prefer methods: they are looked up at each call, so that names which
            somebody imported earlier are reached too.
        patch: takes the function, returns what replaces it.
        optional: it is no loss if a supported version lacks it.
    """

    module: str
    path: str
    patch: Callable[[Any], Any]
    optional: bool = False


class Patches:
    """The hooks of one framework that are, or are about to be, in place.

    Args:
        framework: its name, for warnings.
    """

    def __init__(self, framework: str) -> None:
        self._framework = framework
        self._wanted = False
        self._asked: set[Hook] = set()
        self._places: dict[Hook, tuple[Any, str]] = {}
        self._applied: dict[Hook, tuple[Any, Any]] = {}

    def apply(self, hooks: Iterable[Hook]) -> None:
        """Patch what is imported already, and the rest when it is."""
        self._wanted = True
        for hook in hooks:
            if hook in self._places:
                self._patch(hook)
            elif hook not in self._asked:
                self._asked.add(hook)
                register_post_import_hook(self._when_imported(hook), hook.module)

    def undo(self) -> None:
        """Put the functions back. One that somebody else has wrapped meanwhile is left to them."""
        self._wanted = False
        for hook, (original, replacement) in list(self._applied.items()):
            owner, name = self._places[hook]
            if vars(owner).get(name) is not replacement:
                continue
            if original is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, original)
            del self._applied[hook]

    def _when_imported(self, hook: Hook) -> Callable[[ModuleType], None]:
        def imported(module: ModuleType) -> None:
            # What escapes from here would break the import of the framework.
            try:
                owner: Any = module
                *outer, name = hook.path.split(".")
                for part in outer:
                    owner = getattr(owner, part)
                if not callable(getattr(owner, name)):
                    raise AttributeError(name)
                self._places[hook] = owner, name
                if self._wanted:
                    self._patch(hook)
            except AttributeError:
                if not hook.optional:
                    self._warn(hook, "is not there any more")
            except Exception as error:
                self._warn(hook, f"could not be instrumented ({type(error).__name__})")

        return imported

    def _patch(self, hook: Hook) -> None:
        owner, name = self._places[hook]
        raw = vars(owner).get(name, _MISSING)
        if hook in self._applied and _is_below(raw, self._applied[hook][1]):
            return
        if getattr(raw, "__acrux_hook__", False):
            # A name that was imported from where it is patched already.
            self._applied[hook] = raw.__wrapped__, raw
            return
        if isinstance(raw, (staticmethod, classmethod)):
            made = hook.patch(raw.__func__)
            replacement: Any = type(raw)(made)
        else:
            made = replacement = hook.patch(getattr(owner, name))
        if not same_kind(getattr(owner, name), made):
            self._warn(hook, "is a function of another kind now")
            return
        made.__acrux_hook__ = True
        setattr(owner, name, replacement)
        self._applied[hook] = raw, replacement

    def _warn(self, hook: Hook, what: str) -> None:
        where = f"{hook.module}.{hook.path}"
        warn_once(
            where, "%s: %s %s; tool calls that pass there are not recorded", self._framework, where, what
        )


def same_kind(function: Any, other: Any) -> bool:
    """Whether what calls one can call the other: both return at once, or both a coroutine, or a stream."""
    return all(
        kind(function) == kind(other)
        for kind in (inspect.iscoroutinefunction, inspect.isasyncgenfunction, inspect.isgeneratorfunction)
    )


def _is_below(top: Any, wanted: Any) -> bool:
    """Whether ``wanted`` is somewhere in what ``top`` wraps."""
    for _ in range(16):
        if top is wanted:
            return True
        top = inspect.getattr_static(top, "__wrapped__", None) if top is not None else None
        if top is None:
            return False
    return False
