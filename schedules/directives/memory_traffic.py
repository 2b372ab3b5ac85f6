"""`prefetch` and `stream_stores`: what caches are told.

    for i in range(37):                             for i in range(37):
        for j in range(64):                             for l in range(4): prefetch A[i + 1, 16 l]
            C[i, j] = A[i, j]           ->              for j in range(64):
                                                            C[i, j] = A[i, j]        # C   stream

`prefetch` asks, at the start of an iteration of `loop`, for each cache line that the iteration `distance` later reads; an address
outside the tensor is no fault. `stream_stores` lets the plain stores to a tensor pass the caches by where a whole vector, or parts of one,
go to an aligned address (that is tested at run time); the kernel and each of its threads end with a fence.

Legal always: neither changes what is computed. `prefetch` needs a region of literal size that moves with the loop.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Final

from tensorlang import ir
from tensorlang.algebra.simplify import simplify
from tensorlang.errors import did_you_mean
from tensorlang.ir import Axis, Binary, Buffer, Const, Expr, For, Nest, Prefetch, Stmt, Store, block
from tensorlang.ir.machine import LINE_BYTES
from tensorlang.ir.mentions import allocations
from tensorlang.ir.names import unique
from tensorlang.ir.printer import short
from tensorlang.ir.relations import closure
from tensorlang.ir.traverse import axes_of, substitute
from tensorlang.schedules.directive import Directive, LoopName, Refusal, TensorName, require_int
from tensorlang.schedules.legality.accesses import Access, accesses
from tensorlang.schedules.rewriting.edit import (
    allocated_names,
    axis_names,
    edit_loops,
    edit_stores,
    literal_extent,
    path_to_loop,
    require_no_vector,
    stores,
)
from tensorlang.schedules.rewriting.region import Span, region

MAX_LINES: Final = 4096
MAX_UNROLLED: Final = 8
MAX_DISTANCE: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class PrefetchRegion(Directive):
    """Ask for what iteration `loop + distance` reads of `tensor`."""

    tensor: TensorName
    loop: LoopName
    distance: int = 1

    def apply(self, nest: Nest) -> Nest:
        """The nest with the hints."""
        require_int(self.distance, "the distance of prefetch", 1, MAX_DISTANCE, self.loop)
        path = path_to_loop(nest, self.loop)
        loop = path[-1]
        assert isinstance(loop, For)
        outer = [part for part in path if isinstance(part, For)]
        require_no_vector(outer, self.loop, self.tensor)
        found = [access for access in accesses(loop, tuple(outer[:-1])) if access.buffer.name == self.tensor and _is_read(access)]
        if not found:
            known = list(dict.fromkeys(access.buffer.name for access in accesses(nest.body) if _is_read(access)))
            if self.tensor not in known:
                raise self._refusal("TL-S003", f"no tensor {self.tensor!r} is read in this nest{did_you_mean(self.tensor, known)}")
            raise self._refusal("TL-S302", f"{self.tensor!r} is not read inside {short(self.loop)!r}")
        buffer = found[0].buffer
        if self.tensor in allocated_names(loop):
            raise self._refusal("TL-S302", f"{self.tensor!r} exists only inside {short(self.loop)!r}; there is nothing to ask for ahead")
        moving = [access for access in found if self.loop in closure(nest, frozenset().union(*map(axes_of, access.index)))] or found
        spans = region(nest, [(access.index, access.loops[len(outer) :]) for access in moving], buffer.shape, [part.loop for part in outer])
        still = not closure(nest, frozenset().union(*(axes_of(span.base) for span in spans))) & {self.loop}
        if not spans or (still and literal_extent(loop) not in (0, 1)):
            raise self._refusal(
                "TL-S303", f"the part of {self.tensor!r} that is read does not move with {short(self.loop)!r} in a simple way"
            )
        hints = self._hints(nest, buffer, spans)
        result = edit_loops(nest.body, lambda part: part.loop == self.loop, lambda part: replace(part, body=block(hints, part.body)))
        return replace(nest, body=result)

    def _refusal(self, code: str, reason: str) -> Refusal:
        return Refusal(code, reason, stage=self.tensor, loop=self.loop)

    def _hints(self, nest: Nest, buffer: Buffer, spans: tuple[Span, ...]) -> Stmt:
        """One hint for each line of the region, in loops over its dimensions."""
        extents = [int(span.extent.value) for span in spans if isinstance(span.extent, Const)]
        if len(extents) != len(spans):
            raise self._refusal(
                "TL-S204", f"the part of {self.tensor!r} that is read inside {short(self.loop)!r} has no literal size; split first"
            )
        step = max(1, LINE_BYTES // buffer.dtype.bytes)
        counts = [*extents[:-1], -(-(extents[-1] - 1) // step) + 1 if extents[-1] else 0]
        if prod(counts) > MAX_LINES:
            much = f"reads {prod(counts)} lines of {self.tensor!r} (at most {MAX_LINES})"
            raise self._refusal("TL-S202", f"an iteration of {short(self.loop)!r} {much}; take an inner loop")
        later: dict[str, Expr] = {self.loop: Binary("add", Axis(self.loop), ir.const(self.distance))}
        axes = [self._axis(nest, dimension) for dimension in range(len(counts))]
        moves: list[Expr] = [Axis(axis) if count > 1 else ir.const(0) for axis, count in zip(axes, counts, strict=True)]
        index: list[Expr] = [Binary("add", substitute(span.base, later), move) for span, move in zip(spans, moves, strict=True)]
        along: Expr = Binary("mul", ir.const(step), moves[-1])
        if (counts[-1] - 1) * step >= extents[-1]:
            along = Binary("min", along, ir.const(extents[-1] - 1))
        index[-1] = Binary("add", substitute(spans[-1].base, later), along)
        body: Stmt = Prefetch(buffer, tuple(simplify(part) for part in index))
        for axis, count in reversed(list(zip(axes, counts, strict=True))):
            if count != 1:
                body = For(axis, ir.const(0), ir.const(count), body, "unroll" if prod(counts) <= MAX_UNROLLED else "serial")
        return body

    def _axis(self, nest: Nest, dimension: int) -> str:
        return unique(f"{self.tensor}.prefetch.d{dimension}", set(axis_names(nest)))


def _is_read(access: Access) -> bool:
    """Does an access read what is there? One that combines does."""
    return not access.writes or access.reducer is not None


@dataclass(frozen=True, slots=True)
class StreamStores(Directive):
    """Let the plain stores to `tensor` pass the caches by."""

    tensor: TensorName

    def apply(self, nest: Nest) -> Nest:
        """The nest with the stores marked."""
        found = [store for store in stores(nest.body) if any(buffer.name == self.tensor for buffer in store.buffers)]
        known = list(dict.fromkeys(buffer.name for store in stores(nest.body) for buffer in store.buffers))
        if not found:
            if any(buffer.name == self.tensor for buffer in nest.inputs):
                raise Refusal("TL-S302", f"{self.tensor!r} is an input, which is never stored to", stage=self.tensor)
            raise Refusal("TL-S003", f"no tensor {self.tensor!r} is stored to{did_you_mean(self.tensor, known)}", stage=self.tensor)
        if any(store.reducer is not None for store in found):
            reason = f"{self.tensor!r} is read again by the reduction that stores to it; accumulate it first"
            raise Refusal("TL-S302", reason, stage=self.tensor)
        local = {buffer.name: buffer for buffer in allocations(nest.body)}
        if self.tensor in local and local[self.tensor].memory in ("register", "stack"):
            raise Refusal(
                "TL-S302", f"{self.tensor!r} is kept in {local[self.tensor].memory} memory, which stays in the cache", stage=self.tensor
            )

        def mark(store: Store) -> Stmt:
            return replace(store, stream=True) if store in found else store

        return replace(nest, body=edit_stores(nest.body, mark))
