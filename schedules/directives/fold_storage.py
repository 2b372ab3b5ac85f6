"""`fold_storage`: keep only the last places of a tensor along one axis.

    h: float32[66, 64]                              h: float32[3, 64]
    for y in range(64):                             for y in range(64):
        for r in range(y + select(y > 0, 2, 0), y + 3):     for r in range(y + select(y > 0, 2, 0), y + 3):
            h[r] = f(r)                     ->              h[r % 3] = f(r)
        v[y] = h[y] + h[y + 1] + h[y + 2]               v[y] = h[y % 3] + h[(y + 1) % 3] + h[(y + 2) % 3]

Place p of the axis is stored at `p % extent`, so a window that moves along a tensor needs no more storage than it is wide.

Why it is right. Places that share storage are written in ascending order, and none of them is written before the last read of one
below it. So what a read finds there is the last one written, which is the greatest up to the place that it asks for: that place itself,
since what is read was written.

Legal where both can be proved for every pair of accesses, and parallel and vector loops inside the storage still may be what they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tensorlang import ir
from tensorlang.algebra.polyhedra import find
from tensorlang.algebra.rules import FALSE
from tensorlang.ir import Binary, Buffer, Compare, Expr, For, Nest
from tensorlang.schedules.directive import Directive, Refusal, TensorName, require_int
from tensorlang.schedules.directives.loop_kinds import require_kinds
from tensorlang.schedules.legality.accesses import Access, accesses, conditions_around
from tensorlang.schedules.legality.instances import example_of, instance
from tensorlang.schedules.legality.memory_limits import MAX_BYTES, within_memory
from tensorlang.schedules.placement.producer_placement import ahead, unmarked
from tensorlang.schedules.rewriting.edit import loops, stores
from tensorlang.schedules.rewriting.intermediates import intermediate, restored, storages


@dataclass(frozen=True, slots=True)
class FoldStorage(Directive):
    """Store place p of dimension `axis` of the intermediate `tensor` at `p % extent`."""

    tensor: TensorName
    axis: int
    extent: int

    def apply(self, nest: Nest) -> Nest:
        """The nest with the smaller storage."""
        rank = len(intermediate(nest, self.tensor).shape)
        if rank == 0:
            raise Refusal("TL-S005", f"{self.tensor!r} is a scalar; there is no axis to fold", stage=self.tensor)
        axis = require_int(self.axis, f"the axis of {self.tensor!r}", -rank, rank - 1) % rank
        extent = require_int(self.extent, "the extent of fold_storage", 1, MAX_BYTES)
        for around, storage, buffer in storages(nest, self.tensor):
            held = buffer.shape[axis]
            if isinstance(held, ir.Const) and extent > held.value:
                reason = f"{self.tensor!r} has {held.value} places along axis {axis}, which are not folded into {extent}"
                raise Refusal("TL-S005", reason, stage=self.tensor)
            outer = tuple(part for part in around if isinstance(part, For))
            if any(buffer in store.buffers and len(store.buffers) > 1 for store in stores(storage)):
                raise Refusal("TL-S301", f"{self.tensor!r} is stored together with others, at one index for all", stage=self.tensor)
            found = [access for access in accesses(storage.body, outer, conditions_around(nest, storage)) if access.buffer == buffer]
            self._require_order(nest, found, [loop.loop for loop in outer], axis, extent)

        def folded(buffer: Buffer) -> Buffer:
            return replace(buffer, shape=(*buffer.shape[:axis], ir.const(extent), *buffer.shape[axis + 1 :]))

        def place(index: tuple[Expr, ...]) -> tuple[Expr, ...]:
            return (*index[:axis], Binary("mod", index[axis], ir.const(extent)), *index[axis + 1 :])

        result = within_memory(restored(nest, (self.tensor,), folded, place), self.tensor)
        for _, storage, _ in storages(result, self.tensor):
            require_kinds(result, loops(storage))
        return result

    def _require_order(self, nest: Nest, found: Sequence[Access], outer: Sequence[str], axis: int, extent: int) -> None:
        """Raise `Refusal` where a place is written before one below it that shares its storage is written, or read."""
        shared = frozenset(outer)
        for write in (access for access in found if access.writes):
            for later in found:
                order = ahead(write, later)
                if order == FALSE:
                    continue
                one, two = instance(nest, write, "'", shared), instance(nest, later, "''", shared)
                facts = [*one.facts, *two.facts, *unmarked(order, shared)]
                facts += [Compare("eq", a, b) for place, (a, b) in enumerate(zip(one.index, two.index, strict=True)) if place != axis]
                apart = Binary("sub", one.index[axis], two.index[axis])
                facts += [Compare("gt", apart, ir.const(0)), Compare("eq", Binary("mod", apart, ir.const(extent)), ir.const(0))]
                point = find(*facts)
                if point is not None:
                    example = example_of(one, two, point)
                    raise Refusal(
                        "TL-S305",
                        f"{extent} places of {self.tensor!r} are too few: one is written over while a place below it is still to be "
                        f"{'written' if later.writes else 'read'}",
                        stage=self.tensor,
                        counterexample=example,
                    )
