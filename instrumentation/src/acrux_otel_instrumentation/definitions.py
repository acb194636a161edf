# SPDX-License-Identifier: Apache-2.0
"""A framework's tool -> one `ToolDefinition`, kept as long as the tool is, which it does not keep alive.

What costs time, the schemas above all, is asked of the framework when somebody first reads it: the catalog.
"""

from __future__ import annotations

import logging
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final

from acrux_otel import ToolAnnotations, ToolDefinition

__all__ = ["Definitions", "FrameworkDefinition", "annotations_from", "while_alive"]

_log = logging.getLogger("acrux_otel")
_KEPT: Final = 2048
Schema = Mapping[str, Any] | None


def while_alive(tool: Any, make: Callable[[Any], Schema]) -> Callable[[], Schema]:
    """What asks ``make`` for a schema of ``tool`` without keeping the tool alive until then.

    Raises, when it is asked:
        ReferenceError: the tool is gone.
    """
    try:
        held: Callable[[], Any] = weakref.ref(tool)
    except TypeError:
        return lambda: make(tool)

    def made() -> Schema:
        alive = held()
        if alive is None:
            raise ReferenceError("the tool is gone")
        return make(alive)

    return made


class FrameworkDefinition(ToolDefinition):
    """A tool as its framework describes it to the model.

    Args:
        name: as the model calls it.
        description: what the model reads.
        parameters: makes the JSON Schema of the arguments; must not hold the tool, see `while_alive`.
        result: makes the JSON Schema of the result, where the framework has one; likewise.
        function: what runs; its return annotation describes the result where ``result`` does not.
        annotations: hints, where the framework has them.
    """

    __slots__ = ("_make_parameters", "_make_result")

    def __init__(
        self,
        name: str,
        *,
        description: str | None = None,
        parameters: Callable[[], Schema] | None = None,
        result: Callable[[], Schema] | None = None,
        function: Any = None,
        annotations: ToolAnnotations | None = None,
    ) -> None:
        super().__init__(function, name, description=description or "", annotations=annotations)
        self._make_parameters = parameters
        self._make_result = result

    @property
    def description(self) -> str | None:
        """What the model reads about the tool; None where the framework has nothing."""
        return self._description or None

    @property
    def parameters(self) -> dict[str, Any]:
        """JSON Schema of the arguments, as the framework shows it to the model.

        Raises:
            Exception: the framework's, where it cannot make one.
        """
        if "parameters" not in self._lazy:
            made = self._make_parameters() if self._make_parameters is not None else None
            self._lazy.setdefault("parameters", dict(made) if made else {"type": "object", "properties": {}})
        return self._lazy["parameters"]  # type: ignore[no-any-return]

    @property
    def result(self) -> dict[str, Any] | None:
        """JSON Schema of the result, from the framework or from the function's return annotation."""
        if "result" not in self._lazy:
            made = self._made_result()
            self._lazy.setdefault("result", dict(made) if made is not None else None)
        return self._lazy["result"]  # type: ignore[no-any-return]

    def _made_result(self) -> Schema:
        made = self._make_result() if self._make_result is not None else None
        if made is not None or self.fn is None:
            return made
        try:
            return super().result
        except Exception as error:  # an annotation that has no schema promises nothing
            _log.debug("the result of tool %r has no schema (%s)", self.name, type(error).__name__)
            return None


class Definitions:
    """The definitions of one framework's tools, one for each tool object."""

    def __init__(self) -> None:
        self._of_tools: OrderedDict[tuple[int, str], tuple[Callable[[], Any], ToolDefinition]] = OrderedDict()
        self._of_names: OrderedDict[str, ToolDefinition] = OrderedDict()

    def of(self, tool: Any, name: str, make: Callable[[], ToolDefinition]) -> ToolDefinition:
        """The definition of ``tool``; made when it is first seen under ``name``.

        Args:
            tool: an object that lives as long as the tool does, or that all tools of its kind share.
        """
        key = id(tool), name
        known = self._of_tools.get(key)
        if known is not None and known[0]() is tool:
            return known[1]
        definition = make()
        try:
            reference: Callable[[], Any] = weakref.ref(tool, lambda _: self._of_tools.pop(key, None))
        except TypeError:

            def reference() -> Any:
                return tool

        self._of_tools[key] = reference, definition
        if len(self._of_tools) > _KEPT:
            # Without weak references, or where the function is the tool's own method, it is kept alive.
            self._of_tools.popitem(last=False)
        return definition

    def named(self, name: str) -> ToolDefinition:
        """A definition that says no more than a name: the model's, of a tool that may not exist."""
        definition = self._of_names.get(name)
        if definition is None:
            definition = FrameworkDefinition(name)
            self._of_names[name] = definition
            if len(self._of_names) > _KEPT:
                self._of_names.popitem(last=False)
        return definition


def annotations_from(hints: Any) -> ToolAnnotations | None:
    """MCP's hints (``readOnlyHint`` or ``read_only_hint``, …) as ours; None where nothing is said."""
    said: dict[str, bool] = {}
    for ours, words in (
        ("read_only", ("readOnlyHint", "read_only_hint")),
        ("destructive", ("destructiveHint", "destructive_hint")),
        ("idempotent", ("idempotentHint", "idempotent_hint")),
        ("open_world", ("openWorldHint", "open_world_hint")),
    ):
        for word in words:
            value = hints.get(word) if isinstance(hints, Mapping) else getattr(hints, word, None)
            if isinstance(value, bool):
                said[ours] = value
    try:
        return ToolAnnotations(**said) if said else None
    except ValueError:  # both read-only and destructive
        return None
