"""`set_memory`, `pad_to`, `align`: how an intermediate is stored.

    h: float32[37, 29]          ->      h: float32[37, 32] on heap aligned to 128

`set_memory`: "register" (at most 16 KiB, touched at constant places), "stack" (at most 64 KiB a kernel, tiles in registers included)
or "heap". `pad_to` raises an extent to a multiple, so that rows begin at aligned places; nothing reads or writes what is added.
`align` raises the alignment of the first element.

Legal of every intermediate; registers and stack need a literal shape.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from tensorlang import ir
from tensorlang.algebra.simplify import simplify
from tensorlang.ir import Binary, Buffer, Nest
from tensorlang.ir.machine import PAGE_BYTES
from tensorlang.schedules.directive import Directive, Refusal, TensorName, require_int
from tensorlang.schedules.legality.memory_limits import within_memory
from tensorlang.schedules.rewriting.intermediates import intermediate, restored

MAX_MULTIPLE: Final = 1 << 20
MEMORIES: Final = ("register", "stack", "heap")


@dataclass(frozen=True, slots=True)
class SetMemory(Directive):
    """Keep the intermediate `tensor` in `memory`."""

    tensor: TensorName
    memory: str

    def apply(self, nest: Nest) -> Nest:
        """The nest with the storage there."""
        intermediate(nest, self.tensor)
        if self.memory not in MEMORIES:
            raise Refusal("TL-S005", f"memory {self.memory!r} is not one of {', '.join(MEMORIES)}", stage=self.tensor)
        changed = restored(nest, (self.tensor,), lambda buffer: replace(buffer, memory=self.memory))  # type: ignore[arg-type]
        return within_memory(changed, self.tensor)


@dataclass(frozen=True, slots=True)
class PadTo(Directive):
    """Store the intermediate `tensor` with the extent of dimension `axis` raised to a multiple of `multiple`."""

    tensor: TensorName
    axis: int
    multiple: int

    def apply(self, nest: Nest) -> Nest:
        """The nest with the larger storage."""
        rank = len(intermediate(nest, self.tensor).shape)
        require_int(self.multiple, "the multiple of pad_to", 1, MAX_MULTIPLE)
        if rank == 0:
            raise Refusal("TL-S005", f"{self.tensor!r} is a scalar; there is no axis to pad", stage=self.tensor)
        axis = require_int(self.axis, f"the axis of {self.tensor!r}", -rank, rank - 1) % rank

        def padded(buffer: Buffer) -> Buffer:
            more = Binary("add", Binary("max", buffer.shape[axis], ir.const(0)), ir.const(self.multiple - 1))
            extent = simplify(Binary("mul", Binary("floordiv", more, ir.const(self.multiple)), ir.const(self.multiple)))
            return replace(buffer, shape=(*buffer.shape[:axis], extent, *buffer.shape[axis + 1 :]))

        return within_memory(restored(nest, (self.tensor,), padded), self.tensor)


@dataclass(frozen=True, slots=True)
class Align(Directive):
    """Let the storage of the intermediate `tensor` begin at a multiple of `bytes`."""

    tensor: TensorName
    bytes: int

    def apply(self, nest: Nest) -> Nest:
        """The nest with the alignment."""
        intermediate(nest, self.tensor)
        require_int(self.bytes, "the alignment", 1, PAGE_BYTES)
        if self.bytes & (self.bytes - 1):
            raise Refusal("TL-S005", f"an alignment is a power of two, not {self.bytes}", stage=self.tensor)
        return restored(nest, (self.tensor,), lambda buffer: replace(buffer, align=self.bytes))
