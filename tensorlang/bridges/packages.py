"""The libraries on the other side, which are extras: imported when a bridge is crossed, with one error where they are missing."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tensorlang.errors import BuildError


def required(module: str, extra: str) -> Any:
    """A library. Raises `BuildError`, which says how it is installed."""
    try:
        return import_module(module)
    except ImportError as error:
        reason = "is not installed" if isinstance(error, ModuleNotFoundError) and error.name == module else f"cannot be imported ({error})"
        raise BuildError(
            f"tensorlang.bridges needs {module!r}, which {reason}; python -m pip install 'tensorlang[{extra}]' brings it"
        ) from None
