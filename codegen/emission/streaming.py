"""Stores past the caches, of whole vector registers: where the address is a multiple of their size, or in parts where it is not."""

from __future__ import annotations

from typing import Final

from tensorlang.codegen.emission.lanes import picked
from tensorlang.codegen.emission.types import I8, I32, I64, Builder, Poison, Value, lanes_of, literal, shaped, splat
from tensorlang.codegen.emission.vector_access import VectorAccess, address
from tensorlang.codegen.target import Target
from tensorlang.ir.dtype import BOOL

STREAMED: Final = 16
"""Bytes of the shortest vector that is stored past the caches."""


def streams(target: Target, access: VectorAccess, mask: Value | None) -> bool:
    """Whether a store may pass the caches by: one whole vector register on a target whose stores do so in order of a fence."""
    size = access.lanes * access.place.dtype.bytes
    whole = access.step == 1 and mask is None and not access.owned
    return whole and target.is_x86 and size in (16, 32, 64) and size * 8 <= target.vector_bits


def stream(builder: Builder, access: VectorAccess, value: Value) -> None:
    """Write past the caches where the address is a multiple of the size, which the instruction needs, or of `STREAMED`; else plainly.

    NumPy's arrays begin 16 bytes behind a line. Parts of a line that are stored one after the other leave the core together.
    """
    size = access.lanes * access.place.dtype.bytes
    if access.place.dtype == BOOL:
        value = builder.zext(value, shaped(I8, lanes_of(value)))
    _stream(builder, access, splat(builder, value, access.lanes), sorted({size, STREAMED}))


def _stream(builder: Builder, access: VectorAccess, value: Value, sizes: list[int]) -> None:
    """Write past the caches in parts of the largest of some sizes of which the address is a multiple; plainly where it is of none."""
    dtype = access.place.dtype
    if not sizes:
        builder.store(value, access.base, align=dtype.bytes)
        return
    *smaller, size = sizes
    count = size // dtype.bytes
    with builder.if_else(_is_multiple(builder, access.base, size), likely=True) as (aligned, otherwise):
        with aligned:
            for start in range(0, access.lanes, count):
                part = value if count == access.lanes else picked(builder, value, Poison(value.type), range(start, start + count))
                past = builder.store(part, address(builder, dtype, access.base, literal(I64, start)), align=size)
                past.set_metadata("nontemporal", builder.module.add_metadata([literal(I32, 1)]))
        with otherwise:
            _stream(builder, access, value, smaller)


def _is_multiple(builder: Builder, base: Value, size: int) -> Value:
    low = builder.and_(builder.ptrtoint(base, I64), literal(I64, size - 1))
    return builder.icmp_unsigned("==", low, literal(I64, 0))
