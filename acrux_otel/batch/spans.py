# SPDX-License-Identifier: Apache-2.0
"""The spans of calls whose body does not run: skipped, of no known tool, or with unfit arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from acrux_otel.batch.arguments import Refused, read_arguments
from acrux_otel.batch.calls import ToolCall
from acrux_otel.batch.toolbox import Runnable
from acrux_otel.classify import not_executed
from acrux_otel.definition import ToolDefinition
from acrux_otel.sanitize import text
from acrux_otel.seam import Call, open_call
from acrux_otel.verdict import Verdict

__all__ = ["record_refused", "record_skipped"]

_NAME_LIMIT: Final = 256
_NAMES: Final = 100
_SHOWN: Final = 65_536  # characters of argument text that are read for a span only
_unknown: Final[set[str]] = set()


def record_skipped(call: ToolCall, tool: Runnable | None, reason: str) -> None:
    """A call that did not run because of something else."""
    _close(_open(call, tool), not_executed(reason))


def record_refused(call: ToolCall, tool: Runnable | None, verdict: Verdict) -> None:
    """A call that could not run."""
    _close(_open(call, tool), verdict)


def _close(call: Call, verdict: Verdict) -> None:
    call.executed = False
    call.declared(verdict)


def _open(call: ToolCall, tool: Runnable | None) -> Call:
    if tool is not None:
        return tool.site.open_read((), _shown(call), call_id=call.id)
    definition = ToolDefinition(_nothing, _bounded(call.name), description="")
    return open_call(definition, call_id=call.id, arguments=_shown(call), catalogued=False)


def _nothing() -> None:
    """What stands behind a name that no tool has."""


def _shown(call: ToolCall) -> Mapping[str, Any]:
    given = call.arguments
    if isinstance(given, str) and (call.free_form or len(given) > _SHOWN):
        return {}
    try:
        return read_arguments(call)
    except Refused:
        return {}


def _bounded(name: str) -> str:
    """The name that a model made up, as a span's and a metric's; not more of them than a program bears."""
    name = text(name, _NAME_LIMIT) or "unknown_tool"
    if name not in _unknown:
        if len(_unknown) >= _NAMES:
            return "unknown_tool"
        _unknown.add(name)
    return name
