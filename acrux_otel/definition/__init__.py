# SPDX-License-Identifier: Apache-2.0
"""Function -> `ToolDefinition`: what the model sees of a tool. Schemas are made when first read."""

from acrux_otel.definition.contract import (
    ToolAnnotations,
    ToolDefinition,
    bind_arguments,
    define,
    definition_of,
    validate_result,
)

__all__ = [
    "ToolAnnotations",
    "ToolDefinition",
    "bind_arguments",
    "define",
    "definition_of",
    "validate_result",
]
