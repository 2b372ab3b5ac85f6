"""What the register tile of a sliding window costs: its arithmetic, its loads, the conditions of what is inlined, its caches.

A strategy asks `blocking` for the point to use where nothing is known; the sizes worth trying are those of the space. Constants were
measured on cores of Zen 4 and Zen 5.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Final

from tensorlang.ir import For
from tensorlang.schedules.strategies.analysis import StageInfo, size, tensor_of, utilization
from tensorlang.schedules.strategies.machine import Machine
from tensorlang.schedules.strategies.producer import INLINED, WHOLE
from tensorlang.schedules.strategies.register_tile import vector_counts
from tensorlang.schedules.strategies.sliding import Sliding

IN_PLACE: Final = "direct"
"""Where no stage makes the source: it is read as it is."""
IN_PLANE: Final = "plane"
"""The source is computed for each iteration of the loops outside the image: a channel."""
IN_ROWS: Final = "rows"
"""The source rows of a row of tiles are computed, or copied, for it."""

MAX_ROWS: Final = 8
MAX_VECTORS: Final = 4
MAX_BODY: Final = 256
"""Vector operations of an unrolled tile, at most; a tenth of a second of LLVM's time or two."""
MAX_CONDITIONS: Final = 64
"""Conditions in an unrolled tile, at most by default; they are dear to compile."""
MAX_STRIDED_CONDITIONS: Final = 36
"""The same where lanes are strided: the condition of a vector becomes the masks of two loads."""
MAX_CHECKED_TAPS: Final = 12
"""Taps up to which checking the bounds at each is cheaper than a padded copy, where lanes slide."""
MAX_SHARED_VECTORS: Final = 2
"""Vectors of a tile of several rows, at most by default: they share nothing but the conditions of the taps."""
TILE_CYCLES: Final = 2
"""Cycles that a tile, or another iteration of a loop in it, costs besides its arithmetic and loads."""
LATENCY: Final = 4
"""Cycles of an addition: as many sums have to be in flight for one addition in each cycle."""
COPY_CYCLES: Final = 24
"""Cycles that the loops of making the source rows of a tile cost."""
CONDITION_CYCLES: Final = 3
"""Cycles of the conditions of a vector that is read as a whole or not at all."""
GATHER_LOADS: Final = 3
"""Loads and shuffles for a vector whose lanes are a step apart."""
ABOUT_AS_GOOD: Final = 1.04
"""How much dearer by the model a tile may be that is smaller, and so compiles faster."""
REGISTERS: Final = {"none": 4, "inner": 3, "whole": 4}
"""Registers for each sum of a tile, by what is unrolled: what is loaded for several rows at once has to stay in others."""
SHUFFLED_STEP: Final = 2
"""The step of lanes at which two vectors are loaded and shuffled into one."""
MAX_RECOMPUTED: Final = 2
"""How often elements of the source may be computed for rows of tiles before a whole plane is better."""
CONFLICT_BYTES: Final = 2048
"""At a multiple of it, neighbours fall on the same few sets of the first-level cache (64 sets of 64 bytes in most)."""


@dataclass(frozen=True, slots=True)
class WindowTile:
    """A tile of `rows` x (`vectors` * lanes) elements, the loops of the window unrolled by name."""

    rows: int
    vectors: int
    unroll: str


