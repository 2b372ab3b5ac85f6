"""Short last axes: channels of a pixel, columns of a small matrix, walked as one run with the axes outside of them.

    for i: for j: for c in range(3):                        for i: for j_c in range(3 * 512):
        B[i, j, c] = A[i, j, c] * g[c]          ->              B[i, j_c // 3, j_c % 3] = ...

Alone such an axis leaves most lanes of a vector idle. In a run every lane has an element, and what the run walks as one stays contiguous.
Vectors of whole groups (24 lanes for three channels) find every digit at the same lanes again, so what moves along one digit alone (a gain
for each channel, a mask for each pixel) is a vector loaded once, or a shuffle of neighbours; where some load would gather from afar the
axes stay apart. Of neighbours beyond a border the first and the last groups alone ask: they are no part of the run (`peeled_ends`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm, prod
from typing import Final

from tensorlang.ir import Buffer, For, Load, Select, Store
from tensorlang.ir.traverse import axes_of, loads_of, walk
from tensorlang.schedules.strategies.analysis.distances import apart_along
from tensorlang.schedules.strategies.analysis.peeled_ends import interior
from tensorlang.schedules.strategies.analysis.stages import StageInfo, from_zero, is_literal, size

NEAR: Final = 2
"""How many times the elements of a vector those that its lanes read may lie apart: so many loads are shuffled into one."""
MASKED_BITS: Final = 32
"""The narrowest elements that every vector unit loads under a mask (VMASKMOVPS; bytes wait for AVX-512BW)."""


@dataclass(frozen=True, slots=True)
class Run:
    """Output loops as one, outermost first, in vectors of `period` elements or a multiple of it; of the outermost without its `ends`."""

    loops: tuple[For, ...]
    period: int
    ends: tuple[int, int] = (0, 0)

    @property
    def size(self) -> int:
        """Iterations of them all."""
        return (size(self.loops[0]) - sum(self.ends)) * prod(map(size, self.loops[1:]))

    @property
    def literal(self) -> bool:
        """Is the number of iterations a literal?"""
        return all(map(is_literal, self.loops))

    def counts(self, lanes: int, most: int) -> tuple[int, ...]:
        """How many vectors may be in flight, of at most so many elements."""
        whole = -(-self.size // lanes)
        if whole * lanes <= self.period:
            return (whole,)
        least = max(1, self.period // lanes)
        return tuple(least << power for power in range(most.bit_length()) if least << power <= min(whole, most // lanes))


def run_of(stage: StageInfo, lanes: int, most: int, *, peels: bool = False) -> Run | None:
    """The last axes of a stage as one run that fills vectors of `lanes`; None where the last one does, or gathers would be the price.

    `most`: elements of a vector, at most. `peels`: ends of the outermost axis may be left out.
    """
    if stage.scatters_within or not stage.outer or not 1 < size(stage.outer[-1]) < lanes:
        return None
    loops: tuple[For, ...] = ()
    for loop in reversed(stage.outer):
        if prod(map(size, loops)) >= lanes or not all(map(is_literal, loops)) or not _joins(stage, loop, loops):
            break
        loops = (loop, *loops)
    ends = (0, 0)
    if peels and len(loops) > 1 and not (stage.reduced or stage.conditional):
        asking, inside = interior(stage, loops[0])
        if any(asking) and Run(loops, 1, asking).size >= lanes:
            ends, stage = asking, inside
    if len(loops) < 2 or (2 * size(loops[-1]) >= lanes and _inserts(stage, loops)):
        return None
    walked: list[Load | Store] = [load for load in stage.loads if any(stage.stride(load, loop) != 0 for loop in loops)]
    period = 1 if all(_as_one(stage, access, loops) for access in walked) else lcm(lanes, prod(map(size, loops[1:])))
    if period > most or not all(_is_near(stage, access, loops, max(period, lanes)) for access in walked):
        return None
    return Run(loops, period, ends)


def _inserts(stage: StageInfo, loops: tuple[For, ...]) -> bool:
    """Would elements be loaded one by one, as conditions tell lanes apart and no instruction loads elements of this width under a mask?

    That takes longer than half of the lanes idle do: images of bytes with a border of zeros, a row of which fills half a vector.
    """
    names = {loop.loop for loop in loops}
    return any(
        isinstance(load.buffer, Buffer) and load.buffer.dtype.bits < MASKED_BITS
        for value in stage.store.values
        for part in walk(value)
        if isinstance(part, Select) and axes_of(part.cond) & names
        for load in loads_of(part)
    )


def _joins(stage: StageInfo, loop: For, inside: tuple[For, ...]) -> bool:
    """Is a loop directly outside of others, and the result walked as one by them all, in any order?"""
    told = loop.loop in stage.ragged.bounded or loop.loop in stage.ragged.keys
    if told or not from_zero(loop) or apart_along(stage).get(loop.loop):
        return False
    place = stage.loops.index(loop)
    beside = not inside or stage.loops[place + 1 : place + 2] == inside[:1]
    return beside and _as_one(stage, stage.store, (loop, *inside)) and stage.stride(stage.store, (loop, *inside)[-1]) == 1


def _as_one(stage: StageInfo, access: Load | Store, loops: tuple[For, ...]) -> bool:
    """Does an access walk loops as if they were one?"""
    steps = [stage.stride(access, loop) for loop in loops]
    pairs = zip(steps, steps[1:], loops[1:], strict=False)
    return None not in steps and all(far == size(inner) * (near or 0) for far, near, inner in pairs)


def _is_near(stage: StageInfo, access: Load | Store, loops: tuple[For, ...], lanes: int) -> bool:
    """Do the lanes of a vector read what lies near?"""
    far, apart = 0, lanes
    for loop in reversed(loops):
        step = stage.stride(access, loop)
        if step is None:
            return False
        count = min(size(loop), apart)
        far, apart = far + abs(step) * (count - 1), -(-apart // size(loop))
    return far < NEAR * lanes
