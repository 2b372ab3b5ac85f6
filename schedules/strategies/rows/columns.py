"""Columns whose elements share costly work: all rows of a few vectors, then those of the next few.

    for i in range(1000):                           for j_o in range(16):
        for j_o in range(32): vector j_i in range(32):  for i in range(1000): vector j_i in range(64):
            Y[i, j] = X[i, j] / sqrt(s[j])      ->          Y[i, j] = X[i, j] / sqrt(s[j])

Row by row, the root of each column is taken anew in every row. Where the rows are inside, LLVM takes it before them, and keeps it in
registers. Rows then are read in pieces, which no prefetcher follows for long; the cost model weighs the two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from tensorlang.ir import For
from tensorlang.schedules.model.parts import Part
from tensorlang.schedules.model.sketch import Sketch, numbered
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.spaces.knobs import Choice, Knob
from tensorlang.schedules.strategies.analysis.stages import StageInfo
from tensorlang.schedules.strategies.processor import Processor
from tensorlang.schedules.strategies.rows.reordered import cheapest_order, schedule_reordered
from tensorlang.schedules.strategies.rows.rows import RowVectors

VECTORS: Final = (1, 2, 4, 8)
"""Vectors of shared work that stay in registers."""


@dataclass(frozen=True, slots=True)
class Columns:
    """A stage whose loop `down` does not change some divisions or roots of the lanes: in strips of `vectors`; 0: in `rows`."""

    rows: RowVectors
    down: For
    vectors: int = 0

    @property
    def name(self) -> str:
        """What logs call it."""
        return "columns"

    @property
    def stage(self) -> StageInfo:
        """The stage."""
        return self.rows.stage

    @classmethod
    def of(cls, rows: RowVectors, machine: Processor, plain: Sequence[Part]) -> Columns | None:
        """The rows inside of strips; None where columns share nothing costly, or it is predicted to be as fast row by row."""
        stage = rows.stage
        if not rows.may_be_reordered or len(stage.outer) < 2 or rows.vector is not stage.outer[-1]:
            return None
        down, across = (loop.loop for loop in stage.outer[-2:])
        shared = Sketch.of(plain, stage.name).statement.divided
        if not any(across in part.loops and down not in part.loops for part in shared):
            return None
        found = cls(rows, stage.outer[-2])
        vectors = cheapest_order(rows, plain, machine, VECTORS, partial(found._sketched, plain))
        return None if vectors is None else replace(found, vectors=vectors)

    def _order(self, outer: str, inner: str) -> list[str]:
        return [*(loop.loop for loop in self.stage.outer[:-2]), outer, self.down.loop, inner]

    def _sketched(self, plain: Sequence[Part], vectors: int) -> tuple[Part, ...]:
        sketch = Sketch.of(plain, self.stage.name)
        outer, inner = sketch.split(self.stage.outer[-1].loop, vectors * self.rows.lanes, self.rows.lanes)
        sketch.reorder(*self._order(outer, inner))
        sketch.mark(inner, "vector")
        return numbered(sketch.parts())

    def knobs(self, prefix: str = "") -> tuple[Knob, ...]:
        """How many vectors a strip has; 0: row by row, by the knobs of rows."""
        return (Choice(f"{prefix}strip", (0, *VECTORS)), *self.rows.knobs(prefix))

    def default(self, prefix: str = "") -> dict[str, Any]:
        """As many as the model names."""
        return {f"{prefix}strip": self.vectors, **self.rows.default(prefix)}

    def schedule(self, s: Schedule, config: Mapping[str, Any], prefix: str = "", *, alone: bool = True) -> None:
        """Append the directives of a point to a schedule; a stage that stands inside another (not `alone`) gets no threads."""
        vectors = config[f"{prefix}strip"]
        schedule_reordered(s, self.rows, config, prefix, partial(self._cut, s, vectors) if vectors else None, alone=alone)

    def _cut(self, s: Schedule, vectors: int) -> str:
        """All rows of a few vectors; the outermost loop."""
        outer, inner = s.split(self.stage.outer[-1].loop, vectors * self.rows.lanes, "peel")
        order = self._order(outer, inner)
        s.reorder(*order)
        s.vectorize(inner)
        return order[0]
