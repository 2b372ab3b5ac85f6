"""Sample operands: benign numbers from a seed, for whoever measures a kernel and has no data at hand."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tensorlang.ir.dtype import DType

_INTEGERS: Final = {"int8": (-128, 128), "uint8": (0, 256), "int16": (-300, 301), "uint16": (0, 600)}


def values(rng: np.random.Generator, shape: tuple[int, ...], dtype: DType, *, signed: bool = True) -> npt.NDArray[Any]:
    """Floats of magnitude 1/8 to 1 (a quarter negative if `signed`), small integers, or truth values."""
    if dtype.kind == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.is_integer:
        lo, hi = _INTEGERS.get(dtype, (-100 if dtype.kind == "signed" else 0, 101))
        return rng.integers(lo, hi, shape).astype(dtype.numpy)
    made = rng.random(shape, np.float32) * np.float32(0.875) + np.float32(0.125)
    if signed:
        made *= np.where(rng.random(shape, np.float32) < 0.25, np.float32(-1), np.float32(1))
    return made.astype(dtype.numpy)
