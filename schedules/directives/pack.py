"""`pack`: copy what the inner loops use of a tensor, in the order in which they use it.

    for j_o in range(4):                            for j_o in range(4):
        for i in range(8):                              B_pack: float32[16, 8]
            for k in range(16):                         ... B_pack[k, j_i] = B[k, j]
                for j_i in range(8):        ->          for i in range(8):
                    C[i, j] += A[i, k] * B[k, j]            for k in range(16):
                                                                for j_i in range(8):
                                                                    C[i, j] += A[i, k] * B_pack[k, j_i]

The copy has one dimension for each loop inside `at` that moves the tensor's index, outermost first (`layout` gives another order of
those loops), so the loops walk it contiguously; a window that slides is unfolded. The copy is the stage `B_pack`. Of a tensor that plays
two parts, as in `A[i, k] * A[j, k]`, `along` copies the uses that one loop moves, and the others stay as they are.

Legal where the tensor is not written inside the loop, every use that is copied has the same index, and literals and dims tell the shape of
the copy. The copy is made where the uses are not, so it tests what their conditions told it (see `in_bounds`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod

from tensorlang.errors import did_you_mean
from tensorlang.ir import Buffer, Const, Expr, For, Load, Nest, Stmt, Store, allocate, block
from tensorlang.ir.printer import short
from tensorlang.ir.traverse import loads_of, map_children, map_expressions, written_in
from tensorlang.schedules.directive import Directive, LoopName, Refusal, TensorName
from tensorlang.schedules.directives.loop_kinds import require_kinds
from tensorlang.schedules.legality.accesses import Access, accesses, conditions_around, reads
from tensorlang.schedules.legality.in_bounds import access_guard, guarded
from tensorlang.schedules.placement.local_copies import clone, fresh_buffer, known_shape, moving, offsets, require_fixed
from tensorlang.schedules.rewriting.edit import allocated_names, edit_loops, loops_on, path_to_loop

MAX_COPY_BYTES = 1 << 36


@dataclass(frozen=True, slots=True)
class Pack(Directive):
    """Copy what the loops inside `at` use of `tensor`, in the order of those loops or in `layout`; of uses that loop `along` moves."""

    tensor: TensorName
    at: LoopName
    layout: tuple[LoopName, ...] | None = None
    along: LoopName | None = None

    def apply(self, nest: Nest) -> Nest:
        """The nest with the packed copy."""
        path = path_to_loop(nest, self.at)
        loop = path[-1]
        assert isinstance(loop, For)
        outer = loops_on(path)
        require_no_lanes(outer, self.tensor, self.at)
        use = self._use(nest, loop, outer)
        require_early_indices(loop, (use.index,), self.tensor)
        inside = use.loops[len(outer) :]
        used = moving(nest, use.index, inside)
        require_fixed(nest, used, inside, f"pack of {self.tensor!r}")
        used = self._in_layout(used)
        shape = known_shape(used, "pack")
        size = use.buffer.dtype.bytes * prod(int(extent.value) for extent in shape if isinstance(extent, Const))
        if size > MAX_COPY_BYTES:
            raise Refusal("TL-S203", f"a copy of {size} bytes is too large", loop=self.at)
        label = fresh_buffer(nest, f"{self.tensor}_pack")
        local = Buffer(label, shape, use.buffer.dtype)
        around = [part.loop for part in outer]
        made = clone(nest, label, used, around, follow=False)
        index = tuple(made.of(part) for part in use.index)
        relations = (*nest.relations, *made.relations)
        copied: Stmt = Store(label, (local,), offsets(made.loops), (Load(use.buffer, index),))
        there = replace(nest, relations=relations)
        copied = guarded(access_guard(there, use.buffer, index, (*outer, *made.loops), conditions_around(nest, loop)), copied)
        here = offsets(used)

        def rewrite(expr: Expr) -> Expr:
            if isinstance(expr, Load) and getattr(expr.buffer, "name", "") == self.tensor and expr.index == use.index:
                return Load(local, here)
            return map_children(expr, rewrite)

        body = allocate((local,), block(made.in_loops(copied), map_expressions(loop.body, rewrite)))
        packed = edit_loops(nest.body, lambda part: part.loop == self.at, lambda part: replace(part, body=body))
        return proved_again(replace(nest, body=packed, relations=relations), use.buffer, outer)

    def _use(self, nest: Nest, loop: For, outer: tuple[For, ...]) -> Access:
        require_used(nest, loop, self.tensor, self.at)
        found = [access for access in accesses(loop, outer[:-1]) if access.buffer.name == self.tensor]
        found = [access for access in found if self._is_moved(nest, access)]
        if not found:
            raise Refusal(
                "TL-S302", f"no use of {self.tensor!r} inside {short(self.at)!r} moves along {short(self.along or '')!r}", loop=self.at
            )
        first = found[0]
        for other in found[1:]:
            if other.index != first.index or moving(nest, other.index, other.loops) != moving(nest, first.index, first.loops):
                raise Refusal(
                    "TL-S303",
                    f"{self.tensor!r} is used at different places inside {short(self.at)!r}; "
                    "pack needs one (those that along= moves), cache_read copies the region of all",
                    stage=self.tensor,
                    loop=self.at,
                )
        return first

    def _is_moved(self, nest: Nest, access: Access) -> bool:
        return self.along is None or any(loop.loop == self.along for loop in moving(nest, access.index, access.loops))

    def _in_layout(self, used: tuple[For, ...]) -> tuple[For, ...]:
        if self.layout is None:
            return used
        by_name = {loop.loop: loop for loop in used}
        for name in self.layout:
            if name not in by_name:
                raise Refusal(
                    "TL-S005", f"layout= names {name!r}, which does not move {self.tensor!r}{did_you_mean(name, by_name)}", loop=name
                )
        if sorted(self.layout) != sorted(by_name):
            raise Refusal("TL-S005", f"layout= must name each of {', '.join(by_name)} once", loop=self.at)
        return tuple(by_name[name] for name in self.layout)


def require_early_indices(loop: For, indices: Iterable[tuple[Expr, ...]], tensor: str) -> None:
    """Raise `Refusal` where an index reads what is only made, or computed, inside the loop, after the copy."""
    made = allocated_names(loop.body) | written_in(loop.body)
    for load in (load for index in indices for part in index for load in loads_of(part)):
        name = getattr(load.buffer, "name", "")
        if name in made:
            raise Refusal(
                "TL-S302",
                f"the index of {tensor!r} reads {name!r}, which is made inside {short(loop.loop)!r}",
                stage=tensor,
                loop=loop.loop,
            )


def proved_again(nest: Nest, copied: Buffer, outer: Sequence[For]) -> Nest:
    """The nest, if the loops around a new copy may run as they do although it may touch what was not read. Raises `Refusal`."""
    if copied.name in written_in(outer[0]):
        require_kinds(nest, outer)
    return nest


def require_no_lanes(outer: tuple[For, ...], tensor: str, at: str) -> None:
    """Raise `Refusal` where a copy would stand inside a vector loop, whose lanes would need one each."""
    for loop in outer:
        if loop.kind in ("vector", "tensor"):
            raise Refusal(
                "TL-S301", f"a copy of {tensor!r} cannot stand inside the {loop.kind} loop {short(loop.loop)!r}", stage=tensor, loop=at
            )


def require_used(nest: Nest, loop: For, tensor: str, at: str) -> None:
    """Raise `Refusal` unless `tensor` is read, and not written, inside a loop."""
    names = list(dict.fromkeys(getattr(load.buffer, "name", "") for load in reads(nest.body)))
    if tensor not in names:
        raise Refusal("TL-S003", f"no tensor {tensor!r} is read in this nest{did_you_mean(tensor, names)}", stage=tensor, loop=at)
    if all(getattr(load.buffer, "name", "") != tensor for load in reads(loop.body)):
        raise Refusal("TL-S302", f"{tensor!r} is not read inside {short(at)!r}", stage=tensor, loop=at)
    if tensor in written_in(loop.body):
        raise Refusal("TL-S302", f"{tensor!r} is written inside {short(at)!r}, so a copy of it would be stale", stage=tensor, loop=at)
