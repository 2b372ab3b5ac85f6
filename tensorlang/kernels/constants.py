"""The arrays that a sequence reads for as long as it lives, as ranges of memory that a result must not be written into."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tensorlang.codegen.runtime import arrays
from tensorlang.ir.dtype import DType

_BYTE: Final = DType("uint8").numpy


class Constants:
    """Arrays, kept alive, and the ranges that they take. `around` is the memory from the first to the last one: never read."""

    def __init__(self, given: Iterable[npt.NDArray[Any]]) -> None:
        self.held = tuple({id(array): array for array in given if array.size}.values())
        starts = [arrays.address(array) for array in self.held]
        ends = [start + arrays.span(array) for start, array in zip(starts, self.held, strict=True)]
        self._starts, self._ends = np.array(starts, np.int64), np.array(ends, np.int64)
        self.around = np.zeros(0, _BYTE)
        if starts:
            memory = (ctypes.c_uint8 * (max(ends) - min(starts))).from_address(min(starts))
            self.around = np.ctypeslib.as_array(memory).view(_BYTE)

    def meet(self, array: npt.NDArray[Any]) -> bool:
        """Does an array in order share a byte with one of them?"""
        start = arrays.address(array)
        return bool(np.any((self._starts < start + array.nbytes) & (self._ends > start)))
