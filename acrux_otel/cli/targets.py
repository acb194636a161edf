# SPDX-License-Identifier: Apache-2.0
"""Importing what a user names on the command line: a module, or a file."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from pathlib import Path

__all__ = ["load"]


def load(target: str) -> None:
    """Import ``package.module`` or ``path/to/file.py``, from the current folder.

    Raises:
        ValueError: it is not there, or fails; one line says where.
    """
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    path = Path(target) if target.endswith(".py") else None
    if path is not None and not path.is_file():
        raise ValueError(f"there is no file {target!r}, seen from {here}")
    module, colon, _ = target.partition(":")
    if colon and path is None:
        raise ValueError(f"{target!r} names an object; expected its module, {module}")
    try:
        if path is not None:
            _load_file(path)
        else:
            importlib.import_module(target)
    except Exception as error:
        if (
            isinstance(error, ModuleNotFoundError)
            and error.name
            and f"{target}.".startswith(f"{error.name}.")
        ):
            raise ValueError(
                f"there is no module {target!r}; expected package.module or path/to/file.py, seen from {here}"
            ) from None
        raise ValueError(f"{target} cannot be imported: {_told(error)}") from None
    except SystemExit as stop:
        raise ValueError(
            f"{target} ends the program when it is imported (exit code {stop.code!r}); "
            "put that under if __name__ == '__main__'"
        ) from None


def _load_file(path: Path) -> None:
    name = path.stem
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    sys.path.insert(0, str(path.parent.resolve()))  # what Python does for a script
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)


def _told(error: Exception) -> str:
    """The error's own line, and where in the user's code it came from."""
    line = traceback.format_exception_only(type(error), error)[-1].strip()
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename != __file__ and not frame.filename.startswith("<frozen")
    ]
    own = [frame for frame in frames if os.sep + "importlib" + os.sep not in frame.filename]
    return f"{line} ({own[-1].filename}:{own[-1].lineno})" if own else line
