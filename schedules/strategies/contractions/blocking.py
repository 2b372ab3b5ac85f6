"""The blocking of a contraction that the cost model names: its register tile, depth, order of tiles and packing.

Points are compared as sketches (`sketch`), of which some forty cost what one or two schedules do. One descent leads from the register tile
of most arithmetic for each load, with whole sums and nothing packed, through orders and packings, tiles and unrolling; another one from
there, in parts of a middle depth, through orders and packings, depths and tiles, and on from a few rows that are read in place where that
is better. The other one is left out where whole sums take so little more than their arithmetic that no point in parts could be worth it: of
most products whose operands fit the caches.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Final

from tensorlang.ir import Const, Load
from tensorlang.schedules.model.estimate import beside_neighbours, estimated
from tensorlang.schedules.model.sketch import PACKED, Sketch, numbered
from tensorlang.schedules.strategies.analysis.stages import tensor_of
from tensorlang.schedules.strategies.contractions.asking import KNOB, NONE
from tensorlang.schedules.strategies.contractions.register_tile import RegisterTiles
from tensorlang.schedules.strategies.contractions.sketch import TilingSketches
from tensorlang.schedules.strategies.contractions.tile_order import LANES
from tensorlang.schedules.strategies.descent import CODE_COST, descend
from tensorlang.schedules.strategies.loops.panels import comes_from_afar, is_kept_twice
from tensorlang.schedules.strategies.loops.prefetching import DISTANCE
from tensorlang.schedules.strategies.rows.stage_strategy import Constraint
from tensorlang.system.lazy import cached_property

DEPTH: Final = 256
"""The depth at which orders are compared beside whole sums: in the middle of those that panels in caches have."""
PICKED_DEPTH: Final = 32
"""The same where data pick panels, of which a cache holds a part each."""
SHORT: Final = 3e-6
"""Seconds below which nothing is searched: a search takes as long as ten thousand such calls."""
PARTS_COST: Final = 1.05
"""What sums in parts of the depth are charged: their code is built in more than twice the time, and the model is not sure of less. Not
where data pick panels: whole ones are not fetched ahead, so that they are slower than the model says."""
CLOSE: Final = 1.1
"""The share of the best choice of packing up to which another one is asked at other depths: what a depth that suits it better gains."""
STEADY: Final = 0.9
"""The share of its time that a point is charged whose lanes come from memory as fast as it gives them, along rows that are followed or
asked for ahead: whatever others leave of the last level."""
LEFT: Final = 0.1
"""The share of the last level that neighbours at work leave: a chain of loads finds 3 of 32 MB again beside them on a Zen 4."""
AT_WORK: Final = 0.3
"""The part of the time in which neighbours are taken to be at work, where lanes are read in place."""
ROUNDING: Final = 1e-9
"""The share by which sums of floating-point numbers in another order may differ, generously."""
PACKS: Final = ("pack_vector", "pack_row")


@dataclass(frozen=True)
class BlockingSearch:
    """The search for the cheapest point of a contraction whose knobs have the given `values` and hold to `constraints`.

    The consumer of the sketches, if there is one, runs by itself where it is not computed from tiles. `steady`: lanes are worth asking for.
    """

    tiles: RegisterTiles
    sketches: TilingSketches
    values: Mapping[str, Sequence[Any]]
    constraints: Sequence[Constraint]
    known: dict[tuple[Any, ...], float] = field(default_factory=dict, compare=False, repr=False)
    steady: bool = False

    def start(self) -> dict[str, Any]:
        """The point to begin with: the tile of most arithmetic for each load, whole sums, nothing packed."""
        rows, vectors = self.tiles.best
        start: dict[str, Any] = {"vectors": vectors, **self._rows(rows), "depth": self.values["depth"][-1], "unroll": 1}
        start |= {"order": self.values["order"][0]} | {name: False for name in PACKS if name in self.values}
        return start | ({KNOB: NONE} if KNOB in self.values else {})

    def point(self) -> dict[str, Any]:
        """The values of tile sizes, depth, unrolling, order and packing: of whole sums, or in parts of the depth where that is worth it."""
        depths, start = self.values["depth"], self.start()
        if self._seconds(start) < SHORT:
            return start
        whole = descend(start, (self._orders, self._tiles, self._unrolled), self._seconds)
        if self._middle == depths[-1] or self._is_cheapest(whole):
            return whole
        groups = (self._orders_and_depths,) if self._picked else (self._orders, self._packings_and_depths)
        middle = {**whole, "depth": self._middle, "unroll": 1}
        parts = descend(middle, (*groups, self._tiles, self._depths, self._unrolled), self._seconds)
        ways = [(parts, self._parts_cost)]
        in_place = min(self._in_place(parts), key=self._seconds)
        if STEADY * self._seconds(in_place) < self._seconds(parts):
            asks = in_place.get(KNOB) == LANES
            in_place = descend(in_place, (*(() if asks else (self._depths, self._tiles)), self._unrolled), self._seconds)
            ways.insert(0, (in_place, STEADY if asks else self._parts_cost))
        return next((way for way, charged in ways if charged * self._seconds(way) < self._seconds(whole)), whole)

    def tile_seconds(self) -> float:
        """What the cheapest tile takes, whole or in parts of a middle depth: enough to compare ways to run the same contraction."""
        whole = descend(self.start(), (self._packed_lanes, self._tiles), self._seconds)
        if self._middle == whole["depth"] or self._is_cheapest(whole):
            return self._seconds(whole)
        parts = {**whole, "depth": self._middle, "order": self.values["order"][1]}
        return min(self._seconds(whole), self._parts_cost * self._seconds(parts))

    def _is_cheapest(self, whole: Mapping[str, Any]) -> bool:
        """Is it known that no sums in parts are worth it beside whole ones, before any are sketched?"""
        return self._seconds(whole) <= self._parts_cost * (self._arithmetic + self._stored + self._consumer_seconds) * (1 - ROUNDING)

    @property
    def _middle(self) -> int:
        return self._nearest(PICKED_DEPTH if self._picked else DEPTH)

    def _nearest(self, wanted: float) -> int:
        return int(min(self.values["depth"], key=lambda depth: abs(depth - wanted)))

    @property
    def _picked(self) -> bool:
        return self.tiles.kernel.roles.picked

    @property
    def _parts_cost(self) -> float:
        return 1.0 if self._picked else PARTS_COST

    # What is compared -------------------------------------------------------------------------------------------------------

    def _rows(self, rows: int) -> dict[str, int]:
        return {"rows": rows} if "rows" in self.values else {}

    def _packings(self, _: Mapping[str, Any] | None = None) -> Iterator[dict[str, bool]]:
        """Every choice of packing."""
        present = [name for name in PACKS if name in self.values]
        for chosen in product((False, True), repeat=len(present)):
            yield dict(zip(present, chosen, strict=True))

    def _orders(self, config: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Every order of tiles with every choice of packing; of orders with the same loops at the depth of a point the first."""
        distinct = {self.sketches.order.present({**config, "order": order}): order for order in reversed(self.values["order"])}
        for order in reversed(distinct.values()):
            for packing in self._packings():
                yield {"order": order, **packing}

    def _in_place(self, config: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """A point's tile in every order, with nothing packed and a depth of as many rows as are followed at once: none is waited for.

        Or they are asked for ahead in the orders that go along rows, with one vector of all rows: each line once, and at one pace.
        """
        plain = dict.fromkeys((name for name in PACKS if name in self.values), False)
        followed = self._nearest(self.tiles.machine.core.streams)
        points = [{**config, **plain, "order": order, "depth": followed} for order in self.values["order"]]
        yield from points
        narrow = min(self.tiles.worthiest.items(), default=None)
        if narrow is not None and self.steady:
            asked = {"vectors": narrow[0], **self._rows(narrow[1]), "depth": self._nearest(DISTANCE), KNOB: LANES}
            yield from ({**point, **asked} for point in points if point["order"].startswith("k"))

    def _orders_and_depths(self, config: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Every order at every depth: of panels that data pick, the ones that a part of the depth leaves in a cache decide both."""
        for order in self._orders(config):
            for depth in self._depths(config):
                yield {**order, **depth}

    def _packings_and_depths(self, config: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Choices of packing near the best, at every depth: panels of one may be worth packing where those of another are not."""
        costs = [(packing, self._seconds({**config, **packing})) for packing in self._packings()]
        best = min(cost for _, cost in costs)
        for packing, cost in costs:
            for depth in self._depths(config) if cost <= CLOSE * best else ():
                yield {**packing, **depth}

    def _depths(self, config: Mapping[str, Any]) -> Iterator[dict[str, int]]:
        """The depths from an eighth of a point's to its double, but for the whole."""
        return ({"depth": depth} for depth in self.values["depth"][:-1] if config["depth"] / 8 <= depth <= config["depth"] * 2)

    def _tiles(self, _: Mapping[str, Any]) -> Iterator[dict[str, int]]:
        """For each number of vectors the register tile of most value."""
        return ({"vectors": vectors, **self._rows(rows)} for vectors, rows in self.tiles.worthiest.items())

    def _packed_lanes(self, _: Mapping[str, Any]) -> Iterator[dict[str, bool]]:
        """Both choices for the operand of the lanes."""
        return ({PACKS[0]: packed} for packed in (False, True) if PACKS[0] in self.values)

    def _unrolled(self, _: Mapping[str, Any]) -> Iterator[dict[str, int]]:
        """One step of the depth at a time, and the most; where no other loop of the reduction runs inside of it.

        Those between are predicted like the most, and are slower by what the model does not see: the ends of steps.
        """
        return ({"unroll": self.values["unroll"][place]} for place in (0, -1) if not self.tiles.kernel.roles.reduced)

    # What it costs ----------------------------------------------------------------------------------------------------------

    def seconds(self, config: Mapping[str, Any]) -> tuple[float, float]:
        """What a point takes by the cost model, and of that to pack panels."""
        found = estimated(self.sketches.parts(config), self.tiles.machine.core)
        packing = sum(seconds for stage, seconds in found.stages.items() if stage.endswith(PACKED))
        return found.seconds + self._waiting(config) + self._apart(config), packing

    def _seconds(self, config: Mapping[str, Any]) -> float:
        """What a point would take by the cost model, more where it is not plain; infinity where it is none of the space."""
        if not self._is_point(config):
            return math.inf
        seconds = self._estimated(config) + self._apart(config)
        body: int = config.get("rows", 1) * config["vectors"] * config["unroll"]
        return seconds * (1 + CODE_COST * body)

    def _estimated(self, config: Mapping[str, Any]) -> float:
        key = tuple(config.items())
        if key not in self.known:
            self.known[key] = self._beside_neighbours(config) + self._waiting(config)
        return self.known[key]

    def _beside_neighbours(self, config: Mapping[str, Any]) -> float:
        """Seconds of a point, some of them beside neighbours at work where lanes are read in place.

        What the second level loses of rows that leap across pages is fetched line by line, from memory where neighbours have the last
        level. Panels that are packed lie side by side: the second level keeps all of them, and what it does not is fetched ahead.
        """
        core, in_place = self.tiles.machine.core, not config.get(PACKS[0], True)
        shares = (core.kept, min(core.kept, LEFT)) if in_place else (core.kept,)
        alone, *crowded = (each.seconds for each in beside_neighbours(self.sketches.parts(config), core, shares))
        return alone + AT_WORK * sum(seconds - alone for seconds in crowded)

    def _waiting(self, config: Mapping[str, Any]) -> float:
        """Seconds in which operands that stay come from memory, and are not asked for ahead as panels are (`loops.panels`)."""
        kernel, machine = self.tiles.kernel, self.tiles.machine
        lanes, rows = map(self._beforehand, (kernel.roles.operands, kernel.roles.row_operands))
        panel = kernel.panel_bytes * kernel.roles.reductions * kernel.lanes * config["vectors"] * config["depth"]
        ahead = config.get(PACKS[0], True) and is_kept_twice(panel, machine.l2)
        alone = sum(whole for whole, asked in ((lanes, ahead), (rows, False)) if comes_from_afar(whole, machine.l2) and not asked)
        return alone / machine.core.memory.bandwidth / machine.core.hertz

    def _beforehand(self, loads: Sequence[Load]) -> int:
        """Bytes of those of some operands that are packed beforehand."""
        buffers = {tensor_of(load) for load in loads if tensor_of(load).name in self.sketches.constants}
        extents = ([int(extent.value) for extent in buffer.shape if isinstance(extent, Const)] for buffer in buffers)
        return sum(buffer.dtype.bytes * math.prod(found) for buffer, found in zip(buffers, extents, strict=True))

    def _is_point(self, config: Mapping[str, Any]) -> bool:
        return all(holds({"epilogue": "apart", KNOB: NONE, **config}) for holds, _ in self.constraints)

    @cached_property
    def _arithmetic(self) -> float:
        """Seconds below which no point is: all vectors of the contraction, of which only the last of a row is not full, on all ports.

        A point computes these, more where tiles end within a vector, and what else it does takes time too.
        """
        core, kernel, each = self.tiles.machine.core, self.tiles.kernel, self._plain.statement.operations
        if kernel.products > 1:
            each = min(each, kernel.slots) / kernel.products
        return self._vectors * each / core.ports.arithmetic / core.hertz

    @cached_property
    def _stored(self) -> float:
        """Seconds in which sums in parts, two at least, are stored, each time by a statement of its own."""
        core, kernel = self.tiles.machine.core, self.tiles.kernel
        steps = math.prod(self._plain.trips(loop.loop) for loop in kernel.roles.stage.reduced)
        return 2 * self._vectors / steps / core.ports.stores / core.hertz if kernel.products == 1 else 0.0

    @cached_property
    def _vectors(self) -> float:
        """Vectors of all iterations; where an instruction adds products, of each of these."""
        kernel, plain = self.tiles.kernel, self._plain
        iterations, lanes = math.prod(loop.trips for loop in plain.loops), self.tiles.machine.core.lanes(plain.statement.bits)
        row = math.prod(plain.trips(loop.loop) for loop in kernel.roles.vector.loops)
        return iterations / lanes if kernel.products > 1 else iterations / row * math.ceil(row / lanes - ROUNDING)

    @cached_property
    def _plain(self) -> Sketch:
        """The contraction before it is scheduled."""
        return Sketch.of(self.sketches.plain, self.tiles.kernel.roles.stage.name)

    def _apart(self, config: Mapping[str, Any]) -> float:
        """Seconds of the consumer where it is not computed from the tiles of a point."""
        return 0.0 if self.sketches.fuses(config) else self._consumer_seconds

    @cached_property
    def _consumer_seconds(self) -> float:
        """What the consumer takes by itself, its last loop in vectors."""
        if not self.sketches.consumer:
            return 0.0
        sketch = Sketch.of(self.sketches.plain, self.sketches.consumer)
        if sketch.loops:
            sketch.mark(sketch.split(sketch.loops[-1].name, self.tiles.kernel.lanes)[1], "vector")
        return estimated(numbered(sketch.parts()), self.tiles.machine.core).seconds
