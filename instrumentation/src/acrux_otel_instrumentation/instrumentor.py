# SPDX-License-Identifier: Apache-2.0
"""What every framework's instrumentor is: a supported range, hooks, and one warning where they do not fit."""

from __future__ import annotations

import importlib.metadata
import logging
from collections.abc import Collection, Iterable
from typing import Any

from opentelemetry.instrumentation.instrumentor import BaseInstrumentor  # type: ignore[attr-defined]
from packaging.requirements import Requirement

from acrux_otel_instrumentation.calls import Framework
from acrux_otel_instrumentation.patching import Hook, Patches, warn_once

__all__ = ["FrameworkInstrumentor", "installed_version"]

_log = logging.getLogger("acrux_otel")


def installed_version(package: str) -> str | None:
    """The version of an installed distribution; None where it is not there."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


class FrameworkInstrumentor(BaseInstrumentor):  # type: ignore[misc]
    """Records the tool calls of one framework.

    Attributes:
        framework: what its calls have in common.
        instruments: requirements; all must be met.
    """

    framework: Framework
    instruments: tuple[str, ...] = ()
    _patches: Patches | None = None
    _is_instrumented_by_opentelemetry: bool

    def hooks(self) -> Iterable[Hook]:
        """What to patch; the installed version is a supported one."""
        raise NotImplementedError

    def instrumentation_dependencies(self) -> Collection[str]:
        """The packages and versions that are instrumented, as requirements."""
        return self.instruments

    def installed(self) -> bool:
        """Whether every package is there, in whatever version."""
        return all(installed_version(Requirement(each).name) is not None for each in self.instruments)

    def instrument(self, **kwargs: Any) -> None:
        """Record tool calls from now on. Never raises.

        Args:
            kwargs: ``tracer_provider`` instead of the one in force; ``skip_dep_check`` and the like, which
                `opentelemetry-instrument` passes, change nothing: the range is always checked.
        """
        if self._is_instrumented_by_opentelemetry:
            package = Requirement(self.instruments[0]).name
            _log.warning("%s is instrumented already; this instrument() changes nothing", package)
            return
        # Who loads all instrumentors knows that most frameworks are not there.
        loaded = "skip_dep_check" in kwargs or "raise_exception_on_conflict" in kwargs
        try:
            if self._fits(quietly=loaded):
                self._instrument(**kwargs)
                self._is_instrumented_by_opentelemetry = True
        except Exception as error:
            warn_once(
                f"instrument:{self.framework.name}",
                "%s could not be instrumented (%s: %s)",
                self.framework.name,
                type(error).__name__,
                error,
            )

    def _fits(self, *, quietly: bool) -> bool:
        for each in self.instruments:
            wanted = Requirement(each)
            found = installed_version(wanted.name)
            if found is None:
                if quietly:
                    _log.debug("%s is not installed", wanted.name)
                else:
                    warn_once(
                        f"missing:{each}",
                        "%s is not installed; its tool calls are recorded for %s",
                        wanted.name,
                        wanted,
                    )
                return False
            if not wanted.specifier.contains(found, prereleases=True):
                warn_once(
                    f"version:{each}",
                    "%s %s is not supported, its tool calls are not recorded; supported: %s",
                    wanted.name,
                    found,
                    wanted,
                )
                return False
        return True

    def _instrument(self, **kwargs: Any) -> None:
        self.framework.tracer_provider = kwargs.get("tracer_provider")
        self.framework.on = True
        if self._patches is None:
            self._patches = Patches(", ".join(self.instruments))
        self._patches.apply(self.hooks())

    def _uninstrument(self, **kwargs: Any) -> None:
        self.framework.on = False
        if self._patches is not None:
            self._patches.undo()
