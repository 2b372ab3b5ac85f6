"""Storage of intermediates: on the stack of the function, or on the heap while the statement runs.

Stack storage is declared at the start of the function, with 64-byte alignment; where it is only touched at constant places LLVM keeps it
in registers. A parallel loop's body is a function of its own, so what is allocated there belongs to one thread. Heap storage that
cannot be had ends the function by `Frame.fail`, after freeing what it holds. A vector more than what is declared can be read, so that
what needs a part of the last one may load it whole.
"""

from __future__ import annotations

import math

from llvmlite import ir as llvm

from tensorlang import ir
from tensorlang.codegen.arithmetic import binary
from tensorlang.codegen.expression import value
from tensorlang.codegen.frame import Frame, define, readable
from tensorlang.codegen.loops import Body
from tensorlang.codegen.types import I1, I32, I64, POINTER, VOID, Value, external, in_memory, known, literal
from tensorlang.dtype import INT64
from tensorlang.errors import InternalError

STACK_LIMIT = 16 << 10  # bytes; threads of a pool have small stacks, and several buffers may be alive
ALIGNMENT = 64
SPARE = 64
"""Bytes beyond the end that may be read: the largest vector."""


def allocate(frame: Frame, buffer: ir.Buffer, body: Body) -> None:
    """Storage around `body`. Raises `InternalError` for stack storage of unknown size, and inside a vector loop."""
    if frame.lanes:
        raise InternalError(f"{buffer.name} is allocated inside the vector loop {frame.lane_axis}")
    extents = [frame.space.polynomial(extent).constant for extent in buffer.shape]
    sizes = [max(extent, 0) for extent in extents if extent is not None]
    size = math.prod(sizes) if len(sizes) == len(extents) else None
    small = size is not None and size * buffer.dtype.bytes <= STACK_LIMIT
    if buffer.memory in ("register", "stack") or (buffer.memory == "auto" and small):
        if size is None:
            raise InternalError(f"{buffer.name} in {buffer.memory} memory has no constant shape")
        spare = 0 if buffer.memory == "register" else SPARE
        held = max(size, 1) + spare // buffer.dtype.bytes
        storage = frame.reserve(llvm.ArrayType(in_memory(buffer.dtype), held), readable(buffer.name), max(ALIGNMENT, buffer.align))
        frame.place(buffer, storage, own=size, spare=spare)
        body(frame)
        return
    storage = _heap(frame, buffer)
    frame.place(buffer, storage, spare=SPARE)
    frame.heap.append(storage)
    body(frame)
    release(frame, frame.heap.pop())


def release(frame: Frame, storage: Value) -> None:
    """Free heap storage."""
    frame.builder.call(external(frame.builder.module, "free", VOID, [POINTER]), [storage])


def _heap(frame: Frame, buffer: ir.Buffer) -> Value:
    builder = frame.builder
    size, overflow = _bytes(frame, buffer)
    held = builder.add(size, literal(I64, SPARE))
    wanted = [builder.select(overflow, literal(I64, -1), held), literal(I64, max(ALIGNMENT, buffer.align))]
    storage = builder.call(_allocator(frame), wanted, name=readable(buffer.name))
    with builder.if_then(builder.icmp_unsigned("==", storage, llvm.Constant(POINTER, None)), likely=False):
        frame.fail(frame)
    return storage


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


def _allocator(frame: Frame) -> Value:
    """A function of the module: fresh memory of so many bytes at such an alignment, null where there is none.

    Its result aliases nothing, so it stays a call.
    """
    module = frame.builder.module
    name = "tensorlang.allocate"
    if name in module.globals:
        return module.globals[name]
    function = define(module, frame.target, name, POINTER, [I64, I64])
    function.linkage = "internal"
    function.attributes.add("noinline")
    function.return_value.attributes.add("noalias")
    builder = llvm.IRBuilder(function.append_basic_block("entry"))
    slot = builder.alloca(POINTER)
    slot.type = POINTER
    reserve = external(module, "posix_memalign", I32, [POINTER, I64, I64])
    size = builder.select(builder.icmp_unsigned("==", function.args[0], literal(I64, 0)), literal(I64, 1), function.args[0])
    status = builder.call(reserve, [slot, function.args[1], size])
    found = builder.load(slot, typ=POINTER)
    builder.ret(builder.select(builder.icmp_unsigned("==", status, literal(I32, 0)), found, llvm.Constant(POINTER, None)))
    return function
