"""`cache_read`: copy the region of a tensor that is used inside a loop.

    for i_o in range(4):                            for i_o in range(4):
        for i_i in range(8):                            A_cache: float32[10]
            C[i] = A[i] + A[i + 2]          ->          for d0 in range(8 i_o, 8 i_o + 10):
                                                            A_cache[d0 - 8 i_o] = A[d0]
                                                        for i_i in range(8):
                                                            C[i] = A_cache[...] + A_cache[...]

The copy keeps the tensor's dimensions and is the stage `A_cache`, with loops `d0, d1, ...`.

Legal where the tensor is not written inside the loop.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tensorlang.algebra.simplify import simplify
from tensorlang.ir import Axis, Binary, Buffer, Const, For, Load, Nest, Stmt, Store, allocate, block
from tensorlang.schedules.directive import Directive, LoopName, Refusal, TensorName
from tensorlang.schedules.directives.compute_at import may_exceed, redirect
from tensorlang.schedules.directives.pack import MAX_COPY_BYTES, proved_again, require_early_indices, require_no_lanes, require_used
from tensorlang.schedules.legality.accesses import accesses
from tensorlang.schedules.placement.local_copies import fresh_buffer
from tensorlang.schedules.rewriting.edit import edit_loops, loops_on, path_to_loop
from tensorlang.schedules.rewriting.region import region


@dataclass(frozen=True, slots=True)
class CacheRead(Directive):
    """Copy the region of `tensor` that the loops inside `at` read."""

    tensor: TensorName
    at: LoopName

    def apply(self, nest: Nest) -> Nest:
        """The nest with the copy."""
        path = path_to_loop(nest, self.at)
        loop = path[-1]
        assert isinstance(loop, For)
        require_used(nest, loop, self.tensor, self.at)
        outer = loops_on(path)
        require_no_lanes(outer, self.tensor, self.at)
        found = [access for access in accesses(loop, outer[:-1]) if access.buffer.name == self.tensor]
        require_early_indices(loop, (access.index for access in found), self.tensor)
        buffer = found[0].buffer
        spans = region(nest, [(access.index, access.loops[len(outer) :]) for access in found], buffer.shape, [part.loop for part in outer])
        size = buffer.dtype.bytes
        for span in spans:
            size *= int(span.extent.value) if isinstance(span.extent, Const) else 1
        if size > MAX_COPY_BYTES:
            raise Refusal("TL-S203", f"a copy of {size} bytes is too large", loop=self.at)
        label = fresh_buffer(nest, f"{self.tensor}_cache")
        local = Buffer(label, tuple(span.extent for span in spans), buffer.dtype)
        axes = [f"{label}.d{dimension}" for dimension in range(len(spans))]
        index = tuple(Axis(axis) for axis in axes)
        offset = tuple(simplify(Binary("sub", axis, span.base)) for axis, span in zip(index, spans, strict=True))
        copy: Stmt = Store(label, (local,), offset, (Load(buffer, index),))
        for axis, span, extent in reversed(list(zip(axes, spans, buffer.shape, strict=True))):
            end = simplify(Binary("add", span.base, span.extent))
            hi = Binary("min", end, extent) if may_exceed(nest, end, extent, outer) else end
            copy = For(axis, span.base, hi, copy)
        body = allocate((local,), block(copy, redirect(loop.body, {self.tensor: local}, spans)))
        cached = edit_loops(nest.body, lambda part: part.loop == self.at, lambda part: replace(part, body=body))
        return proved_again(replace(nest, body=cached), buffer, outer)
