"""Arrays that are mapped from files: memory that the system can take and give again, since the file holds what was there.

Pages of a file count as memory of a process from when it reads them until it says that it does not need them, or the system runs short.
Weights that were read once, to be packed, would so be there twice. What was computed has no file, so that it takes memory for as long as
anybody may want it: a `Room` gives it one.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np


def give_back(array: np.ndarray[Any, Any]) -> bool:
    """Hold no page of an array that is mapped from a file read-only: who looks at it reads it again. Is it one?

    Where the memory could have been written to, and for anything else, nothing is done.
    """
    owner: object = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    if isinstance(owner, memoryview):
        owner = owner.obj
    if not isinstance(owner, mmap.mmap) or not array.size or min(array.strides, default=0) < 0:
        return False
    with memoryview(owner) as view:
        if not view.readonly:
            return False
        start = array.ctypes.data - np.frombuffer(view, np.uint8, 1).ctypes.data
    size = array.itemsize + sum((extent - 1) * step for extent, step in zip(array.shape, array.strides, strict=True))
    first = start - start % mmap.PAGESIZE
    owner.madvise(mmap.MADV_DONTNEED, first, min(start + size, len(owner)) - first)
    return True


def give_back_freed() -> bool:
    """Hold no page of memory that was freed: glibc keeps what large arrays had for the next ones. Is there such a thing to ask for?"""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
    return trim is not None


class Room:
    """A file without a name, for arrays of at most so many bytes in all, counted in pages: it goes when the last of them does."""

    def __init__(self, folder: Path, size: int) -> None:
        """Raises `OSError` where there is no room in the folder."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            os.posix_fallocate(file.fileno(), 0, size)  # who finds the disk full later can only be ended
            self._pages = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
            self._file = os.dup(file.fileno())
        self._end = 0

    def moved(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """The same elements, in order, in the file. Raises `OSError` where they cannot be written."""
        elements = np.ascontiguousarray(array)
        start = self._end
        left = elements.reshape(-1).view(np.uint8).data
        while left:
            done = os.pwrite(self._file, left, self._end)
            left, self._end = left[done:], self._end + done
        self._end = in_pages(self._end)
        return np.frombuffer(self._pages, array.dtype, array.size, start).reshape(array.shape)

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            os.close(self._file)


def in_pages(size: int) -> int:
    """The bytes of the pages that so many bytes begin."""
    return -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
