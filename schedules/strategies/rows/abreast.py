"""Recurrences along the axis that memory follows: one row at a time, or several rows abreast, one in each lane.

A row waits for itself from element to element (`model.recurrences`), and has no lanes: what an iteration needs the one before it makes.
Rows that know nothing of one another wait together. Tiles of so many rows and elements are read across memory, and turned in registers when
they are stored:

    for i_o: for j_o: unroll j_i: vector i_i: S[i, j] = S[i, j - 1] + X[i, j]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from tensorlang.errors import ScheduleError
from tensorlang.ir import Axis, Binary, For, Load
from tensorlang.ir.linear import linear
from tensorlang.schedules.model.estimate import estimated
from tensorlang.schedules.model.program import Part
from tensorlang.schedules.model.sketch import Sketch, numbered
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.spaces.knobs import Choice, Knob
from tensorlang.schedules.strategies.analysis.stages import StageInfo, is_literal, size, tensor_of
from tensorlang.schedules.strategies.descent import CODE_COST, OTHER_WAY
from tensorlang.schedules.strategies.loops.thread_loop import parallelize
from tensorlang.schedules.strategies.processor import Processor
from tensorlang.schedules.strategies.rows.rows import RowVectors

ROWS: Final = (4, 8, 16)
"""Rows that run abreast."""
TILES: Final = (4, 8, 16)
"""Elements of each of them that are stored together."""


@dataclass(frozen=True, slots=True)
class Abreast:
    """A stage that reads its own past along its innermost loop, `along`, and none along the loop `across`; or in `rows`, one by one."""

    rows: RowVectors
    across: For
    along: For
    lanes: int = 0
    tile: int = 0

    @property
    def name(self) -> str:
        """What logs call it."""
        return "abreast"

    @property
    def stage(self) -> StageInfo:
        """The stage."""
        return self.rows.stage

    @classmethod
    def of(cls, rows: RowVectors, machine: Processor, plain: Sequence[Part]) -> Abreast | None:
        """The two loops; None where no row waits for itself, or rows wait for one another."""
        stage = rows.stage
        if stage.reduced or stage.is_idle or stage.conditional or len(stage.outer) < 2 or not all(map(is_literal, stage.outer)):
            return None
        along, distances = stage.outer[-1], _distances(stage)
        if stage.stride(stage.store, along) != 1 or not any(apart.get(along.loop) for apart in distances):
            return None
        free = (
            loop for loop in reversed(stage.outer[:-1]) if size(loop) >= ROWS[0] and not any(apart.get(loop.loop) for apart in distances)
        )
        across = next((loop for loop in free if stage.stride(stage.store, loop)), None)
        return None if across is None else cls(rows, across, along).sized(plain, machine)

    def sized(self, plain: Sequence[Part], machine: Processor) -> Abreast:
        """The same with the rows and the tile that the cost model names; those of more than one row have to be predicted faster."""
        least, found = estimated(numbered(Sketch.of(plain, self.stage.name).parts()), machine.core).seconds * OTHER_WAY, self
        for lanes in self._rows:
            for tile in self._tiles:
                seconds = estimated(self._sketched(plain, lanes, tile), machine.core).seconds * (1 + CODE_COST * lanes * tile)
                if seconds < least:
                    least, found = seconds, replace(self, lanes=lanes, tile=tile)
        return found

    @property
    def _rows(self) -> tuple[int, ...]:
        return tuple(count for count in ROWS if count <= min(size(self.across), self.rows.lanes))

    @property
    def _tiles(self) -> tuple[int, ...]:
        return tuple(count for count in TILES if count <= size(self.along)) or TILES[:1]

    def _sketched(self, plain: Sequence[Part], lanes: int, tile: int) -> tuple[Part, ...]:
        sketch = Sketch.of(plain, self.stage.name)
        across_o, across_i = sketch.split(self.across.loop, lanes)
        along_o, along_i = sketch.split(self.along.loop, tile)
        sketch.reorder(*self.stage.beside(self.across, self.along), across_o, along_o, along_i, across_i)
        sketch.mark(along_i, "unroll")
        sketch.mark(across_i, "vector")
        return numbered(sketch.parts())

    def knobs(self, prefix: str = "") -> tuple[Knob, ...]:
        """How many rows run abreast (0: one by one, by the knobs of rows), and how many elements of each make a tile."""
        return (Choice(f"{prefix}abreast", (0, *self._rows)), Choice(f"{prefix}tile", self._tiles), *self.rows.knobs(prefix))

    def default(self, prefix: str = "") -> dict[str, Any]:
        """The rows and the tile that the model names."""
        return {f"{prefix}abreast": self.lanes, f"{prefix}tile": self.tile or self._tiles[0], **self.rows.default(prefix)}

    def schedule(self, s: Schedule, config: Mapping[str, Any], prefix: str = "", *, alone: bool = True) -> None:
        """Append the directives of a point to a schedule; a stage that stands inside another (not `alone`) gets no threads."""
        before = len(s.directives)
        if config[f"{prefix}abreast"]:
            try:
                outermost = self._tiled(s, config[f"{prefix}abreast"], config[f"{prefix}tile"])
            except ScheduleError:  # rows wait for one another after all, or loops of other stages stand between these
                s.undo(len(s.directives) - before)
            else:
                if alone and config.get(f"{prefix}parallel", "none") == "outer":
                    parallelize(s, outermost)
                return
        self.rows.schedule(s, config, prefix, alone=alone)

    def _tiled(self, s: Schedule, lanes: int, tile: int) -> str:
        """Rows abreast; the outermost loop."""
        across_o, across_i = s.split(self.across.loop, lanes, "peel")
        along_o, along_i = s.split(self.along.loop, tile, "peel")
        order = [*self.stage.beside(self.across, self.along), across_o, along_o, along_i, across_i]
        s.reorder(*order)
        s.vectorize(across_i)
        s.unroll(along_i)
        return order[0]


def _distances(stage: StageInfo) -> list[dict[str, int]]:
    """How far back each read of its own results lies, by loops; empty where that is not a constant for one of them."""
    own = {buffer.name for buffer in stage.store.buffers}
    found = [_distance(stage, load) for load in stage.loads if tensor_of(load).name in own]
    known = [apart for apart in found if apart is not None]
    return known if len(known) == len(found) else []


def _distance(stage: StageInfo, load: Load) -> dict[str, int] | None:
    found: dict[str, int] = {}
    for here, there in zip(stage.store.index, load.index, strict=True):
        apart = linear(Binary("sub", there, here))
        if apart.terms or not isinstance(here, Axis):
            return None
        found[here.name] = apart.constant
    return found
