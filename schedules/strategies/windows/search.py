"""The tile of a sliding window that the cost model names, and where the stage that makes its source is computed.

Points are compared as sketches (`sketch`). A descent leads from a tile of a few rows with the window unrolled through the places of
the source, sizes and orders of tiles, unrolling; then once more through places and tiles, which depend on one another.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, Final

from tensorlang.schedules.model.estimate import estimated
from tensorlang.schedules.model.parts import Part
from tensorlang.schedules.strategies.analysis.sliding import SlidingReduction
from tensorlang.schedules.strategies.analysis.stages import size
from tensorlang.schedules.strategies.contractions.register_tile import vector_counts
from tensorlang.schedules.strategies.descent import CODE_COST, descend
from tensorlang.schedules.strategies.processor import Processor
from tensorlang.schedules.strategies.rows.producer import INLINED, Producer
from tensorlang.schedules.strategies.rows.stage_strategy import Constraint
from tensorlang.schedules.strategies.windows.sketch import IN_PLACE, WindowSketches

MAX_ROWS: Final = 8
MAX_VECTORS: Final = 4
MAX_BODY: Final = 256
"""Vector operations of an unrolled tile, at most; a tenth of a second of LLVM's time or two."""
MAX_CONDITIONS: Final = 96
"""Conditions in an unrolled tile, at most by default; they are dear to compile."""
FIRST_ROWS: Final = 4
"""Rows of the tile that the search begins with."""


@dataclass(frozen=True, slots=True)
class WindowTiles:
    """The sizes of tiles that are worth trying."""

    window: SlidingReduction
    machine: Processor

    @property
    def lanes(self) -> int:
        """Elements of the output in a vector."""
        return self.machine.lanes(self.window.stage.widest)

    @property
    def row_sizes(self) -> tuple[int, ...]:
        """The numbers of rows; none where no rows share what they read."""
        row = self.window.row
        return () if row is None else tuple(range(1, min(MAX_ROWS, max(1, size(row.outer))) + 1))

    @property
    def vector_sizes(self) -> tuple[int, ...]:
        """The numbers of vectors."""
        return vector_counts(size(self.window.vector), self.lanes, MAX_VECTORS)

    def body(self, config: Mapping[str, Any]) -> int:
        """Copies of a tile's statement in its code, one for each of its results."""
        taps = prod(size(loop) for loop in self.window.unrolled[config["unroll"]])
        return int(config.get("rows", 1) * config["vectors"] * self.window.results * taps)

    def constraints(self) -> Iterator[Constraint]:
        """What holds between knobs, each with its label."""
        most, results = self.machine.registers, self.window.results
        yield lambda c: c.get("rows", 1) * c["vectors"] * results + 2 <= most, "accumulators and operands fit the vector registers"
        yield lambda c: self.body(c) <= MAX_BODY, "the unrolled body is bounded"


