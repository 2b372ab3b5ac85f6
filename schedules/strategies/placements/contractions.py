"""Contractions as stages of a group: the micro-kernel that a contraction has by itself, in a strip of rows or whole.

    for i_o: { S[rows of i_o]: packed panels, register tiles; M, E, Z[rows of i_o]: in lanes; for i_i, j: Y[i, j] = E[i, j] / Z[i] }

Which of its loops stand inside a strip is read from the nest in which the strips are cut, and the micro-kernel is chosen for these. Sizes
are those of the whole stage where they fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tensorlang.algebra.simplify import simplify
from tensorlang.errors import ScheduleError
from tensorlang.ir import Binary, For, const
from tensorlang.schedules.model.parts import Part, statements
from tensorlang.schedules.model.program import program as parts_of
from tensorlang.schedules.model.sketch import Sketch
from tensorlang.schedules.rewriting.region import trip_bound
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.spaces.footprints import Footprint
from tensorlang.schedules.spaces.knobs import Choice, Knob
from tensorlang.schedules.strategies.analysis.stages import StageInfo, size, stage_named, standing
from tensorlang.schedules.strategies.contractions.contraction import Contraction
from tensorlang.schedules.strategies.contractions.sketch import TilingSketches
from tensorlang.schedules.strategies.loops.thread_loop import parallelize
from tensorlang.schedules.strategies.processor import Processor
from tensorlang.schedules.strategies.rows.rows import RowVectors
from tensorlang.schedules.strategies.rows.stage_strategy import Constraint
from tensorlang.system.lazy import cached_property


@dataclass(frozen=True)
class PlacedContraction:
    """A contraction that is computed where a placement says: the main stage, whose knobs have no prefix, by the point, others by default.

    Operands named in `constants` are packed beforehand; its one reader, which may be computed from its tiles, is `consumer`.
    """

    tile: Contraction
    machine: Processor
    constants: frozenset[str]
    consumer: str = ""

    @classmethod
    def of(
        cls, stage: StageInfo, machine: Processor, threads: int, plain: tuple[Part, ...], constants: frozenset[str], consumer: str = ""
    ) -> PlacedContraction | None:
        """The stage as a contraction; None where it is none that reuses operands."""
        tile = Contraction.of(stage, machine, threads, plain, constants)
        return None if tile is None else cls(tile, machine, constants, consumer)

    @property
    def name(self) -> str:
        """What logs call it."""
        return self.tile.name

    @property
    def vector(self) -> For:
        """The loop whose iterations become lanes."""
        return self.tile.kernel.roles.vector.last

    @property
    def sums_whole(self) -> bool:
        """Is a tile complete when it is stored by default?"""
        depth: int = self._default["depth"]
        return depth >= size(self.tile.kernel.roles.depth)

    # The space --------------------------------------------------------------------------------------------------------------

    def knobs(self, prefix: str = "") -> tuple[Knob, ...]:
        """Those of the contraction where it is the main one; others have their defaults."""
        return self.tile.knobs() if not prefix else ()

    def constraints(self, prefix: str = "") -> Iterator[Constraint]:
        """What holds between the knobs, each with its label."""
        return self.tile.constraints() if not prefix else iter(())

    def footprints(self, prefix: str = "") -> tuple[Footprint, ...]:
        """What tiles occupy of the caches, by the knobs."""
        return self.tile.footprints() if not prefix else ()

    def default(self, prefix: str = "") -> dict[str, Any]:
        """The point that the cost model names for the whole stage."""
        return dict(self._default) if not prefix else {}

    @cached_property
    def _default(self) -> dict[str, Any]:
        """The tile with what takes its results: functions of many of them want more registers than there are."""
        found = self.tile.with_consumer(self.consumer).default() if self.consumer else self.tile.default()
        return {name: value for name, value in found.items() if name != "epilogue"}

    # The schedule -----------------------------------------------------------------------------------------------------------

    def schedule(self, s: Schedule, config: Mapping[str, Any], prefix: str = "", *, alone: bool = True) -> None:
        """Append the directives of a point to a schedule in which strips are cut; a member of a strip (not `alone`) gets no threads."""
        stage = stage_named(s.nest, self.tile.stage.name)
        own = {**self._default, **(config if not prefix else {})}
        loops = {loop.loop for loop in stage.loops}
        whole = standing(s.nest, stage)[0] in loops and loops >= {loop.loop for loop in self.tile.stage.loops}
        if alone and whole:  # no strips are cut, into which nothing may have gone in the end
            self.tile.schedule(s, own)
            return
        plain, before = parts_of(s.nest), len(s.directives)
        needed = any(part.stage == stage.name for part in statements(plain))  # the model looks at the middle of the loops around
        product = Contraction.of(_as_if_whole(stage), self.machine, 1, plain, self.constants) if needed else None
        try:
            tiled = product is not None and product.schedule(s, self._fitting(product, own), alone=False)
        except ScheduleError:  # a panel of rows whose number is known only at run time
            tiled = False
        if not tiled:
            s.undo(len(s.directives) - before)
            rows = RowVectors.of(stage, self.machine, 1, plain)
            rows.schedule(s, rows.default())
        if alone and own.get("parallel", "none") != "none":
            parallelize(s, standing(s.nest, stage)[0])

    @staticmethod
    def _fitting(product: Contraction, config: Mapping[str, Any]) -> dict[str, Any]:
        """The values of a point, or the nearest ones that the contraction of a strip has; its own where they do not go together."""
        found: dict[str, Any] = {}
        for knob in product.knobs():
            value = config.get(knob.name)
            if value in knob.values:
                found[knob.name] = value
            elif isinstance(knob, Choice) or not isinstance(value, int):
                return product.default()
            else:
                found[knob.name] = _nearest(knob.values, value)
        return found if all(holds(found) for holds, _ in product.constraints()) else product.default()

    def sketch(self, sketch: Sketch) -> Sketch:
        """The sketch of the stage after the steps of the default point, inside the loops that it does not know."""
        tiles = TilingSketches(self.tile.kernel, self.tile.order, tuple(sketch.parts()), self.tile.constants, asking=self.tile.asking)
        return tiles.sketch(self._default)


def _as_if_whole(stage: StageInfo) -> StageInfo:
    """The stage as it is in all strips but those at the edges, which have fewer rows."""
    most = {loop.loop: trip_bound(loop) for loop in stage.loops}
    loops = (
        loop if extent is None else replace(loop, hi=simplify(Binary("add", loop.lo, const(extent))))
        for loop, extent in zip(stage.loops, most.values(), strict=True)
    )
    return replace(stage, loops=tuple(loops))


def _nearest(values: Sequence[int], wanted: int) -> int:
    return min(values, key=lambda value: (abs(value - wanted), value))
