"""Loads of neighbours in memory, whole or under a mask, by which nothing else is touched."""

from __future__ import annotations

from llvmlite import ir as llvm

from tensorlang.codegen.emission.lanes import pinned, resized
from tensorlang.codegen.emission.types import POINTER, Builder, Poison, Value, filled, intrinsic, lanes_of, shaped
from tensorlang.codegen.target import Target


def load(builder: Builder, target: Target, name: str, base: Value, vector: llvm.Type, align: int, mask: Value | None) -> Value:
    """Neighbours from `base` on; under a mask those that are wanted alone, and zeros."""
    if mask is None:
        return builder.load(base, name=name, align=align, typ=vector)
    lanes = lanes_of(mask)
    wide = widened(target, mask, 8 * align)
    vector, mask = shaped(vector.element, wide), resized(builder, mask, filled(mask.type, 0), wide)
    found = intrinsic(builder, "masked.load", vector, [base, mask, filled(vector, 0)], [vector, POINTER], align={0: align})
    return resized(builder, pinned(builder, target, found), Poison(vector), lanes)


def widened(target: Target, mask: Value, bits: int) -> int:
    """The lanes of a masked access of elements of so many bits: a power of two where a register has as many.

    What LLVM 22 adds to other masks for x86 is undefined, and it takes a mask that begins and ends with what is undefined for one that is
    on at both ends: it loads all in between.
    """
    lanes = lanes_of(mask)
    whole = 1 << (lanes - 1).bit_length()
    return whole if target.is_x86 and whole * bits <= target.vector_bits else lanes
