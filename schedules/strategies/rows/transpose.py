"""Stages that read across memory what they write along it: transpositions, changes of layout.

Register tiles: vectors run along what is read, an unrolled loop along what is written, and the tile is transposed in registers when it is
stored. Both sides are then walked in whole vectors.

    for j_b: for i_o: for j_o: unroll j_i: vector i_i: B[i, j] = A[j, i]

Each tile of a row of tiles reads other rows, and each of them may lie on another page. Blocks (`j_b`) of as many rows as the caches and the
TLB keep are read along before the next rows begin; how many, the cost model says. The hardware fetches no rows ahead, so the rows of later
tiles may be asked for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from tensorlang.ir import For
from tensorlang.ir.machine import LINE_BYTES
from tensorlang.ir.mentions import mentions
from tensorlang.schedules.model.estimate import estimated
from tensorlang.schedules.model.parts import Part
from tensorlang.schedules.model.sketch import Sketch, numbered
from tensorlang.schedules.model.touched import MOST_WOVEN
from tensorlang.schedules.rewriting.edit import loops
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.spaces.knobs import Choice, Flag, Knob, Sizes
from tensorlang.schedules.strategies.analysis.stages import StageInfo, is_literal, label, size, tail_of
from tensorlang.schedules.strategies.descent import CODE_COST, descend
from tensorlang.schedules.strategies.loops.prefetching import ASKING, operands_from_afar
from tensorlang.schedules.strategies.loops.streaming import KNOB as STREAM, stream, streams_by_default
from tensorlang.schedules.strategies.loops.thread_loop import outer_loop_knob, parallelize, worth_threads
from tensorlang.schedules.strategies.processor import Processor

LEAST_EXTENT: Final = 4
"""Iterations of both loops below which a tile is not worth it, but where whole vectors are written all the same: runs side by side."""
BLOCKS: Final = (64, 256, 1024)
"""Elements of the inner loop over tiles that are walked before the outer one moves on."""
AHEAD: Final = (0, 1, 4)
"""Tiles ahead of which rows are asked for."""


@dataclass(frozen=True, slots=True)
class Transpose:
    """A stage that reads memory along the loop `across`, and writes it along the loop `along`."""

    stage: StageInfo
    across: For
    along: For
    lanes: int
    threads: int
    streamed: bool | None = None
    shared: bool = False
    block: int = 0
    tile: int = 0
    """Elements along what is written that a tile holds; 0 where the model was not asked."""
    far: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What logs call it."""
        return "turned"

    @classmethod
    def of(cls, stage: StageInfo, machine: Processor, threads: int, plain: Sequence[Part]) -> Transpose | None:
        """The two loops, or None where reads and writes go the same way; `plain` is the program as the cost model reads it."""
        if stage.reduced or len(stage.outer) < 2 or stage.store.reducer is not None:
            return None
        along = stage.outer[-1]
        moved = [load for load in stage.loads if stage.moves(load, along) != 0]
        if not moved or stage.stride(stage.store, along) != 1:
            return None
        for across in stage.outer[-2::-1]:
            if all(stage.stride(load, across) == 1 and stage.stride(load, along) not in (1, None) for load in moved):
                stride = stage.stride(stage.store, across)
                if not stride or (min(size(across), size(along)) < LEAST_EXTENT and stride != size(along)):
                    return None
                lanes = machine.lanes(stage.widest)
                shared = threads > 1 and worth_threads(stage, along, plain, machine, threads)
                turned = cls(stage, across, along, lanes, threads, None, shared, far=operands_from_afar(stage, across, machine))
                return turned.sized(plain, machine).passing_caches(plain, machine)
        return None

    @property
    def _tiles(self) -> tuple[int, ...]:
        """Elements along what is written in a tile: all of them where they are few, as the channels of a pixel."""
        extent = size(self.along)
        if self.is_woven:
            return *(count for count in (4,) if count < extent), extent
        return tuple(count for count in (4, 8, 16, 32) if count <= max(LEAST_EXTENT, min(32, extent)))

    @property
    def is_woven(self) -> bool:
        """Are there few elements along what is written, which fill what lies between lanes, so that registers are woven into whole ones?"""
        extent = size(self.along)
        return is_literal(self.along) and 1 < extent <= MOST_WOVEN and self.stage.stride(self.stage.store, self.across) == extent

    @property
    def _tile(self) -> int:
        """A tile that fills a cache line."""
        wanted = LINE_BYTES // max(1, self.stage.store.buffers[0].dtype.bytes)
        return max(count for count in self._tiles if count <= max(wanted, LEAST_EXTENT))

    @property
    def _blocks(self) -> tuple[int, ...]:
        """Elements along what is written in a block, 0 for no blocks."""
        return (0, *(block for block in BLOCKS if 2 * block <= size(self.along)))

    def sized(self, plain: Sequence[Part], machine: Processor) -> Transpose:
        """The same with the tile and the blocks that the cost model names."""
        if self.stage.is_idle:
            return self

        def seconds(point: Mapping[str, int]) -> float:
            tile = point["tile"]
            code = tile * (2 + math.log2(tile))  # vectors that are loaded, turned and stored
            return estimated(self._sketched(plain, tile, point["block"]), machine.core).seconds * (1 + CODE_COST * code)

        groups = (lambda _: ({"tile": tile} for tile in self._tiles), lambda _: ({"block": block} for block in self._blocks))
        found = descend({"tile": self._tiles[0], "block": 0}, groups, seconds)
        return replace(self, block=int(found["block"]), tile=int(found["tile"]))

    def passing_caches(self, plain: Sequence[Part], machine: Processor) -> Transpose:
        """The same, knowing whether it passes the caches by: what is woven is stored in whole registers, and the model is asked."""
        if not self.is_woven or self.stage.is_idle:
            return replace(self, streamed=streams_by_default(self.stage, machine))

        def seconds(past: bool) -> float:
            return estimated(self._sketched(plain, size(self.along), self.block, past), machine.core).seconds

        return replace(self, streamed=streams_by_default(self.stage, machine, seconds, axes=2))

    def _sketched(self, plain: Sequence[Part], tile: int, block: int, streams: bool = False) -> tuple[Part, ...]:
        """What the cost model reads of tiles in blocks, without their schedule."""
        sketch = Sketch.of(plain, self.stage.name)
        if streams:
            sketch.stream()
        self._tiled(sketch, tile, block)
        return numbered(sketch.parts())

    def sketch(self, sketch: Sketch) -> None:
        """Append the steps of the default point, where both loops are there: a strip of one row has none to turn."""
        if {self.across.loop, self.along.loop} <= {loop.name for loop in sketch.loops}:
            self._tiled(sketch, self.tile or self._tile, self.block)

    def _tiled(self, sketch: Sketch, tile: int, block: int) -> None:
        read_o, read_i = sketch.split(self.across.loop, self.lanes)
        write_o, write_i = sketch.split(self.along.loop, tile)
        around = [read_o, write_o]
        if block:
            part, inside = sketch.split(write_o, block // tile)
            around = [part, read_o, inside]
        sketch.reorder(*self.stage.beside(self.across, self.along), *around, write_i, read_i)
        sketch.mark(write_i, "unroll")
        sketch.mark(read_i, "vector")

    def knobs(self, prefix: str = "") -> tuple[Knob, ...]:
        """The tile along what is written, the order of tiles, blocks of them, whether they pass the caches by, rows asked for, threads."""
        found: list[Knob] = [Sizes(f"{prefix}tile", self._tiles), Flag(f"{prefix}reads_first")]
        if len(self._blocks) > 1:
            found.append(Choice(f"{prefix}block", self._blocks))
        if self.streamed is not None:
            found.append(Flag(f"{prefix}{STREAM}"))
        if self.far:
            found.append(Choice(f"{prefix}{ASKING}", AHEAD))
        if self.threads > 1:
            found.append(outer_loop_knob(prefix))
        return tuple(found)

    def default(self, prefix: str = "") -> dict[str, Any]:
        """The tiles that the model names, written in the order of memory."""
        config: dict[str, Any] = {f"{prefix}tile": self.tile or self._tile, f"{prefix}reads_first": False}
        if len(self._blocks) > 1:
            config[f"{prefix}block"] = self.block
        if self.streamed is not None:
            config[f"{prefix}{STREAM}"] = self.streamed
        if self.far:
            config[f"{prefix}{ASKING}"] = 0
        if self.threads > 1:
            config[f"{prefix}parallel"] = "outer" if self.shared else "none"
        return config

    def standing(self, s: Schedule) -> Transpose:
        """The same over what is left of loops from which strips were cut."""
        names, found = s.loops(self.stage.name), {loop.loop: loop for loop in loops(s.nest.body)}
        across, along = (found[part.loop if part.loop in names else f"{part.loop}_i"] for part in (self.across, self.along))
        return replace(self, across=across, along=along)

    def schedule(self, s: Schedule, config: Mapping[str, Any], prefix: str = "", *, alone: bool = True) -> None:
        """Append the directives of a point to a schedule; a stage that stands inside another (not `alone`) gets no threads."""
        own = [loop.loop for loop in loops(s.nest.body) if mentions(loop).stages == {self.stage.name}]
        if not {self.across.loop, self.along.loop} <= set(own):  # others are computed in rows of one of them: none are there to be turned
            return
        rest = [loop for loop in own if loop not in (self.across.loop, self.along.loop)]
        read_o, read_i = s.split(self.across.loop, self.lanes, tail_of(is_literal(self.across), "mask"))
        write_o, write_i = s.split(self.along.loop, config[f"{prefix}tile"], tail_of(is_literal(self.along), "guard"))
        tiles = [write_o, read_o] if config[f"{prefix}reads_first"] else [read_o, write_o]
        if config.get(f"{prefix}block"):
            reads_first = config[f"{prefix}reads_first"]
            loop, width = (self.across, self.lanes) if reads_first else (self.along, config[f"{prefix}tile"])
            names, count = (f"{label(loop.loop)}_b", f"{label(loop.loop)}_m"), max(1, config[f"{prefix}block"] // width)
            part, inside = s.split(tiles[1], count, tail_of(is_literal(loop), "guard"), names)
            tiles = [part, tiles[0], inside]
        s.reorder(*rest, *tiles, write_i, read_i)
        s.vectorize(read_i)
        s.unroll(write_i)
        if config.get(f"{prefix}{STREAM}"):
            stream(s, self.stage)
        for operand in self.far if config.get(f"{prefix}{ASKING}") else ():
            if s.can("prefetch", operand, tiles[-1], config[f"{prefix}{ASKING}"]):
                s.prefetch(operand, tiles[-1], config[f"{prefix}{ASKING}"])
        if alone and config.get(f"{prefix}parallel", "none") == "outer":
            parallelize(s, s.loops(self.stage.name)[0], self.threads)  # of strips where it stands in some
