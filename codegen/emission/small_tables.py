"""Tables of bytes that registers hold: what data tell of up to 256 bytes is picked out of these, not loaded byte by byte.

    vector j in range(64): o[j] = T[X[j]]           low, high = vpermi2b(T[0:128], X), vpermi2b(T[128:256], X)
                                                    o = X >= 128 ? high : low

The instruction reads seven bits of each number. LLVM loads the registers where a loop begins that does not write the table. All of it
exists, so a lane that is off may read what it likes, and is zero thereafter, as what is loaded under a mask is.
"""

from __future__ import annotations

from typing import Final

from llvmlite import ir as llvm

from tensorlang.codegen.emission.lanes import resized
from tensorlang.codegen.emission.types import I8, I64, Builder, Poison, Value, external, filled, literal, shaped
from tensorlang.codegen.emission.vector_access import VectorAccess, address
from tensorlang.schedules.rewriting.small_tables import REGISTER

PICK: Final = "llvm.x86.avx512.vpermi2var.qi.512"
"""Bytes of two registers by numbers: the first register, the numbers, the second register."""
_KIND: Final = llvm.VectorType(I8, REGISTER)


def begins_there(access: VectorAccess) -> bool:
    """Do lanes, no more than a register has, count from the begin of the buffer, each as data tell?"""
    return (
        access.lanes <= REGISTER
        and access.base is access.place.pointer
        and access.offsets is not None
        and access.constant_offsets() is None
    )


def looked_up(builder: Builder, access: VectorAccess, length: int, mask: Value | None) -> Value:
    """The bytes of a table of so many, which fill registers, in all lanes."""
    lanes, place = access.lanes, access.place
    numbers = resized(builder, builder.trunc(access.offsets, shaped(I8, lanes)), Poison(shaped(I8, lanes)), REGISTER)
    starts = range(0, length, REGISTER)
    parts = [builder.load(address(builder, place.dtype, place.pointer, literal(I64, at)), align=1, typ=_KIND) for at in starts]
    pick = external(builder.module, PICK, _KIND, [_KIND] * 3)
    halves = [builder.call(pick, [pair[0], numbers, pair[-1]]) for pair in (parts[:2], parts[2:]) if pair]
    found = halves[0]
    if len(halves) > 1:
        found = builder.select(builder.icmp_signed("<", numbers, filled(_KIND, 0)), halves[1], found)
    found = resized(builder, found, Poison(_KIND), lanes)
    return found if mask is None else builder.select(mask, found, filled(found.type, 0))
