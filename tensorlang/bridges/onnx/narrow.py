"""Element types of fewer bits than tensorlang has: float8, float4, and integers of 4 and 2 bits, as codes in uint8.

A graph computes with none of them; it converts. To decode a code is to look it up in a table of all codes. To encode a number is to ask
between which boundaries it lies. Both tables are written down here from what ml_dtypes says of the type.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Final, TypeAlias

import numpy as np

import tensorlang as tl
from tensorlang.bridges.onnx.call import Call, Coded
from tensorlang.graph import Value

Table: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

_BITS: Final = {
    "float8_e4m3fn": 8, "float8_e4m3fnuz": 8, "float8_e5m2": 8, "float8_e5m2fnuz": 8, "float8_e8m0fnu": 8, "float4_e2m1fn": 4,
    "int4": 4, "uint4": 4, "int2": 2, "uint2": 2,
}  # fmt: skip


def is_narrow(dtype: Any) -> bool:
    """Is a NumPy type one of these?"""
    return getattr(dtype, "name", "") in _BITS


def codes(array: Table) -> Table:
    """An array of such a type as its codes."""
    return np.ascontiguousarray(array).view(np.uint8) & np.uint8(_mask(array.dtype.name))


def _mask(name: str) -> int:
    return (1 << _BITS[name]) - 1


@dataclass(frozen=True, slots=True)
class Rounding:
    """What decides a code: `boundaries` between numbers in float32, the code on each side, and that of NaN."""

    boundaries: Table
    codes: Table
    nan: int


def values_of(dtype: Any) -> Table:
    """The number of each code, in float32; of codes that a type with fewer bits does not have, that of their low bits."""
    narrow = (np.arange(256, dtype=np.uint8) & np.uint8(_mask(dtype.name))).view(dtype)
    with np.errstate(all="ignore"):
        numbers: Table = narrow.astype(np.float32)
        return numbers


@cache
def rounding(dtype: Any, saturate: bool, mode: str) -> Rounding:
    """How numbers become codes of a type: the nearest, of two the even one; above all "saturate", or what the type has there."""
    numbers = values_of(dtype)[: 1 << _BITS[dtype.name]]
    known = np.flatnonzero(np.isfinite(numbers))
    order = known[np.argsort(numbers[known], kind="stable")]
    order = order[np.concatenate([[True], np.diff(numbers[order]) > 0])]
    sorted_numbers = numbers[order].astype(np.float64)
    low, high = sorted_numbers[:-1], sorted_numbers[1:]
    if dtype.name == "float8_e8m0fnu" and mode != "nearest":
        edges = low.astype(np.float32) if mode == "up" else np.nextafter(high.astype(np.float32), np.float32(-np.inf))
    else:
        middle = (low / 2 + high / 2).astype(np.float32)
        upper = middle.astype(dtype).astype(np.float64) == high
        edges = np.where(upper, np.nextafter(middle, np.float32(-np.inf)), middle)
    if not saturate:
        with np.errstate(all="ignore"):
            beyond = float(sorted_numbers[-1]) + float(sorted_numbers[-1] - sorted_numbers[-2]) / 2
            edge = np.float32(beyond)
            there = edge.astype(dtype).astype(np.float32)
        over = np.array([np.inf, -np.inf], np.float32).astype(dtype).view(np.uint8)
        first = np.nextafter(edge, np.float32(-np.inf)) if not np.isfinite(there) else edge
        lowest = [] if sorted_numbers[0] >= 0 else [-edge if not np.isfinite(there) else np.nextafter(-edge, np.float32(-np.inf))]
        edges = np.concatenate([np.array(lowest, np.float32), edges, [first]]).astype(np.float32)
        order = np.concatenate([[int(over[1])] * len(lowest), order, [int(over[0])]])
    with np.errstate(all="ignore"):
        nan = int(np.array([np.nan], np.float32).astype(dtype).view(np.uint8)[0]) & _mask(dtype.name)
    return Rounding(edges.astype(np.float32), order.astype(np.uint8), nan)


@cache
def _wraps(dtype: Any) -> bool:
    """Do floating-point numbers beyond an integer type wrap? They do before version 0.7 of ml_dtypes, and are 0 from then on."""
    with np.errstate(all="ignore"):
        return int(np.array([(1 << _BITS[dtype.name]) + 1], np.float32).astype(dtype)[0]) != 0


def decoded(call: Call, coded: Coded, dtype: object) -> Value:
    """The numbers of codes, in a type that tensorlang has."""
    wanted = tl.dtype(dtype).numpy if str(dtype) != "bool" else np.dtype(np.float32)
    with np.errstate(all="ignore"):
        numbers = values_of(coded.dtype)
        held = np.where(np.isfinite(numbers), numbers, 0) if np.dtype(wanted).kind in "iu" else numbers
        table = call.builder.constant(held.astype(wanted))
    shape = coded.value.shape
    found = call("gather_nd", table, call.reshaped(call.cast(coded.value, "int64"), (*shape, 1)))
    return call.cast(found, dtype)


def encoded(call: Call, value: Value, dtype: Any, *, saturate: bool = True, mode: str = "up") -> Coded:
    """Numbers as codes; integers of few bits are those of the number without its fraction, and wrap.

    What a floating-point number is that is out of their range ONNX does not say: it is what ml_dtypes makes of it.
    """
    if "float" not in dtype.name:
        whole = call.cast(value, "int32")
        if value.dtype.is_floating and not _wraps(dtype):
            numbers = values_of(dtype)
            inside = call("clamp", whole, min=int(numbers.min()), max=int(numbers.max()))
            whole = call("where", call("eq", whole, inside), whole, call.builder.scalar(0, "int32"))
        kept = call("bitwise_and", whole, call.builder.scalar(_mask(dtype.name), "int32"))
        return Coded(call.cast(kept, "uint8"), dtype)
    rule = rounding(dtype, saturate, mode)
    number = call.cast(value, "float32")
    place = call("bucketize", number, call.builder.constant(rule.boundaries))
    table = call.builder.constant(rule.codes)
    found = call("gather_nd", table, call.reshaped(place, (*place.shape, 1)))
    return Coded(call("where", call("isnan", number), call.builder.constant(np.array(rule.nan, np.uint8)), found), dtype)
