# SPDX-License-Identifier: Apache-2.0
"""OpenAPI's ``nullable: true``, which AcruxCore reads and JSON Schema does not know."""

from __future__ import annotations

from typing import Any

__all__ = ["nullable_spelt_out"]


def nullable_spelt_out(schema: Any) -> Any:
    """The same schema in JSON Schema's own words; what is nullable takes null."""
    if isinstance(schema, list):
        return [nullable_spelt_out(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: nullable_spelt_out(one) for key, one in schema.items()}
    if schema.get("nullable") is True and isinstance(schema.get("type"), str):
        made["type"] = [schema["type"], "null"]
        if isinstance(schema.get("enum"), list):
            made["enum"] = [*schema["enum"], None]
    return made
