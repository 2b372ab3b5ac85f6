"""Numbers as halves, rounded once: to the nearest, ties to even.

On the way through float32, or for large integers through float64, what is inexact is made odd: then no tie arises that was none, and what
the last step rounds is rounded as if it were the first one. ml_dtypes rounds twice before its version 0.7.

Source: Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums: proved algorithms using rounding to odd", 2008.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

SPARE_BITS: Final = 11
"""Those of 64 that float64 has no room for."""


def to_half(values: npt.ArrayLike, kind: np.dtype[Any]) -> Array:
    """Numbers of any type as `kind`, a type of 16 bits: an array of their shape."""
    found = np.asarray(values)
    if found.dtype.itemsize > 4 or found.dtype.kind in "iu":
        found = _odd_float32(_odd_float64(found) if found.dtype.kind in "iu" else found.astype(np.float64))
    return found.astype(np.float32).astype(kind)


def _odd_float64(whole: Array) -> Array:
    """Integers as float64, made odd where that has no room for them."""
    if whole.dtype.itemsize < 8:
        return whole.astype(np.float64)
    lost = whole & whole.dtype.type((1 << SPARE_BITS) - 1)
    odd = (whole - lost) | np.where(lost == 0, 0, 1 << SPARE_BITS).astype(whole.dtype)
    large = (whole >= 1 << 53) | (whole <= -(1 << 53)) if whole.dtype.kind == "i" else whole >= 1 << 53
    return np.where(large, odd, whole).astype(np.float64)


def _odd_float32(wide: Array) -> Array:
    """float64 as float32, made odd where that has no room for it."""
    near = np.asarray(wide.astype(np.float32))
    back = near.astype(np.float64)
    bits = near.view(np.uint32) - (np.abs(back) > np.abs(wide))
    inexact = (back != wide) & ~np.isnan(wide)
    return np.where(inexact, bits | 1, near.view(np.uint32)).astype(np.uint32).view(np.float32)
