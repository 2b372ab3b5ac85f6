"""`set_memory`, `pad_to`, `align`: how an intermediate is stored.

    h: float32[37, 29]          ->      h: float32[37, 32] on heap aligned to 128

`set_memory`: "register" (at most 16 KiB, touched at constant places), "stack" (at most 64 KiB a kernel, tiles in registers included)
or "heap". `pad_to` raises an extent to a multiple, so that rows begin at aligned places; nothing reads or writes what is added.
`align` raises the alignment of the first element.

Legal of every intermediate; registers and stack need a literal shape.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import Final

from tensorlang import ir
from tensorlang.errors import did_you_mean
from tensorlang.ir import Alloc, Binary, Buffer, Const, Expr, For, Load, Nest, Prefetch, Stmt, Store
from tensorlang.mentions import allocations, mentions
from tensorlang.schedules.directive import Refusal, require_int
from tensorlang.schedules.edit import literal_extent
from tensorlang.simplify import simplify
from tensorlang.traverse import map_children, map_expressions, map_statements, substatements

MAX_REGISTER_BYTES: Final = 16 << 10
MAX_STACK_BYTES: Final = 64 << 10
MAX_BYTES: Final = 1 << 36
MAX_ALIGNMENT: Final = 4096
MAX_MULTIPLE: Final = 1 << 20
MEMORIES: Final = ("register", "stack", "heap")


@dataclass(frozen=True, slots=True)
class SetMemory:
    """Keep the intermediate `tensor` in `memory`."""

    tensor: str
    memory: str

    def apply(self, nest: Nest) -> Nest:
        """The nest with the storage there."""
        buffer = intermediate(nest, self.tensor)
        if self.memory not in MEMORIES:
            raise Refusal("TL-S005", f"memory {self.memory!r} is not one of {', '.join(MEMORIES)}", stage=self.tensor)
        changed = replace(buffer, memory=self.memory)  # type: ignore[arg-type]
        return within_memory(restored(nest, changed), self.tensor)


@dataclass(frozen=True, slots=True)
class PadTo:
    """Store the intermediate `tensor` with the extent of dimension `axis` raised to a multiple of `multiple`."""

    tensor: str
    axis: int
    multiple: int

    def apply(self, nest: Nest) -> Nest:
        """The nest with the larger storage."""
        buffer = intermediate(nest, self.tensor)
        rank = len(buffer.shape)
        require_int(self.multiple, "the multiple of pad_to", 1, MAX_MULTIPLE)
        if rank == 0:
            raise Refusal("TL-S005", f"{self.tensor!r} is a scalar; there is no axis to pad", stage=self.tensor)
        axis = require_int(self.axis, f"the axis of {self.tensor!r}", -rank, rank - 1) % rank
        more = Binary("add", Binary("max", buffer.shape[axis], ir.const(0)), ir.const(self.multiple - 1))
        extent = simplify(Binary("mul", Binary("floordiv", more, ir.const(self.multiple)), ir.const(self.multiple)))
        changed = replace(buffer, shape=(*buffer.shape[:axis], extent, *buffer.shape[axis + 1 :]))
        return within_memory(restored(nest, changed), self.tensor)


@dataclass(frozen=True, slots=True)
class Align:
    """Let the storage of the intermediate `tensor` begin at a multiple of `bytes`."""

    tensor: str
    bytes: int

    def apply(self, nest: Nest) -> Nest:
        """The nest with the alignment."""
        buffer = intermediate(nest, self.tensor)
        require_int(self.bytes, "the alignment", 1, MAX_ALIGNMENT)
        if self.bytes & (self.bytes - 1):
            raise Refusal("TL-S005", f"an alignment is a power of two, not {self.bytes}", stage=self.tensor)
        return restored(nest, replace(buffer, align=self.bytes))


def intermediate(nest: Nest, tensor: str) -> Buffer:
    """The storage of an intermediate or a local copy, by name. Raises `Refusal`."""
    found = {buffer.name: buffer for buffer in allocations(nest.body)}
    if tensor in found:
        return found[tensor]
    for kind, buffers in (("an input", nest.inputs), ("a result", nest.outputs)):
        if any(buffer.name == tensor for buffer in buffers):
            raise Refusal(
                "TL-S301", f"{tensor!r} is {kind} of the kernel, whose storage belongs to the caller; cache or pack it", stage=tensor
            )
    raise Refusal("TL-S003", f"there is no intermediate tensor {tensor!r}{did_you_mean(tensor, list(found))}", stage=tensor)


def restored(nest: Nest, buffer: Buffer, index: Callable[[tuple[Expr, ...]], tuple[Expr, ...]] = lambda index: index) -> Nest:
    """The nest with the buffer of that name replaced, its elements where `index` says."""

    def read(expr: Expr) -> Expr:
        expr = map_children(expr, read)
        if isinstance(expr, Load) and getattr(expr.buffer, "name", "") == buffer.name:
            return Load(buffer, index(expr.index))
        return expr

    def rewrite(part: Stmt) -> Stmt:
        part = map_statements(part, rewrite)
        match part:
            case Alloc(buffers, body):
                return Alloc(tuple(buffer if old.name == buffer.name else old for old in buffers), body)
            case Prefetch(old, at) if old.name == buffer.name:
                return Prefetch(buffer, index(at))
            case Store(buffers=buffers) if any(old.name == buffer.name for old in buffers):
                return replace(part, buffers=tuple(buffer if old.name == buffer.name else old for old in buffers), index=index(part.index))
            case _:
                return part

    return replace(nest, body=rewrite(map_expressions(nest.body, read)))


def within_memory(nest: Nest, tensor: str = "", loop: str = "") -> Nest:
    """The nest, if what is to live in registers and on the stack fits there, and `tensor` in memory. Raises `Refusal`."""
    total = 0
    for buffer in allocations(nest.body) if tensor else ():
        if buffer.name == tensor and least_bytes(buffer) > MAX_BYTES:
            raise Refusal("TL-S203", f"{tensor!r} would have {least_bytes(buffer)} bytes (at most {MAX_BYTES})", stage=tensor)
    for buffer, copies in _kept(nest.body, 1):
        if not all(isinstance(extent, Const) for extent in buffer.shape):
            raise Refusal(
                "TL-S204", f"{buffer.name!r} in {buffer.memory} memory needs a literal shape; use the heap", stage=tensor, loop=loop
            )
        size = least_bytes(buffer)
        if buffer.memory == "register" and size > MAX_REGISTER_BYTES:
            reason = f"{buffer.name!r} has {size} bytes, which do not fit registers or their spill area (at most {MAX_REGISTER_BYTES})"
            raise Refusal("TL-S203", reason, stage=tensor, loop=loop)
        total += size * copies
    if total > MAX_STACK_BYTES:
        raise Refusal("TL-S203", f"{total} bytes would be kept on the stack (at most {MAX_STACK_BYTES})", stage=tensor, loop=loop)
    return nest


def least_bytes(buffer: Buffer) -> int:
    """The size of a buffer, run-time extents taken as 1."""
    return buffer.dtype.bytes * prod(max(0, int(extent.value)) for extent in buffer.shape if isinstance(extent, Const))


def _kept(stmt: Stmt, copies: int) -> list[tuple[Buffer, int]]:
    """The buffers on the stack, each with the number of times that it exists: once a lane, once an unrolled iteration."""
    if not mentions(stmt).allocated:
        return []
    if isinstance(stmt, For) and stmt.kind in ("vector", "unroll"):
        copies *= max(1, literal_extent(stmt) or 1)
    buffers = stmt.buffers if isinstance(stmt, Alloc) else ()
    found = [(buffer, copies) for buffer in buffers if buffer.memory in ("register", "stack")]
    return found + [entry for part in substatements(stmt) for entry in _kept(part, copies)]
