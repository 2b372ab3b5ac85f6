"""Recurrences along the axis that memory follows: one row at a time, or several rows together.

A row waits for itself from element to element (`model.recurrences`), and has no lanes: what an iteration needs the one before it makes.
Rows that know nothing of one another wait *abreast*, one in each lane. Tiles of so many rows and elements are read across memory, and
turned in registers when they are stored:

    for i_o: for j_o: unroll j_i: vector i_i: S[i, j] = S[i, j - 1] + X[i, j]

Rows that wait for one another wait along a *wavefront* (Lamport 1974): those of a tile are copies, so that an element of a row and the one
before it of the next row are computed at once. Where a row needs what the row above has further right, each begins so much later (`skew`):

    for i_o: for j_o: unroll j_i: unroll i_i: S[i, j] = S[i, j - 1] + S[i - 1, j] + X[i, j]
    for i_o: for j_s: unroll i_i: S[i, j_s - i_i] = ...                                          # S[i - 1, j + 1] is read

Threads share a wavefront by blocks of rows and elements that no longer wait for one another, or, where a loop around both carries sweeps of
it, by bands of rows of several sweeps (`loops.waves`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any, Final

from tensorlang.errors import ScheduleError
from tensorlang.ir import For
from tensorlang.schedules.legality.code_size import instructions
from tensorlang.schedules.model.estimate import estimated
from tensorlang.schedules.model.parts import Part
from tensorlang.schedules.model.sketch import Sketch, numbered
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.spaces.knobs import Choice, Knob
from tensorlang.schedules.strategies.analysis.distances import distances_of
from tensorlang.schedules.strategies.analysis.stages import StageInfo, is_literal, size
from tensorlang.schedules.strategies.descent import CODE_COST, OTHER_WAY
from tensorlang.schedules.strategies.loops.thread_loop import WORTH_THREADS
from tensorlang.schedules.strategies.loops.waves import seconds_in_waves, share_in_waves
from tensorlang.schedules.strategies.processor import Processor
from tensorlang.schedules.strategies.rows.reordered import schedule_reordered
from tensorlang.schedules.strategies.rows.rows import RowVectors

ROWS: Final = (4, 8, 16)
"""Rows that run together."""
TILES: Final = (4, 8, 16)
"""Elements of each of them that are stored together."""
BLOCKS: Final = (4, 6, 8, 12, 16, 24)
"""Blocks into which loops are cut whose waves threads share."""
BEHIND: Final = 2
"""Bands that a sweep is behind the one before: it reads rows of the next band, and not of the one after."""
MOST_COPIED: Final = 2048
"""Instructions of the copies of a tile in a default: so much is lowered twice inside of what is itself, edges apart from the interior."""


@dataclass(frozen=True, slots=True)
class Abreast:
    """A stage that reads its own past along its innermost loop, `along`, in several of the rows that the loop `across` counts.

    One by one, in `rows`, where `count` is 0. `skew`: how many elements each row is behind the one before; None where none of them waits
    for another one, so that they are lanes. `blocks`: into how many each loop that threads share waves of is cut; 0 where they do not.
    """

    rows: RowVectors
    across: For
    along: For
    skew: int | None
    count: int = 0
    tile: int = 0
    blocks: int = 0
    sweeps: For | None = None
    """The loop around both that carries one sweep after the other."""

    @property
    def name(self) -> str:
        """What logs call it."""
        return "abreast" if self.skew is None else "wavefront"

    @property
    def stage(self) -> StageInfo:
        """The stage."""
        return self.rows.stage

    @classmethod
    def of(cls, rows: RowVectors, machine: Processor, plain: Sequence[Part]) -> Abreast | None:
        """The two loops; None where no row waits for itself, or what it waits for is not so many rows and elements away."""
        stage = rows.stage
        if stage.reduced or stage.is_idle or stage.conditional or len(stage.outer) < 2 or not all(map(is_literal, stage.outer)):
            return None
        along, distances = stage.outer[-1], distances_of(stage)
        waits = any(apart.get(along.loop) and not any(at for loop, at in apart.items() if loop != along.loop) for apart in distances)
        if stage.stride(stage.store, along) != 1 or not waits:
            return None
        free = (
            loop for loop in reversed(stage.outer[:-1]) if size(loop) >= ROWS[0] and not any(apart.get(loop.loop) for apart in distances)
        )
        across = next((loop for loop in free if stage.stride(stage.store, loop)), None)
        if across is not None:
            return cls(rows, across, along, None).sized(plain, machine)
        across = stage.outer[-2]
        skew = _skew(distances, across.loop, along.loop)
        sweeps = next((loop for loop in stage.outer[-3:-2] if any(apart.get(loop.loop) for apart in distances)), None)
        if size(across) < ROWS[0] or size(along) < 2 * (skew + 1) * ROWS[-1]:
            return None
        return cls(rows, across, along, skew, sweeps=sweeps).sized(plain, machine)

    def sized(self, plain: Sequence[Part], machine: Processor) -> Abreast:
        """The same with the rows and the tile that the cost model names; those of more than one row have to be predicted faster."""
        sketch = Sketch.of(plain, self.stage.name)
        alone = estimated(numbered(sketch.parts()), machine.core).seconds
        least, found = alone * OTHER_WAY, self
        statement, each = sketch.statement, instructions(self.stage.store)
        copied = 1.0 if self.skew is None else statement.operations + statement.touched
        gathers = any(access.told for access in statement.accesses)  # the next step waits for the last lane, and as long for a few
        for count in self._rows:
            for tile in self._tiles:
                if self.skew is not None and each * count * tile > max(MOST_COPIED, each * ROWS[0] * TILES[0]):
                    continue
                seconds = estimated(self._sketched(plain, count, tile), machine.core).seconds * (1 + CODE_COST * copied * count * tile)
                if seconds < (least / OTHER_WAY if gathers and count > found.count > 0 else least):
                    least, found = seconds, replace(self, count=count, tile=tile)
        return found if self.skew is None else found.shared(least if found.count else alone, machine.core.fork)

    def shared(self, seconds: float, fork: float) -> Abreast:
        """The same with the blocks that threads are predicted to share fastest, if they are worth it, of so many seconds on one."""
        threads, sweeps = self.rows.threads, self.sweeps
        least, found = seconds * WORTH_THREADS, 0
        for blocks in BLOCKS if threads > 1 and self._shares_waves else ():
            rows, behind, times = (blocks, 1, 1) if sweeps is None else (size(sweeps), BEHIND, prod(map(size, self.stage.outer[:-3])))
            together = seconds_in_waves(seconds, rows, blocks, behind, threads, fork * self.stage.turns * times)
            if together < least and size(self.across) >= blocks * max(1, self.count):
                least, found = together, blocks
        return replace(self, blocks=found)

    @property
    def _shares_waves(self) -> bool:
        """May threads share waves: bands of several sweeps, or blocks that wait for those above and to the left alone?"""
        return self.sweeps is not None or (self.skew == 0 and len(self.stage.outer) == 2)

    @property
    def _rows(self) -> tuple[int, ...]:
        return tuple(count for count in ROWS if count <= min(size(self.across), self.rows.lanes if self.skew is None else ROWS[-2]))

    @property
    def _tiles(self) -> tuple[int, ...]:
        return tuple(count for count in TILES if count <= size(self.along)) or TILES[:1]

    def _sketched(self, plain: Sequence[Part], count: int, tile: int) -> tuple[Part, ...]:
        sketch = Sketch.of(plain, self.stage.name)
        across_o, across_i = sketch.split(self.across.loop, count)
        along_o, along_i = sketch.split(self.along.loop, tile)
        sketch.reorder(*self.stage.beside(self.across, self.along), across_o, along_o, along_i, across_i)
        sketch.mark(along_i, "unroll")
        sketch.mark(across_i, "vector" if self.skew is None else "unroll")
        return numbered(sketch.parts())

    def seconds(self, plain: Sequence[Part], machine: Processor) -> float:
        """What it takes by the cost model in a program that is `plain`."""
        if not self.count:
            return estimated(numbered(Sketch.of(plain, self.stage.name).parts()), machine.core).seconds
        return estimated(self._sketched(plain, self.count, self.tile), machine.core).seconds

    def knobs(self, prefix: str = "") -> tuple[Knob, ...]:
        """How many rows run together (0: one by one, by the knobs of rows), and how many elements of each make a tile."""
        return (Choice(f"{prefix}{self.name}", (0, *self._rows)), Choice(f"{prefix}tile", self._tiles), *self.rows.knobs(prefix))

    def default(self, prefix: str = "") -> dict[str, Any]:
        """The rows and the tile that the model names."""
        found = {f"{prefix}{self.name}": self.count, f"{prefix}tile": self.tile or self._tiles[0], **self.rows.default(prefix)}
        return found | ({f"{prefix}parallel": "outer"} if self.blocks else {})

    def schedule(self, s: Schedule, config: Mapping[str, Any], prefix: str = "", *, alone: bool = True) -> None:
        """Append the directives of a point to a schedule; a stage that stands inside another (not `alone`) gets no threads."""
        count, tile = config[f"{prefix}{self.name}"], config[f"{prefix}tile"]
        waves = alone and self._shares_waves and config.get(f"{prefix}parallel", "none") == "outer"
        cut = partial(self._fitting, s, self._in_waves if waves else self._cut, count, tile) if count or waves else None
        schedule_reordered(s, self.rows, config, prefix, cut, alone=alone)

    def _fitting(self, s: Schedule, cut: Callable[[Schedule, int, int], str], count: int, tile: int) -> str:
        """The outermost loop after a cut, whose tile has fewer elements where so many would be too much code. Raises `ScheduleError`."""
        for shorter in [found for found in reversed(self._tiles) if found < tile and count]:
            with suppress(ScheduleError), s.together():
                return cut(s, count, tile)
            tile = shorter
        return cut(s, count, tile)

    def _in_waves(self, s: Schedule, count: int, tile: int) -> str:
        """Tiles of rows, or rows one by one, in blocks that threads share wave by wave, where that is legal; the outermost loop."""
        blocks, rows, outermost = self.blocks or BLOCKS[0], max(1, count), self.stage.outer[0].loop
        bands, across = s.split(self.across.loop, -(-size(self.across) // (blocks * rows)) * rows, "peel")
        along = self.along.loop
        if self.sweeps is not None:
            share_in_waves(s, self.sweeps.loop, bands, BEHIND)
        else:
            outermost = bands
            columns, along = s.split(along, -(-size(self.along) // (blocks * tile)) * tile, "peel")
            s.reorder(bands, columns, across, along)
            share_in_waves(s, bands, columns, 1)
        if count:
            self._tiled(s, count, tile, across, along)
        return outermost

    def _cut(self, s: Schedule, count: int, tile: int) -> str:
        """Tiles of rows, inside of all other loops; the outermost loop."""
        order = [*self.stage.beside(self.across, self.along), self.across.loop, self.along.loop]
        if order != [loop.loop for loop in self.stage.outer]:
            s.reorder(*order)
        across_o = self._tiled(s, count, tile, self.across.loop, self.along.loop)
        return order[0] if order[0] != self.across.loop else across_o

    def _tiled(self, s: Schedule, count: int, tile: int, across: str, along: str) -> str:
        """Tiles of rows, written out; the loop over them."""
        across_o, across_i = s.split(across, count, "peel")
        if self.skew:
            s.skew(along, across_i, self.skew)
            s.reorder(f"{along}_s", across_i)
            behind = self.skew * (count - 1)  # at both ends not all of the rows run
            s.peel(f"{along}_s", behind, behind)
            along_i = s.split(f"{along}_s", tile, "peel")[1]
        else:
            along_o, along_i = s.split(along, tile, "peel")
            s.reorder(along_o, along_i, across_i)
        if self.skew is None:
            s.vectorize(across_i)
        else:
            s.unroll(across_i)
        s.unroll(along_i)
        return across_o


def _skew(distances: Sequence[Mapping[str, int]], across: str, along: str) -> int:
    """How many elements a row has to be behind the one before it, so that all that it reads of the rows above is there."""
    found = 0
    for apart in distances:
        up, back = -apart.get(across, 0), -apart.get(along, 0)
        if up > 0 and not any(distance for loop, distance in apart.items() if loop not in (across, along)):
            found = max(found, -(back // up))
    return found
