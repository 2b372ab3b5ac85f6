"""Images unfolded: what a contraction samples of an operand, copied so that all axes of the output are walked as one.

    for n: for o: for y: for x: for c, r, s:         for n: P[c, r, s, y, x] = X[n, c, 2 y + r, 2 x + s]
        D[n, o, y, x] += W[o, c, r, s]         ->           for o: for y: for x: for c, r, s:
                       * X[n, c, 2 y + r, 2 x + s]              D[n, o, y, x] += W[o, c, r, s] * P[c, r, s, y, x]

In place lanes run along one row of the image: seven pixels leave an eighth of a vector idle, those of stride 2 are gathered for each panel.
Unfolded, 49 pixels are one run. The copy takes as many elements as the taps read, so it pays where rows are short or sampled, not where
a tap reads whole vectors as they lie. (`im2col` of Chellapilla et al. 2006, a plane at a time.)
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Final

from tensorlang.ir import For, Load, Store
from tensorlang.schedules.directives.pack import Pack
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies.analysis.sliding import sliding
from tensorlang.schedules.strategies.analysis.stages import StageInfo, is_literal, label, size, tensor_of, utilization
from tensorlang.schedules.strategies.processor import Processor

MOST_BYTES: Final = 1 << 28
"""Bytes of a copy, at most: a quarter of a gibibyte."""


@dataclass(frozen=True, slots=True)
class Unfolding:
    """An operand of a stage that walks the neighbouring output loops `outer` and `inner` in steps, where everything else walks them as one.

    `around` are the loops outside of the copy: none where it needs one of a single iteration.
    """

    stage: StageInfo
    load: Load
    outer: For
    inner: For
    around: tuple[For, ...]

    @classmethod
    def of(cls, stage: StageInfo, machine: Processor, constants: Collection[str]) -> Unfolding | None:
        """The operand that a contraction may read unfolded; None where there is none, it may not be copied, or nothing is to be gained."""
        if stage.store.reducer is None or stage.scatters or not all(map(is_literal, stage.loops)) or sliding(stage) is not None:
            return None
        for outer, inner in pairwise(loop for loop in stage.outer if size(loop) > 1):
            stepping = [load for load in stage.loads if not _as_one(stage, load, outer, inner)]
            if len(stepping) != 1 or not _as_one(stage, stage.store, outer, inner) or not stage.stride(stepping[0], inner):
                continue
            (load,) = stepping
            around: list[For] = []
            for loop in stage.loops:
                if loop in (outer, inner) or (size(loop) > 1 and not stage.stride(load, loop)):
                    break
                around.append(loop)
            alone = sum(tensor_of(other).name == tensor_of(load).name for other in stage.loads) == 1
            reused = any(loop not in around and stage.stride(load, loop) == 0 for loop in stage.outer if size(loop) > 1)
            found = cls(stage, load, outer, inner, tuple(around))
            if alone and reused and tensor_of(load).name not in constants and found.bytes <= MOST_BYTES:
                return found if found.promises(machine) else None
        return None

    @property
    def moving(self) -> list[For]:
        """The loops that the copy has, in its order: those of the two axes innermost."""
        used = [loop for loop in self.stage.loops if loop not in self.around and self.stage.stride(self.load, loop) != 0]
        reduced = [loop for loop in used if loop in self.stage.reduced]
        return [*(loop for loop in used if loop not in (*reduced, self.outer, self.inner)), *reduced, self.outer, self.inner]

    @property
    def bytes(self) -> int:
        """Those of the copy."""
        return tensor_of(self.load).dtype.bytes * prod(map(size, self.moving))

    @property
    def repeats(self) -> bool:
        """Is it copied in each iteration of a loop?"""
        return any(size(loop) > 1 for loop in self.around)

    def promises(self, machine: Processor) -> bool:
        """May it be faster: are rows sampled, or are the ends of rows that leave lanes idle more cycles than the stores of the copy?"""
        lanes, ports = machine.lanes(self.stage.widest), machine.core.ports
        copying = prod(size(loop) for loop in (*self.around, *self.moving)) / ports.stores
        idle = self.stage.iterations / lanes / ports.arithmetic * (1 / utilization(size(self.inner), lanes) - 1)
        return self.stage.stride(self.load, self.inner) != 1 or copying < idle

    def applied(self, s: Schedule) -> Schedule | None:
        """The schedule with the operand unfolded; None where that is not legal."""
        s, layout = s.copy(), [loop.loop for loop in self.moving]
        if self.around:
            at = self.around[-1].loop
        else:
            first = self.stage.loops[0]
            if not s.can("split", first.loop, size(first)):
                return None
            at, inside = s.split(first.loop, size(first), names=(f"{label(first.loop)}_all", f"{label(first.loop)}_i"))
            layout = [inside if name == first.loop else name for name in layout]
        return s if s.attempt(Pack(tensor_of(self.load).name, str(at), tuple(map(str, layout)))) else None


def _as_one(stage: StageInfo, access: Load | Store, outer: For, inner: For) -> bool:
    """Are two loops walked as if they were one?"""
    far, near = stage.stride(access, outer), stage.stride(access, inner)
    return far is not None and near is not None and far == size(inner) * near