@dataclass(frozen=True, slots=True)
class WindowCosts:
    """A sliding window on a machine. `source` (or None) is the stage that makes what is slid over, in one of `places`."""

    window: Sliding
    machine: Machine
    source: StageInfo | None = None
    places: tuple[str, ...] = ()

    # Sizes ------------------------------------------------------------------------------------------------------------------

    @property
    def lanes(self) -> int:
        """Elements of the output in a vector."""
        return self.machine.lanes(self.window.stage.widest)

    @property
    def row_sizes(self) -> tuple[int, ...]:
        """The numbers of rows worth trying; none where no rows share what they read."""
        row = self.window.row
        return () if row is None else tuple(range(1, min(MAX_ROWS, max(1, size(row.outer))) + 1))

    @property
    def vector_sizes(self) -> tuple[int, ...]:
        """The numbers of vectors worth trying."""
        return vector_counts(size(self.window.vector), self.lanes, MAX_VECTORS)

    @property
    def unrolled(self) -> Mapping[str, tuple[For, ...]]:
        """The loops of the window that each value of the knob unrolls, from none to all."""
        loops = tuple(loop for loop in self.window.reduced if size(loop) > 1)
        return {"none": (), "inner": loops[-1:], "whole": loops} if len(loops) > 1 else {"none": (), "whole": loops}

    def body(self, unroll: str) -> int:
        """Copies of a tile's statement that unrolling the window makes."""
        return prod(size(loop) for loop in self.unrolled[unroll])

    # Questions --------------------------------------------------------------------------------------------------------------

    def tile(self) -> WindowTile:
        """The smallest of the tiles that are about as good as the best."""
        costs = {tile: self._cycles(tile) for tile in self._tiles()}
        close = [tile for tile, cost in costs.items() if cost <= ABOUT_AS_GOOD * min(costs.values())]
        return min(close, key=lambda tile: (tile.rows * tile.vectors, costs[tile], tile.rows, tile.vectors, tile.unroll))

    def place(self, tile: WindowTile) -> str:
        """Where the source is computed, or copied."""
        if self.source is None:
            ragged = size(self.window.vector) % (tile.vectors * self.lanes) != 0
            return IN_ROWS if ragged and self._copies_rows else IN_PLACE
        if self._inlines:
            return INLINED
        row = self.window.row
        if self._plane_fits and (self._masks or not self._strided):
            return IN_PLANE
        if IN_ROWS in self.places and row is not None and row.rows(tile.rows) <= MAX_RECOMPUTED * tile.rows * row.step:
            return IN_ROWS
        return IN_PLANE if IN_PLANE in self.places else WHOLE

    def lanes_around_image(self, tile: WindowTile, threads: int) -> bool:
        """Do tiles of lanes that do not slide stand around the image, so that their weights and shared rows stay in cache?"""
        shared = any(slide.rows(2) < 2 * size(slide.tap) for slide in self.window.slides)
        tiles = size(self.window.vector) // (tile.vectors * self.lanes) * prod(map(size, self.window.around))
        return shared and not self._conflict and (threads == 1 or tiles >= 2 * threads)

    # The model --------------------------------------------------------------------------------------------------------------

    def _tiles(self) -> Iterator[WindowTile]:
        """Tiles whose sums and source fit the registers, and whose code is short."""
        slid = self.window.slides_along_lanes
        for rows in self.row_sizes or (1,):
            for vectors in (count for count in self.vector_sizes if self.window.row is None or count <= MAX_SHARED_VECTORS):
                for unroll in self.unrolled:
                    sums = rows * vectors
                    fits = sums * REGISTERS[unroll] <= self.machine.registers and sums * self.body(unroll) <= MAX_BODY
                    conditions = (sums if slid else rows) * self.body(unroll)
                    few = conditions <= (MAX_STRIDED_CONDITIONS if self._strided else MAX_CONDITIONS)
                    fits = fits and (not self._inlines or self._one_tile or few)
                    if fits or (sums == 1 and unroll == "none"):
                        yield WindowTile(rows, vectors, unroll)

    def _cycles(self, tile: WindowTile) -> float:
        """Cycles for each lane of the output that is wanted, where every vector operation takes one."""
        window, sums, row = self.window, tile.rows * tile.vectors, self.window.row
        loads, used = sums * window.taps, sums * utilization(size(window.vector), tile.vectors * self.lanes)
        if row is not None:
            used *= utilization(size(row.outer), tile.rows)
            if row.tap in self.unrolled[tile.unroll]:
                loads = tile.vectors * row.rows(tile.rows) * window.taps // size(row.tap)
        each = {0: self.lanes, 1: 1}.get(abs(window.step), GATHER_LOADS) if window.slides_along_lanes else 1
        arithmetic = max(sums, LATENCY) * window.taps
        moved = loads * each + window.taps * tile.vectors * (len(window.stage.loads) - 1)
        if self._inlines:
            known = not self._strided or size(window.vector) < 2 * tile.vectors * self.lanes
            moved += loads * (1 if known else CONDITION_CYCLES) if window.slides_along_lanes else CONDITION_CYCLES * loads // tile.vectors
        overhead = TILE_CYCLES * (window.taps // self.body(tile.unroll)) + (COPY_CYCLES if self._copies_rows else 0)
        return (max(arithmetic, moved) + (arithmetic + moved) / 4 + overhead) / (used * self.lanes)

    @property
    def _masks(self) -> bool:
        """Do vectors have masks, so that part of one is loaded as cheaply as the whole?"""
        return self.machine.vector_bits >= 512

    @property
    def _strided(self) -> bool:
        """Do lanes slide that are not contiguous?"""
        return self.window.slides_along_lanes and self.window.step != 1

    @property
    def _conflict(self) -> bool:
        """Do the neighbours of an element of the source fall on the same sets of the cache?"""
        slide, load = self.window.row or self.window.slides[0], self.window.source
        stride = self.window.stage.stride(load, slide.tap)
        return stride is None or stride * tensor_of(load).dtype.bytes % CONFLICT_BYTES == 0

    @property
    def _copies_rows(self) -> bool:
        """Are the source rows of a tile copied, or made for it, because lanes are strided?"""
        elsewhere = self._masks and (self.source is None or self._inlines or self._plane_fits)
        return self._strided and IN_ROWS in self.places and not elsewhere

    @property
    def _plane_fits(self) -> bool:
        """Does the source of one iteration of the loops around the image fit the first-level cache?"""
        if self.source is None or IN_PLANE not in self.places:
            return False
        planes = max(1, prod(size(loop) for loop in self.window.around))
        return self.source.store.buffers[0].dtype.bytes * self.source.iterations // planes <= self.machine.l1

    @property
    def _inlines(self) -> bool:
        """Is the source computed anew at every tap: are its conditions cheap?"""
        short = self.window.taps <= MAX_CHECKED_TAPS or self._one_tile
        cheap = self._masks and short and self.window.step in (1, SHUFFLED_STEP)
        return INLINED in self.places and (cheap or not self.window.slides_along_lanes)

    @property
    def _one_tile(self) -> bool:
        """Is a whole image one tile, all conditions of which are known beforehand?"""
        row = self.window.row
        rows, width = 1 if row is None else size(row.outer), size(self.window.vector)
        return 0 < rows <= MAX_ROWS and 0 < width <= self.lanes and rows * self.window.taps <= MAX_BODY
