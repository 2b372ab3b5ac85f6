"""Sliding windows whose data is read by neighbours only: depthwise convolution, pooling, blurs.

The tile of the output in registers is `rows` x (`vectors` * lanes) neighbours, and the window stands inside of it: with its loops
unrolled, every row of the source that several outputs share is loaded once.

    for others, y_o, x_o: for r, s: unroll y_i: vector x_i: D_acc[y_i, x_i] += P[y + r, x + s] * W[r, s]

The stage that makes the source (the padding, an activation) is written into the taps, or computed where it stays in cache: for each
plane (the channel of an image) or for the source rows of a row of tiles. Where lanes take every other element and vectors have no masks,
such rows are also copied, since vectors over storage of our own may read past the last of them. What consumes the result is computed from
the tile.

Where lanes do not slide (channels last), `order` says whether their tiles stand inside the image or around it: around it the weights of a
tile, and the rows that windows share, stay in cache, unless neighbours are so far apart that they fall on the same few lines of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from tensorlang.ir import For
from tensorlang.schedules.placement.local_copies import tile_name
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.spaces.footprints import Footprint
from tensorlang.schedules.spaces.knobs import Choice, Knob, Sizes
from tensorlang.schedules.strategies.analysis import StageInfo, filled, is_literal, size
from tensorlang.schedules.strategies.chains import TILE_BLOCK, in_blocks, rounds
from tensorlang.schedules.strategies.machine import Machine
from tensorlang.schedules.strategies.rows import Rows
from tensorlang.schedules.strategies.sliding import Sliding, producer_of, sliding, written_in

MAX_ROWS = 8
MAX_VECTORS = 4
BODY = 256
"""Vector operations of an unrolled tile, at most; a tenth of a second of LLVM's time or two."""
CHECKED = 64
"""Conditions in an unrolled tile, at most by default; they are dear to compile."""
CHECKED_APART = 36
"""The same where lanes lie apart: the condition of a vector becomes the masks of two loads."""
CHECKED_TAPS = 12
"""Taps up to which checking the bounds at each is cheaper than a padded copy, where lanes slide."""
TILE = 2
"""Cycles that a tile, or another turn of a loop in it, costs besides its arithmetic and loads."""
LATENCY = 4
"""Sums that have to be under way for one addition in each cycle."""
COPY = 24
"""Cycles that the loops of making the source rows of a tile cost."""
WIDE = 2
"""Vectors of a tile of several rows, at most by default: they share nothing but the conditions of the taps."""
CLOSE = 1.04
"""How much worse by the model a tile may be that is smaller, and so compiles faster."""
SHARES = {"none": 4, "inner": 3, "whole": 4}
"""The registers for each sum of a tile: what is loaded for several rows at once has to stay in others."""
CHECK = 3
"""Cycles of the conditions of a vector that is read as a whole or not at all."""
COPIED_STEP = 2
"""The step of lanes at which two vectors are loaded and shuffled into one."""
RECOMPUTED = 2
"""How often elements of the source may be computed for tiles of rows before a whole plane is better."""
COLLIDING = 2048
"""Bytes: at a multiple of it, neighbours fall on the same few sets of the first cache (64 sets of 64 bytes in most)."""
THREADS_FROM = 1 << 19
"""Iterations below which threads cost more than they give."""


