# SPDX-License-Identifier: Apache-2.0
"""`service.instance.id`: one for each process, so that the counts of two workers are two series.

Newer SDKs make one, and a new one for the spans of a forked child; this does the same for older SDKs, and for
metrics.
"""

from __future__ import annotations

import os
import re
import uuid
from typing import Any, Final

from opentelemetry.sdk import resources
from opentelemetry.sdk.resources import Resource

from acrux_otel.export import exit as exiting

__all__ = ["at_home", "identified", "stamp"]

_KEY: Final = "service.instance.id"


class _Instance:
    """The ids of this process and of those that it was forked from, where nobody chose them."""

    def __init__(self) -> None:
        self._now: str | None = None
        self.made: set[object] = set()
        self.forked = False
        exiting.reset_in_children(self)

    def after_fork(self) -> None:
        # Asking the SDK here would take a lock that its own hook has not yet let go.
        self._now = None
        self.forked = True

    @property
    def now(self) -> str:
        if self._now is None:
            detector = getattr(resources, "ServiceInstanceIdResourceDetector", None)
            detected = detector().detect().attributes.get(_KEY) if detector is not None else None
            self._now = str(detected or uuid.uuid4())
            self.made.add(self._now)
        return self._now


_instance: Final = _Instance()


def identified(resource: Resource) -> Resource:
    """``resource`` with this process's id, unless its owner chose one."""
    if re.search(rf"(?:^|,)\s*{_KEY}\s*=", os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")):
        return resource
    if _KEY in resource.attributes:
        _instance.made.add(resource.attributes[_KEY])
        return resource
    return resource.merge(Resource({_KEY: _instance.now}, resource.schema_url))


def at_home() -> bool:
    """Whether no fork has happened."""
    return not _instance.forked


def stamp(encoded: Any) -> None:
    """Correct the id in an encoded resource that a forked child has inherited."""
    for pair in encoded.attributes:
        if pair.key == _KEY and pair.value.string_value in _instance.made:
            pair.value.string_value = _instance.now
