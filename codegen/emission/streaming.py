"""Stores past the caches, of whole vector registers: where the address is a multiple of their size, or in parts where it is not."""

from __future__ import annotations

from typing import Final

from tensorlang.codegen.emission.lanes import picked
from tensorlang.codegen.emission.memory import VectorAccess, address
from tensorlang.codegen.emission.types import I8, I32, I64, Builder, Poison, Value, lanes_of, literal, shaped, splat
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
    value = splat(builder, value, access.lanes)
    whole = _is_multiple(builder, access.base, size)
    with builder.if_else(whole, likely=True) as (aligned, otherwise):
        with aligned:
            _past(builder, access.base, value, size)
        with otherwise:
            if size == STREAMED:
                builder.store(value, access.base, align=access.place.dtype.bytes)
            else:
                _stream_parts(builder, access, value)


def _stream_parts(builder: Builder, access: VectorAccess, value: Value) -> None:
    """Write parts of a vector past the caches where these may lie there."""
    dtype, count = access.place.dtype, STREAMED // access.place.dtype.bytes
    with builder.if_else(_is_multiple(builder, access.base, STREAMED), likely=True) as (aligned, otherwise):
        with aligned:
            for start in range(0, access.lanes, count):
                part = picked(builder, value, Poison(value.type), range(start, start + count))
                _past(builder, address(builder, dtype, access.base, literal(I64, start)), part, STREAMED)
        with otherwise:
            builder.store(value, access.base, align=dtype.bytes)


def _past(builder: Builder, base: Value, value: Value, size: int) -> None:
    builder.store(value, base, align=size).set_metadata("nontemporal", builder.module.add_metadata([literal(I32, 1)]))


def _is_multiple(builder: Builder, base: Value, size: int) -> Value:
    low = builder.and_(builder.ptrtoint(base, I64), literal(I64, size - 1))
    return builder.icmp_unsigned("==", low, literal(I64, 0))
