"""The functions of C that generated code may call, where this process has them."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Final

from tensorlang.errors import BuildError

_LIBRARIES: Final = (None, "libc.so.6", "libm.so.6", "libgcc_s.so.1")


@cache
def _library(name: str | None) -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(name)
    except OSError:
        return None


def address(name: str) -> int:
    """Where a function is. Raises `BuildError` for one that no library has."""
    for library in map(_library, _LIBRARIES):
        if library is not None and hasattr(library, name):
            return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
    raise BuildError(f"the machine code calls {name!r}, which this system's C library does not have")
