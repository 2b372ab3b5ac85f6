"""Recurrences in whose elements sums stand: rows of which several take turns.

    for i:                                              for i_o:
        for j:                                              for j:
            s = sum(L[i, k] * L[j, k] for k < j)    ->          for i_i:
            L[i, j] = (A[i, j] - s) / L[j, j]                       s = sum(...);  L[i, j] = ...

An element waits for the one before it of its row, which was stored a moment ago: a vector of the sum that holds it is not there until that
store has reached the cache, and the sum, its lanes and the division follow. Elements of other rows in between do not wait for one another,
so the core computes them together. What else they read is what an earlier row has at the same place, whose line is then there for all.
The cost model names their number.

Where columns can have the lanes of the sum, rows that take turns may do so in tiles of `columns`, before which the part of the sum that no
element of the tile is in is computed for all of them at once (`sum_tiles`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from tensorlang.errors import ScheduleError
from tensorlang.ir import For
from tensorlang.schedules.model.estimate import estimate
from tensorlang.schedules.model.parts import Part
from tensorlang.schedules.model.program import program
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.spaces.knobs import Choice, Knob
from tensorlang.schedules.strategies.analysis.stages import StageInfo, is_literal, size
from tensorlang.schedules.strategies.descent import OTHER_WAY
from tensorlang.schedules.strategies.processor import Processor
from tensorlang.schedules.strategies.rows.reordered import schedule_reordered
from tensorlang.schedules.strategies.rows.rows import RowVectors
from tensorlang.schedules.strategies.rows.stage_strategy import RowStrategy
from tensorlang.schedules.strategies.rows.sum_tiles import USUAL as USUAL_COLUMNS, SumTiles

ROWS: Final = (4, 8, 16)
"""Rows that take turns."""
USUAL: Final = 8
"""Rows that do where it is asked what becomes of their sums, and of tiles."""


@dataclass(frozen=True, slots=True)
class Turns:
    """A stage whose loop `along` reads what it wrote before, in several of the rows that `across` counts; without, in `rows`."""

    rows: RowVectors
    across: For
    count: int
    """The rows that take turns by default."""
    tiles: SumTiles | None = None
    tiled: bool = False
    """Are tiles predicted to be faster?"""

    @property
    def name(self) -> str:
        """What logs call it."""
        return "turns"

    @property
    def stage(self) -> StageInfo:
        """The stage."""
        return self.rows.stage

    @classmethod
    def of(cls, rows: RowVectors, plain: Schedule, sums: Sequence[tuple[StageInfo, RowStrategy]], machine: Processor) -> Turns | None:
        """The rows around the innermost loop; None where their order is needed. `sums`: those in its elements, and how they run."""
        across = _across(rows.stage)
        if across is None:
            return None
        ways = dict[int, float]()
        for count in (count for count in ROWS if count <= size(across)):
            turned = plain.copy()
            try:
                for _, way in sums:
                    way.schedule(turned, way.default(), alone=False)
                _cut(turned, rows.stage, across, count)
            except ScheduleError:
                return None
            ways[count] = estimate(turned.nest, machine.core).seconds
        found = cls(rows, across, min(ways, key=ways.__getitem__))
        tiles = SumTiles.of(rows.stage, [total for total, _ in sums])
        if tiles is None or USUAL not in ways:
            return found
        tiled = plain.copy()
        try:
            tiles.cut(tiled, USUAL, USUAL_COLUMNS)
        except ScheduleError:
            return found
        pays = estimate(tiled.nest, machine.core).seconds < OTHER_WAY * min(ways.values())
        return replace(found, tiles=tiles, tiled=pays, count=USUAL if pays else found.count)

    def takes(self, config: Mapping[str, Any], prefix: str) -> Collection[str]:
        """The sums that get their directives with the stage at a point."""
        return (self.tiles.total.name,) if self.tiles is not None and self._columns(config, prefix) else ()

    def _columns(self, config: Mapping[str, Any], prefix: str) -> int:
        """The columns of tiles; 0: none."""
        return config.get(f"{prefix}columns", 0) if config.get(f"{prefix}turns") else 0

    def knobs(self, prefix: str = "") -> tuple[Knob, ...]:
        """How many rows take turns; 0: one after the other. And the columns of a tile, where there may be tiles; 0: none."""
        counts = (count for count in ROWS if count <= size(self.across))
        tiles = () if self.tiles is None else (Choice(f"{prefix}columns", self.tiles.counts()),)
        return (Choice(f"{prefix}turns", (0, *counts)), *tiles, *self.rows.knobs(prefix))

    def default(self, prefix: str = "") -> dict[str, Any]:
        """As many as the cost model names, and tiles where it has them faster."""
        found = {f"{prefix}turns": self.count, **self.rows.default(prefix)}
        return found if self.tiles is None else {**found, f"{prefix}columns": USUAL_COLUMNS if self.tiled else 0}

    def schedule(self, s: Schedule, config: Mapping[str, Any], prefix: str = "", *, alone: bool = True) -> None:
        """Append the directives of a point to a schedule; a stage that stands inside another (not `alone`) gets no threads."""
        count, columns = config[f"{prefix}turns"], self._columns(config, prefix)
        cut: Callable[[], str] | None = partial(_cut, s, self.stage, self.across, count) if count else None
        if self.tiles is not None and columns:
            cut = partial(self.tiles.cut, s, count, columns)
        schedule_reordered(s, self.rows, config, prefix, cut, alone=alone)


def in_turns(stage: StageInfo, plain: Schedule) -> tuple[Part, ...] | None:
    """A program as the cost model reads it, where rows of a stage take turns; None where they cannot."""
    across = _across(stage)
    if across is None:
        return None
    s = plain.copy()
    try:
        _cut(s, stage, across, min(USUAL, size(across)))
    except ScheduleError:
        return None
    return program(s.nest, {})


def _across(stage: StageInfo) -> For | None:
    """The loop over rows that may take turns, if there are enough of them."""
    outer = stage.outer
    if stage.is_idle or len(outer) < 2 or not is_literal(outer[-2]) or size(outer[-2]) < ROWS[0]:
        return None
    return outer[-2]


def _cut(s: Schedule, stage: StageInfo, across: For, count: int) -> str:
    """An element of each of so many rows, then the next ones; the outermost loop. Raises `ScheduleError` where their order is needed."""
    outer, inner = s.split(across.loop, count, "peel")
    order = [*stage.beside(across, stage.outer[-1]), outer, stage.outer[-1].loop, inner]
    s.reorder(*order)
    return order[0]
