"""How much memory a kernel may keep: in registers, on the stack, and in one buffer."""

from __future__ import annotations

from math import prod
from typing import Final

from tensorlang.ir import Alloc, Buffer, Const, For, Nest, Stmt
from tensorlang.ir.mentions import allocations, mentions
from tensorlang.ir.traverse import substatements
from tensorlang.schedules.directive import Refusal
from tensorlang.schedules.rewriting.edit import literal_extent

MAX_REGISTER_BYTES: Final = 16 << 10
"""Of one buffer in registers: eight times the largest register file, since LLVM spills the rest."""
MAX_STACK_BYTES: Final = 64 << 10
"""Of all buffers that a schedule puts on the stack: threads of a pool have small ones."""
MAX_BYTES: Final = 1 << 36
"""Of one buffer anywhere."""


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
