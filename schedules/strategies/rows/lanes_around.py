"""Stages in whose elements sums stand: lanes along the elements, each with sums of its own, instead of lanes along the sums.

    for i:                                              for i:
        for j:                                              for j_o:
            s = 0                                               s: float32[32]
            vector k: s += f(j, X[k, 0], X[k, 1])   ->          for k: vector j_i: s[j_i] += f(j, X[k, 0], X[k, 1])
            Y[i, j] = s / n                                     vector j_i: Y[i, j] = s[j_i] / n

What a sum reads a few elements apart is picked out of memory lane by lane, and its partial results are combined for each element. Along
elements that read the same, or neighbours, neither is due. The model says which of the two is faster; it is asked where the lanes along
elements pick no more than those along the sum. A stage that is one sum and nothing else has its loop in `rows`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tensorlang.errors import ScheduleError
from tensorlang.ir import For
from tensorlang.ir.traverse import axes_of
from tensorlang.schedules.model.estimate import estimate
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.spaces.knobs import Choice, Knob
from tensorlang.schedules.strategies.analysis.stages import StageInfo, is_literal, size, tail_of
from tensorlang.schedules.strategies.descent import OTHER_WAY
from tensorlang.schedules.strategies.processor import Processor
from tensorlang.schedules.strategies.rows.reordered import schedule_reordered
from tensorlang.schedules.strategies.rows.rows import RowVectors
from tensorlang.schedules.strategies.rows.stage_strategy import RowStrategy


@dataclass(frozen=True, slots=True)
class LanesAround:
    """A stage with `sums` in its elements, of which `wide` vectors along the loop `vector` run at once; 0: one by one, in `rows`."""

    rows: RowVectors
    vector: For
    sums: tuple[StageInfo, ...]
    wide: int = 0

    @property
    def name(self) -> str:
        """What logs call it."""
        return "around"

    @property
    def stage(self) -> StageInfo:
        """The stage."""
        return self.rows.stage

    @classmethod
    def of(cls, rows: RowVectors, plain: Schedule, sums: Sequence[tuple[StageInfo, RowStrategy]], machine: Processor) -> LanesAround | None:
        """The lanes along the last loop; None where it is short, or the sums need not be summed so. `sums` also tell how they run."""
        found = cls(rows, rows.stage.outer[-1], tuple(info for info, _ in sums)) if rows.stage.outer and sums else None
        if found is None or not found.may_pay:
            return None
        usual = plain.copy()
        ways = dict[int, float]()
        try:
            for _, way in sums:
                way.schedule(usual, way.default(), alone=False)
            for count in found.counts:
                trial = plain.copy()
                found.cut(trial, count)
                ways[count] = estimate(trial.nest, machine.core).seconds
        except ScheduleError:
            return None
        wide = min(ways, key=ways.__getitem__)
        pays = ways[wide] < OTHER_WAY * estimate(usual.nest, machine.core).seconds
        return replace(found, wide=wide if pays else 0)

    @property
    def may_pay(self) -> bool:
        """Do lanes along the elements fill a vector, have one range of each sum in common, and pick no more than those along the sums?"""
        stage, vector = self.stage, self.vector
        if stage.is_idle or stage.ragged.bounded or size(vector) < self.rows.lanes:
            return False
        for info in self.sums:
            ends = [axis for loop in info.loops for end in (loop.lo, loop.hi) for axis in axes_of(end)]
            if not info.reduced or info.outer or info.ragged.bounded or vector.loop in ends:
                return False
            along, inside = (sum(info.moves(load, loop) not in (0, 1) for load in info.loads) for loop in (vector, info.reduced[-1]))
            if along > inside:
                return False
        return True

    @property
    def counts(self) -> tuple[int, ...]:
        """How many vectors may be in flight."""
        return replace(self.rows, vector=self.vector).counts

    def takes(self, config: Mapping[str, Any], prefix: str) -> Collection[str]:
        """The sums that get their directives with the stage at a point."""
        return tuple(info.name for info in self.sums) if config.get(f"{prefix}around") else ()

    def knobs(self, prefix: str = "") -> tuple[Knob, ...]:
        """How many vectors along the elements; 0: lanes are those of the sums."""
        return (Choice(f"{prefix}around", (0, *self.counts)), *self.rows.knobs(prefix))

    def default(self, prefix: str = "") -> dict[str, Any]:
        """What the cost model names."""
        return {f"{prefix}around": self.wide, **self.rows.default(prefix)}

    def schedule(self, s: Schedule, config: Mapping[str, Any], prefix: str = "", *, alone: bool = True) -> None:
        """Append the directives of a point to a schedule; a stage that stands inside another (not `alone`) gets no threads."""
        count = config[f"{prefix}around"]
        schedule_reordered(s, self.rows, config, prefix, partial(self.cut, s, count) if count else None, alone=alone)

    def cut(self, s: Schedule, count: int) -> str:
        """Vectors of elements, with their sums inside; the outermost loop. Raises `ScheduleError` where that is refused."""
        outer, inner = s.split(self.vector.loop, count * self.rows.lanes, tail_of(is_literal(self.vector), "mask"))
        for info in self.sums:
            s.compute_at(info.name, outer)
            lanes = f"{info.name}.{inner.rpartition('.')[2]}"
            s.reorder(*(loop.loop for loop in info.reduced), lanes)
            s.vectorize(lanes)
        s.vectorize(inner)
        return s.loops(self.stage.name)[0]
