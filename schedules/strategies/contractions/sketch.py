"""What the cost model reads of the points of a contraction, without their schedules: the steps of `tiling`, taken on sketches."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tensorlang.schedules.model.parts import Part
from tensorlang.schedules.model.sketch import Sketch, numbered
from tensorlang.schedules.strategies.analysis.stages import LoopGroup, size, tensor_of
from tensorlang.schedules.strategies.contractions.asking import Asking
from tensorlang.schedules.strategies.contractions.micro_kernel import MicroKernel, SketchedTile
from tensorlang.schedules.strategies.contractions.tile_order import LANES, ROWS, TileOrder


@dataclass(slots=True)
class SplitStage:
    """A stage whose loops are split: the tile loops by letters, the unrolled loops, that of the rows of a tile, and the micro-kernel's."""

    sketch: Sketch
    outer: dict[str, str]
    unrolled: list[str]
    row: str
    tile: SketchedTile


@dataclass(slots=True)
class TilingSketches:
    """The sketches of a micro-kernel in an order of tiles, but for sums in blocks.

    `plain` is the program before the stage is scheduled; panels of the operands named in `constants` are packed beforehand. A `consumer`
    (or "") is computed from tiles of whole sums.
    """

    kernel: MicroKernel
    order: TileOrder
    plain: Sequence[Part]
    constants: Collection[str] = ()
    consumer: str = ""
    asking: Asking | None = None
    known: dict[tuple[Any, ...], SplitStage] = field(default_factory=dict)

    def parts(self, config: Mapping[str, Any]) -> tuple[Part, ...]:
        """The loops and statements of a point."""
        return numbered(self.sketch(config).parts())

    def sketch(self, config: Mapping[str, Any]) -> Sketch:
        """The stage after the steps of a point."""
        roles, present = self.kernel.roles, self.order.present(config)
        split = self._split(config, present)
        sketch, outer = split.sketch.copy(), split.outer
        around = list(self.order.around(present, outer))
        tile = split.tile
        summed = [tile.depth if loop is roles.depth else tile.replaced.get(loop.loop, loop.loop) for loop in roles.stage.reduced]
        sketch.reorder(*around, *filter(None, summed), *split.unrolled, *tile.inner)
        for panel in self.order.panels(config):
            if panel.place is not None:
                operand, lanes = tensor_of(panel.load).name, self.kernel.packed_lanes(panel.load)
                ready = operand in self.constants
                along = {"": "", LANES: tile.inner[0], ROWS: split.row}[panel.along]
                sketch.pack(operand, "" if ready else outer[panel.place], lanes, copied=not ready, along=along)
        sketch.ask([tensor_of(load).name for _, load in self.asking.asked(config)] if self.asking else ())
        consumer = Sketch.of(self.plain, self.consumer).statement if self.fuses(config) else None
        sketch.accumulate(around[-1] if around else "", loads="k" in outer, consumer=consumer)
        return sketch

    def fuses(self, config: Mapping[str, Any]) -> bool:
        """Is there a consumer that is computed from the tiles of a point?"""
        return bool(self.consumer) and config["depth"] >= size(self.kernel.roles.depth) and config.get("epilogue", "fused") == "fused"

    def _split(self, config: Mapping[str, Any], present: str) -> SplitStage:
        rows = self.order.block_rows(config) if "b" in present else None
        key = tuple(config.get(name) for name in ("vectors", "rows", "depth", "unroll")), rows
        if key not in self.known:
            self.known[key] = self._split_anew(config, rows)
        return self.known[key]

    def _split_anew(self, config: Mapping[str, Any], block_rows: int | None) -> SplitStage:
        roles, sketch = self.kernel.roles, Sketch.of(self.plain, self.kernel.roles.stage.name)
        j_o, j_i = sketch.split(_fused(sketch, roles.vector), config["vectors"] * self.kernel.lanes)
        outer, k = {"j": j_o}, roles.depth.loop
        if config["depth"] < size(roles.depth):
            outer["k"], k = sketch.split(k, config["depth"])
        tile = self.kernel.sketched(sketch, j_i, k)
        k, inner, last = tile.depth, "", list[str]()
        if config["unroll"] > 1:
            k, *last = sketch.split(k, config["unroll"])
        if roles.row is not None:
            row = _fused(sketch, roles.row)
            if block_rows is not None:
                outer["b"], row = sketch.split(row, block_rows)
            outer["i"], inner = sketch.split(row, config["rows"])
        unrolled = [*roles.unrolled(last, inner), *tile.vectors]
        for loop in unrolled:
            sketch.mark(loop, "unroll")
        return SplitStage(sketch, outer, unrolled, inner, tile._replace(depth=k))


def _fused(sketch: Sketch, group: LoopGroup) -> str:
    first, *others = (loop.loop for loop in group.loops)
    for other in others:
        first = sketch.fuse(first, other)
    return first
