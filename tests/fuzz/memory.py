"""Arrays between pages that must not be touched: an access one byte too far ends the process, and the worker with it.

An array lies at the end of its pages or at their start, in turn; what is left of the last page holds a pattern that is checked.
"""

from __future__ import annotations

import ctypes
import mmap
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

PAGE: Final = mmap.PAGESIZE
CANARY: Final = 0xA5
_libc = ctypes.CDLL(None, use_errno=True)


class Arena:
    """Some pages with an untouchable one before and after them; used again and again."""

    def __init__(self, pages: int) -> None:
        self.size = pages * PAGE
        self.map = mmap.mmap(-1, self.size + 2 * PAGE)
        self.base = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        for page in (self.base, self.base + PAGE + self.size):
            if _libc.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(PAGE), 0):
                raise OSError(ctypes.get_errno(), "mprotect")

    def bytes(self, start: int, count: int) -> np.ndarray[Any, Any]:
        """`count` bytes from `start` of the usable part."""
        return np.frombuffer(self.map, np.uint8, count, PAGE + start)


@dataclass(slots=True)
class Guarded:
    """An array and the bytes beside it."""

    array: np.ndarray[Any, Any]
    rest: np.ndarray[Any, Any]

    def spoilt(self) -> bool:
        """Was something written beside the array?"""
        return bool((self.rest != CANARY).any())


class Memory:
    """Guarded arrays, from arenas that are used again."""

    def __init__(self) -> None:
        self.free: list[Arena] = []
        self.used: list[Arena] = []

    def reset(self) -> None:
        """All arrays given so far are done with."""
        self.free, self.used = [*self.free, *self.used][:32], []

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any], *, at_end: bool) -> Guarded:
        """An array of 0xA5 bytes that ends, or starts, where its pages do."""
        count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        pages = max(1, -(-count // PAGE))
        arena = next((arena for arena in self.free if arena.size >= pages * PAGE), None)
        if arena is None:
            arena = Arena(max(4, pages))
        else:
            self.free.remove(arena)
        self.used.append(arena)
        whole = arena.bytes(0, arena.size)
        whole[:] = CANARY
        start = arena.size - count if at_end else 0
        rest = arena.bytes(0, start) if at_end else arena.bytes(count, arena.size - count)
        array = np.ndarray(shape, dtype, arena.map, PAGE + start)
        return Guarded(array, rest)

    def copy(self, source: np.ndarray[Any, Any], *, at_end: bool) -> Guarded:
        """A guarded copy."""
        made = self.array(source.shape, source.dtype, at_end=at_end)
        made.array[...] = source
        return made
