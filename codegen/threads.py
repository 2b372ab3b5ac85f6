"""How many threads a parallel loop uses: one number for the process, read by generated code at every parallel loop.

The default is `TENSORLANG_NUM_THREADS`, else the size of the affinity mask. Generated code sees the number as the external symbol
`tensorlang_num_threads` (int32), so that a change needs no rebuild.
"""

from __future__ import annotations

import ctypes
import operator
import os
from typing import Final, SupportsIndex

from tensorlang.codegen.caches import usable_cores
from tensorlang.errors import CallError

COUNTER_SYMBOL: Final = "tensorlang_num_threads"
MAX_THREADS: Final = 1024
"""More threads than this are a mistake, and would exhaust the process before they helped."""

_count: Final = ctypes.c_int32(0)


def set_threads(count: SupportsIndex) -> None:
    """Use `count` threads (1 to 1024) in parallel loops from now on, in every kernel of this process.

    Raises `CallError` for anything else; the number stays as it was.
    """
    _count.value = _checked(count, "set_threads")


def get_threads() -> int:
    """The number of threads that parallel loops use. Raises `CallError` where `TENSORLANG_NUM_THREADS` is not a number of threads."""
    if _count.value == 0:
        _count.value = _default()
    return _count.value


def counter_address() -> int:
    """Where generated code reads the number."""
    get_threads()
    return ctypes.addressof(_count)


def _default() -> int:
    text = os.environ.get("TENSORLANG_NUM_THREADS", "").strip()
    if not text:
        return min(usable_cores(), MAX_THREADS)
    return _checked(int(text) if text.isascii() and text.isdigit() else text, "TENSORLANG_NUM_THREADS")


def _checked(count: object, where: str) -> int:
    try:
        number = None if isinstance(count, bool) else operator.index(count)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None or not 1 <= number <= MAX_THREADS:
        raise CallError(f"{where}: expected a number of threads from 1 to {MAX_THREADS}, got {count!r}")
    return number
