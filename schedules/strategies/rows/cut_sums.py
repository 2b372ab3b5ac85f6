"""Sums whose range conditions cut, as those of a triangular factorisation: as many lanes as their length is worth.

    for j: for k: if k < j: S[j] += L[i, k] * L[j, k]       # half as long as the box on the average, and never as long twice

The last tile of each is a part of one, so that a wide tile is mostly lost; where operands do not follow memory, lanes under a mask are
picked out of it one by one, and a sum of single numbers may be faster than all of them. So it may be where the newest element of the sum is
one that was just written. The cost model weighs these, with what stands around the sum; parts of vectors have to be faster by more than it
is sure of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from tensorlang.schedules.model.estimate import estimated
from tensorlang.schedules.model.parts import Part
from tensorlang.schedules.model.sketch import Sketch, beside_others, numbered
from tensorlang.schedules.strategies.descent import OTHER_WAY
from tensorlang.schedules.strategies.processor import Processor
from tensorlang.schedules.strategies.rows.rows import RowVectors

PARTS: Final = 4
"""Parts of a vector that a tile may have, instead of whole ones: halves and quarters are vectors too."""


def cut_sum(rows: RowVectors, plain: Sequence[Part], machine: Processor) -> RowVectors:
    """The rows with tiles of parts of vectors, and the one that the model names; as they were where no condition cuts their sum."""
    vector = rows.vector
    if vector is None or not rows.reduces or rows.ragged or rows.run is not None:
        return rows
    try:
        sketch = Sketch.of(plain, rows.stage.name)
    except KeyError:
        return rows
    if not any(loop.name == vector.loop and loop.ragged for loop in sketch.loops):
        return rows
    parted = replace(rows, lanes=max(1, rows.lanes // PARTS))

    def seconds(count: int) -> float:
        found = sketch.copy()
        if count:
            found.mark(found.split(vector.loop, count * parted.lanes, parted.lanes)[1], "vector")
        return estimated(numbered(beside_others(found, plain)), machine.core).seconds

    known = {count: seconds(count) for count in (0, *parted.counts)}
    best = min(known, key=known.__getitem__)
    whole = min((count for count in known if count % PARTS == 0), key=known.__getitem__)
    best = best if known[best] < OTHER_WAY * known[whole] else whole
    return replace(parted, apart=not best, wanted=best or None)
