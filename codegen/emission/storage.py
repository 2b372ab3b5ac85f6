"""Storage of intermediates: on the stack of the function, or on the heap while the statement runs.

Stack storage is declared at the start of the function, at a cache line; where it is only touched at constant places LLVM keeps it
in registers. A parallel loop's body is a function of its own, so what is allocated there belongs to one thread. Heap storage is a part of
memory that the caller handed over (`workspace`), or else comes from the process's pool; what cannot be had ends the function by `leave`,
after freeing what it holds. A vector more than what is declared can be read, so that
what needs a part of the last one may load it whole.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from llvmlite import ir as llvm

from tensorlang import ir
from tensorlang.codegen.emission.arithmetic import binary
from tensorlang.codegen.emission.expression import value
from tensorlang.codegen.emission.frame import Frame, HeapStorage, readable
from tensorlang.codegen.emission.idle_lanes import without_idle_readers
from tensorlang.codegen.emission.types import I1, I8, I64, POINTER, VOID, Builder, Value, external, in_memory, intrinsic, known, literal
from tensorlang.codegen.emission.workspace import largest, may_need
from tensorlang.codegen.runtime import workspaces
from tensorlang.errors import InternalError
from tensorlang.ir.dtype import INT64
from tensorlang.ir.machine import LINE_BYTES

STACK_LIMIT: Final = 16 << 10
"""Bytes of one buffer on the stack: threads of a pool have small stacks."""
STACK_TOTAL: Final = 256 << 10
"""Bytes of all buffers that one function puts there of itself: a chain of stages may have a thousand."""
SPARE: Final = LINE_BYTES
"""Bytes beyond the end that may be read: the widest vector."""


@contextmanager
def allocated(frame: Frame, alloc: ir.Alloc) -> Iterator[None]:
    """Storage while what needs it is emitted. Raises `InternalError` for stack storage of unknown size, and inside a vector loop."""
    held, top = len(frame.heap), 0 if frame.part is None else frame.part.top
    unread = without_idle_readers(alloc)
    for buffer in alloc.buffers:
        _allocate(frame, buffer, idle_kept=buffer.name not in unread)
    yield
    while len(frame.heap) > held:
        release(frame.builder, frame.heap.pop())
    del frame.exits[held + 1 :]
    if frame.part is not None:
        frame.part.top = top


def _allocate(frame: Frame, buffer: ir.Buffer, *, idle_kept: bool) -> None:
    if frame.lanes:
        raise InternalError(f"{buffer.name} is allocated inside the vector loop {frame.lane_axis}")
    extents = [frame.space.polynomial(extent).constant for extent in buffer.shape]
    sizes = [max(extent, 0) for extent in extents if extent is not None]
    size = math.prod(sizes) if len(sizes) == len(extents) else None
    if buffer.memory in ("register", "stack") or (size is not None and fits_stack(buffer, size, frame.stack)):
        if size is None:
            raise InternalError(f"{buffer.name} in {buffer.memory} memory has no constant shape")
        spare = 0 if buffer.memory == "register" else SPARE
        held = max(size, 1) + spare // buffer.dtype.bytes
        storage = frame.reserve(llvm.ArrayType(in_memory(buffer.dtype), held), readable(buffer.name), max(LINE_BYTES, buffer.align))
        frame.stack += size * buffer.dtype.bytes
        if buffer.memory == "register":
            _clear(frame.builder, storage, size * buffer.dtype.bytes)
        frame.place(buffer, storage, own=size, spare=spare, idle_kept=idle_kept)
    else:
        found = _heap(frame, buffer)
        frame.place(buffer, found.storage, spare=SPARE)
        frame.heap.append(found)


def _clear(builder: Builder, storage: Value, size: int) -> None:
    """Zeros: else lanes that no statement wants are carried from tile to tile, and added to, which takes long where they are denormal."""
    intrinsic(builder, "memset", VOID, [storage, literal(I8, 0), literal(I64, size), literal(I1, 0)], [POINTER, I64])


def needs_heap(frame: Frame, buffers: Iterable[ir.Buffer]) -> bool:
    """May some of these buffers stand in memory that the caller handed over?"""
    return may_need(buffers, frame.limits, STACK_LIMIT, STACK_TOTAL)


def fits_stack(buffer: ir.Buffer, size: int, taken: int) -> bool:
    """Does storage of so many elements that may be anywhere go on the stack of a function that has put `taken` bytes there?"""
    needed = size * buffer.dtype.bytes
    return buffer.memory == "auto" and needed <= STACK_LIMIT and taken + needed <= STACK_TOTAL


def release(builder: Builder, held: HeapStorage) -> None:
    """Give heap storage back."""
    if held.within is None:
        builder.call(external(builder.module, workspaces.GIVE, VOID, [POINTER]), [held.storage])
    else:
        builder.call(external(builder.module, workspaces.GIVE_WITHIN, VOID, [POINTER, POINTER]), [held.within, held.storage])


def leave(frame: Frame) -> None:
    """End a function that found no memory.

    Every number of buffers that it may hold by then has a block, which frees the last one and goes on to the block for the others: freed
    where each failure is found, a thousand of them would be half a million calls.
    """
    for count in range(len(frame.exits), len(frame.heap) + 1):
        block = frame.function.append_basic_block(f"without_memory.{count}")
        builder = llvm.IRBuilder(block)
        if count:
            release(builder, frame.heap[count - 1])
            builder.branch(frame.exits[-1])
        else:
            frame.fail(frame, builder)
        frame.exits.append(block)
    frame.builder.branch(frame.exits[len(frame.heap)])


def _heap(frame: Frame, buffer: ir.Buffer) -> HeapStorage:
    builder, align = frame.builder, max(LINE_BYTES, buffer.align)
    size, overflow = _bytes(frame, buffer)
    room = builder.add(size, literal(I64, SPARE))
    wanted = [builder.select(overflow, literal(I64, -1), room), literal(I64, align)]
    most = None if frame.part is None else largest(buffer, frame.limits)
    within = None
    if frame.part is None or most is None:
        finder = external(builder.module, workspaces.TAKE, POINTER, [I64, I64])
    else:
        within, start = frame.part.memory, frame.part.take(most + align - LINE_BYTES)
        finder = external(builder.module, workspaces.TAKE_WITHIN, POINTER, [POINTER, I64, I64, I64])
        wanted = [within, literal(I64, start), *wanted]
    finder.return_value.attributes.add("noalias")  # null where there is no memory
    storage = builder.call(finder, wanted, name=readable(buffer.name))
    with builder.if_then(builder.icmp_unsigned("==", storage, llvm.Constant(POINTER, None)), likely=False):
        leave(frame)
    return HeapStorage(storage, within)


def _bytes(frame: Frame, buffer: ir.Buffer) -> tuple[Value, Value]:
    """The size of a buffer in bytes, and whether that is beyond 64 bits."""
    frame.fresh()
    builder = frame.builder
    size, overflow = literal(I64, buffer.dtype.bytes), literal(I1, 0)
    for extent in buffer.shape:
        count = binary(builder, frame.target, "max", INT64, value(frame, extent), literal(I64, 0))
        number, total = known(count), known(size)
        if isinstance(number, int) and isinstance(total, int) and number * total < 1 << 63:
            size = literal(I64, number * total)
            continue
        both = builder.umul_with_overflow(size, count)
        size, overflow = builder.extract_value(both, 0), builder.or_(overflow, builder.extract_value(both, 1))
    return size, overflow
