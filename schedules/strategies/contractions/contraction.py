"""Contractions: reductions whose operands are reused (matrix products, convolutions, any einsum).

A register tile of the output is `rows` x (`vectors` * lanes) elements, computed by a micro-kernel. The reduction runs in parts of
`depth`, so that the panel of the operand that varies from lane to lane stays in cache; packing makes that panel contiguous. This is the
blocking of Goto and van de Geijn (2008), "Anatomy of high-performance matrix multiplication", read off the operator's indices. A panel of
few rows is not worth its copy: it is read in place, and the rows of the other operand are what stays in cache. Rows that outgrow the
last-level cache are blocked too (`b` in `order`): a block of them is packed for the second level, where it stays while all panels of a
part of the depth, packed before it, pass by.

Three things are put together here into knobs, constraints, a default point and directives: a micro-kernel (`micro_kernel`), an order of
tiles (`tile_order`), and the search for what the cost model takes for cheapest (`blocking`). Where the reduction is not blocked, the stage
that consumes the result is computed from the tile while it is in registers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tensorlang.schedules.model.parts import Part
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.spaces.footprints import Footprint
from tensorlang.schedules.spaces.knobs import Choice, Flag, Knob, Sizes, TileSize
from tensorlang.schedules.strategies.analysis.partition import partitioning_loop
from tensorlang.schedules.strategies.analysis.short_axes import run_of
from tensorlang.schedules.strategies.analysis.sliding import producer_of
from tensorlang.schedules.strategies.analysis.stages import StageInfo, size, tensor_of
from tensorlang.schedules.strategies.contractions.asking import Asking
from tensorlang.schedules.strategies.contractions.blocking import BlockingSearch
from tensorlang.schedules.strategies.contractions.dot_products import dot_kernels
from tensorlang.schedules.strategies.contractions.micro_kernel import MicroKernel, lane_kernels
from tensorlang.schedules.strategies.contractions.register_tile import RegisterTiles
from tensorlang.schedules.strategies.contractions.sketch import TilingSketches
from tensorlang.schedules.strategies.contractions.tile_order import TileOrder, is_packable
from tensorlang.schedules.strategies.contractions.tiling import Tiling
from tensorlang.schedules.strategies.descent import OTHER_WAY
from tensorlang.schedules.strategies.loops.epilogue import epilogue_knob, fuse_epilogue
from tensorlang.schedules.strategies.loops.thread_loop import cheapest_thread_loop, parallelize, seconds_of_forks
from tensorlang.schedules.strategies.processor import Processor
from tensorlang.schedules.strategies.rows.producer import WHOLE, Producer
from tensorlang.schedules.strategies.rows.rows import MAX_LANES, RowVectors
from tensorlang.schedules.strategies.rows.stage_strategy import Constraint
from tensorlang.system.lazy import cached_property

IN_PARTS: Final = "parts"
"""The place of a producer inside the loop that partitions what it makes."""


@dataclass(frozen=True)
class Contraction:
    """A contraction as register tiles.

    `plain` is the program before it is scheduled, as the cost model reads it. `consumer` (or "") may be computed from its tiles. `producer`
    (or None) makes an operand, part by part in the loop `producer_loop` around the tiles. `pack_at` (or "") is a loop around the
    contraction at which the operand of the lanes is packed whole; operands in `constants` are packed beforehand.
    """

    kernel: MicroKernel
    machine: Processor
    threads: int
    consumer: str = ""
    pack_at: str = ""
    plain: tuple[Part, ...] = ()
    constants: frozenset[str] = frozenset()
    producer: Producer | None = None
    producer_loop: str = ""
    known: dict[tuple[Any, ...], float] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(
        cls, stage: StageInfo, machine: Processor, threads: int, plain: tuple[Part, ...], constants: frozenset[str] = frozenset()
    ) -> Contraction | None:
        """In the roles that the model takes for cheapest, or None where the stage is no contraction that reuses operands."""
        kernels: tuple[MicroKernel, ...] = dot_kernels(stage, machine) or lane_kernels(stage, machine)
        ways = [cls(kernel, machine, threads, plain=plain, constants=constants) for kernel in kernels]
        ways = [way for way in ways if not any(other.dominates(way) for other in ways)]
        found = ways[0] if len(ways) == 1 else min(ways, key=cls._seconds_in_roles, default=None)
        return None if found is None or _is_small(found.kernel) else found

    def dominates(self, other: Contraction) -> bool:
        """Does another way have to copy or transpose where this one reads and writes whole vectors in place, for no better tile?

        Not where windows are read in place, of which caches hold less than of packed panels, nor where copies are made beforehand.
        """
        roles, ready = self.kernel.roles, any(tensor_of(load).name in self.constants for load in other.kernel.roles.operands)
        if self._moves or not other._moves or ready or roles.reduced or roles.vector.size % self.kernel.lanes:
            return False
        return self.tiles.value(*self.tiles.best) >= other.tiles.value(*other.tiles.best)

    @property
    def _moves(self) -> bool:
        """Does something lie across its lanes in memory?"""
        return self.kernel.roles.scattered or self.kernel.roles.transposed

    def _seconds_in_roles(self) -> float:
        """What it takes in these roles; where lanes lie across memory, as another way that has to be worth its code."""
        return self.search.tile_seconds() / (OTHER_WAY if self._moves else 1.0)

    @property
    def name(self) -> str:
        """What logs call it: `contraction`, or `dots`."""
        return self.kernel.name

    @property
    def stage(self) -> StageInfo:
        """The stage that contracts."""
        return self.kernel.roles.stage

    @cached_property
    def tiles(self) -> RegisterTiles:
        """Its tiles."""
        return RegisterTiles(self.kernel, self.machine)

    @property
    def order(self) -> TileOrder:
        """The loops around its tiles."""
        return TileOrder(self.kernel, self.threads, block_bytes=self.machine.l2 // 2)

    @cached_property
    def asking(self) -> Asking:
        """Which operands are asked for ahead."""
        return Asking(self.kernel, self.machine, self.constants)

    @property
    def placed_first(self) -> bool:
        """Is it scheduled before other stages, one of which it places?"""
        return self.producer is not None

    def with_consumer(self, stage: str) -> Contraction:
        """The same with the stage that may be computed from its tiles."""
        return replace(self, consumer=stage, known={})

    def with_producer(self, s: Schedule, machine: Processor) -> Contraction:
        """The same with the stage that makes an operand in parts, if there is one."""
        for load in self.stage.loads:
            loop = partitioning_loop(self.stage, load, self.kernel.roles.outside_panels)
            producer = producer_of(self.stage, load.buffer, s) if loop else None
            if producer is not None:
                placed = Producer(RowVectors.of(producer, machine, self.threads, self.plain), (IN_PARTS, WHOLE))
                return replace(self, producer=placed, producer_loop=loop)
        return self

    # The space --------------------------------------------------------------------------------------------------------------

    def knobs(self) -> tuple[Knob, ...]:
        """Tile sizes within the registers and caches, loop order, packing, epilogue, threads."""
        roles, tiles = self.kernel.roles, self.tiles
        found: list[Knob] = [Sizes("vectors", tiles.vector_sizes)]
        found += [] if roles.row is None else [Sizes("rows", tiles.row_sizes)]
        found += [self.order.knob(), self._depths(), Sizes("unroll", (1, 2, 4))]
        if self._packs_lanes_by_choice:
            found.append(Flag("pack_vector"))
        if is_packable(self.kernel, roles.row_operands):
            found.append(Flag("pack_row"))
        asked = self.asking.knob()
        if asked is not None:
            found.append(asked)
        if self.producer is not None:
            found.append(self.producer.knob())
        if self.consumer:
            found.append(epilogue_knob())
        if self.threads > 1:
            found.append(Choice("parallel", ["none", *self.order.shareable()]))
        return tuple(found)

    def constraints(self) -> Iterator[Constraint]:
        """What holds between knobs, each with its label; several, so that points are counted without listing them."""
        tiles, most, depth = self.tiles, 4 * self.machine.registers, size(self.kernel.roles.depth)
        interleaving = self.kernel.roles.interleaving
        yield lambda c: tiles.fits(c.get("rows", 1), c["vectors"]), "accumulators and operands fit the vector registers"
        yield lambda c: c.get("rows", 1) * c["vectors"] * c["unroll"] * interleaving <= most, "the unrolled body is bounded"
        yield self.order.places_panels, "every panel has a place"
        if self.asking.knob() is not None:
            yield self.asking.holds, "what is packed is not asked for"
        if self.consumer:
            yield lambda c: c["epilogue"] != "fused" or c["depth"] >= depth, "an epilogue needs whole sums"
        yield from self.kernel.constraints()

    def footprints(self) -> tuple[Footprint, ...]:
        """What the panels that are used again occupy of the caches that are to hold them."""
        kernel, machine = self.kernel, self.machine
        each = kernel.panel_bytes * kernel.roles.reductions
        lanes, rowwise = (each * max(1, len(loads)) for loads in (kernel.roles.operands, kernel.roles.row_operands))
        panel = Footprint("panel of the lanes in L2", ("vectors", "depth"), lanes * kernel.lanes, machine.l2)
        rows = Footprint("panel of the rows in L1", ("rows", "depth"), rowwise, machine.l1)
        return (panel,) if kernel.roles.row is None else (panel, rows)

    def default(self) -> dict[str, Any]:
        """The point that the cost model names."""
        config = self.search.point()
        if self.producer is not None:
            config |= self.producer.default(IN_PARTS)
        if self.consumer:
            config["epilogue"] = "fused" if config["depth"] >= size(self.kernel.roles.depth) else "apart"
        if self.threads > 1:
            config["parallel"] = self._thread_loop(config)
        return config

    def costs(self) -> Callable[[Mapping[str, Any]], float]:
        """What points take in seconds by the cost model."""
        search = self.search
        return lambda config: search.seconds(config)[0]

    @cached_property
    def search(self) -> BlockingSearch:
        """The search for its default."""
        values = {knob.name: knob.values for knob in self.knobs()}
        sketches = TilingSketches(self.kernel, self.order, self.plain, self.constants, self.consumer, self.asking)
        return BlockingSearch(self.tiles, sketches, values, tuple(self.constraints()), self.known, self.asking.steady)

    @property
    def _packs_lanes_by_choice(self) -> bool:
        return is_packable(self.kernel, self.kernel.roles.operands) and not self.kernel.roles.scattered

    def _depths(self) -> TileSize:
        depth = size(self.kernel.roles.depth)
        return TileSize("depth", depth, lo=min(8, depth), hi=depth)

    def _thread_loop(self, config: Mapping[str, Any]) -> str:
        """The loop that threads share by default."""
        seconds, packing = self.search.seconds(config)
        fork = seconds_of_forks(self.machine.core, self.stage.turns)
        return cheapest_thread_loop(self.order.thread_loops(config, packing), seconds - packing, packing, self.threads, fork)

    # The schedule -----------------------------------------------------------------------------------------------------------

    def schedule(self, s: Schedule, config: Mapping[str, Any], *, alone: bool = True) -> bool:
        """Append the directives of a point; False where a tile has no registers, since a scatter may write the same element twice."""
        loops = self._tile(s, config)
        if loops is None:
            return False
        fuse_epilogue(s, config, self.consumer)
        loop = {**self.order.shareable(), **loops}.get(config.get("parallel", "none"))
        if loop and alone:
            parallelize(s, loop)
        return True

    def can_fuse(self, s: Schedule) -> bool:
        """May the consumer be computed from tiles of whole sums?"""
        trial = s.copy()
        tiled = self._tile(trial, {**self.search.start(), "depth": size(self.kernel.roles.depth)}) is not None
        return tiled and bool(trial.can("reverse_compute_inline", self.consumer))

    def _tile(self, s: Schedule, config: Mapping[str, Any]) -> dict[str, str] | None:
        """Append what comes before the epilogue; the tile loops that threads may share, or None where there is no tile."""
        loops = Tiling(self.kernel, self.order, self.pack_at).apply(s, config)
        if loops is not None:
            self.asking.ask(s, config)
        if loops is not None and self.producer is not None:
            inside = config.get("source") == IN_PARTS and s.can("compute_at", self.producer.name, self.producer_loop)
            self.producer.compute(s, config, self.producer_loop if inside else None)
        return loops


def _is_small(kernel: MicroKernel) -> bool:
    """Is it a product of small matrices, of which neither axis fills a vector, but both as one run do, the same in each?"""
    roles, lanes = kernel.roles, kernel.lanes
    if kernel.products > 1 or roles.vector.size >= lanes or roles.row is None or max(roles.row.size, roles.sums) >= lanes:
        return False
    run = run_of(roles.stage, lanes, MAX_LANES)
    return run is not None and run.period <= lanes
