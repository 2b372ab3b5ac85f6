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

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Final

from tensorlang.schedules.placement.local_copies import tile_name
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.spaces.footprints import Footprint
from tensorlang.schedules.spaces.knobs import Choice, Knob, Sizes
from tensorlang.schedules.strategies.analysis import StageInfo, is_literal, size, tail_of, tensor_of
from tensorlang.schedules.strategies.blocked_sums import TILE_BLOCK, rounds, sum_in_blocks
from tensorlang.schedules.strategies.epilogue import epilogue_knob, fuse_epilogue
from tensorlang.schedules.strategies.machine import Machine
from tensorlang.schedules.strategies.producer import INLINED, WHOLE, Producer
from tensorlang.schedules.strategies.rows import Rows
from tensorlang.schedules.strategies.sliding import Sliding, inlines_cheaply, producer_of, sliding
from tensorlang.schedules.strategies.stage_strategy import Constraint
from tensorlang.schedules.strategies.thread_loop import outer_loop_knob, parallelize
from tensorlang.schedules.strategies.window_costs import IN_PLACE, IN_PLANE, IN_ROWS, MAX_BODY, SHUFFLED_STEP, WindowCosts

THREADS_FROM: Final = 1 << 19
"""Iterations below which threads cost more than they give."""


@dataclass(frozen=True, slots=True)
class Windows:
    """A sliding window as register tiles.

    `producer` (or None) makes its source; where nothing does, `copies` tells that rows of it may be copied. `consumer` (or "") takes its
    result.
    """

    window: Sliding
    machine: Machine
    threads: int
    producer: Producer | None = None
    copies: bool = False
    consumer: str = ""

    @classmethod
    def of(cls, stage: StageInfo, machine: Machine, threads: int) -> Windows | None:
        """The stage as a window without a producer, or None where it is none."""
        window = sliding(stage)
        return None if window is None else cls(window, machine, threads)

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
    def costs(self) -> WindowCosts:
        """What its tiles cost."""
        if self.producer is None:
            return WindowCosts(self.window, self.machine, None, (IN_PLACE, IN_ROWS) if self.copies else ())
        return WindowCosts(self.window, self.machine, self.producer.rows.stage, self.producer.places)

    def with_consumer(self, stage: str) -> Windows:
        """The same with the stage that may be computed from its tiles."""
        return replace(self, consumer=stage)

    def with_producer(self, s: Schedule, machine: Machine) -> Windows:
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
        return replace(self, producer=Producer(Rows.of(producer, machine, self.threads), (*found, WHOLE)))

    # The space --------------------------------------------------------------------------------------------------------------

    def knobs(self) -> tuple[Knob, ...]:
        """The tile, how much of the window is unrolled, where the source is made, epilogue, order, threads."""
        costs = self.costs
        found: list[Knob] = [Sizes("rows", costs.row_sizes)] if costs.row_sizes else []
        found += [Sizes("vectors", costs.vector_sizes), Choice("unroll", list(costs.unrolled))]
        if self.producer is not None:
            found.append(self.producer.knob())
        elif self.copies:
            found.append(Choice("source", list(costs.places)))
        if self.consumer:
            found.append(epilogue_knob())
        if not self.window.slides_along_lanes:
            found.append(Choice("order", ["inside", "around"]))
        if self.threads > 1:
            found.append(outer_loop_knob())
        return tuple(found)

    def constraints(self) -> Iterator[Constraint]:
        """What holds between knobs, each with its label."""
        registers, costs = self.machine.registers, self.costs
        yield lambda c: c.get("rows", 1) * c["vectors"] + 2 <= registers, "accumulators and operands fit the vector registers"
        yield lambda c: c.get("rows", 1) * c["vectors"] * costs.body(c["unroll"]) <= MAX_BODY, "the unrolled body is bounded"

    def footprints(self) -> tuple[Footprint, ...]:
        """None: what a tile touches is a few rows."""
        return ()

    def default(self) -> dict[str, Any]:
        """The point that the model of registers, shared rows and caches names."""
        costs = self.costs
        tile = costs.tile()
        config: dict[str, Any] = {"rows": tile.rows} if costs.row_sizes else {}
        config |= {"vectors": tile.vectors, "unroll": tile.unroll}
        if self.producer is not None:
            config |= self.producer.default(costs.place(tile))
        elif self.copies:
            config["source"] = costs.place(tile)
        if self.consumer:
            config["epilogue"] = "fused"
        if not self.window.slides_along_lanes:
            config["order"] = "around" if costs.lanes_around_image(tile, self.threads) else "inside"
        if self.threads > 1:
            config["parallel"] = "outer" if self.stage.iterations >= THREADS_FROM else "none"
        return config

    # The schedule -----------------------------------------------------------------------------------------------------------

    def schedule(self, s: Schedule, config: Mapping[str, Any], *, alone: bool = True) -> bool:
        """Append the directives of a point to a schedule; a stage that stands inside another (not `alone`) gets no threads."""
        outer = self._tile(s, config)
        fuse_epilogue(s, config, self.consumer)
        if alone and config.get("parallel") == "outer":
            parallelize(s, outer)
        return True

    def can_fuse(self, s: Schedule) -> bool:
        """May the consumer be computed from the tiles?"""
        trial = s.copy()
        self._tile(trial, self.default())
        return bool(trial.can("reverse_compute_inline", self.consumer))

    def _tile(self, s: Schedule, config: Mapping[str, Any]) -> str:
        """Append what comes before the epilogue; the outermost loop that repeats."""
        window, lanes = self.window, self.costs.lanes
        place, unrolled = config.get("source", IN_PLACE), self.costs.unrolled[config["unroll"]]
        tiles = {loop.loop: loop.loop for loop in self.stage.outer}
        if place == INLINED and self.producer is not None:
            s.compute_inline(self.producer.name)
        inner: list[str] = []
        if window.row is not None and config["rows"] > 1:
            row = window.row.outer
            tiles[row.loop], row_i = s.split(row.loop, config["rows"], tail_of(is_literal(row), "guard"))
            inner.append(row_i)
        vector = window.vector
        tiles[vector.loop], vector_i = s.split(vector.loop, config["vectors"] * lanes, tail_of(is_literal(vector), "mask"))
        order = list(self.stage.outer)
        if config.get("order") == "around":
            order.insert(len(window.around), order.pop())
        outer = [tiles[loop.loop] for loop in order]
        s.reorder(*outer, *(loop.loop for loop in window.reduced), *inner, vector_i)
        if place in (IN_PLANE, IN_ROWS, WHOLE):
            first = len(window.around)
            at = {IN_PLANE: self.stage.outer[first - 1], IN_ROWS: self.stage.outer[first]}.get(place)
            self._make_source(s, config, None if at is None else tiles[at.loop])
        target = self.stage.store.buffers[0].name
        tile = tile_name(s.nest, target)
        s.accumulate(target, at=outer[-1])
        if rounds(self.stage.store):
            looped = [loop.loop for loop in window.reduced if loop not in unrolled]
            sum_in_blocks(s, tile, looped, TILE_BLOCK, prod(map(size, unrolled)))
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
            _, lanes = s.split(s.loops(copy)[-1], 2 * self.costs.lanes, tail_of(is_literal(self.window.vector), "mask"))
            s.vectorize(lanes)
