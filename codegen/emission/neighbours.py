"""Registers of a vector that are shuffled out of those of its neighbours, where a statement reads it again a few elements on.

    vector j in range(32):                                          a, b = X[j], X[j + 16]
        Y[j] = X[j - 1] + X[j] + X[j + 1]               ->          Y = X[j - 1] + a + a|b, a|b + b + X[j + 17]

A register as long as a line lies on two of them at all places but one in sixteen, and takes as long as two. Of several vectors that begin a
few elements apart, one is loaded; what two neighbouring registers of it hold of the others is taken from there by one instruction, and
loaded where it goes beyond: by multiples of 4 bytes, so that words two apart are taken from one another. So nothing is loaded that the
statement does not read. The registers of a vector are read before any of it is stored, as its lanes are. Each goes through an empty piece
of assembly: LLVM 22 would load it again for each use rather than keep it.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from llvmlite import ir as llvm

from tensorlang import ir
from tensorlang.codegen.emission.affine import LANE, Polynomial, of
from tensorlang.codegen.emission.frame import Chunks, Frame
from tensorlang.codegen.emission.lanes import pinned
from tensorlang.codegen.emission.spans import always_read, loops_of
from tensorlang.codegen.emission.types import I64, Value, literal, shaped
from tensorlang.codegen.emission.vector_access import BufferAddress, Held, address
from tensorlang.ir.machine import LINE_BYTES
from tensorlang.ir.traverse import walk
from tensorlang.schedules.model.touched import SHIFTED, loaded_whole, shifts

_LANE: Final = of(LANE)


def chunks_of(loop: ir.For) -> Chunks | None:
    """The copies that an unrolled loop makes of a vector longer than a register (`passes.vectors`), of one statement without conditions."""
    inner = loop.body
    made = isinstance(inner, ir.For) and inner.kind == "vector" and loop.loop == f"{inner.loop}.chunk" and isinstance(inner.body, ir.Store)
    return Chunks(loop.loop, int(loop.hi.value)) if made and isinstance(loop.hi, ir.Const) else None


def held(frame: Frame, name: str, place: BufferAddress, base: Value, fixed: Polynomial, moving: Polynomial) -> Held | None:
    """The registers that hold what is read of a buffer from `fixed` on, behind `base`; None where it is loaded by itself."""
    chunks, target = frame.chunks, frame.target
    whole = frame.lanes * place.dtype.bits == target.vector_bits == 8 * LINE_BYTES
    if chunks is None or not whole or frame.mask is not None or moving != _LANE or _is_widened(frame, place):
        return None
    loops = loops_of(fixed)
    every = [offset for buffer, step, around, offset in always_read(frame) if (buffer, step, around) == (name, 1, loops)]
    near = _row(every, fixed.offset, frame.lanes, shifts(place.dtype.bytes))
    if len(near) < 2:
        return None
    loaded = loaded_whole(near, frame.lanes)
    here = frame.space.polynomial(ir.Axis(chunks.axis)).offset
    before, first = divmod(fixed.offset - loaded, frame.lanes)
    numbers = (before,) if first == 0 else (before, before + 1)
    if any(not 0 <= here + number < chunks.count for number in numbers):
        return None
    offsets = [loaded + number * frame.lanes for number in numbers]
    registers = (frame.numbering.once((chunks, name, loops, offset), partial(_loaded, frame, place, base, offset)) for offset in offsets)
    return Held(tuple(registers), first)


def _is_widened(frame: Frame, place: BufferAddress) -> bool:
    """Does the statement compute with wider numbers? These come out of memory as such, and from registers by a shuffle more."""
    if place.dtype.bytes >= SHIFTED:
        return False
    casts = (node.dtype for value in frame.stored for node in walk(value) if isinstance(node, ir.Cast))
    return any(dtype.bits > place.dtype.bits for dtype in casts)


def _row(offsets: list[int], place: int, lanes: int, step: int) -> list[int]:
    """The offsets in the row of `place`, whole steps from it: of another row the next one is further away than a register is long."""
    found: list[int] = []
    for offset in sorted(offsets):
        if found and offset - found[-1] >= lanes:
            if place in found:
                break
            found = []
        found.append(offset)
    return [offset for offset in found if offset % step == place % step] if place in found else []


def _loaded(frame: Frame, place: BufferAddress, base: Value, offset: int) -> Value:
    """A register that others are taken from, for all copies."""
    start = address(frame.builder, place.dtype, base, literal(I64, offset))
    kind = shaped(llvm.IntType(place.dtype.bits), frame.lanes)
    return pinned(frame.builder, frame.target, frame.builder.load(start, name=place.name, align=place.dtype.bytes, typ=kind))
