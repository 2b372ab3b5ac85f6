"""On which operands kernels are checked: those whose results tell a fault from rounding.

A schedule may round otherwise. Where a program repeats its own results, a recursion that divides by what is nearly zero or a factorisation
without pivots, that difference can grow until nothing is left of the result, and every kernel looks wrong. So results are computed once
more of operands that differ by one rounding: if they differ by more than is tolerated of a kernel, they tell nothing, and other operands
are tried. Last come those on which most programs of linear algebra are well conditioned: matrices in which the diagonal dominates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import numpy as np

from tensorlang.autotune.measurement.arrays import SAMPLES, Array, Guarded, Sample, Spec, fill, inputs, jitter, mismatch
from tensorlang.definition.tensor import Scan, Stage, Tensor, definitions

SEED: Final = 1
"""Of the roundings, so that they have nothing to do with the operands."""

Found = TypeVar("Found")


def most_telling(
    outputs: tuple[Tensor, ...],
    specs: Sequence[Spec],
    seed: int,
    run: Callable[[list[Guarded]], Found],
    values: Callable[[Found], Sequence[Array]],
    reduction: int,
) -> tuple[Sample, list[Guarded], Found]:
    """The first kind of operands of which most results are finite and, as far as one can tell, well conditioned.

    With these operands, and what `run` found of them. `values` are the results in what was found, or those at some elements; `reduction`
    is the longest sum of one element. Where there is no such kind, it is the first of which most results are finite, or else positive
    operands.
    """
    chosen: Sample | None = None
    for sample in SAMPLES:
        made = inputs(specs, seed, sample)
        found = run(made)
        if not all(map(mostly_finite, values(found))):
            continue
        if not _repeats(outputs):
            return sample, made, found
        if _is_steady(outputs, specs, made, (run, values), found, reduction):
            for place, (guarded, spec) in enumerate(zip(made, specs, strict=True)):
                fill(guarded, spec, seed, place, sample)
            return sample, made, found
        chosen = chosen or sample
    sample = chosen or "positive"
    made = inputs(specs, seed, sample)
    return sample, made, run(made)


def _repeats(outputs: tuple[Tensor, ...]) -> bool:
    """Does it compute a float of itself, again and again?"""
    return any(isinstance(definition, Scan) or (isinstance(definition, Stage) and definition.itself) for definition in definitions(outputs))


def _is_steady(
    outputs: tuple[Tensor, ...],
    specs: Sequence[Spec],
    made: list[Guarded],
    way: tuple[Callable[[list[Guarded]], Found], Callable[[Found], Sequence[Array]]],
    found: Found,
    reduction: int,
) -> bool:
    """Are the results the same within the tolerance once the operands are rounded otherwise, which they are from here on?"""
    run, values = way
    before = [array.copy() for array in values(found)]
    for place, (guarded, spec) in enumerate(zip(made, specs, strict=True)):
        jitter(guarded, spec, SEED, place)
    after = values(run(made))
    pairs = zip(after, before, outputs, strict=True)
    return all(mismatch(got, want, tensor.dtype, reduction) is None for got, want, tensor in pairs if tensor.dtype.is_floating)


def mostly_finite(values: Array) -> bool:
    """Are nine of ten elements finite, as those of most programs are on most inputs?"""
    if values.dtype.kind in "biu" or not values.size:
        return True
    return bool(np.isfinite(values.astype(np.float64)).mean() > 0.9)
