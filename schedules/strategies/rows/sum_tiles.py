"""Sums of a recurrence in tiles of its elements: the part in which no element of the tile is stands outside, as a product of matrices.

    for i:                                              for i_o, j_o:
        for j:                                              for k in range(min(8 i_o, 8 j_o)):
            s = sum(M[i, k] * M[k, j], k < min(i, j))           for i_i, j_i:  s[i_i, j_i] += M[i, k] * M[k, j]
            M[i, j] = f(A[i, j] - s)                ->      for j_i, i_i:
                                                                for k in range(min(8 i_o, 8 j_o), n):
                                                                    if k < min(i, j):  s[i_i, j_i] += ...
                                                                M[i, j] = f(A[i, j] - s[i_i, j_i])

This is how factorisations are blocked (Golub and Van Loan, Matrix Computations, 3.2.10), found by directives that know nothing of them:
`partition` cuts the sum where all of the tile's elements may have it, `fission` takes that part out of the tile, where its columns have
the lanes and its rows are written out, and the proofs of these say whether a tile may wait for no more than that. What is left is at most
as long as the tile is wide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tensorlang.schedules.rewriting.edit import loops_around
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies.analysis.stages import StageInfo, is_literal, size

COLUMNS: Final = (8, 16, 32)
"""Columns of a tile."""
USUAL: Final = 8
"""Columns by default: of the rest of a sum, which has no lanes, every other column of the tile is part."""


@dataclass(frozen=True, slots=True)
class SumTiles:
    """A stage of at least two loops, in whose elements one sum stands."""

    stage: StageInfo
    total: StageInfo

    @classmethod
    def of(cls, stage: StageInfo, sums: Sequence[StageInfo]) -> SumTiles | None:
        """Where the columns of the stage can have the lanes of its one sum."""
        if len(sums) != 1 or len(stage.outer) < 2 or not is_literal(stage.outer[-1]) or size(stage.outer[-1]) < COLUMNS[0]:
            return None
        (total,) = sums
        steps = {total.moves(load, stage.outer[-1]) for load in total.loads}
        single = len(total.reduced) == 1 and len(total.store.buffers) == 1 and total.store.reducer is not None
        return cls(stage, total) if single and steps == {0, 1} else None

    def counts(self) -> tuple[int, ...]:
        """The columns that a tile may have; 0: no tiles."""
        return (0, *(count for count in COLUMNS if count <= size(self.stage.outer[-1])))

    def cut(self, s: Schedule, rows: int, columns: int) -> str:
        """Append the directives of tiles; the outermost loop. Raises `ScheduleError`."""
        down, along = self.stage.outer[-2:]
        (depth,) = (loop.loop for loop in self.total.reduced)
        rows_o, rows_i = s.split(down.loop, rows, "peel")
        columns_o, columns_i = s.split(along.loop, columns, "peel")
        order = [*self.stage.beside(down, along), rows_o, columns_o, columns_i, rows_i]
        s.reorder(*order)
        s.partition(depth, columns_i)
        s.fission(rows_i, after=depth)
        s.fission(columns_i, after=loops_around(s.nest, depth)[-1].loop)
        across, within = (loop.loop for loop in loops_around(s.nest, depth)[-2:])
        s.fission(within)  # its start apart
        s.fission(across)
        s.transform_layout(self.total.store.buffers[0].name, "lambda j, i: (i, j)")
        s.reorder(depth, within, across)
        start_across, start_within = s.loops(f"{self.total.name}.init")
        s.reorder(start_within, start_across)
        for lanes, tile_rows in ((across, within), (start_across, start_within)):
            s.vectorize(lanes)
            s.unroll(tile_rows)
        return order[0]
