# SPDX-License-Identifier: Apache-2.0
"""A framework's tool -> one `ToolDefinition`, kept as long as the tool is.

What costs time, the schemas above all, is asked of the framework when somebody first reads it: the catalog.
"""

from __future__ import annotations

import logging
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final

from acrux_otel import ToolAnnotations, ToolDefinition

__all__ = ["Definitions", "FrameworkDefinition", "annotations_from"]

_log = logging.getLogger("acrux_otel")
_KEPT: Final = 512
Schema = Mapping[str, Any] | None


class FrameworkDefinition(ToolDefinition):
    """A tool as its framework describes it to the model.

    Args:
        name: as the model calls it.
        description: what the model reads.
        parameters: makes the JSON Schema of the arguments.
        result: makes the JSON Schema of the result, where the framework has one.
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
        """JSON Schema of the arguments, as the framework shows it to the model."""
        if "parameters" not in self._lazy:
            self._lazy.setdefault("parameters", self._asked(self._make_parameters) or {"type": "object"})
        return self._lazy["parameters"]  # type: ignore[no-any-return]

    @property
    def result(self) -> dict[str, Any] | None:
        """JSON Schema of the result, from the framework or from the function's return annotation."""
        if "result" not in self._lazy:
            made = self._asked(self._make_result)
            if made is None and self.fn is not None:
                made = self._asked(lambda: super(FrameworkDefinition, self).result)
            self._lazy.setdefault("result", made)
        return self._lazy["result"]  # type: ignore[no-any-return]

    def _asked(self, make: Callable[[], Schema] | None) -> dict[str, Any] | None:
        try:
            made = make() if make is not None else None
            return dict(made) if made is not None else None
        except Exception as error:
            _log.debug("the schema of tool %r cannot be had (%s)", self.name, type(error).__name__)
            return None


class Definitions:
    """The definitions of one framework's tools, one for each tool object."""

    def __init__(self) -> None:
        self._of_tools: dict[tuple[int, str], tuple[Callable[[], Any], ToolDefinition]] = {}
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
        except TypeError:  # without weak references it is kept alive, and few are
            if len(self._of_tools) >= _KEPT:
                self._of_tools.clear()

            def reference() -> Any:
                return tool

        self._of_tools[key] = reference, definition
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
