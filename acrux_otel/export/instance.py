# SPDX-License-Identifier: Apache-2.0
"""`service.instance.id`: one for each process, so that the counts of two workers are two series."""

from __future__ import annotations

import os
import re
import uuid
from typing import Any, Final

from opentelemetry.sdk.resources import Resource

from acrux_otel.export import exit as exiting

__all__ = ["at_home", "identified", "stamp"]

_KEY: Final = "service.instance.id"


class _Instance:
    """The ids that this process and those it was forked from gave themselves."""

    def __init__(self) -> None:
        self.now = str(uuid.uuid4())
        self.made = {self.now}
        exiting.reset_in_children(self)

    def after_fork(self) -> None:
        self.now = str(uuid.uuid4())
        self.made.add(self.now)


_instance: Final = _Instance()


def identified(resource: Resource) -> Resource:
    """``resource`` with this process's id, unless its owner gave one."""
    if re.search(rf"(?:^|,)\s*{_KEY}=", os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")):
        return resource
    return resource.merge(Resource({_KEY: _instance.now}, resource.schema_url))


def at_home() -> bool:
    """Whether no fork has happened since the id was made."""
    return len(_instance.made) == 1


def stamp(encoded: Any) -> None:
    """Correct the id in an encoded resource that a forked child has inherited."""
    for pair in encoded.attributes:
        if pair.key == _KEY and pair.value.string_value in _instance.made:
            pair.value.string_value = _instance.now
