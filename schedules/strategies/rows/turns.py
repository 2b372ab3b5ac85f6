"""Recurrences in whose elements sums stand: rows of which several take turns.

    for i:                                              for i_o:
        for j:                                              for j:
            s = sum(L[i, k] * L[j, k] for k < j)    ->          for i_i:
            L[i, j] = (A[i, j] - s) / L[j, j]                       s = sum(...);  L[i, j] = ...

An element waits for the one before it of its row, which was stored a moment ago: a vector of the sum that holds it is not there until that
store has reached the cache, and the sum, its lanes and the division follow. Elements of other rows in between do not wait for one another,
so the core computes them together. What else they read is what an earlier row has at the same place, whose line is then there for all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from tensorlang.errors import ScheduleError
from tensorlang.ir import For
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.spaces.knobs import Choice, Knob
from tensorlang.schedules.strategies.analysis.stages import StageInfo, is_literal, size
from tensorlang.schedules.strategies.rows.reordered import schedule_reordered
from tensorlang.schedules.strategies.rows.rows import RowVectors

ROWS: Final = (4, 8, 16)
"""Rows that take turns."""
USUAL: Final = 8
"""Rows that do by default: a core looks some 500 instructions ahead, and a short sum with what follows it are 60 to 80."""


@dataclass(frozen=True, slots=True)
class Turns:
    """A stage whose loop `along` reads what it wrote before, in several of the rows that `across` counts; without, in `rows`."""

    rows: RowVectors
    across: For

    @property
    def name(self) -> str:
        """What logs call it."""
        return "turns"

    @property
    def stage(self) -> StageInfo:
        """The stage."""
        return self.rows.stage

    @classmethod
    def of(cls, rows: RowVectors, plain: Schedule) -> Turns | None:
        """The rows around the innermost loop; None where their order is needed."""
        outer = rows.stage.outer
        if rows.stage.is_idle or len(outer) < 2 or not is_literal(outer[-2]) or size(outer[-2]) < ROWS[0]:
            return None
        found = cls(rows, outer[-2])
        try:
            found._cut(plain.copy(), ROWS[0])
        except ScheduleError:
            return None
        return found

    def knobs(self, prefix: str = "") -> tuple[Knob, ...]:
        """How many rows take turns; 0: one after the other."""
        counts = (count for count in ROWS if count <= size(self.across))
        return (Choice(f"{prefix}turns", (0, *counts)), *self.rows.knobs(prefix))

    def default(self, prefix: str = "") -> dict[str, Any]:
        """As many as a core has in flight."""
        return {f"{prefix}turns": USUAL if size(self.across) >= USUAL else ROWS[0], **self.rows.default(prefix)}

    def schedule(self, s: Schedule, config: Mapping[str, Any], prefix: str = "", *, alone: bool = True) -> None:
        """Append the directives of a point to a schedule; a stage that stands inside another (not `alone`) gets no threads."""
        count = config[f"{prefix}turns"]
        schedule_reordered(s, self.rows, config, prefix, partial(self._cut, s, count) if count else None, alone=alone)

    def _cut(self, s: Schedule, count: int) -> str:
        """An element of each of so many rows, then the next ones; the outermost loop."""
        outer, inner = s.split(self.across.loop, count, "peel")
        order = [*self.stage.beside(self.across, self.stage.outer[-1]), outer, self.stage.outer[-1].loop, inner]
        s.reorder(*order)
        return order[0]
