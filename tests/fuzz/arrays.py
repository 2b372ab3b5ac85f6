"""Arrays that results are held in, and how two of them differ."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorlang.ir import Nest
from tensorlang.semantics import arithmetic

from .bounds import UNIT
from .effort import sizes_of

Array = np.ndarray[Any, Any]


def blank(nest: Nest, extents: dict[str, int]) -> dict[str, Array]:
    """The outputs of a nest, poisoned."""
    return {buffer.name: poisoned(buffer, nest, extents) for buffer in nest.outputs}


def poisoned(buffer: Any, nest: Nest, extents: dict[str, int]) -> Array:
    """An output full of 0xA5 bytes, or NaN."""
    size = sizes_of({name: extents[name] for name in nest.dims})
    shape = tuple(size(extent) for extent in buffer.shape)
    found = (
        np.frombuffer(bytes([0xA5]) * int(np.prod(shape, dtype=np.int64)) * buffer.dtype.bytes, buffer.dtype.numpy).reshape(shape).copy()
    )
    if buffer.dtype.is_floating:
        found.fill(np.nan)
    return found


def same(result: Array, expected: Array) -> bool:
    """Are two arrays equal, NaN where NaN?"""
    if result.shape != expected.shape or result.dtype != expected.dtype:
        return False
    if result.tobytes() == expected.tobytes():
        return True
    if str(expected.dtype) not in UNIT:
        return False
    with arithmetic.quiet():
        return bool(((result == expected) | (np.isnan(result) & np.isnan(expected))).all())


def difference(result: Array, expected: Array) -> str:
    """Where two arrays differ first."""
    if result.shape != expected.shape or result.dtype != expected.dtype:
        return f"is {result.dtype}{result.shape}, not {expected.dtype}{expected.shape}"
    a, b = (array.view(np.uint8) if array.dtype == bool else array for array in (result, expected))
    with np.errstate(all="ignore"):
        wrong = np.argwhere((a != b) & ~(absent(a) & absent(b)))
    at = tuple(int(part) for part in wrong[0]) if len(wrong) else ()
    return f"differs in {len(wrong)} of {expected.size} elements, first at {list(at)}: {a[at]!r}, not {b[at]!r}"


def absent(array: Array) -> Any:
    """Where an array holds NaN."""
    return np.isnan(array) if str(array.dtype) in UNIT else np.zeros(array.shape, np.bool_)
