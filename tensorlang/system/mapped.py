"""Arrays that are mapped from files: memory that the system can take and give again, since the file holds what was there.

Pages of a file count as memory of a process from when it reads them until it says that it does not need them, or the system runs short.
Weights that were read once, to be packed, would so be there twice.
"""

from __future__ import annotations

import mmap
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
