"""Scans whose elements do not look at one another: all steps of a few vectors, then those of the next few.

    for t in range(50):                             for i_o in range(64):
        for i_o: vector i_i:                            for t_o in range(25): unroll t_i in range(2): vector i_i in range(64):
            x[(t + 1) % 2, i] = f(x[t % 2, i])  ->          x[(t_i + 1) % 2, i] = f(x[t_i % 2, i])

Step by step a scan writes all of its state and reads it again, from wherever it has gone in between. The state of a few vectors stays in
registers: the places of a ring are the same in each round of steps that are written out, so LLVM keeps what is there. What a step reads
besides comes row by row of time, which may lie pages apart; the cost model weighs the two.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any, Final

from tensorlang.errors import ScheduleError
from tensorlang.ir import Const, For
from tensorlang.schedules.model.parts import Part
from tensorlang.schedules.model.sketch import Sketch, numbered
from tensorlang.schedules.rewriting.edit import literal_extent, path_to_store, stores
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.spaces.knobs import Choice, Knob
from tensorlang.schedules.strategies.analysis.stages import StageInfo, is_literal, tensor_of
from tensorlang.schedules.strategies.processor import Processor
from tensorlang.schedules.strategies.rows.reordered import cheapest_order, schedule_reordered
from tensorlang.schedules.strategies.rows.rows import RowVectors

VECTORS: Final = (1, 2, 4)
"""Vectors of state that stay in registers."""
MOST_KEPT: Final = 4
"""States that a ring holds at most where its places are written out."""


def loop_over_time(rows: RowVectors, plain: Schedule) -> For | None:
    """The loop of which each iteration makes the next state of a scan, by one stage with its lanes along rows; None where there is none."""
    stage, own = rows.stage, {buffer.name for buffer in rows.stage.store.buffers}
    reads_itself = any(tensor_of(load).name in own for load in stage.loads)
    if not rows.may_be_reordered or not reads_itself or not all(map(is_literal, stage.outer)):
        return None
    around = [part for part in path_to_store(plain.nest, stage.store) if isinstance(part, For) and part not in stage.loops]
    if not around or rows.vector is not stage.outer[-1] or {store.stage for store in stores(around[-1])} != {stage.name}:
        return None
    return around[-1]


@dataclass(frozen=True, slots=True)
class Steps:
    """A stage that makes the next state of each element from its last ones, in the loop `time`: in vectors, `together` steps written out.

    Without such steps all elements take one after the other, in `rows`.
    """

    rows: RowVectors
    time: For
    vectors: int = 0
    together: int = 0

    @property
    def name(self) -> str:
        """What logs call it."""
        return "steps"

    @property
    def stage(self) -> StageInfo:
        """The stage."""
        return self.rows.stage

    @classmethod
    def of(cls, rows: RowVectors, plain: Schedule, parts: Sequence[Part], machine: Processor) -> Steps | None:
        """The loop over steps; None where there is none, or elements look at others."""
        time = loop_over_time(rows, plain)
        if time is None:
            return None
        found = cls(rows, time)
        try:
            found._cut(plain.copy(), VECTORS[0], next(found._counts()))
        except (ScheduleError, StopIteration):
            return None
        return found.sized(parts, machine)

    def sized(self, plain: Sequence[Part], machine: Processor) -> Steps:
        """The same with the vectors and the steps that the cost model names, where it predicts them to be faster than step by step."""
        ways = product(VECTORS, self._counts())
        vectors, together = cheapest_order(self.rows, plain, machine, ways, lambda way: self._sketched(plain, *way)) or (0, 0)
        return replace(self, vectors=vectors, together=together)

    def _counts(self) -> Iterator[int]:
        """Steps after which the places of a ring are the same again, once and twice."""
        ring = self.stage.store.buffers[0].shape[0]
        length = int(ring.value) if isinstance(ring, Const) and 1 < int(ring.value) <= MOST_KEPT else 1
        steps = literal_extent(self.time)
        return (count for count in (length, 2 * length) if steps is not None and count <= steps)

    def _sketched(self, plain: Sequence[Part], vectors: int, count: int) -> tuple[Part, ...]:
        sketch, along = Sketch.of(plain, self.stage.name), self.stage.outer[-1].loop
        lanes_o, lanes_i = sketch.split(along, vectors * self.rows.lanes, self.rows.lanes)
        time_o, time_i = sketch.split(self.time.loop, count)
        sketch.reorder(*(loop.loop for loop in self.stage.outer[:-1]), lanes_o, time_o, time_i, lanes_i)
        sketch.mark(time_i, "unroll")
        sketch.mark(lanes_i, "vector")
        return numbered(sketch.parts())

    def knobs(self, prefix: str = "") -> tuple[Knob, ...]:
        """How many steps of a few vectors are written out; 0: all elements take one step after the other."""
        return (Choice(f"{prefix}steps", (0, *self._counts())), *self.rows.knobs(prefix))

    def default(self, prefix: str = "") -> dict[str, Any]:
        """The steps and vectors that the model names."""
        found = {f"{prefix}steps": self.together, **self.rows.default(prefix)}
        return found | ({f"{prefix}vectors": self.vectors} if self.together else {})

    def schedule(self, s: Schedule, config: Mapping[str, Any], prefix: str = "", *, alone: bool = True) -> None:
        """Append the directives of a point to a schedule; a stage that stands inside another (not `alone`) gets no threads."""
        count = config[f"{prefix}steps"]
        cut = partial(self._cut, s, config[f"{prefix}vectors"], count) if count else None
        schedule_reordered(s, self.rows, config, prefix, cut, alone=alone)

    def _cut(self, s: Schedule, vectors: int, count: int) -> str:
        """All steps of a few vectors; the outermost loop."""
        lanes_o, lanes_i = s.split(self.stage.outer[-1].loop, vectors * self.rows.lanes, "peel")
        time_o, time_i = s.split(self.time.loop, count, "peel")
        order = [*(loop.loop for loop in self.stage.outer[:-1]), lanes_o, time_o, time_i, lanes_i]
        s.reorder(*order)
        s.vectorize(lanes_i)
        s.unroll(time_i)
        return order[0]
