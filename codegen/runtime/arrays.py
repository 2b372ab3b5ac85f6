"""Arrays at the boundary: views of what a caller passes, and new outputs."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tensorlang.codegen.runtime import dlpack, exchange
from tensorlang.errors import CallError
from tensorlang.ir.machine import LINE_BYTES

LARGE: Final = 1 << 14
"""From this many bytes a new output is aligned; for less it costs more than it brings."""

_SHORT: Final = 60


def as_array(value: Any, where: object) -> npt.NDArray[Any]:
    """A NumPy view of an array-like, sharing its memory.

    Raises `CallError`, its message beginning with `where`, for anything that has no buffer on the CPU.
    """
    if isinstance(value, np.ma.MaskedArray):
        raise CallError(f"{where}: expected a plain array, got a masked one, whose mask would be lost")
    if isinstance(value, (np.ndarray, np.generic)):
        return np.asarray(value)
    try:
        if hasattr(type(value), "__dlpack__"):
            return _from_dlpack(value, where)
        return np.asarray(memoryview(value))
    except CallError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever the methods of a stranger's object raise
        got = _describe(value)
        if isinstance(value, (bool, int, float, complex, list, tuple, type(None))):
            why = f"; write np.float32({value!r}), of the type of the argument" if isinstance(value, (bool, int, float)) else ""
        else:
            why = f": {error}"
        raise CallError(f"{where}: expected an array (NumPy, the buffer protocol or __dlpack__), got {got}{why}") from None


def _from_dlpack(value: Any, where: object) -> npt.NDArray[Any]:
    device, _ = value.__dlpack_device__()
    if int(device) not in (exchange.CPU, exchange.PINNED):
        raise CallError(f"{where}: expected data in CPU memory, got {_describe(value)} on DLPack device {int(device)}")
    exchange.meet(type(value))
    if getattr(value, exchange.METHOD, bool)():
        raise CallError(f"{where}: expected the values as they lie in memory, got {_describe(value)} that is read negated; resolve that")
    try:
        return np.from_dlpack(value)
    except (BufferError, RuntimeError):  # NumPy knows no bfloat16
        array = dlpack.bfloat16_view(value)
        if array is None:
            raise
        return array


def _describe(value: Any) -> str:
    kind = type(value)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    if value is None:
        return "None"
    if isinstance(value, (int, float, complex, str)):
        return f"{name} {str(value)[:_SHORT]!r}"
    return name


def contiguous(array: npt.NDArray[Any], where: object) -> npt.NDArray[Any]:
    """The array itself where it is C-contiguous and aligned, else a copy that is."""
    if array.flags.c_contiguous and array.flags.aligned:
        return array
    try:
        return np.array(array, order="C", copy=True)
    except MemoryError as error:
        raise CallError(f"{where}: a contiguous copy cannot be allocated: {error}") from None


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """A new array with undefined contents; a large one starts at a cache line."""
    size = math.prod(shape) * dtype.itemsize
    return np.empty(shape, dtype) if size < LARGE else empty_aligned(shape, dtype)


def empty_aligned(shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """A new array with undefined contents that starts at a cache line."""
    size = math.prod(shape) * dtype.itemsize
    raw = np.empty(size + LINE_BYTES, np.uint8)
    start = -address(raw) % LINE_BYTES
    return raw[start : start + size].view(dtype).reshape(shape)


def address(array: npt.NDArray[Any]) -> int:
    """Where the data of an array is."""
    return int(array.__array_interface__["data"][0])
