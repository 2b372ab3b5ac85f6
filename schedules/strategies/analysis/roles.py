"""The roles of a contraction's loops: which become lanes, which rows of the register tile, which the depth.

Lanes may run along any axis of the output. Along one that memory follows everywhere nothing has to be moved; along another one the
operand that varies from lane to lane is packed, and a result that lies across the lanes is transposed in registers when it is stored. So a
convolution may take its pixels as lanes, or its output channels. Axes that memory walks as one (the rows and columns of an image under
a 1 x 1 convolution) are one axis.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

from tensorlang.ir import Axis, Binary, Const, For, Load, Param, Reducer
from tensorlang.ir.linear import linear
from tensorlang.ir.traverse import axes_of, loads_of, walk
from tensorlang.schedules.rewriting.edit import is_fixed
from tensorlang.schedules.strategies.analysis.stages import LoopGroup, StageInfo, is_literal, size, tensor_of
from tensorlang.system.lazy import cached_property

LEAST_LANES: Final = 4
"""Iterations of an axis, at least, for it to become lanes."""
LEAST_ROWS: Final = 4
"""Rows below which packing the operand of scattered lanes is not worth it."""
MOST_INTERLEAVED: Final = 4
"""Iterations of a loop between neighbouring lanes or rows, up to which it joins the register tile."""


@dataclass(frozen=True)
class Roles:
    """One way to run a contraction.

    `rest` are the other loops of the output, `reduced` the other loops of the reduction. `operands` are the different loads that vary from
    lane to lane (none where one varies from row to row as well, so that nothing is used again), `row_operands` those that vary from row to
    row only. `scattered`: lanes of an operand are not contiguous in memory. `transposed`: lanes of the output are not.
    """

    stage: StageInfo
    vector: LoopGroup
    row: LoopGroup | None
    depth: For
    rest: tuple[For, ...]
    reduced: tuple[For, ...]
    operands: tuple[Load, ...]
    row_operands: tuple[Load, ...]
    scattered: bool
    transposed: bool

    @property
    def literal(self) -> bool:
        """Is every extent a literal?"""
        return all(is_literal(loop) for loop in self.stage.loops)

    def packable(self, loads: Sequence[Load]) -> bool:
        """Can what some operands read be packed: does a call tell the extents of the reduction that they move with, as those of tiles?"""
        return all(is_fixed(loop) for loop in self.stage.reduced if any(self.stage.stride(load, loop) != 0 for load in loads))

    @property
    def results(self) -> int:
        """Results that are summed together, each in registers of its own."""
        return len(self.stage.store.buffers)

    @cached_property
    def temporaries(self) -> int:
        """Registers of what rows and lanes are combined to: none where it is a product that one instruction multiplies and adds."""
        value, reducer = self.stage.store.values[0], self.stage.store.reducer
        if not (isinstance(value, Binary) and value.op == "mul" and reducer is not None and reducer.name == "sum"):
            return 1
        sides = [frozenset(loads_of(side)) for side in (value.left, value.right)]
        return int(any(not side.isdisjoint(self.operands) and not side.isdisjoint(self.row_operands) for side in sides))

    def is_shared(self, load: Load) -> bool:
        """Is a tensor also read at another place, in another role?"""
        return any(tensor_of(other).name == tensor_of(load).name and other.index != load.index for other in self.stage.loads)

    def moves(self, loop: For) -> bool:
        """Has each iteration of a loop panels of its own?

        Not where what varies from lane to lane stays, or where data choose its panel and there are fewer panels than iterations: beside all
        of a part each iteration finds its own in a cache.
        """
        return not self.operands or any(self.stage.stride(load, loop) != 0 and not self._picks(load, loop) for load in self.operands)

    def _picks(self, load: Load, loop: For) -> bool:
        return self.row is None and not self.reduced and picks(load, loop)

    @cached_property
    def picked(self) -> bool:
        """Do data choose panels, which several iterations find in a cache?"""
        return any(self._picks(load, loop) for loop in self.rest for load in self.operands)

    @cached_property
    def interleaved(self) -> For | None:
        """The loop whose elements of the output lie between those of neighbouring lanes or rows: with it, a tile is without gaps."""
        stage, groups = self.stage, (self.vector, *(() if self.row is None else (self.row,)))
        steps = {stage.stride(stage.store, group.last) or 0 for group in groups}
        found = (loop for loop in self.rest if is_literal(loop) and stage.stride(stage.store, loop) == 1)
        return next((loop for loop in found if 1 < size(loop) <= MOST_INTERLEAVED and size(loop) in steps), None)

    def unrolled(self, depth: Sequence[str], row: str) -> list[str]:
        """The unrolled loops of a tile around its vectors, outermost first: of the `depth`, of its `row` ("" for none), and `interleaved`.

        An element of the rows meets all vectors of its lanes at once, so that one register holds it. Where a condition stands around the
        stage, as for taps that only some of the interleaved have, it is asked once for all rows.
        """
        rows, between = [row] if row else [], [] if self.interleaved is None else [self.interleaved.loop]
        return [*between, *depth, *rows] if self.stage.conditional else [*depth, *rows, *between]

    @property
    def interleaving(self) -> int:
        """Register tiles that are interleaved in memory, and computed together."""
        return 1 if self.interleaved is None else size(self.interleaved)

    @property
    def outside_panels(self) -> list[For]:
        """The other loops of the output along which the operand of the lanes varies: each iteration has panels of its own."""
        return [loop for loop in self.rest if self.moves(loop) and loop is not self.interleaved]

    @property
    def inside_panels(self) -> list[For]:
        """The other loops of the output that use the same panel of the operand of the lanes."""
        return [loop for loop in self.rest if not self.moves(loop) and loop is not self.interleaved]

    @property
    def reductions(self) -> int:
        """Iterations of the reduction beside its depth."""
        return max(1, prod(size(loop) for loop in self.reduced))

    @property
    def sums(self) -> int:
        """Elements that each sum adds."""
        return prod(map(size, self.stage.reduced))

    @property
    def panel_elements(self) -> int:
        """Elements of the operands of the lanes in all their packed panels."""
        stage = self.stage
        if not self.operands:
            return prod(map(size, stage.loops))
        return sum(prod(size(loop) for loop in stage.loops if stage.stride(load, loop) != 0) for load in self.operands)

    @property
    def output_elements(self) -> int:
        """Elements of the output."""
        return prod(map(size, self.stage.outer))


def roles_of(stage: StageInfo) -> tuple[Roles, ...]:
    """Every way to run a stage as a contraction; none where it does not reuse operands."""
    if stage.store.reducer is None or not stage.outer or not stage.reduced:
        return ()
    found = _found(stage)
    if len(stage.store.buffers) == 1:
        return tuple(found)
    return tuple(roles for roles in found if roles.row is None) if componentwise(stage.store.reducer) else ()


def picks(load: Load, loop: For) -> bool:
    """Do data choose what a load reads in each iteration of a loop, from fewer places than it has iterations?"""
    places = 1
    for part, extent in zip(load.index, tensor_of(load).shape, strict=True):
        if loop.loop in axes_of(part):
            told = any(loop.loop in axes_of(inner) for inner in loads_of(part))
            if not told or Axis(loop.loop) in linear(part).terms or not isinstance(extent, Const):
                return False
            places *= int(extent.value)
    return 1 < places < size(loop)


def componentwise(reducer: Reducer) -> bool:
    """Is each component combined by itself?"""
    params = [{node.name for node in walk(result) if isinstance(node, Param)} for result in reducer.results]
    return all(found <= {f"a{place}", f"b{place}"} for place, found in enumerate(params))


def _found(stage: StageInfo) -> Iterator[Roles]:
    groups = stage.groups(stage.outer)
    depth = max(stage.reduced, key=size)
    every = tuple(dict.fromkeys(stage.loads))
    reduced = {loop.loop for loop in stage.reduced}
    loads = [load for load in every if any(not axes_of(part).isdisjoint(reduced) for part in load.index)]  # others stay with an element
    for vector in groups:
        moved = [load for load in loads if stage.stride(load, vector.last) != 0]
        fixed = [load for load in loads if stage.stride(load, vector.last) == 0]
        if vector.size < LEAST_LANES or not moved:
            continue
        rows = [group for group in groups if group is not vector and any(stage.stride(load, group.last) == 0 for load in moved)]
        row = max(
            rows,
            key=lambda group: (any(stage.stride(load, group.last) != 0 for load in fixed), group.size, groups.index(group)),
            default=None,
        )
        across = stage.stride(stage.store, vector.last)
        transposed = across != 1 and not _only_axis(stage, vector)
        if transposed and row is not None and all(stage.stride(load, row.last) == 0 for load in every):
            continue  # rows that are all alike are stored along themselves
        scattered = any(stage.stride(load, vector.last) != 1 for load in moved)
        mixed = row is not None and any(stage.stride(load, row.last) != 0 for load in moved)
        operands = () if mixed or len({tensor_of(load).name for load in moved}) < len(moved) else tuple(moved)
        inside = {loop.loop for group in (vector, row) if group is not None for loop in group.loops}
        roles = Roles(
            stage,
            vector,
            row,
            depth,
            tuple(loop for loop in stage.outer if loop.loop not in inside),
            tuple(loop for loop in stage.reduced if loop is not depth),
            operands,
            tuple(load for load in fixed if row is not None and stage.stride(load, row.last) != 0),
            scattered,
            transposed,
        )
        worth = row is not None and row.size >= LEAST_ROWS
        if scattered and not (worth and operands and roles.packable(operands)):
            continue
        if transposed and (across is None or not roles.literal or row is None or (scattered and not worth)):
            continue
        yield roles


def _only_axis(stage: StageInfo, vector: LoopGroup) -> bool:
    """Is the output's extent unknown, so that its stride is, and the lanes its last axis?"""
    return stage.store.index != () and stage.outer[-1] is vector.last and stage.stride(stage.store, vector.last) is None
