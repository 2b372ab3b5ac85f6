"""The data of a measurement: inputs from a seed, outputs that show what was not written and what was written outside, and comparison.

Operands may fill most of the memory there is. So each is there once: made in place and compared part by part, and instead of a copy of what
must not change there is its checksum.

Inputs are benign (no NaN, magnitudes of one or less) and the same for every candidate of a task. Outputs are poisoned before a check and
lie between guard zones, so that an unwritten element is NaN or 0xA5 and a write past an end is seen. The tolerance follows from the type
and the length of the longest reduction: a schedule may reassociate a sum, so rounding grows with the square root of its length.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from tensorlang.autotune.measurement.unsteady import Unsteady
from tensorlang.codegen.calling.sample_operands import values
from tensorlang.ir.dtype import EPSILON, DType, dtype
from tensorlang.ir.machine import LINE_BYTES, PAGE_BYTES

GUARD: Final = PAGE_BYTES
POISON: Final = 0xA5
PART: Final = 1 << 20
"""Elements that are made or compared at a time."""

Array = npt.NDArray[Any]

Sample = Literal["signed", "positive", "dominant"]
"""Kinds of inputs: floats of magnitude 1/8 to 1, a quarter negative, or none. Or matrices in which the diagonal dominates: floats of the
first kind, divided by the longest extent of their array, and 1 more on the diagonal where its last two extents are the same."""
SAMPLES: Final[tuple[Sample, ...]] = ("signed", "positive", "dominant")


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

    def seal(self) -> None:
        """Make the guard zones as they were."""
        for zone in self._zones:
            zone.fill(POISON)

    def digest(self) -> int:
        """A checksum of what it holds."""
        return zlib.crc32(self._inside.data)


def inputs(specs: Sequence[Spec], seed: int, sample: Sample = "signed") -> list[Guarded]:
    """Deterministic inputs of a kind: see `Sample`."""
    made = [Guarded(spec) for spec in specs]
    for place, (guarded, spec) in enumerate(zip(made, specs, strict=True)):
        fill(guarded, spec, seed, place, sample)
    return made


def fill(guarded: Guarded, spec: Spec, seed: int, place: int, sample: Sample = "signed") -> None:
    """Make the input of this place again, in place."""
    rng, flat = np.random.default_rng([seed, place]), guarded.array.reshape(-1)
    dominant = sample == "dominant" and spec.dtype.is_floating
    for start in range(0, flat.size, PART):
        part = flat[start : start + PART]
        part[...] = values(rng, part.shape, spec.dtype, signed=sample != "positive")
        if dominant:
            part /= max(spec.shape, default=1)
    if dominant and len(spec.shape) > 1 and spec.shape[-1] == spec.shape[-2]:
        diagonal = np.arange(spec.shape[-1])
        guarded.array[..., diagonal, diagonal] += 1


def jitter(guarded: Guarded, spec: Spec, seed: int, place: int, ulps: float = 1.0) -> None:
    """Round each float of an input otherwise, up or down, by so many roundings; the other way if they are negative."""
    if not spec.dtype.is_floating:
        return
    rng, flat = np.random.default_rng([seed, place]), guarded.array.reshape(-1)
    for start in range(0, flat.size, PART):
        part = flat[start : start + PART]
        part[...] = part.astype(np.float64) * (1 + ulps * EPSILON[spec.dtype] * rng.choice((-1.0, 1.0), part.shape))


def tolerance(kind: DType, reduction: int) -> float:
    """The relative error that rounding explains in a result that sums `reduction` terms; 0 for integers."""
    if not kind.is_floating:
        return 0.0
    own = EPSILON[kind]
    return 16 * own + 8 * math.sqrt(max(reduction, 1)) * min(own, EPSILON["float32"])


def elements(array: Array, at: tuple[Array, ...] | None) -> Array:
    """The elements at these places, one array of them for each axis, along one axis; the whole array where there are no places."""
    return array if at is None else array[at] if array.ndim else array.reshape(1)


def places(points: Sequence[tuple[int, ...]], rank: int) -> tuple[Array, ...]:
    """Points of so many axes, as one array for each axis."""
    return tuple(np.array(points, np.int64).reshape(len(points), rank).T)


def mismatch(
    got: Array, want: Array, kind: DType, reduction: int, unsteady: Unsteady | None = None, *, beyond: Unsteady | None = None
) -> str | None:
    """How `got` differs from `want` beyond the tolerance, with the worst element; None if it does not.

    Elements that are `unsteady` may be what they were in any draw. Where these are known of a sample only, which is held to the reference,
    the share `beyond` of all elements may differ.
    """
    if got.shape != want.shape:
        return f"shape {got.shape}, expected {want.shape}"
    floating, relative = kind.is_floating, tolerance(kind, reduction)
    wrong, worst, at = 0, 0.0, 0
    for start, error in _deviations(got, want, kind, reduction):
        if unsteady is not None:
            unsteady.excuse(start, got.reshape(-1)[start : start + PART], error)
        place = int(np.argmax(error))
        if error[place] > max(worst, 1):
            worst, at = float(error[place]), start + place
        wrong += int((error > 1).sum())
    if not wrong or (beyond is not None and wrong <= beyond.share * got.size):
        return None
    index = tuple(int(i) for i in np.unravel_index(at, got.shape))
    told = f"{wrong} of {got.size} elements differ; at {index}: "
    if not floating:
        return told + f"{got[index]}, expected {want[index]}"
    return told + f"{float(got[index])!r}, expected {float(want[index])!r} within {relative:.1e}"


def differing(got: Array, want: Array, kind: DType, reduction: int) -> Array:
    """Which elements differ beyond the tolerance, along one axis."""
    return np.concatenate([error > 1 for _, error in _deviations(got, want, kind, reduction)] or [np.zeros(0, bool)])


def _deviations(got: Array, want: Array, kind: DType, reduction: int) -> Iterator[tuple[int, Array]]:
    """The differences over what is tolerated, part by part, each with the number of its first element."""
    relative, scale = tolerance(kind, reduction), _scale(want) if kind.is_floating else 0.0
    for start, left, right in _parts(got, want):
        yield start, _errors(left, right, relative, scale) if kind.is_floating else (left != right).astype(np.float64) * 2


def _parts(*arrays: Array) -> Iterator[tuple[Any, ...]]:
    """The arrays part by part, each with the number of its first element."""
    flat = [array.reshape(-1) for array in arrays]
    for start in range(0, flat[0].size, PART):
        yield start, *(array[start : start + PART] for array in flat)


def _scale(want: Array) -> float:
    """The mean magnitude of the finite elements."""
    total, count = 0.0, 0
    for _, part in _parts(want):
        wide = part.astype(np.float64)
        finite = wide[np.isfinite(wide)]
        total, count = total + float(np.abs(finite).sum()), count + finite.size
    return total / count if count else 0.0


def _errors(got: Array, want: Array, relative: float, scale: float) -> Array:
    """The difference of each element over what is tolerated."""
    left, right = got.astype(np.float64), want.astype(np.float64)
    finite = np.isfinite(right)
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.where(finite, np.abs(left - right) / (relative * (scale + np.abs(right)) + np.finfo(np.float64).tiny), 0.0)
    error[~finite & ~((left == right) | (np.isnan(left) & np.isnan(right)))] = np.inf
    error[np.isnan(error)] = np.inf
    return error
