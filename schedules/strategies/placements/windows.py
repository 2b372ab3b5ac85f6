"""Sliding windows as stages of a group: register tiles of what a strip holds, or of the whole result.

    for i_o: { bx[rows that i_o reads]: for i_t, j_t: bx_acc[4, 8] += A[...]; for i_t, j_t: by_acc[4, 8] += bx[...] }

The tile is that of `windows`, found for the whole stage and taken in strips too. Which loops of the stage stand inside its strip is read
from the nest in which the strips are cut: a window whose rows come one by one has tiles of one row, and one that nothing slides over any
more is a sum that runs in lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tensorlang.ir import For
from tensorlang.schedules.model.parts import Part
from tensorlang.schedules.model.sketch import Sketch
from tensorlang.schedules.rewriting.region import trip_bound
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.spaces.knobs import Choice, Knob, Sizes
from tensorlang.schedules.strategies.analysis.sliding import SlidingReduction, sliding
from tensorlang.schedules.strategies.analysis.stages import StageInfo, stage_named, standing
from tensorlang.schedules.strategies.loops.thread_loop import outer_loop_knob, parallelize, worth_threads
from tensorlang.schedules.strategies.processor import Processor
from tensorlang.schedules.strategies.rows.rows import RowVectors
from tensorlang.schedules.strategies.rows.stage_strategy import Constraint
from tensorlang.schedules.strategies.windows.search import WindowSearch, WindowTiles
from tensorlang.schedules.strategies.windows.windows import Windows
from tensorlang.system.lazy import cached_property


@dataclass(frozen=True)
class PlacedWindow:
    """A sliding window that is computed where a placement says; `plain` is the program before it is scheduled.

    In strips that slide (`slides`) its rows come one by one.
    """

    window: SlidingReduction
    machine: Processor
    threads: int
    plain: tuple[Part, ...] = field(repr=False)
    slides: bool = False

    @classmethod
    def of(cls, stage: StageInfo, machine: Processor, threads: int, plain: tuple[Part, ...]) -> PlacedWindow | None:
        """The stage as a window; None where it is none."""
        window = sliding(stage)
        return None if window is None else cls(window, machine, threads, plain)

    @property
    def name(self) -> str:
        """What logs call it."""
        return "windows"

    @property
    def vector(self) -> For:
        """The loop whose iterations become lanes."""
        return self.window.vector

    @property
    def sums_whole(self) -> bool:
        """Is a tile complete when it is stored?"""
        return True

    # The space --------------------------------------------------------------------------------------------------------------

    def knobs(self, prefix: str = "") -> tuple[Knob, ...]:
        """The tile, how much of the window is unrolled, threads."""
        tiles = self._tiles
        found: list[Knob] = [Sizes(f"{prefix}rows", tiles.row_sizes)] if tiles.row_sizes else []
        found += [Sizes(f"{prefix}vectors", tiles.vector_sizes), Choice(f"{prefix}unroll", list(self.window.unrolled))]
        return (*found, *([outer_loop_knob(prefix)] if self.threads > 1 else []))

    def constraints(self, prefix: str = "") -> Iterator[Constraint]:
        """What holds between the knobs, each with its label."""
        for holds, label in self._tiles.constraints():
            yield partial(self._holds, holds, prefix), label

    def default(self, prefix: str = "") -> dict[str, Any]:
        """The tile that the cost model names for the whole stage."""
        return {f"{prefix}{name}": value for name, value in self._default.items()}

    @cached_property
    def _default(self) -> dict[str, Any]:
        own = WindowSearch.of_tile(self.window, self.machine, self.plain).tile()
        if self.threads > 1:
            shared = worth_threads(self.window.stage, self.vector, self.plain, self.machine, self.threads)
            own["parallel"] = "outer" if shared else "none"
        return own

    @property
    def _tiles(self) -> WindowTiles:
        return WindowTiles(self.window, self.machine)

    def _holds(self, holds: Callable[[Mapping[str, Any]], bool], prefix: str, config: Mapping[str, Any]) -> bool:
        return holds(self._own(config, prefix))

    @staticmethod
    def _own(config: Mapping[str, Any], prefix: str) -> dict[str, Any]:
        return {name: config[f"{prefix}{name}"] for name in ("rows", "vectors", "unroll") if f"{prefix}{name}" in config}

    # The schedule -----------------------------------------------------------------------------------------------------------

    def schedule(self, s: Schedule, config: Mapping[str, Any], prefix: str = "", *, alone: bool = True) -> None:
        """Append the directives of a point to a schedule in which strips are cut; a member of a strip (not `alone`) gets no threads."""
        stage = stage_named(s.nest, self.window.stage.name)
        outermost = standing(s.nest, stage)[0]
        window, own = sliding(stage), self._own(config, prefix)
        if window is None:
            rows = RowVectors.of(stage, self.machine, 1, self.plain)
            rows.schedule(s, rows.default())
        else:
            most = WindowTiles(window, self.machine).row_sizes
            if most:
                assert window.row is not None
                strip = trip_bound(window.row.outer)
                rows = min(own.get("rows", 1), most[-1])
                own["rows"] = 1 if self.slides and not alone else rows if strip is None else _even(rows, strip)
            tile = Windows(window, self.machine, 1, self.plain, placed=True).tile(s, own)
            outermost = tile if outermost in {loop.loop for loop in stage.loops} else outermost  # or that of the strips
        if alone and config.get(f"{prefix}parallel") == "outer":
            parallelize(s, outermost)

    def sketch(self, sketch: Sketch, around: Collection[str]) -> None:
        """Take the steps of the default tile on the sketch of the stage, inside the loops `around`."""
        own, window = self._default, self.window
        present = {loop.name for loop in sketch.loops}
        tiles = {loop.loop: loop.loop for loop in window.stage.outer}
        inner: list[str] = []
        row = None if window.row is None else tiles[window.row.outer.loop]
        if row in present - set(around) and own.get("rows", 1) > 1:
            assert window.row is not None
            assert row is not None
            strip = next(int(loop.trips) for loop in sketch.loops if loop.name == row)
            tiles[window.row.outer.loop], row_i = sketch.split(row, _even(own["rows"], strip))
            inner.append(row_i)
        lanes, vector = tiles[window.vector.loop], ""
        if lanes in present - set(around):
            tiles[window.vector.loop], vector = sketch.split(lanes, own["vectors"] * self._tiles.lanes)
        order = [name for name in tiles.values() if name not in around]
        unrolled = window.unrolled[own["unroll"]]
        sketch.reorder(*order, *window.inner(inner, unrolled), vector)
        sketch.mark(vector, "vector")
        for name in (*inner, *(loop.loop for loop in unrolled)):
            sketch.mark(name, "unroll")
        held = [loop.name for loop in sketch.loops if loop.name in order]
        sketch.accumulate(held[-1] if held else "", loads=False)


def _even(rows: int, strip: int) -> int:
    """The rows of a tile, or up to half as many if strips of so many rows are whole tiles then: what is left over has no registers."""
    return next((fewer for fewer in range(rows, (rows - 1) // 2, -1) if strip % fewer == 0), rows)
