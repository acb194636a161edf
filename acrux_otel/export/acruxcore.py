# SPDX-License-Identifier: Apache-2.0
"""What AcruxCore's trace endpoint needs, done on the encoded request and so on its copy of the spans only.

It keeps span attributes as they come, reads the kind from `openinference.span.kind` and the payload from
`input.value` and `output.value`, and refuses the whole request for a None in a list or a NUL in a text.
"""

from __future__ import annotations

from typing import Any, Final

from acrux_otel import attributes as names

__all__ = ["rewrite"]

_KIND: Final = "openinference.span.kind"
_KINDS: Final = {
    "execute_tool": "TOOL",
    "invoke_agent": "AGENT",
    "create_agent": "AGENT",
    "chat": "LLM",
    "text_completion": "LLM",
    "generate_content": "LLM",
    "embeddings": "EMBEDDING",
}
_PAYLOADS: Final = ((names.TOOL_ARGUMENTS, "input.value"), (names.TOOL_RESULT, "output.value"))
_WARNING: Final = "warning"


def rewrite(request: Any) -> None:
    """Change an encoded ``ExportTraceServiceRequest`` in place."""
    for resource in request.resource_spans:
        for scope in resource.scope_spans:
            for span in scope.spans:
                _complete(span)
                _clean(span)


def _complete(span: Any) -> None:
    told = {pair.key: pair.value for pair in span.attributes}
    operation = told.get(names.OPERATION_NAME)
    kind = _KINDS.get(operation.string_value) if operation is not None else None
    if kind is not None and _KIND not in told:
        span.attributes.add(key=_KIND).value.string_value = kind
    for ours, theirs in _PAYLOADS:
        if ours in told and theirs not in told:
            span.attributes.add(key=theirs).value.CopyFrom(told[ours])
    if names.WARNING_TYPE in told and _WARNING not in told:
        pairs = span.attributes.add(key=_WARNING).value.kvlist_value.values
        for key in (names.WARNING_TYPE, names.WARNING_MESSAGE):
            if key in told:
                pairs.add(key=key.removeprefix("warning.")).value.CopyFrom(told[key])


def _clean(span: Any) -> None:
    span.name = _without_nul(span.name)
    if span.status.message:
        span.status.message = _without_nul(span.status.message)
    for pair in span.attributes:
        pair.key = _without_nul(pair.key)
        _clean_value(pair.value)
    for part in (*span.events, *span.links):
        if hasattr(part, "name"):
            part.name = _without_nul(part.name)
        for pair in part.attributes:
            pair.key = _without_nul(pair.key)
            _clean_value(pair.value)


def _clean_value(value: Any) -> None:
    kind = value.WhichOneof("value")
    if kind == "string_value":
        value.string_value = _without_nul(value.string_value)
    elif kind == "array_value":
        items = value.array_value.values
        for position in range(len(items) - 1, -1, -1):
            if items[position].WhichOneof("value") is None:
                del items[position]
            else:
                _clean_value(items[position])
    elif kind == "kvlist_value":
        for pair in value.kvlist_value.values:
            pair.key = _without_nul(pair.key)
            _clean_value(pair.value)


def _without_nul(text: str) -> str:
    return text.replace("\0", "�") if "\0" in text else text
