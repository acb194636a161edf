# SPDX-License-Identifier: Apache-2.0
"""What a model asked for: a provider's message, in any of its shapes, read as `ToolCall`s.

Shapes are told by their fields, of dicts and objects alike; no provider's package is imported.
Imports nothing of ours.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

__all__ = ["ToolCall", "field", "read_calls"]


@dataclasses.dataclass(frozen=True)
class ToolCall:
    """One call that a model asked for.

    Attributes:
        id: the model's id of the call, which the answer has to repeat.
        name: the tool's name.
        arguments: an object, or JSON text of one; empty text and None mean no arguments.
        after: ids of calls of the same turn that must have succeeded before this one starts.
        toolset: ``computer`` or ``browser`` for an action of such a toolset.
        free_form: the arguments are text of no particular form (OpenAI's custom tools).
        caller: what produced the call, where the provider wants it repeated.
    """

    id: str | None
    name: str
    arguments: Any = None
    after: tuple[str, ...] = ()
    toolset: str | None = None
    free_form: bool = False
    caller: Any = dataclasses.field(default=None, repr=False)

    def __post_init__(self) -> None:
        after = (self.after,) if isinstance(self.after, str) else tuple(self.after)
        object.__setattr__(self, "after", after)


def field(thing: Any, name: str) -> Any:
    """A field of a dict or an object; None where it has none."""
    if isinstance(thing, Mapping):
        return thing.get(name)
    return getattr(thing, name, None)


def read_calls(given: Any) -> list[ToolCall]:
    """The calls in ``given``, in the order asked.

    Args:
        given: `ToolCall`s, or a provider's message, response, list of content blocks or output items.
            What is no call for this process to make (text, reasoning, calls of hosted tools) is passed over.

    Raises:
        TypeError: nothing of the kind.
    """
    if isinstance(given, ToolCall):
        return [given]
    if _is_message(given):
        return list(_of_message(given))
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable):
        raise TypeError(
            f"calls is a {type(given).__name__}; expected ToolCall(...)s, or a model's message such as "
            "response.content (Anthropic), response.choices[0].message or response.output (OpenAI)"
        )
    parts = list(given)
    found: list[ToolCall] = []
    for each in parts:
        of_each = (each,) if isinstance(each, ToolCall) else tuple(_of_message(each))
        if of_each and len(parts) > 1 and _parts(each) is not None:
            raise TypeError("calls is a whole conversation; expected the model's last message only")
        found.extend(of_each)
    return found


def _is_message(thing: Any) -> bool:
    if str(field(thing, "type")) in _READERS or _parts(thing) is not None:
        return True
    return isinstance(field(thing, "role"), str)  # one without any call


def _parts(thing: Any) -> str | None:
    """The name of the list that holds a message's calls."""
    for name in ("choices", "tool_calls", "output", "content"):
        if isinstance(field(thing, name), (list, tuple)):
            return name
    return None


def _of_message(thing: Any) -> Iterator[ToolCall]:
    read = _READERS.get(str(field(thing, "type")))
    if read is not None:
        yield read(thing)
        return
    name = _parts(thing)
    if name == "choices":
        for choice in field(thing, "choices")[:1]:
            yield from _of_message(field(choice, "message"))
    elif name is not None:
        for each in field(thing, name):
            read = _READERS.get(str(field(each, "type")))
            if read is not None:
                yield read(each)
            elif isinstance(each, ToolCall):
                yield each
            elif name == "tool_calls" and field(each, "function") is not None:
                yield _of_function(each)  # some servers leave the type out


def _of_tool_use(block: Any) -> ToolCall:
    return ToolCall(
        field(block, "id"), _name(block), field(block, "input"), toolset=field(block, "toolset_name") or None
    )


def _of_function(call: Any) -> ToolCall:
    function = field(call, "function")
    return ToolCall(field(call, "id"), _name(function), field(function, "arguments"))


def _of_custom(call: Any) -> ToolCall:
    custom = field(call, "custom")
    return ToolCall(field(call, "id"), _name(custom), field(custom, "input"), free_form=True)


def _of_function_call(item: Any) -> ToolCall:
    return ToolCall(field(item, "call_id"), _name(item), field(item, "arguments"), caller=_caller(item))


def _of_custom_tool_call(item: Any) -> ToolCall:
    return ToolCall(
        field(item, "call_id"), _name(item), field(item, "input"), free_form=True, caller=_caller(item)
    )


def _name(thing: Any) -> str:
    name = field(thing, "name")
    return name if isinstance(name, str) else ""


def _caller(item: Any) -> Any:
    caller = field(item, "caller")
    return caller if field(caller, "type") == "program" else None


_READERS: Final = {
    "tool_use": _of_tool_use,  # Anthropic Messages
    "function": _of_function,  # OpenAI Chat Completions
    "custom": _of_custom,
    "function_call": _of_function_call,  # OpenAI Responses
    "custom_tool_call": _of_custom_tool_call,
}
