"""Results of programs that cut floats, computed again with what is rounded otherwise: what rounding explains of a difference.

Draws come in pairs of opposite signs. What a cut makes of a float near an edge differs from the reference in one of a pair, unless the
roundings of that draw happen to cancel, so that few pairs tell nearly all such elements.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from tensorlang.autotune.measurement.arrays import Array, differing
from tensorlang.autotune.measurement.unsteady import Unsteady
from tensorlang.ir.dtype import DType

PAIRS: Final = 4
ENOUGH_S: Final = 2.0
"""Seconds after which no further pair is drawn."""
SLOWER: Final = 3.0
"""How many times as long as the evaluator it takes to round otherwise, at most."""


def draw(otherwise: Callable[[int, int], list[Array]], each_s: float = 0.0, most_s: float = 0.0) -> list[list[Array]]:
    """Results of draws, by their seed and sign, of which one takes about so many seconds; none where a pair takes more than `most_s`."""
    found: list[list[Array]] = []
    start = time.perf_counter()
    for seed in range(PAIRS):
        if 2 * each_s > (ENOUGH_S - (time.perf_counter() - start) if found else max(most_s, ENOUGH_S)):
            break
        before = time.perf_counter()
        found += [otherwise(seed, sign) for sign in (1, -1)]
        each_s = (time.perf_counter() - before) / 2
    return found


def hanging(want: Array, draws: Sequence[Array], kind: DType, reduction: int) -> Unsteady:
    """The elements of a reference that hang on rounding."""
    changed = np.zeros(want.size, bool)
    for array in draws:
        changed |= differing(array, want, kind, reduction)
    return Unsteady.of(want, draws, changed)
