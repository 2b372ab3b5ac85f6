"""Recurrences whose steps are vectors: steps written out, so that registers hold what they hand on, and rows that wait beside one another.

    for b: for t: vector k:                                 for b_o: for t_o: unroll t_i: unroll b_i: vector k:
        s[b, t, k] = x[b, t] + w[k] * s[b, t - 1, k]   ->       s[b, t, k] = x[b, t] + w[k] * s[b, t - 1, k]

A step waits for the one before it, which goes through memory where they are not written out; while it waits the core computes those of
other rows that know nothing of it. All steps of a few vectors run before those of the next few. The cost model names their numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any, Final, NamedTuple

from tensorlang.errors import ScheduleError
from tensorlang.ir import Axis, For
from tensorlang.schedules.model.parts import Part
from tensorlang.schedules.model.sketch import Sketch, numbered
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.spaces.knobs import Choice, Knob
from tensorlang.schedules.strategies.analysis.stages import StageInfo, is_literal, size, tensor_of
from tensorlang.schedules.strategies.processor import Processor
from tensorlang.schedules.strategies.rows.reordered import cheapest_order, schedule_reordered
from tensorlang.schedules.strategies.rows.rows import RowVectors

STEPS: Final = (1, 2, 4, 8)
"""Steps that are written out."""
ROWS: Final = (1, 2, 4, 8)
"""Rows that wait beside one another."""
VECTORS: Final = (1, 2, 4)
"""Vectors of each of them."""
MOST: Final = 32
"""Copies of a step, at most."""


class Way(NamedTuple):
    """Vectors of a row, steps that are written out, and rows beside one another."""

    vectors: int
    steps: int
    rows: int


ALONE: Final = Way(1, 1, 1)
"""One vector of one row, step by step."""


@dataclass(frozen=True, slots=True)
class Chains:
    """A stage that reads its own past along `time` and has its lanes along another loop, in several of the rows that `across` counts.

    Step by step, in `rows`, where no steps are written out. `way` is that of the default.
    """

    rows: RowVectors
    time: For
    across: For | None
    way: Way = ALONE

    @property
    def name(self) -> str:
        """What logs call it."""
        return "chains"

    @property
    def stage(self) -> StageInfo:
        """The stage."""
        return self.rows.stage

    @classmethod
    def of(cls, rows: RowVectors, plain: Schedule, parts: Sequence[Part], machine: Processor) -> Chains | None:
        """The loop over steps; None where there is none, lanes look at one another, or the model has steps one by one as fast.

        Then rows can be placed with other stages in strips.
        """
        stage = rows.stage
        followed = _followed(stage)
        if not rows.may_be_reordered or rows.vector is not stage.outer[-1] or len(followed) != 1 or not all(map(is_literal, stage.outer)):
            return None
        time = next((loop for loop in stage.outer[:-1] if loop.loop in followed), None)
        if time is None:
            return None
        others = [loop for loop in stage.outer[:-1] if loop is not time and size(loop) >= ROWS[1]]
        found = cls(rows, time, others[-1] if others else None)
        try:
            found._cut(plain.copy(), next(found._ways()))
        except (ScheduleError, StopIteration):
            return None
        way = cheapest_order(rows, parts, machine, found._ways(), partial(found._sketched, parts))
        return None if way is None else replace(found, way=way)

    def _ways(self) -> Iterator[Way]:
        across = 1 if self.across is None else size(self.across)
        for vectors, steps, rows in product(self.rows.counts, STEPS, ROWS):
            whole = steps <= size(self.time) and rows <= across
            if vectors in VECTORS and whole and vectors * rows <= max(ROWS) and vectors * steps * rows <= MOST:
                yield Way(vectors, steps, rows)

    def _sketched(self, plain: Sequence[Part], way: Way) -> tuple[Part, ...]:
        sketch = Sketch.of(plain, self.stage.name)
        lanes_o, lanes_i = sketch.split(self.stage.outer[-1].loop, way.vectors * self.rows.lanes, self.rows.lanes)
        time_o, time_i = sketch.split(self.time.loop, way.steps)
        across = "" if self.across is None else self.across.loop
        across_o, across_i = sketch.split(across, way.rows) if across else ("", "")
        sketch.reorder(*self._around(across, across_o), lanes_o, time_o, time_i, across_i, lanes_i)
        for loop, kind in ((time_i, "unroll"), (across_i, "unroll"), (lanes_i, "vector")):
            sketch.mark(loop, kind)
        return numbered(sketch.parts())

    def _around(self, across: str, cut: str) -> list[str]:
        return [cut if loop.loop == across else loop.loop for loop in self.stage.outer[:-1] if loop is not self.time]

    def knobs(self, prefix: str = "") -> tuple[Knob, ...]:
        """Steps that are written out, 0: none, all elements take one step after the other; and rows beside one another."""
        rows = () if self.across is None else (Choice(f"{prefix}chains", tuple(count for count in ROWS if count <= size(self.across))),)
        return (Choice(f"{prefix}steps", (0, *(count for count in STEPS if count <= size(self.time)))), *rows, *self.rows.knobs(prefix))

    def default(self, prefix: str = "") -> dict[str, Any]:
        """What the model names."""
        rows = {} if self.across is None else {f"{prefix}chains": self.way.rows}
        return {f"{prefix}steps": self.way.steps, **rows, **self.rows.default(prefix), f"{prefix}vectors": self.way.vectors}

    def schedule(self, s: Schedule, config: Mapping[str, Any], prefix: str = "", *, alone: bool = True) -> None:
        """Append the directives of a point to a schedule; a stage that stands inside another (not `alone`) gets no threads."""
        way = Way(config[f"{prefix}vectors"], config[f"{prefix}steps"], config.get(f"{prefix}chains", 1))
        schedule_reordered(s, self.rows, config, prefix, partial(self._cut, s, way) if way.steps else None, alone=alone)

    def _cut(self, s: Schedule, way: Way) -> str:
        """All steps of a few vectors of a few rows; the outermost loop. Raises `ScheduleError` where something else waits."""
        lanes_o, lanes_i = s.split(self.stage.outer[-1].loop, way.vectors * self.rows.lanes, "peel")
        times = s.split(self.time.loop, way.steps, "peel") if way.steps > 1 else (self.time.loop,)
        across = "" if self.across is None or way.rows == 1 else self.across.loop
        beside = s.split(across, way.rows, "peel") if across else ("",)
        order: list[str] = [*self._around(across, beside[0]), lanes_o, *times, *beside[1:], lanes_i]
        s.reorder(*order)
        s.vectorize(lanes_i)
        for loop in (*times[1:], *beside[1:]):
            s.unroll(loop)
        return order[0]


def _followed(stage: StageInfo) -> set[str]:
    """The loops along which a stage reads what it wrote before, or where that is."""
    own = {buffer.name for buffer in stage.store.buffers}
    return {
        axis.name
        for load in stage.loads
        if tensor_of(load).name in own
        for axis, part in zip(stage.store.index, load.index, strict=True)
        if isinstance(axis, Axis) and axis != part
    }
