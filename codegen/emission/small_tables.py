"""Tables that registers hold: what data tell of up to 256 bytes, or 16 numbers of 32 bits, is picked out of these, not loaded one by one.

    vector j in range(64): o[j] = T[X[j]]           low, high = vpermi2b(T[0:128], X), vpermi2b(T[128:256], X)
                                                    o = X >= 128 ? high : low

The instruction reads seven bits of each number. Where there is none, a shuffle takes bytes out of 16 for each part of the table, and of
two parts the bits above tell which one was meant. Numbers of 32 bits are permuted as lanes of a register are (`MOVES`). LLVM loads the
registers where a loop begins that does not write the table. All of it exists, so a lane that is off may read what it likes, and is zero
thereafter, as what is loaded under a mask is. A row of an array, `B[n, t, X[j]]`, is a table where its place is one for all lanes: it
exists where one of them wants it.
"""

from __future__ import annotations

from typing import Final

from llvmlite import ir as llvm

from tensorlang.codegen.emission.lanes import joined, picked, resized
from tensorlang.codegen.emission.rising import MOVES, as_numbers
from tensorlang.codegen.emission.types import I8, I16, I32, I64, Builder, Poison, Value, external, filled, in_memory, literal, shaped
from tensorlang.codegen.emission.vector_access import VectorAccess, address
from tensorlang.codegen.target import Target
from tensorlang.schedules.rewriting.small_tables import PART, PICKS, REGISTER, WORD

PICK: Final = "llvm.x86.avx512.vpermi2var.qi.512"
"""Bytes of two registers by numbers: the first register, the numbers, the second register."""
SHUFFLE: Final = {32: "llvm.x86.avx2.pshuf.b", 64: "llvm.x86.avx512.pshuf.b.512"}
"""Bytes of 16 by numbers of four bits, in each part of a register of so many bytes."""
_KIND: Final = llvm.VectorType(I8, REGISTER)


def begins_there(access: VectorAccess) -> bool:
    """Do lanes, no more than a register has, count from the begin of the buffer, each as data tell?"""
    return (
        access.lanes <= REGISTER
        and access.base is access.place.pointer
        and access.offsets is not None
        and access.constant_offsets() is None
    )


def looked_up(builder: Builder, target: Target, access: VectorAccess, length: int, mask: Value | None) -> Value:
    """The elements of a table of so many in all lanes."""
    if access.place.dtype.bytes == WORD:
        found = _permuted(builder, target, access, length)
    else:
        numbers = builder.trunc(access.offsets, shaped(I8, access.lanes))
        picks = PICKS in target.isa and length % REGISTER == 0
        found = _picked(builder, access, length, numbers) if picks else _shuffled(builder, target, access, length, numbers)
    return found if mask is None else builder.select(mask, found, filled(found.type, 0))


def _permuted(builder: Builder, target: Target, access: VectorAccess, length: int) -> Value:
    """Numbers of 32 bits by permutations of one register, or of two between which their places choose."""
    width = target.vector_bits // I32.width
    kind = shaped(I32, width)
    permute = external(builder.module, f"llvm.x86.{MOVES[I32.width, target.vector_bits]}", kind, [kind, kind])
    counts = [(at, min(width, length - at)) for at in range(0, length, width)]
    tables = [resized(builder, _part(builder, access, at, count, I32), Poison(shaped(I32, count)), width) for at, count in counts]
    places, found = access.offsets, list[Value]()
    assert places is not None
    for start in range(0, access.lanes, width):
        count = min(width, access.lanes - start)
        own = as_numbers(builder, picked(builder, places, Poison(places.type), range(start, start + count)), shaped(I32, count))
        own = resized(builder, own, filled(own.type, 0), width)
        chosen = [builder.call(permute, [table, own]) for table in tables]
        if len(chosen) > 1:
            chosen = [builder.select(builder.icmp_unsigned(">=", own, filled(kind, width)), chosen[1], chosen[0])]
        found += chosen
    return builder.bitcast(joined(builder, found, access.lanes), shaped(in_memory(access.place.dtype), access.lanes))


def _picked(builder: Builder, access: VectorAccess, length: int, numbers: Value) -> Value:
    """By an instruction that takes each of 64 bytes out of two registers."""
    numbers = resized(builder, numbers, Poison(numbers.type), REGISTER)
    parts = [_part(builder, access, at, REGISTER) for at in range(0, length, REGISTER)]
    pick = external(builder.module, PICK, _KIND, [_KIND] * 3)
    halves = [builder.call(pick, [pair[0], numbers, pair[-1]]) for pair in (parts[:2], parts[2:]) if pair]
    found = halves[0]
    if len(halves) > 1:
        found = builder.select(builder.icmp_signed("<", numbers, filled(_KIND, 0)), halves[1], found)
    return resized(builder, found, Poison(_KIND), access.lanes)


def _shuffled(builder: Builder, target: Target, access: VectorAccess, length: int, numbers: Value) -> Value:
    """By shuffles of all parts of the table; the highest bits choose, of two that are neighbours, of two such choices, and so on."""
    width = target.vector_bits // 8
    kind, words = shaped(I8, width), shaped(I16, width // 2)
    shuffle = external(builder.module, SHUFFLE[width], kind, [kind, kind])
    parts = [_part(builder, access, at, PART) for at in range(0, length, PART)]
    tables = [picked(builder, part, part, [*range(PART)] * (width // PART)) for part in parts]
    found: list[Value] = []
    for start in range(0, access.lanes, width):
        count = min(width, access.lanes - start)
        own = resized(builder, picked(builder, numbers, numbers, range(start, start + count)), filled(shaped(I8, count), 0), width)
        low = builder.and_(own, filled(kind, PART - 1))
        chosen = [builder.call(shuffle, [table, low]) for table in tables]
        for bit in (4, 5, 6, 7):  # which is moved to the top of its byte, from where it chooses
            moved = builder.bitcast(builder.shl(builder.bitcast(own, words), filled(words, 7 - bit)), kind)
            above = builder.icmp_signed("<", moved, filled(kind, 0))
            pairs = (chosen[at : at + 2] for at in range(0, len(chosen), 2))
            chosen = [pair[0] if len(pair) == 1 else builder.select(above, pair[1], pair[0]) for pair in pairs]
        found += chosen
    return joined(builder, found, access.lanes)


def _part(builder: Builder, access: VectorAccess, start: int, count: int, kind: llvm.IntType = I8) -> Value:
    """Some numbers of the table."""
    place = access.place
    at = address(builder, place.dtype, access.base, literal(I64, start))
    return builder.load(at, align=place.dtype.bytes, typ=llvm.VectorType(kind, count))
