"""The directives of a contraction's tiles: an order of tiles around a micro-kernel, panels packed, sums kept in registers.

    for j_o, k_o, i_o (in the order `order`): for other reduction axes: for k_i: unroll i_i: vector j_i: C_acc[i_i, j_i] += ...

Where cache blocks of rows run (`b` in `order`), the part of the result that the next tile adds to is prefetched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

from tensorlang.schedules.directives.accumulate import MAX_PARTIAL_BYTES
from tensorlang.schedules.placement.local_copies import tile_name
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies.analysis.stages import LoopGroup, is_literal, label, size, tail_of, tensor_of, whole_tiles
from tensorlang.schedules.strategies.contractions.micro_kernel import MicroKernel
from tensorlang.schedules.strategies.contractions.packing import pack
from tensorlang.schedules.strategies.contractions.tile_order import LANES, ROWS, SHARED_COLUMNS, TileOrder
from tensorlang.schedules.strategies.loops.blocked_sums import (
    GROUP,
    TILE_BLOCK,
    ChainLoop,
    keep_partial_sums,
    levels,
    rounds,
    split_levels,
    sum_in_blocks,
)

COLUMNS: Final = 1024
"""Columns of the output whose partial sums are kept at a time where there may be too many, or their number is known only at run time."""


@dataclass(frozen=True, slots=True)
class Tiling:
    """A micro-kernel in its order of tiles.

    Panels of the operand of the lanes are packed at the loop `pack_at` around the contraction where there is one ("" for none).
    """

    kernel: MicroKernel
    order: TileOrder
    pack_at: str = ""

    def apply(self, s: Schedule, config: Mapping[str, Any]) -> dict[str, str] | None:
        """Append the directives of a point; the tile loops that threads may share, by their values of the knob.

        None, with the schedule left half way, where a scatter may write the same element twice in a tile.
        """
        kernel, roles, stage = self.kernel, self.kernel.roles, self.kernel.roles.stage
        inexact, tail = rounds(stage.store), tail_of(is_literal(roles.depth), "guard")
        j_o, j_i = split_group(s, roles.vector, config["vectors"] * kernel.lanes)
        vectors, j_i = kernel.split_vectors(s, j_i, config["vectors"])
        outer, k = {"j": j_o}, roles.depth.loop
        cuts: Sequence[str] = ()
        depth = min(config["depth"], size(roles.depth))
        if depth < size(roles.depth):
            k, outer["k"], *cuts = self._split_depth(s, depth, config) if inexact else reversed(s.split(k, depth, tail))
        k, products, replaced = kernel.split_products(s, k)
        last: list[str] = []
        if config["unroll"] > 1:
            k, *last = s.split(k, config["unroll"], tail, (f"{label(k)}_o", f"{label(k)}_u"))
        if roles.row is not None:
            outer |= self._split_rows(s, roles.row, config)
        row = outer.pop("r", "")
        unrolled = [*roles.unrolled(last, row), *vectors]
        present = self.order.present(config)
        narrow = not cuts or self._fits(config)
        widths = [self.order.stretch(config)] if config.get("parallel") == SHARED_COLUMNS else []
        if not narrow:
            widths.append(max(1, COLUMNS // (config["vectors"] * kernel.lanes)))
        columns = list[str]()
        for width in widths:
            around_columns, outer["j"] = s.split(outer["j"], width)
            columns.append(around_columns)
        before = {outer.get("k"): reversed(cuts)}
        around = [*columns, *(part for loop in self.order.around(present, outer) for part in (*before.get(loop, ()), loop))]
        summed = [k if loop is roles.depth else replaced.get(loop.loop, loop.loop) for loop in stage.reduced]
        summed = [loop for loop in summed if loop]
        s.reorder(*around, *summed, *unrolled, j_i, *products)
        self._pack(s, config, outer, {LANES: j_i, ROWS: row})
        target = stage.store.buffers[0].name
        for cut in reversed(cuts):
            target = keep_partial_sums(s, target, cut)
        tile = tile_name(s.nest, target)
        partial = inexact and "k" in outer
        if stage.scatters and not s.can("accumulate", target, at=around[-1], partial=partial):
            return None
        s.accumulate(target, at=around[-1], partial=partial)
        if inexact:
            sum_in_blocks(s, tile, summed, TILE_BLOCK, config["unroll"])
        if "b" in present and s.can("prefetch", target, outer["i"]):
            s.prefetch(target, outer["i"])
        if stage.scatters and not s.can("vectorize", j_i):
            return None
        kernel.compute(s, j_i)
        for loop in unrolled:
            s.unroll(loop)
        found = dict.fromkeys(("vector", SHARED_COLUMNS), columns[0] if columns else j_o)
        return found | {name: outer[letter] for letter, name in (("i", "row"), ("b", "block")) if letter in outer}

    def _pack(self, s: Schedule, config: Mapping[str, Any], outer: Mapping[str, str], inside: Mapping[str, str]) -> None:
        """Pack the operands that a point packs, each outside the loop that uses its panels again; roles have loops `inside` of the tile."""
        for panel in self.order.panels(config):
            if panel.place is None:
                continue
            operand = tensor_of(panel.load)
            whole = panel.reuse != "j" and self.pack_at and s.can("pack", operand.name, at=self.pack_at)
            at, along = self.pack_at if whole else outer[panel.place], inside[panel.along] if panel.along else None
            pack(s, operand, at, self.kernel.packed_lanes(panel.load), along)

    def _split_depth(self, s: Schedule, depth: int, config: Mapping[str, Any]) -> Sequence[str]:
        """The loops over a part of the depth and over the parts, then those over groups of parts with a partial sum; innermost first."""
        roles, loop = self.kernel.roles, self.kernel.roles.depth
        parts = None if not is_literal(loop) else -(-size(loop) // depth)
        (chosen,) = levels([parts], min(max(depth, GROUP), TILE_BLOCK))
        known = self._fits(config) or (roles.row is None and self._fits(config, COLUMNS))
        tail = tail_of(is_literal(loop), "guard")
        if len(chosen) == 1 or not known:
            return tuple(reversed(s.split(loop.loop, depth, tail)))
        return split_levels(s, loop.loop, (ChainLoop(depth, starts=False), *chosen), "0", tail)

    def _fits(self, config: Mapping[str, Any], columns: int | None = None) -> bool:
        """May all that the tiles of one part of the depth add to have partial sums: known in number, and no more than there may be?

        It is all rows and columns (or so many), in whole tiles, for each iteration of the other loops that stand between them.
        """
        roles, width = self.kernel.roles, config["vectors"] * self.kernel.lanes
        groups = [roles.vector] if roles.row is None else [roles.vector, roles.row]
        tiled = [loop for group in groups for loop in group.loops]
        first = min(roles.stage.loops.index(loop) for loop in tiled)
        between = [loop for loop in roles.stage.outer if loop not in tiled and roles.stage.loops.index(loop) > first]
        literal = all(map(is_literal, between)) and all(group.literal for group in groups if columns is None or group is roles.row)
        across = whole_tiles(roles.vector.size if columns is None else columns, width)
        rows = 1 if roles.row is None else whole_tiles(roles.row.size, config["rows"])
        each = sum(buffer.dtype.bytes for buffer in roles.stage.store.buffers)
        return literal and rows * across * prod(map(size, between)) * each <= MAX_PARTIAL_BYTES

    def _split_rows(self, s: Schedule, row: LoopGroup, config: Mapping[str, Any]) -> dict[str, str]:
        """The loops over the rows: of cache blocks (b), if there are any, of tiles (i), of a tile (r)."""
        if "b" not in self.order.present(config):
            return dict(zip("ir", split_group(s, row, config["rows"]), strict=True))
        block, rows = split_group(s, row, self.order.block_rows(config), "bm")
        tiles = s.split(rows, config["rows"], tail_of(row.literal, "guard"), _names(row.loops[0].loop, "oi"))
        return {"b": block, **dict(zip("ir", tiles, strict=True))}


def split_group(s: Schedule, group: LoopGroup, width: int, letters: str = "oi") -> tuple[str, str]:
    """A group as one loop, split into tiles; the loops end on `letters`."""
    first, *others = (loop.loop for loop in group.loops)
    for other in others:
        first = s.fuse(first, other)
    return s.split(first, width, tail_of(group.literal, "mask"), _names(first, letters))


def _names(loop: str, letters: str) -> tuple[str, str]:
    return f"{label(loop)}_{letters[0]}", f"{label(loop)}_{letters[1]}"
