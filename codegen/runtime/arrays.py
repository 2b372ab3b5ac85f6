"""Arrays at the boundary: views of what a caller passes, and new outputs."""

from __future__ import annotations

import math
import sys
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tensorlang.codegen.runtime import dlpack, exchange
from tensorlang.errors import CallError
from tensorlang.ir.machine import LINE_BYTES

LARGE: Final = 1 << 14
"""From this many bytes a new output is aligned; for less it costs more than it brings."""

HUGE: Final = 1 << 20
"""From this many bytes it begins in the middle of `ALIASED` ones. The system's large blocks, and so NumPy's arrays, begin 16 bytes behind a
page, an aligned array in such a block 64 behind it. A Zen 4 takes loads of the one for bytes of the stores before them to the other, whose
lowest twelve bits of the address are alike: twice 16 M numbers, stored past the caches, took 6.8 ms and take 3.2."""
ALIASED: Final = 4096
"""Bytes after which two addresses look alike to a core that has not translated them."""

_SHORT: Final = 60
_MOST_WORK: Final = 10_000
"""Candidate solutions up to which it is found out whether two strided arrays share an element."""


def as_array(value: Any, where: object) -> npt.NDArray[Any]:
    """A NumPy view of an array-like, sharing its memory.

    Raises `CallError`, its message beginning with `where`, for anything that has no buffer on the CPU.
    """
    if _is_masked(value):
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


def _is_masked(value: object) -> bool:
    """Is it a masked array? There is none before the module of their class is loaded, which takes longer than many a kernel's call."""
    module = sys.modules.get("numpy.ma")
    return module is not None and isinstance(value, module.MaskedArray)


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


def laid_out(array: npt.NDArray[Any], strides: tuple[int, ...], where: object) -> npt.NDArray[Any]:
    """The array itself where it is aligned and lies as wanted (without `strides`: in C order), else a copy that does."""
    if array.flags.aligned and (lies(array, strides) if strides else array.flags.c_contiguous):
        return array
    try:
        if not strides:
            return np.array(array, order="C", copy=True)
        copy = strided_empty(array.shape, strides, array.dtype)
    except MemoryError as error:
        raise CallError(f"{where}: a copy in that order cannot be allocated: {error}") from None
    if any(size > 1 and not step for size, step in zip(array.shape, strides, strict=True)):
        raise CallError(f"{where}: expected an array that is repeated along the axes of stride 0, got strides {array.strides} in bytes")
    copy[...] = array
    return copy


def lies(array: npt.NDArray[Any], strides: tuple[int, ...]) -> bool:
    """Does an array lie in memory with these strides, in elements? Axes of one element may have any."""
    sizes = zip(array.shape, array.strides, strides, strict=True)
    return all(step == wanted * array.itemsize or size == 1 for size, step, wanted in sizes)


def axes_in_memory(array: npt.NDArray[Any]) -> tuple[int, ...] | None:
    """The axes of an array from the outermost to the innermost as they lie in memory, where the elements follow each other; else None."""
    axes = tuple(range(array.ndim))
    if array.flags.c_contiguous:
        return axes
    order = tuple(sorted(axes, key=lambda axis: -array.strides[axis]))
    return order if array.transpose(order).flags.c_contiguous else None


def stays(array: npt.NDArray[Any]) -> bool:
    """Can nobody write to the memory of an array through an array: is what it is a view of read-only too, as a mapped file is?"""
    owner: Any = array
    while isinstance(owner, np.ndarray):
        if owner.flags.writeable:
            return False
        owner = owner.base
    try:
        return owner is None or memoryview(owner).readonly
    except TypeError:  # memory of a stranger
        return False


def aligned_copy(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The elements in C order, from a cache line on."""
    copy = empty_aligned(array.shape, array.dtype)
    copy[...] = array
    return copy


def strided_empty(shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """A new array with undefined contents that lies with these strides, in elements; without any in C order."""
    if not strides:
        return empty(shape, dtype)
    size = 0 if 0 in shape else 1 + sum((extent - 1) * step for extent, step in zip(shape, strides, strict=True))
    steps = tuple(step * dtype.itemsize for step in strides)
    return np.lib.stride_tricks.as_strided(empty((size,), dtype), shape, steps)


def span(array: npt.NDArray[Any]) -> int:
    """Bytes from the first element of an array, all of whose strides are from 0 on, to the end of its last one."""
    if array.flags.c_contiguous or not array.size:
        return array.nbytes
    last: int = sum((extent - 1) * step for extent, step in zip(array.shape, array.strides, strict=True))
    return last + array.itemsize


def meet(first: npt.NDArray[Any], second: npt.NDArray[Any]) -> bool:
    """Do two arrays whose ranges of bytes overlap share an element? Also where that would take too long to tell."""
    if first.flags.c_contiguous and second.flags.c_contiguous:
        return True
    try:
        return np.shares_memory(first, second, max_work=_MOST_WORK)  # type: ignore[arg-type] # any number, says its page
    except np.exceptions.TooHardError:
        return True


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """A new array with undefined contents; a large one starts at a cache line."""
    size = math.prod(shape) * dtype.itemsize
    return np.empty(shape, dtype) if size < LARGE else empty_aligned(shape, dtype)


def empty_aligned(shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """A new array with undefined contents that starts at a cache line, and a huge one half a page behind NumPy's."""
    size = math.prod(shape) * dtype.itemsize
    room, begin = (ALIASED, ALIASED // 2) if size >= HUGE else (LINE_BYTES, 0)
    raw = np.empty(size + room, np.uint8)
    start = (begin - address(raw)) % room
    return raw[start : start + size].view(dtype).reshape(shape)


def address(array: npt.NDArray[Any]) -> int:
    """Where the data of an array is."""
    return int(array.__array_interface__["data"][0])
