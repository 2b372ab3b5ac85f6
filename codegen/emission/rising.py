"""Loads of lanes whose places rise by one at most: one load of what lies between the first and the last, each lane from where it is there.

    vector j in range(16):                          a = X[c(0)], ..., X[c(15)]            c(j) = max(min(j + 1, n - 1), 0)
        Y[j] = X[max(min(j + 1, n - 1), 0)]         Y = vpermps(a, c(j) - c(0))

Nothing is loaded but what lanes read: the load has a mask. Of numbers narrower than a word the instruction moves words that hold them.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from llvmlite import ir as llvm

from tensorlang.codegen.emission.lanes import picked, pinned, resized
from tensorlang.codegen.emission.types import (
    I32,
    I64,
    POINTER,
    Builder,
    Poison,
    Value,
    element_of,
    external,
    filled,
    in_memory,
    intrinsic,
    known,
    lanes_of,
    literal,
    shaped,
    splat,
)
from tensorlang.codegen.emission.vector_access import VectorAccess, address
from tensorlang.codegen.target import Target
from tensorlang.schedules.rewriting.rising import moves_lanes

MOVES: Final = {(32, 256): "avx2.permd", (32, 512): "avx512.permvar.si.512", (64, 512): "avx512.permvar.di.512"}
"""The instruction by the bits of a number and of a register: numbers, and for each lane which one it gets."""


def is_loaded(target: Target, access: VectorAccess, mask: Value | None) -> bool:
    """Can an access be loaded so: where lanes are on that are known, and those the first ones?"""
    return (
        access.rises and access.lanes > 1 and target.is_x86 and moves_lanes(access.place.dtype.bits, target.isa) and _on(access, mask) > 0
    )


def load(builder: Builder, target: Target, access: VectorAccess, mask: Value | None) -> Value:
    """The elements, zero in lanes that are off."""
    on, number = _on(access, mask), I32 if access.place.dtype.bits <= I32.width else I64
    width = target.vector_bits // number.width
    starts = [*range(0, on, width), on]
    parts = [_part(builder, target, access, number, start, end) for start, end in pairwise(starts)]
    found = parts[0]
    for part in parts[1:]:
        lanes = lanes_of(found) + lanes_of(part)
        found = picked(builder, found, resized(builder, part, Poison(part.type), lanes_of(found)), range(lanes))
    return found if on == access.lanes else resized(builder, found, filled(found.type, 0), access.lanes)


def _on(access: VectorAccess, mask: Value | None) -> int:
    """How many lanes are on, where that is known and they are the first ones; else 0."""
    if mask is None:
        return access.lanes
    lanes = known(mask)
    count = sum(map(bool, lanes)) if isinstance(lanes, tuple) else 0
    return count if isinstance(lanes, tuple) and all(lanes[:count]) else 0


def _part(builder: Builder, target: Target, access: VectorAccess, number: llvm.IntType, start: int, end: int) -> Value:
    """The elements of some lanes, as many as a register has numbers, or fewer."""
    dtype, offsets, width = access.place.dtype, access.offsets, target.vector_bits // number.width
    assert offsets is not None
    first, last = (builder.extract_element(offsets, literal(I32, lane)) for lane in (start, end - 1))
    own = picked(builder, offsets, Poison(offsets.type), range(start, end))
    own = resized(builder, builder.sub(own, splat(builder, first, end - start)), filled(own.type, 0), width)
    lanes = literal(first.type, tuple(range(width)))
    wanted = builder.icmp_signed("<=", lanes, splat(builder, builder.sub(last, first), width))
    base = address(builder, dtype, access.base, first if first.type == I64 else builder.sext(first, I64))
    kind = shaped(in_memory(dtype), width)
    found = intrinsic(builder, "masked.load", kind, [base, wanted, filled(kind, 0)], [kind, POINTER], align={0: dtype.bytes})
    bits, words = shaped(llvm.IntType(dtype.bits), width), shaped(number, width)
    held = builder.bitcast(pinned(builder, target, found), bits)
    held, own = held if bits == words else builder.zext(held, words), _as_numbers(builder, own, words)
    move = external(builder.module, f"llvm.x86.{MOVES[number.width, target.vector_bits]}", words, [words, words])
    moved = builder.call(move, [held, own])
    moved = builder.bitcast(moved if bits == words else builder.trunc(moved, bits), kind)
    return resized(builder, moved, Poison(kind), end - start)


def _as_numbers(builder: Builder, value: Value, kind: llvm.Type) -> Value:
    if value.type == kind:
        return value
    return builder.trunc(value, kind) if element_of(value) == I64 else builder.zext(value, kind)
