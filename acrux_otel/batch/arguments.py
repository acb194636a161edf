# SPDX-License-Identifier: Apache-2.0
"""A model's arguments: read, checked and bound before any body runs, or refused with words it can act on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from acrux_otel.classify import classify_arguments, malformed_arguments
from acrux_otel.definition.conformance import mismatch
from acrux_otel.definition.parameters import bind as bind_checked

if TYPE_CHECKING:
    from acrux_otel.batch.calls import ToolCall
    from acrux_otel.definition import ToolDefinition
    from acrux_otel.verdict import Verdict

__all__ = ["Refused", "bind", "read_arguments"]

_PREVIEW: Final = 80  # characters of broken text that are shown to the model
_PROBLEMS: Final = 20


class Refused(Exception):
    """A call whose body must not run.

    Attributes:
        verdict: ``schema_mismatch``, with no argument's value in its detail.
        answer: what the model reads.
    """

    def __init__(self, verdict: Verdict, answer: str) -> None:
        super().__init__(answer)
        self.verdict, self.answer = verdict, answer


def read_arguments(call: ToolCall) -> Mapping[str, Any]:
    """The arguments of ``call`` as an object.

    Raises:
        Refused: they are no JSON, or JSON but no object.
    """
    given = call.arguments
    if isinstance(given, Mapping):
        return given
    if given is None:
        return {}
    if isinstance(given, (bytes, bytearray)):
        given = given.decode("utf-8", "replace")
    if isinstance(given, str):
        if not given.strip():
            return {}
        given = _decoded(given)
        if isinstance(given, dict):
            return given
    kind = _JSON_NAMES.get(type(given), type(given).__name__)
    raise _malformed(f"expected a JSON object, got {kind}", "")


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        at = error.pos
        detail = f"the arguments are not valid JSON: {error.msg} at character {at} of {len(text)}"
        near = text[max(0, at - _PREVIEW // 2) : at + _PREVIEW // 2]
        raise _malformed(detail, f", near {near!r}") from None
    except (ValueError, RecursionError) as error:  # a number of too many digits; nested too deeply
        what = "they are nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise _malformed(f"the arguments are not valid JSON: {what}", "") from None


_JSON_NAMES: Final = {
    list: "an array",
    str: "a string",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    type(None): "null",
}


def _malformed(detail: str, preview: str) -> Refused:
    return Refused(
        malformed_arguments(detail), f"Malformed arguments: {detail}{preview}. The tool did not run."
    )


def bind(
    definition: ToolDefinition, call: ToolCall, injected: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What to call the tool's function with; values are validated and coerced as pydantic does.

    Raises:
        Refused: the arguments cannot be read, or do not fit the tool's schema.
    """
    arguments = _free_form(definition, call) if call.free_form else read_arguments(call)
    given = definition._given
    if given is not None:
        wrong = mismatch(given, dict(arguments))
        if wrong is not None:
            raise _invalid(classify_arguments(ValueError(wrong)), wrong)
    try:
        return bind_checked(definition, arguments, injected)
    except Exception as error:
        problems = _problems(error)
        verdict = classify_arguments(error)
        raise _invalid(verdict._replace(detail=problems or verdict.detail), problems or str(error)) from error


def _free_form(definition: ToolDefinition, call: ToolCall) -> dict[str, Any]:
    """The text of a call without form, under the name of the only parameter."""
    names = list(definition.parameters.get("properties", ()))
    return {names[0] if len(names) == 1 else "input": call.arguments}


def _invalid(verdict: Verdict, problems: str) -> Refused:
    return Refused(verdict, f"Invalid arguments: {problems}. The tool did not run.")


def _problems(error: Exception) -> str:
    """One line per argument, without the values: they are the user's data, and the model has them."""
    try:
        found = error.errors(include_url=False, include_context=False, include_input=False)  # type: ignore[attr-defined]
        lines = [f"{_place(one['loc'])}: {one['msg']}" for one in found[:_PROBLEMS]]
    except Exception:
        return ""
    if len(found) > _PROBLEMS:
        lines.append(f"and {len(found) - _PROBLEMS} more")
    return "; ".join(lines)


def _place(loc: tuple[Any, ...]) -> str:
    return ".".join(str(part) for part in loc) or "arguments"
