"""Loads of lanes whose places rise by one at most: one load of what lies between the first and the last, each lane from where it is there.

    vector j in range(16):                          a = X[c(0)], ..., X[c(15)]            c(j) = max(min(j + 1, n - 1), 0)
        Y[j] = X[max(min(j + 1, n - 1), 0)]         Y = vpermps(a, c(j) - c(0))

Nothing is loaded but what lanes read: the load has a mask. Of numbers narrower than a word the instruction moves words that hold them.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from llvmlite import ir as llvm

from tensorlang.codegen.emission import contiguous
from tensorlang.codegen.emission.lanes import joined, leading, picked, resized
from tensorlang.codegen.emission.types import (
    I32,
    I64,
    Builder,
    Poison,
    Value,
    element_of,
    external,
    filled,
    in_memory,
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
        access.rises
        and access.lanes > 1
        and target.is_x86
        and moves_lanes(access.place.dtype.bits, target.isa)
        and leading(mask, access.lanes) > 0
    )


def load(builder: Builder, target: Target, access: VectorAccess, mask: Value | None) -> Value:
    """The elements, zero in lanes that are off."""
    on, number = leading(mask, access.lanes), I32 if access.place.dtype.bits <= I32.width else I64
    starts = [*range(0, on, target.vector_bits // number.width), on]
    parts = [_part(builder, target, access, number, start, end) for start, end in pairwise(starts)]
    found = joined(builder, parts, on)
    return resized(builder, found, filled(found.type, 0), access.lanes)


def _part(builder: Builder, target: Target, access: VectorAccess, number: llvm.IntType, start: int, end: int) -> Value:
    """A register with the elements of some lanes, as many as it has numbers, or fewer."""
    place, offsets, width = access.place, access.offsets, target.vector_bits // number.width
    assert offsets is not None
    first, last = (builder.extract_element(offsets, literal(I32, lane)) for lane in (start, end - 1))
    own = picked(builder, offsets, Poison(offsets.type), range(start, end))
    own = resized(builder, builder.sub(own, splat(builder, first, end - start)), filled(own.type, 0), width)
    lanes = literal(first.type, tuple(range(width)))
    wanted = builder.icmp_signed("<=", lanes, splat(builder, builder.sub(last, first), width))
    base = address(builder, place.dtype, access.base, first if first.type == I64 else builder.sext(first, I64))
    kind = shaped(in_memory(place.dtype), width)
    bits, words = shaped(llvm.IntType(place.dtype.bits), width), shaped(number, width)
    held = builder.bitcast(contiguous.load(builder, target, place.name, base, kind, place.dtype.bytes, wanted), bits)
    held, own = held if bits == words else builder.zext(held, words), as_numbers(builder, own, words)
    move = external(builder.module, f"llvm.x86.{MOVES[number.width, target.vector_bits]}", words, [words, words])
    moved = builder.call(move, [held, own])
    return builder.bitcast(moved if bits == words else builder.trunc(moved, bits), kind)


def as_numbers(builder: Builder, value: Value, kind: llvm.Type) -> Value:
    """Offsets as numbers of the type that an instruction takes."""
    if value.type == kind:
        return value
    return builder.trunc(value, kind) if element_of(value) == I64 else builder.zext(value, kind)
