"""The data of a measurement: inputs from a seed, outputs that show what was not written and what was written outside, and comparison.

Inputs are benign (no NaN, magnitudes around one) and the same for every candidate of a task. Outputs are poisoned before a check and lie
between guard zones, so that an unwritten element is NaN or 0xA5 and a write past an end is seen. The tolerance follows from the type and
the length of the longest reduction: a schedule may reassociate a sum, so rounding grows with the square root of its length.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tensorlang.codegen.calling.sample_operands import values
from tensorlang.ir.dtype import DType, dtype
from tensorlang.ir.machine import LINE_BYTES, PAGE_BYTES

GUARD: Final = PAGE_BYTES
POISON: Final = 0xA5

_EPSILON: Final = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Spec:
    """Shape and type of an argument."""

    shape: tuple[int, ...]
    dtype: DType

    def to_json(self) -> list[Any]:
        """The pair as plain JSON."""
        return [list(self.shape), str(self.dtype)]

    @classmethod
    def from_json(cls, pair: Sequence[Any]) -> Spec:
        """The inverse of `to_json`."""
        shape, name = pair
        return cls(tuple(shape), dtype(name))


class Guarded:
    """An aligned array between two guard zones."""

    def __init__(self, spec: Spec) -> None:
        numpy = spec.dtype.numpy
        size = math.prod(spec.shape) * numpy.itemsize
        self._memory = np.full(size + 2 * GUARD + LINE_BYTES, POISON, np.uint8)
        start = GUARD + -(self._memory.ctypes.data + GUARD) % LINE_BYTES
        self._zones = (self._memory[:start], self._memory[start + size :])
        self._inside = self._memory[start : start + size]
        self.array: Array = self._inside.view(numpy).reshape(spec.shape)
        self._floating = spec.dtype.is_floating

    def poison(self) -> None:
        """Fill with NaN, or a pattern where there is none."""
        if self._floating:
            self.array.fill(np.nan)
        else:
            self._inside.fill(POISON)

    def intact(self) -> bool:
        """Are the guard zones as they were?"""
        return all(bool((zone == POISON).all()) for zone in self._zones)


def inputs(specs: Sequence[Spec], seed: int, *, signed: bool = True) -> list[Guarded]:
    """Deterministic inputs: floats of magnitude 1/8 to 1 (a quarter negative if `signed`), small integers."""
    made = []
    for place, spec in enumerate(specs):
        rng = np.random.default_rng([seed, place])
        guarded = Guarded(spec)
        guarded.array[...] = values(rng, spec.shape, spec.dtype, signed=signed)
        made.append(guarded)
    return made


def tolerance(kind: DType, reduction: int) -> float:
    """The relative error that rounding explains in a result that sums `reduction` terms; 0 for integers."""
    if not kind.is_floating:
        return 0.0
    own = _EPSILON[kind]
    return 16 * own + 8 * math.sqrt(max(reduction, 1)) * min(own, _EPSILON["float32"])


def mismatch(got: Array, want: Array, kind: DType, reduction: int) -> str | None:
    """How `got` differs from `want` beyond the tolerance, with the worst element; None if it does not."""
    if got.shape != want.shape:
        return f"shape {got.shape}, expected {want.shape}"
    if not kind.is_floating:
        wrong = got != want
        if not wrong.any():
            return None
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        return f"{int(wrong.sum())} of {got.size} elements differ; at {at}: {got[at]}, expected {want[at]}"
    left, right = got.astype(np.float64), want.astype(np.float64)
    finite = np.isfinite(right)
    relative = tolerance(kind, reduction)
    scale = float(np.abs(right[finite]).mean()) if finite.any() else 0.0
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.where(finite, np.abs(left - right) / (relative * (scale + np.abs(right)) + np.finfo(np.float64).tiny), 0.0)
    error[~finite & ~((left == right) | (np.isnan(left) & np.isnan(right)))] = np.inf
    error[np.isnan(error)] = np.inf
    if not error.size or error.max() <= 1:
        return None
    at = tuple(int(i) for i in np.unravel_index(int(np.argmax(error)), error.shape))
    return f"{int((error > 1).sum())} of {got.size} elements differ; at {at}: {left[at]!r}, expected {right[at]!r} within {relative:.1e}"
