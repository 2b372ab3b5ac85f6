"""Conversions between floating point and integers of which it is known what they convert, so that they take an instruction each.

    max(0, min(255, int32(floor(x))))           ->          int32(fmin(fmax(x, 0.0), 255.0))
    uint8(max(0.0, min(255.0, x)))              ->          uint8(fmin(fmax(x, 0.0), 255.0))
    int32(floor(float32(i) * 0.5))              ->          int32(float32(i) * 0.5)            i is not negative

A conversion saturates, and makes 0 of NaN. The instruction does neither, so that several comparisons and choices go with it: of a place
that is clamped afterwards, more than all the rest. Clamped before, by extrema that prefer a number to NaN, it is an instruction by itself.

    float32(j)                                  ->          float32(int32(j))                  j is less than 640

Axes have 64 bits, of which lanes of few processors make floating point, and none as many at once as of 32.
"""

from __future__ import annotations

from typing import Final

from tensorlang.algebra.bounds import Bounds
from tensorlang.algebra.interval import inside, truncated, whole
from tensorlang.ir import Binary, Call, Cast, Compare, Const, Expr, Select
from tensorlang.ir.dtype import INT32, INT64, DType
from tensorlang.ir.traverse import dtype_of

WIDE: Final = ("int64", "uint64")
MANTISSA: Final = {"float32": 24, "float64": 53}
"""Bits up to which a type has all whole numbers."""


def fitting(expr: Expr, bounds: Bounds) -> Expr | None:
    """A conversion from floating point, or the clamp of one, as one that fits, or of a small integer as one of 32 bits; None for others."""
    match expr:
        case Cast(value, to) if to.is_floating and dtype_of(value) in WIDE:
            found = bounds.interval(value)
            return Cast(Cast(value, INT32), to) if found is not None and inside(found, whole(INT32)) else None
        case Cast(value, to) if to.is_integer and dtype_of(value) in MANTISSA:
            return _fitted(_numbered(value), to, bounds)
        case Binary("min" | "max"):
            return _turned(expr, bounds)
        case _:
            return None


def quotient_in(kind: DType, op: str, dividend: Expr, divisor: int) -> Cast:
    """A floored quotient of an index, or its rest, taken in a type that holds both operands."""
    return Cast(Binary(op, Cast(dividend, kind, fits=True), Const(divisor, kind)), INT64)


def _fitted(value: Expr, to: DType, bounds: Bounds) -> Expr | None:
    found = bounds.floats(value)
    values = truncated(found, to)
    if found.low <= to.lowest - 1 or found.high >= to.highest + 1:
        return None
    if found.low > -1:
        value = _without_floor(value)
    if found.nan:
        zero = Const(0.0, dtype_of(value))
        value = Binary("fmax", value, zero) if found.low >= 0 else Select(Compare("eq", value, value), value, zero)
    by_way = INT32 if inside(values, whole(INT32)) else to  # lanes of all processors have these
    made = Cast(value, by_way, fits=True)
    return made if by_way == to else Cast(made, to)


def clamped(expr: Binary) -> Cast | None:
    """The conversion from floating point of which an expression is a clamp between literals that `fitting` makes one that fits."""
    ends = _ends(expr)
    if ends is None:
        return None
    inner, low, high = ends
    narrow = inner.value if isinstance(inner, Cast) and isinstance(inner.value, Cast) else inner
    if not isinstance(narrow, Cast) or not narrow.dtype.is_integer or dtype_of(narrow.value) not in MANTISSA:
        return None
    most = min(whole(narrow.dtype)[1], 1 << MANTISSA[dtype_of(narrow.value)])
    return narrow if 0 <= low <= high <= most and inside(whole(narrow.dtype), whole(dtype_of(expr))) else None


def _turned(expr: Binary, bounds: Bounds) -> Expr | None:
    """The clamp of a conversion as the conversion of a clamp."""
    ends, narrow = _ends(expr), clamped(expr)
    if ends is None or narrow is None:
        return None
    _, low, high = ends
    of = dtype_of(narrow.value)
    value = Binary("fmin", Binary("fmax", _without_floor(narrow.value), Const(float(low), of)), Const(float(high), of))
    return _fitted(value, dtype_of(expr), bounds)


def _ends(expr: Expr) -> tuple[Expr, float, float] | None:
    """What an expression keeps between two literals, and these."""
    match expr:
        case Binary("min", Binary("max", inner, Const(low)), Const(high)) | Binary("max", Binary("min", inner, Const(high)), Const(low)):
            return (inner, low, high) if low <= high else None
        case Binary("min", Binary("max", Const(low), inner), Const(high)) | Binary("max", Binary("min", Const(high), inner), Const(low)):
            return (inner, low, high) if low <= high else None
        case Binary("min", Const(high), Binary("max", inner, Const(low))) | Binary("max", Const(low), Binary("min", inner, Const(high))):
            return (inner, low, high) if low <= high else None
        case Binary("min", Const(high), Binary("max", Const(low), inner)) | Binary("max", Const(low), Binary("min", Const(high), inner)):
            return (inner, low, high) if low <= high else None
        case _:
            return None


def _numbered(value: Expr) -> Expr:
    """The value, with 0 where it is NaN if that is free: both become the integer 0."""
    match value:
        case Call("floor" | "ceil" | "trunc" | "round", (inner,), dtype):
            return Call(value.function, (_numbered(inner),), dtype)
        case Binary("min" | "max") if (ends := _ends(value)) is not None and ends[1] == 0:
            inner, low, high = ends
            of = dtype_of(value)
            return Binary("fmin", Binary("fmax", inner, Const(low, of)), Const(high, of))
        case Binary("max", inner, Const(0.0) as zero) | Binary("max", Const(0.0) as zero, inner):
            return Binary("fmax", inner, zero)
        case Binary("add", inner, Const(half) as rest) if 0 <= half < 1 and (made := _numbered(inner)) is not inner:
            return Binary("add", made, rest)
        case _:
            return value


def _without_floor(value: Expr) -> Expr:
    """What a conversion cuts off as `floor` does, of what is not negative."""
    match value:
        case Call("floor" | "trunc", (inner,)):
            return inner
        case _:
            return value
