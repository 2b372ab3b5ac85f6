"""How many threads a parallel loop uses: a number of the kernel's own, or that of the process, which `set_threads` changes.

That of the process is `TENSORLANG_NUM_THREADS`, else the size of the affinity mask. Generated code reads the number at every parallel
loop, as the external symbol `tensorlang_num_threads` (int32); a kernel with a number of its own has that symbol linked to another place.
So one object serves any number, and a change needs no rebuild.
"""

from __future__ import annotations

import ctypes
import operator
import os
from typing import Final, SupportsIndex

from tensorlang.codegen.target.caches import usable_cores
from tensorlang.errors import CallError

COUNTER_SYMBOL: Final = "tensorlang_num_threads"
MAX_THREADS: Final = 1024
"""More threads than this are a mistake, and would exhaust the process before they helped."""

_count: Final = ctypes.c_int32(0)


_own: Final[dict[int, ctypes.c_int32]] = {}
"""The numbers that kernels have of their own, each in one place for all kernels; they stay, since code reads them."""


def set_threads(count: SupportsIndex) -> None:
    """Use `count` threads (1 to 1024) in parallel loops from now on, in every kernel of this process that has no number of its own.

    Raises `CallError` for anything else; the number stays as it was.
    """
    _count.value = checked(count, "set_threads")


def get_threads() -> int:
    """The number of threads that parallel loops use. Raises `CallError` where `TENSORLANG_NUM_THREADS` is not a number of threads."""
    if _count.value == 0:
        _count.value = _default()
    return _count.value


def counter_address(threads: int | None = None) -> int:
    """Where generated code reads the number: a kernel's own, or where None that of the process."""
    if threads is None:
        get_threads()
        return ctypes.addressof(_count)
    return ctypes.addressof(_own.setdefault(threads, ctypes.c_int32(threads)))


def _default() -> int:
    text = os.environ.get("TENSORLANG_NUM_THREADS", "").strip()
    if not text:
        return min(usable_cores(), MAX_THREADS)
    return checked(int(text) if text.isascii() and text.isdigit() else text, "TENSORLANG_NUM_THREADS")


def checked(count: object, where: str) -> int:
    """A number of threads. Raises `CallError` that names `where` it was given."""
    try:
        number = None if isinstance(count, bool) else operator.index(count)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None or not 1 <= number <= MAX_THREADS:
        raise CallError(f"{where}: expected a number of threads from 1 to {MAX_THREADS}, got {count!r}")
    return number