@dataclass(frozen=True, slots=True)
class WindowSearch:
    """The search for the cheapest point of a window whose knobs have the given `values`."""

    tiles: WindowTiles
    sketches: WindowSketches
    values: Mapping[str, Sequence[Any]]
    producer: Producer | None = None

    @classmethod
    def of_tile(cls, window: SlidingReduction, machine: Processor, plain: Sequence[Part]) -> WindowSearch:
        """The search for a tile in a program that is `plain` before it is scheduled, wherever the source is made."""
        tiles = WindowTiles(window, machine)
        values: dict[str, Sequence[Any]] = {"rows": tiles.row_sizes} if tiles.row_sizes else {}
        values |= {"vectors": tiles.vector_sizes, "unroll": list(window.unrolled)}
        return cls(tiles, WindowSketches(window, tiles.lanes, plain), values)

    def start(self) -> dict[str, Any]:
        """The point to begin with: a few rows, one vector, as much of the window unrolled as the code may hold."""
        config: dict[str, Any] = {"rows": min(FIRST_ROWS, self.values["rows"][-1])} if "rows" in self.values else {}
        config["vectors"] = 1
        fitting = (unroll for unroll in self.values["unroll"] if self.tiles.body({**config, "unroll": unroll}) <= MAX_BODY)
        config["unroll"] = list(fitting)[-1]
        if "source" in self.values:
            config |= self._place(self.values["source"][-1])
        return config | ({"order": "inside"} if "order" in self.values else {})

    def point(self) -> dict[str, Any]:
        """The values of tile sizes, unrolling, place and order."""
        found = descend(self.start(), (self._places, self._tiles, self._unrolled, self._widths, self._places, self._tiles), self.cost)
        for unroll in self.values["unroll"][1:]:
            if unroll != found["unroll"]:  # other tiles and places are best there
                other = descend({**found, "rows": 1, "vectors": 1, "unroll": unroll}, (self._tiles, self._places), self.cost)
                found = min(found, {name: value for name, value in other.items() if name in found}, key=self.cost)
        if self.producer is None:
            return found
        own = self._place(found["source"])
        return {name: value for name, value in found.items() if name in own or not name.startswith(self.producer.prefix)}

    def tile(self) -> dict[str, Any]:
        """The values of tile sizes and unrolling alone, where no place or order of the source is asked for."""
        return descend(self.start(), (self._tiles, self._unrolled), self.cost)

    # What is compared -------------------------------------------------------------------------------------------------------

    def _place(self, place: str) -> dict[str, Any]:
        """A place of the source, with the default of the stage that makes it."""
        return {"source": place} if self.producer is None else self.producer.default(place)

    def _places(self, config: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Every place; where the tile of a point has too many conditions for a source that is inlined, with those that have not."""
        for place in self.values.get("source", ()):
            changed = self._place(place)
            if place != INLINED or self._has_few_conditions({**config, **changed}):
                yield changed
                continue
            for unroll in self.values["unroll"]:
                tiles = [{**changed, "unroll": unroll} | ({"rows": rows} if rows else {}) for rows in self.values.get("rows", (0,))]
                yield from [tile for tile in tiles if self._has_few_conditions({**config, **tile})][-1:]

    def _widths(self, config: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Vectors in flight of the stage that makes the source."""
        if self.producer is not None and config["source"] != INLINED:
            name, knobs = f"{self.producer.prefix}vectors", self.producer.rows.knobs(self.producer.prefix)
            yield from ({name: value} for knob in knobs if knob.name == name for value in knob.values)

    def _tiles(self, _: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Every size, with every order."""
        names = [name for name in ("rows", "vectors", "order") if name in self.values]
        for values in product(*(self.values[name] for name in names)):
            yield dict(zip(names, values, strict=True))

    def _unrolled(self, _: Mapping[str, Any]) -> Iterator[dict[str, str]]:
        return ({"unroll": unroll} for unroll in self.values["unroll"])

    # What it costs ----------------------------------------------------------------------------------------------------------

    def seconds(self, config: Mapping[str, Any]) -> float:
        """What a point takes by the cost model."""
        return estimated(self.sketches.parts(config), self.tiles.machine.core).seconds

    def cost(self, config: Mapping[str, Any]) -> float:
        """The same, with a charge for code; infinity where it is no point of the space, or has too many conditions to be a default."""
        if not self._has_few_conditions(config) or not all(holds(config) for holds, _ in self.tiles.constraints()):
            return math.inf
        return self.seconds(config) * (1 + CODE_COST * self.tiles.body(config))

    def _has_few_conditions(self, config: Mapping[str, Any]) -> bool:
        inlined = config.get("source", IN_PLACE) == INLINED
        return not inlined or self._is_one_tile or self.tiles.body(config) // config["vectors"] <= MAX_CONDITIONS

    @property
    def _is_one_tile(self) -> bool:
        """Is a whole image one tile, all conditions of which are known beforehand?"""
        row, width = self.tiles.window.row, size(self.tiles.window.vector)
        return (row is None or 0 < size(row.outer) <= MAX_ROWS) and 0 < width <= self.tiles.lanes
