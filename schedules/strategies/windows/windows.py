"""Sliding windows whose data is read by neighbours only: depthwise convolution, pooling, blurs.

The tile of the output in registers is `rows` x (`vectors` * lanes) neighbours, and the window stands inside of it: with its loops
unrolled, every row of the source that several outputs share is loaded once.

    for others, y_o, x_o: for r, s: unroll y_i: vector x_i: D_acc[y_i, x_i] += P[y + r, x + s] * W[r, s]

The stage that makes the source (the padding, an activation) is inlined into the taps, or computed where it stays in cache: for each
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
from typing import Any, Final

from tensorlang.schedules.model.parts import Part
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.spaces.footprints import Footprint
from tensorlang.schedules.spaces.knobs import Choice, Flag, Knob, Sizes
from tensorlang.schedules.strategies.analysis.sliding import SlidingReduction, inlines_cheaply, producer_of, sliding
from tensorlang.schedules.strategies.analysis.stages import StageInfo, is_literal, size, tail_of, tensor_of
from tensorlang.schedules.strategies.loops.blocked_sums import TILE_BLOCK, accumulate_in_blocks
from tensorlang.schedules.strategies.loops.epilogue import epilogue_knob, fuse_epilogue
from tensorlang.schedules.strategies.loops.streaming import KNOB as STREAM, may_stream, stream
from tensorlang.schedules.strategies.loops.thread_loop import (
    ThreadLoop,
    cheapest_thread_loop,
    outer_loop_knob,
    parallelize,
    seconds_in_lanes,
    seconds_of_forks,
)
from tensorlang.schedules.strategies.processor import Processor
from tensorlang.schedules.strategies.rows.producer import INLINED, WHOLE, Producer
from tensorlang.schedules.strategies.rows.rows import RowVectors
from tensorlang.schedules.strategies.rows.stage_strategy import Constraint
from tensorlang.schedules.strategies.windows.search import WindowSearch, WindowTiles
from tensorlang.schedules.strategies.windows.sketch import COPIED, IN_PLACE, IN_PLANE, IN_ROWS, WindowSketches

SUMMED: Final = 4
"""Vectors in flight of a sum along a window, so that one does not wait for the one before."""
SHUFFLED_STEP: Final = 2
"""The step of lanes at which two vectors are loaded and shuffled into one."""


@dataclass(frozen=True, slots=True)
class Windows:
    """A sliding window as register tiles.

    `plain` is the program before it is scheduled, as the cost model reads it. `producer` (or None) makes its source; where nothing does,
    `copies` tells that rows of it may be copied. `consumer` (or "") takes its result.
    """

    window: SlidingReduction
    machine: Processor
    threads: int
    plain: tuple[Part, ...] = ()
    producer: Producer | None = None
    copies: bool = False
    consumer: str = ""
    placed: bool = False
    """Does it stand in a strip, so that the last rows are told by minima?"""

    @classmethod
    def of(cls, stage: StageInfo, machine: Processor, threads: int, plain: tuple[Part, ...]) -> Windows | None:
        """The stage as a window without a producer, or None where it is none, or is faster as a sum in lanes along it."""
        window = sliding(stage)
        found = None if window is None else cls(window, machine, threads, plain)
        return None if found is None or found.is_rather_a_sum else found

    @property
    def is_rather_a_sum(self) -> bool:
        """Do lanes take elements far apart, of a window so long that lanes along it, of which each element has its own, are faster?"""
        last, search = self.stage.reduced[-1], self.search
        beside = is_literal(last) and all(self.stage.moves(load, last) in (0, 1) for load in self.stage.loads)
        if not (beside and self.window.slides_along_lanes and self.window.step > SHUFFLED_STEP and size(last) >= 2 * self.tiles.lanes):
            return False
        along = (seconds_in_lanes(self.stage, last, self.plain, self.machine, vectors=vectors) for vectors in (1, SUMMED))
        return min(along) < search.seconds(search.point())

    @property
    def name(self) -> str:
        """What logs call it."""
        return "windows"

    @property
    def stage(self) -> StageInfo:
        """The stage that reduces."""
        return self.window.stage

    @property
    def placed_first(self) -> bool:
        """Is it scheduled before other stages, one of which it may place?"""
        return True

    @property
    def tiles(self) -> WindowTiles:
        """Its tiles."""
        return WindowTiles(self.window, self.machine)

    @property
    def search(self) -> WindowSearch:
        """The search for its default."""
        values = {knob.name: knob.values for knob in self.knobs()}
        sketches = WindowSketches(self.window, self.tiles.lanes, self.plain, self.producer)
        return WindowSearch(self.tiles, sketches, values, self.producer)

    def with_consumer(self, stage: str) -> Windows:
        """The same with the stage that may be computed from its tiles."""
        return replace(self, consumer=stage)

    def with_producer(self, s: Schedule, machine: Processor) -> Windows:
        """The same with the stage that makes the source, if it does so for this window only, and with the places where that can be."""
        source = tensor_of(self.window.source)
        producer = producer_of(self.stage, source, s)
        around, row = self.window.around, self.window.row
        first = self.stage.outer[len(around)]
        by_rows = row is not None and row.outer is first
        if producer is None:
            strided = by_rows and self.window.slides_along_lanes and self.window.step == SHUFFLED_STEP
            return replace(self, copies=True) if strided and s.can("cache_read", source.name, at=first.loop) else self
        found = []
        if inlines_cheaply(self.window, producer) and s.can("compute_inline", producer.name):
            found.append(INLINED)
        if any(size(loop) > 1 for loop in around) and s.can("compute_at", producer.name, around[-1].loop):
            found.append(IN_PLANE)
        if by_rows and s.can("compute_at", producer.name, first.loop):
            found.append(IN_ROWS)
        return replace(self, producer=Producer(RowVectors.of(producer, machine, self.threads, self.plain), (*found, WHOLE)))

    # The space --------------------------------------------------------------------------------------------------------------

    def knobs(self) -> tuple[Knob, ...]:
        """The tile, how much of the window is unrolled, where the source is made, epilogue, order, stores past the caches, threads."""
        tiles = self.tiles
        found: list[Knob] = [Sizes("rows", tiles.row_sizes)] if tiles.row_sizes else []
        found += [Sizes("vectors", tiles.vector_sizes), Choice("unroll", list(self.window.unrolled))]
        if self.producer is not None:
            found.append(self.producer.knob())
        elif self.copies:
            found.append(Choice("source", [IN_PLACE, IN_ROWS]))
        if self.consumer:
            found.append(epilogue_knob())
        if not self.window.slides_along_lanes:
            found.append(Choice("order", ["inside", "around"]))
        if self._may_stream:
            found.append(Flag(STREAM))
        if self.threads > 1:
            found.append(outer_loop_knob())
        return tuple(found)

    def constraints(self) -> Iterator[Constraint]:
        """What holds between knobs, each with its label."""
        return self.tiles.constraints()

    def footprints(self) -> tuple[Footprint, ...]:
        """None: what a tile touches is a few rows."""
        return ()

    def default(self) -> dict[str, Any]:
        """The point that the cost model names."""
        config = self.search.point()
        if self.threads > 1:
            shared = next((loop for loop in self.window.order(config) if size(loop) > 1), self.stage.outer[0])
            loops = [ThreadLoop("outer", size(shared), 1)]
            fork = seconds_of_forks(self.machine.core, self.stage.turns)
            config["parallel"] = cheapest_thread_loop(loops, self.search.seconds(config), 0.0, self.threads, fork)
        streamed = {STREAM: False} if self._may_stream else {}  # the model does not see what plain stores evict
        return config | streamed | ({"epilogue": "fused"} if self.consumer else {})

    @property
    def _may_stream(self) -> bool:
        """Is it a choice to store the result past the caches? Not where a consumer takes it."""
        return not self.consumer and may_stream(self.stage, self.machine)

    def costs(self) -> Callable[[Mapping[str, Any]], float]:
        """What points take in seconds by the cost model."""
        return self.search.seconds

    # The schedule -----------------------------------------------------------------------------------------------------------

    def schedule(self, s: Schedule, config: Mapping[str, Any], *, alone: bool = True) -> bool:
        """Append the directives of a point to a schedule; a stage that stands inside another (not `alone`) gets no threads."""
        outer = self.tile(s, config)
        fuse_epilogue(s, config, self.consumer)
        if config.get(STREAM):
            stream(s, self.stage)
        if alone and config.get("parallel") == "outer":
            parallelize(s, outer)
        return True

    def can_fuse(self, s: Schedule) -> bool:
        """May the consumer be computed from the tiles?"""
        trial = s.copy()
        self.tile(trial, self.search.start())
        return bool(trial.can("reverse_compute_inline", self.consumer))

    def tile(self, s: Schedule, config: Mapping[str, Any]) -> str:
        """Append what comes before the epilogue; the outermost loop that repeats."""
        window, lanes = self.window, self.tiles.lanes
        place, unrolled = config.get("source", IN_PLACE), window.unrolled[config["unroll"]]
        tiles = {loop.loop: loop.loop for loop in self.stage.outer}
        if place == INLINED and self.producer is not None:
            s.compute_inline(self.producer.name)
        inner: list[str] = []
        if window.row is not None and config["rows"] > 1:
            row = window.row.outer
            tiles[row.loop], row_i = s.split(row.loop, config["rows"], tail_of(is_literal(row) or self.placed, "guard"))
            inner.append(row_i)
        vector = window.vector
        tiles[vector.loop], vector_i = s.split(vector.loop, config["vectors"] * lanes, tail_of(is_literal(vector), "mask"))
        order = self.window.order(config)
        outer = [tiles[loop.loop] for loop in order]
        s.reorder(*outer, *window.inner(inner, unrolled), vector_i)
        if place in (IN_PLANE, IN_ROWS, WHOLE):
            first = len(window.around)
            at = {IN_PLANE: self.stage.outer[first - 1], IN_ROWS: self.stage.outer[first]}.get(place)
            self._make_source(s, config, None if at is None else tiles[at.loop])
        looped = [loop.loop for loop in window.reduced if loop not in unrolled]
        accumulate_in_blocks(s, self.stage.store, outer[-1], looped, TILE_BLOCK, prod(map(size, unrolled)))
        s.vectorize(vector_i)
        for loop in (*inner, *(loop.loop for loop in unrolled)):
            s.unroll(loop)
        repeated = next((loop for loop in order if size(loop) > 1), order[0])
        return tiles[repeated.loop]

    def _make_source(self, s: Schedule, config: Mapping[str, Any], at: str | None) -> None:
        """Compute or copy the source inside a loop (None: before all of them), as vectors."""
        if self.producer is not None:
            self.producer.compute(s, config, at)
        elif at is not None:
            before = set(s.stages())
            s.cache_read(tensor_of(self.window.source).name, at=at)
            (copy,) = set(s.stages()) - before
            _, lanes = s.split(s.loops(copy)[-1], COPIED * self.tiles.lanes, tail_of(is_literal(self.window.vector), "mask"))
            s.vectorize(lanes)
