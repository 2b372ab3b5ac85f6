"""What the cost model reads of the points of a sliding window, without their schedules: the steps of `windows`, taken on sketches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tensorlang.schedules.model.parts import Part
from tensorlang.schedules.model.produced import computed_at, copied, inlined
from tensorlang.schedules.model.sketch import Sketch, numbered
from tensorlang.schedules.strategies.analysis.sliding import SlidingReduction
from tensorlang.schedules.strategies.analysis.stages import size, tensor_of
from tensorlang.schedules.strategies.rows.producer import INLINED, WHOLE, Producer

IN_PLACE: Final = "direct"
"""Where no stage makes the source: it is read as it is."""
IN_PLANE: Final = "plane"
"""The source is computed for each iteration of the loops outside the image: a channel."""
IN_ROWS: Final = "rows"
"""The source rows of a row of tiles are computed, or copied, for it."""
COPIED: Final = 2
"""Vectors of a copy of source rows."""


@dataclass(frozen=True, slots=True)
class WindowSketches:
    """The sketches of a window whose vectors have so many lanes, in a program that is `plain` before the stage is scheduled."""

    window: SlidingReduction
    lanes: int
    plain: Sequence[Part]
    producer: Producer | None = None

    def parts(self, config: Mapping[str, Any]) -> tuple[Part, ...]:
        """The loops and statements of a point, and those of the stage that makes the source."""
        window, place = self.window, config.get("source", IN_PLACE)
        sketch = Sketch.of(self.plain, window.stage.name)
        source = self._source(sketch, place)
        tiles = {loop.loop: loop.loop for loop in window.stage.outer}
        inner: list[str] = []
        if window.row is not None and config["rows"] > 1:
            row = window.row.outer.loop
            tiles[row], row_i = sketch.split(row, config["rows"])
            inner.append(row_i)
        lanes = window.vector.loop
        tiles[lanes], vector = sketch.split(lanes, config["vectors"] * self.lanes)
        outer = [tiles[loop.loop] for loop in window.order(config)]
        unrolled = window.unrolled[config["unroll"]]
        sketch.reorder(*outer, *window.inner(inner, unrolled), vector)
        if source is not None:
            first = len(window.around)
            at = {IN_PLANE: first - 1, IN_ROWS: first}.get(place)
            loop = "" if at is None else tiles[window.stage.outer[at].loop]
            placed = None if place == WHOLE else computed_at([sketch], source, loop)
            made, loop = (source, "") if placed is None else (placed, loop)
            vectors = COPIED if self.producer is None else config.get(f"{self.producer.prefix}vectors")
            if vectors is not None and made.loops:
                made.mark(made.split(made.loops[-1].name, vectors * self.lanes, self.lanes)[1], "vector")
            sketch.put(made, loop)
        sketch.mark(vector, "vector")
        for tap in unrolled:  # copies are as many as conditions let run at most, a loop ends before
            sketch.lengthen(tap.loop, size(tap) / sketch.trips(tap.loop))
        for name in (*inner, *(tap.loop for tap in unrolled)):
            sketch.mark(name, "unroll")
        sketch.accumulate(outer[-1], loads=False)
        return numbered(sketch.parts())

    def _source(self, sketch: Sketch, place: str) -> Sketch | None:
        """The stage that makes the source, or copies it; None where neither does."""
        if self.producer is None:
            return None if place == IN_PLACE else copied(sketch, tensor_of(self.window.source).name)
        source = Sketch.of(self.plain, self.producer.name)
        if place != INLINED:
            return source
        inlined(sketch, source)
        return None
