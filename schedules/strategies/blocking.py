"""The blocking of a contraction that the cost model names: its register tile, depth, order of tiles and packing.

Points are compared as sketches (`tiling_sketch`), so that some thirty of them cost less than one schedule. The way leads from the register
tile of most arithmetic for each load, with whole sums and nothing packed, through packing, orders at a middle depth, depths and
neighbouring tiles.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

from tensorlang.schedules.model.estimate import estimated
from tensorlang.schedules.model.sketch import Sketch, numbered
from tensorlang.schedules.strategies.analysis import size
from tensorlang.schedules.strategies.cost_model import CostModel
from tensorlang.schedules.strategies.descent import Alternatives, descend
from tensorlang.schedules.strategies.stage_strategy import Constraint
from tensorlang.schedules.strategies.tiling_sketch import TilingSketches

DEPTH: Final = 256
"""The depth at which orders are compared beside whole sums: in the middle of those that panels in caches have."""
BLOCKED_COST: Final = 1.1
"""What a blocked depth is charged: its code is built in more than twice the time, and the model is not sure of less."""
UNROLLED_COST: Final = 1.03
"""What unrolled steps are charged, whose code is longer."""
PACKS: Final = ("pack_vector", "pack_row")


@dataclass(frozen=True, slots=True)
class BlockingSearch:
    """The search for the cheapest point of a contraction whose knobs have the given `values` and hold to `constraints`.

    `consumer` (or "") runs by itself where sums are not whole.
    """

    model: CostModel
    sketches: TilingSketches
    values: Mapping[str, Sequence[Any]]
    constraints: Sequence[Constraint]
    consumer: str = ""

    def point(self) -> dict[str, Any]:
        """The values of tile sizes, depth, unrolling, order and packing."""
        depths, (rows, vectors) = self.values["depth"], self.model.tile
        middle = min(depths, key=lambda depth: abs(depth - DEPTH))
        start: dict[str, Any] = {"vectors": vectors, **self._rows(rows), "depth": depths[-1], "unroll": 1}
        start |= {"order": self.values["order"][0]} | {name: False for name in PACKS if name in self.values}
        groups: tuple[Alternatives, ...] = (
            self._packings,
            lambda best: (
                order | packing for order in self._orders({**best, "depth": middle}) for packing in self._packings({"depth": middle})
            ),
            self._depths,
            lambda _: self._tiles(),
            self._depths,
            self._orders,
            lambda _: ({"unroll": unroll} for unroll in self.values["unroll"]),
        )
        return descend(start, groups, self._seconds)

    # What is compared -------------------------------------------------------------------------------------------------------

    def _rows(self, rows: int) -> dict[str, int]:
        return {"rows": rows} if "rows" in self.values else {}

    def _packings(self, config: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Every choice of packing at the depth of a point."""
        present = [name for name in PACKS if name in self.values]
        for chosen in product((False, True), repeat=len(present)):
            yield {"depth": config["depth"], **dict(zip(present, chosen, strict=True))}

    def _orders(self, config: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """The orders of tiles; of those with the same loops at the depth of a point the first."""
        distinct = {self.sketches.order.present({**config, "order": order}): order for order in reversed(self.values["order"])}
        return ({"order": order} for order in reversed(distinct.values()))

    def _depths(self, config: Mapping[str, Any]) -> Iterator[dict[str, int]]:
        """The depths from a quarter of a point's to its double."""
        return ({"depth": depth} for depth in self.values["depth"] if config["depth"] / 4 <= depth <= config["depth"] * 2)

    def _tiles(self) -> Iterator[dict[str, int]]:
        """For each number of vectors the register tile of most value."""
        tiles = self.model.tiles
        for vectors in tiles.vector_sizes:
            fitting = [rows for rows in tiles.row_sizes if tiles.fits(rows, vectors)]
            if fitting:
                rows = max(fitting, key=lambda rows: (tiles.value(rows, vectors, memory_bound=False), rows))
                yield {**self._rows(rows), "vectors": vectors}

    # What it costs ----------------------------------------------------------------------------------------------------------

    def _seconds(self, config: Mapping[str, Any]) -> float:
        """What a point would take by the cost model, more where it is not plain; infinity where it is none of the space."""
        if not all(holds({"epilogue": "apart", **config}) for holds, _ in self.constraints):
            return math.inf
        seconds = estimated(self.sketches.parts(config), self.model.machine.core).seconds
        if config["depth"] < size(self.model.roles.depth):
            seconds = (seconds + self._consumer_seconds()) * BLOCKED_COST
        return seconds * UNROLLED_COST if config["unroll"] > 1 else seconds

    def _consumer_seconds(self) -> float:
        """What the consumer takes by itself, its last loop in vectors."""
        if not self.consumer:
            return 0.0
        sketch = Sketch.of(self.sketches.plain, self.consumer)
        if sketch.loops:
            sketch.mark(sketch.split(sketch.loops[-1].name, self.model.kernel.lanes)[1], "vector")
        return estimated(numbered(sketch.parts()), self.model.machine.core).seconds