@dataclass(frozen=True, slots=True)
class Windows:
    """A sliding window on a machine. `producer` (or None) makes its source in one of `placements`; `consumer` (or "") takes its result."""

    window: Sliding
    lanes: int
    registers: int
    l1: int
    masks: bool
    threads: int
    producer: Rows | None = None
    placements: tuple[str, ...] = ()
    consumer: str = ""

    @classmethod
    def of(cls, stage: StageInfo, machine: Machine, threads: int) -> Windows | None:
        """The stage as a window without a producer, or None where it is none."""
        window = sliding(stage)
        if window is None:
            return None
        lanes = machine.lanes(stage.widest)
        return cls(window, lanes, machine.registers, machine.l1, machine.vector_bits >= 512, threads)

    @property
    def stage(self) -> StageInfo:
        """The stage that reduces."""
        return self.window.stage

    def fed(self, s: Schedule, machine: Machine) -> Windows:
        """The same with the stage that makes the source, if it is made for this window only, and with the places where that can be."""
        made = producer_of(self.stage, self.window.source.buffer, s)
        around, row = self.window.around, self.window.row
        first = self.stage.outer[len(around)]
        by_rows = row is not None and row.outer is first
        if made is None:
            source = getattr(self.window.source.buffer, "name", "")
            copied = by_rows and self.window.slides_along_lanes and self.window.step == COPIED_STEP
            return replace(self, placements=("direct", "rows")) if copied and s.can("cache_read", source, at=first.loop) else self
        found = []
        if written_in(self.window, made) and s.can("compute_inline", made.name):
            found.append("inlined")
        if any(size(loop) > 1 for loop in around) and s.can("compute_at", made.name, around[-1].loop):
            found.append("plane")
        if by_rows and s.can("compute_at", made.name, first.loop):
            found.append("rows")
        return replace(self, producer=Rows.of(made, machine, self.threads), placements=(*found, "apart"))

    # The space --------------------------------------------------------------------------------------------------------------

    def knobs(self) -> tuple[Knob, ...]:
        """The tile, how much of the window is unrolled, where the source is made, epilogue, order, threads."""
        found: list[Knob] = [Sizes("rows", self._row_sizes())] if self._row_sizes() else []
        found += [Sizes("vectors", self._vector_sizes()), Choice("unroll", list(self._unrolled()))]
        if self.producer is not None:
            own = self.producer.knobs(self._prefix)
            alone = tuple(knob for knob in own if not knob.name.endswith(".parallel"))
            apart = {place: own if place == "apart" else alone for place in self.placements}
            found.append(Choice("source", {place: () if place == "inlined" else knobs for place, knobs in apart.items()}))
        elif self.placements:
            found.append(Choice("source", list(self.placements)))
        if self.consumer:
            found.append(Choice("epilogue", ["fused", "apart"]))
        if not self.window.slides_along_lanes:
            found.append(Choice("order", ["inside", "around"]))
        if self.threads > 1:
            found.append(Choice("parallel", ["none", "outer"]))
        return tuple(found)

    def constraints(self) -> Iterator[tuple[Callable[[Mapping[str, Any]], bool], str]]:
        """What holds between knobs, each with its label."""
        registers = self.registers
        yield lambda c: c.get("rows", 1) * c["vectors"] + 2 <= registers, "accumulators and operands fit the vector registers"
        yield lambda c: c.get("rows", 1) * c["vectors"] * self._body(c["unroll"]) <= BODY, "the unrolled body is bounded"

    def footprints(self) -> tuple[Footprint, ...]:
        """None: what a tile touches is a few rows."""
        return ()

    def default(self) -> dict[str, Any]:
        """The point that the model of registers, shared rows and caches names."""
        rows, vectors, unroll = self._tile()
        config: dict[str, Any] = {"rows": rows} if self._row_sizes() else {}
        config |= {"vectors": vectors, "unroll": unroll}
        if self.producer is not None:
            config["source"] = place = self._placement(rows)
            own = self.producer.default(self._prefix) if place != "inlined" else {}
            config |= own if place == "apart" else {name: value for name, value in own.items() if not name.endswith(".parallel")}
        elif self.placements:
            ragged = size(self.window.vector) % (vectors * self.lanes) != 0
            config["source"] = "rows" if ragged and self._copies else "direct"
        if self.consumer:
            config["epilogue"] = "fused"
        if not self.window.slides_along_lanes:
            shared = any(slide.rows(2) < 2 * size(slide.tap) for slide in self.window.slides)
            config["order"] = "around" if shared and not self._collides() and self._enough(vectors) else "inside"
        if self.threads > 1:
            config["parallel"] = "outer" if self.stage.iterations >= THREADS_FROM else "none"
        return config

    @property
    def _prefix(self) -> str:
        return "" if self.producer is None else f"{self.producer.stage.name}."

    def _row_sizes(self) -> tuple[int, ...]:
        row = self.window.row
        return () if row is None else tuple(range(1, min(MAX_ROWS, max(1, size(row.outer))) + 1))

    def _vector_sizes(self) -> tuple[int, ...]:
        most = max(1, -(-size(self.window.vector) // self.lanes))
        return tuple(count for count in range(1, MAX_VECTORS + 1) if count <= most and count * self.lanes <= 128)

    def _unrolled(self) -> dict[str, tuple[For, ...]]:
        """The loops of the window that each value of the knob unrolls, from none to all."""
        loops = tuple(loop for loop in self.window.reduced if size(loop) > 1)
        return {"none": (), "inner": loops[-1:], "whole": loops} if len(loops) > 1 else {"none": (), "whole": loops}

    def _body(self, unroll: str) -> int:
        return prod(size(loop) for loop in self._unrolled()[unroll])

    def _collides(self) -> bool:
        """Do the neighbours of an element of the source fall on the same lines of the cache?"""
        slide, load = self.window.row or self.window.slides[0], self.window.source
        apart = self.stage.stride(load, slide.tap)
        return apart is None or apart * load.buffer.dtype.bytes % COLLIDING == 0

    def _enough(self, vectors: int) -> bool:
        """Are there tiles enough for the threads where those of the lanes are outermost?"""
        tiles = size(self.window.vector) // (vectors * self.lanes) * prod(max(1, size(loop)) for loop in self.window.around)
        return self.threads == 1 or tiles >= 2 * self.threads

    # The model --------------------------------------------------------------------------------------------------------------

    def _tiles(self) -> Iterator[tuple[int, int, str]]:
        """Tiles whose sums and source fit the registers, and whose code is short."""
        inlines, slid = self._inlines(), self.window.slides_along_lanes
        for rows in self._row_sizes() or (1,):
            for vectors in (count for count in self._vector_sizes() if self.window.row is None or count <= WIDE):
                for unroll in self._unrolled():
                    tile = rows * vectors
                    fits = tile * SHARES[unroll] <= self.registers and tile * self._body(unroll) <= BODY
                    checked = (tile if slid else rows) * self._body(unroll)
                    fits = fits and (not inlines or self._one_tile or checked <= (CHECKED_APART if self._strided else CHECKED))
                    if fits or (tile == 1 and unroll == "none"):
                        yield rows, vectors, unroll

    def _tile(self) -> tuple[int, int, str]:
        """The smallest of the tiles that are about as good as the best."""
        costs = {tile: self._cost(*tile) for tile in self._tiles()}
        close = [tile for tile, cost in costs.items() if cost <= CLOSE * min(costs.values())]
        return min(close, key=lambda tile: (tile[0] * tile[1], costs[tile], tile))

    def _cost(self, rows: int, vectors: int, unroll: str) -> float:
        """Cycles for each lane of the output that is wanted, where every vector operation takes one."""
        window, tile, row = self.window, rows * vectors, self.window.row
        loads, whole = tile * window.taps, tile * filled(size(window.vector), vectors * self.lanes)
        if row is not None:
            whole *= filled(size(row.outer), rows)
            if row.tap in self._unrolled()[unroll]:
                loads = vectors * row.rows(rows) * window.taps // size(row.tap)
        each = {0: self.lanes, 1: 1}.get(abs(window.step), 3) if window.slides_along_lanes else 1
        arithmetic, moved = max(tile, LATENCY) * window.taps, loads * each + window.taps * vectors * (len(self.stage.loads) - 1)
        if self._inlines():
            known = not self._strided or size(window.vector) < 2 * vectors * self.lanes
            moved += loads * (1 if known else CHECK) if window.slides_along_lanes else CHECK * loads // vectors
        apart = TILE * (window.taps // self._body(unroll)) + (COPY if self._copies else 0)
        return (max(arithmetic, moved) + (arithmetic + moved) / 4 + apart) / (whole * self.lanes)

    @property
    def _strided(self) -> bool:
        """Do lanes that slide lie apart?"""
        return self.window.slides_along_lanes and self.window.step != 1

    @property
    def _copies(self) -> bool:
        """Are the rows of a tile copied, or made for it, because lanes lie apart?"""
        elsewhere = self.masks and (self.producer is None or self._inlines() or self._plane_stays)
        return self._strided and "rows" in self.placements and not elsewhere

    @property
    def _plane_stays(self) -> bool:
        """Does the source of one iteration of the loops around fit the first cache?"""
        if self.producer is None or "plane" not in self.placements:
            return False
        made = self.producer.stage
        around = max(1, prod(size(loop) for loop in self.window.around))
        return made.store.buffers[0].dtype.bytes * made.iterations // around <= self.l1

    def _inlines(self) -> bool:
        short = self.window.taps <= CHECKED_TAPS or self._one_tile
        cheap = self.masks and short and self.window.step in (1, COPIED_STEP)
        return "inlined" in self.placements and (cheap or not self.window.slides_along_lanes)

    @property
    def _one_tile(self) -> bool:
        """Is a whole image one tile, all conditions of which are known beforehand?"""
        row = self.window.row
        rows, width = 1 if row is None else size(row.outer), size(self.window.vector)
        return 0 < rows <= MAX_ROWS and 0 < width <= self.lanes and rows * self.window.taps <= BODY

    def _placement(self, rows: int) -> str:
        """Where the source is made by default."""
        if self._inlines():
            return "inlined"
        row = self.window.row
        if self._plane_stays and (self.masks or not self._strided):
            return "plane"
        if "rows" in self.placements and row is not None and row.rows(rows) <= RECOMPUTED * rows * row.step:
            return "rows"
        return "plane" if "plane" in self.placements else "apart"

    # The schedule -----------------------------------------------------------------------------------------------------------

    def schedule(self, s: Schedule, config: Mapping[str, Any], *, alone: bool = True) -> None:
        """Append the directives of a point to a schedule; a stage that stands inside another (not `alone`) gets no threads."""
        window, place = self.window, config.get("source", "direct")
        tiles = {loop.loop: loop.loop for loop in self.stage.outer}
        if place == "inlined" and self.producer is not None:
            s.compute_inline(self.producer.stage.name)
        inner: list[str] = []
        if window.row is not None and config["rows"] > 1:
            row = window.row.outer
            tiles[row.loop], row_i = s.split(row.loop, config["rows"], "peel" if is_literal(row) else "guard")
            inner.append(row_i)
        vector = window.vector
        tiles[vector.loop], lanes = s.split(vector.loop, config["vectors"] * self.lanes, "peel" if is_literal(vector) else "mask")
        order = list(self.stage.outer)
        if config.get("order") == "around":
            order.insert(len(window.around), order.pop())
        outer = [tiles[loop.loop] for loop in order]
        s.reorder(*outer, *(loop.loop for loop in self.window.reduced), *inner, lanes)
        if place in ("plane", "rows", "apart"):
            first = len(window.around)
            at = {"plane": self.stage.outer[first - 1], "rows": self.stage.outer[first]}.get(place)
            self._make(s, config, None if at is None else tiles[at.loop])
        target = self.stage.store.buffers[0].name
        tile = tile_name(s.nest, target)
        s.accumulate(target, at=outer[-1])
        if rounds(self.stage.store):
            taps = self._unrolled()[config["unroll"]]
            in_blocks(s, tile, [loop.loop for loop in window.reduced if loop not in taps], TILE_BLOCK, prod(map(size, taps)))
        s.vectorize(lanes)
        for loop in (*inner, *(loop.loop for loop in self._unrolled()[config["unroll"]])):
            s.unroll(loop)
        if config.get("epilogue") == "fused":
            s.reverse_compute_inline(self.consumer)
        shared = next((loop for loop in order if size(loop) > 1), order[0])
        if alone and config.get("parallel") == "outer" and s.can("parallel", tiles[shared.loop]):
            s.parallel(tiles[shared.loop])

    def _make(self, s: Schedule, config: Mapping[str, Any], at: str | None) -> None:
        """Compute or copy the source inside a loop (None: before all of them), as vectors."""
        if self.producer is not None:
            if at is not None:
                s.compute_at(self.producer.stage.name, at)
            self.producer.schedule(s, config, self._prefix, alone=at is None)
        elif at is not None:
            before = set(s.stages())
            s.cache_read(getattr(self.window.source.buffer, "name", ""), at=at)
            (copy,) = set(s.stages()) - before
            _, lanes = s.split(s.loops(copy)[-1], 2 * self.lanes, "peel" if is_literal(self.window.vector) else "mask")
            s.vectorize(lanes)
