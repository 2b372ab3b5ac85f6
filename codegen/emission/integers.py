"""Integer operations: division that floors and cannot trap, shifts by any count.

A lane that is switched off still computes, and may hold anything. So a divisor is frozen, and 0 and -1 are replaced by 1 before the
division and answered for after it; a shift count is bounded before the shift.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from llvmlite import ir as llvm

from tensorlang.codegen.emission.types import Builder, Value, filled, freeze, intrinsic, is_beyond, known

Binary = Callable[[Builder, Value, Value], Value]
WIDEST: Final = 32
"""Bits of integers whose quotients float64 tells."""
BYTES_AT_MOST: Final = 16
"""Bits of factors of which LLVM may find that they are bytes."""


def _divisor(builder: Builder, b: Value, signed: bool) -> tuple[Value, Value | None, Value | None]:
    """A divisor that cannot trap, and where it stands for 0 and for -1 (None: nowhere)."""
    number = known(b)
    if number is not None and not {0, -1} & set(number if isinstance(number, tuple) else (number,)):
        return b, None, None
    b = freeze(builder, b)
    zero = builder.icmp_signed("==", b, filled(b.type, 0))
    minus = builder.icmp_signed("==", b, filled(b.type, -1)) if signed else None
    unsafe = zero if minus is None else builder.or_(zero, minus)
    return builder.select(unsafe, filled(b.type, 1), b), zero, minus


def _in_floats(a: Value, b: Value) -> bool:
    """Is a quotient one of lanes that floats hold, by a divisor that LLVM does not know?"""
    return isinstance(a.type, llvm.VectorType) and _width(a) <= WIDEST and known(b) is None


def _toward_zero(builder: Builder, a: Value, b: Value, *, signed: bool) -> Value:
    """The quotient rounded toward zero, for a divisor that cannot trap.

    No processor divides integers in lanes, so LLVM takes them apart. Floats hold integers of half as many bits as their mantissa and some
    more: a quotient that is none is at least 1 / b away from one, and is rounded by less than a / b * 2**-24 (2**-53 in float64).
    """
    if not _in_floats(a, b):
        return builder.sdiv(a, b) if signed else builder.udiv(a, b)
    kind = llvm.VectorType(llvm.FloatType() if _width(a) <= WIDEST // 2 else llvm.DoubleType(), a.type.count)
    to_float, whole = (builder.sitofp, builder.fptosi) if signed else (builder.uitofp, builder.fptoui)
    quotient = whole(builder.fdiv(to_float(a, kind), to_float(b, kind)), llvm.VectorType(llvm.IntType(WIDEST), a.type.count))
    return quotient if _width(a) == WIDEST else builder.trunc(quotient, a.type)


def _scalar_constant(b: Value) -> int | None:
    """The number that every lane of a constant holds."""
    number = known(b)
    if isinstance(number, tuple):
        return number[0] if len(set(number)) == 1 else None
    return number


def _floored(builder: Builder, a: Value, b: Value) -> tuple[Value, Value, Value | None, Value | None]:
    """Quotient and remainder rounded down, for a divisor made harmless, and where that stood for 0 and -1."""
    divisor, zero, minus = _divisor(builder, b, signed=True)
    quotient = _toward_zero(builder, a, divisor, signed=True)
    rest = builder.sub(a, builder.mul(quotient, divisor))
    nothing = filled(a.type, 0)
    differs = builder.icmp_signed("<", builder.xor(rest, divisor), nothing)
    down = builder.and_(differs, builder.icmp_signed("!=", rest, nothing))
    lower = builder.sub(quotient, filled(a.type, 1))
    return builder.select(down, lower, quotient), builder.select(down, builder.add(rest, divisor), rest), zero, minus


def _floordiv(builder: Builder, a: Value, b: Value) -> Value:
    number = _scalar_constant(b)
    if number is not None and number > 0 and number & (number - 1) == 0:
        return builder.ashr(a, filled(a.type, number.bit_length() - 1))
    quotient, _, zero, minus = _floored(builder, a, b)
    if minus is not None:
        quotient = builder.select(minus, builder.sub(filled(a.type, 0), a), quotient)
    return quotient if zero is None else builder.select(zero, filled(a.type, 0), quotient)


def _mod(builder: Builder, a: Value, b: Value) -> Value:
    number = _scalar_constant(b)
    if number is not None and number > 0 and number & (number - 1) == 0:
        return builder.and_(a, filled(a.type, number - 1))
    return _floored(builder, a, b)[1]


def _unsigned_floordiv(builder: Builder, a: Value, b: Value) -> Value:
    divisor, zero, _ = _divisor(builder, b, signed=False)
    quotient = _toward_zero(builder, a, divisor, signed=False)
    return quotient if zero is None else builder.select(zero, filled(a.type, 0), quotient)


def _unsigned_mod(builder: Builder, a: Value, b: Value) -> Value:
    divisor, _, _ = _divisor(builder, b, signed=False)
    if not _in_floats(a, divisor):
        return builder.urem(a, divisor)
    return builder.sub(a, builder.mul(_toward_zero(builder, a, divisor, signed=False), divisor))


def _width(value: Value) -> int:
    return int(getattr(value.type, "element", value.type).width)


def _shl(builder: Builder, a: Value, b: Value) -> Value:
    small = builder.icmp_unsigned("<", b, filled(b.type, _width(b)))
    shifted = builder.shl(a, builder.and_(b, filled(b.type, _width(b) - 1)))
    return builder.select(small, shifted, filled(a.type, 0))


def _ashr(builder: Builder, a: Value, b: Value) -> Value:
    most = filled(b.type, _width(b) - 1)
    return builder.ashr(a, builder.select(builder.icmp_unsigned("<", b, most), b, most))


def _lshr(builder: Builder, a: Value, b: Value) -> Value:
    small = builder.icmp_unsigned("<", b, filled(b.type, _width(b)))
    shifted = builder.lshr(a, builder.and_(b, filled(b.type, _width(b) - 1)))
    return builder.select(small, shifted, filled(a.type, 0))


def _call(name: str) -> Binary:
    return lambda builder, a, b: intrinsic(builder, name, a.type, [a, b], [a.type])


def _mul(builder: Builder, a: Value, b: Value) -> Value:
    """A product. In vectors LLVM 22 must not see through those of bytes: it takes the sum of eight for one of four (`vpdpbusd`)."""
    product = builder.mul(a, b)
    of_bytes = isinstance(a.type, llvm.VectorType) and not any(is_beyond(factor, BYTES_AT_MOST) for factor in (a, b))
    return freeze(builder, product) if of_bytes else product


_RING: Final[dict[str, Binary]] = {
    "add": lambda builder, a, b: builder.add(a, b),
    "sub": lambda builder, a, b: builder.sub(a, b),
    "mul": _mul,
}
LOGIC: Final[dict[str, Binary]] = {
    "and": lambda builder, a, b: builder.and_(a, b),
    "or": lambda builder, a, b: builder.or_(a, b),
    "xor": lambda builder, a, b: builder.xor(a, b),
    "min": lambda builder, a, b: builder.and_(a, b),
    "max": lambda builder, a, b: builder.or_(a, b),
}
_BITS: Final = {op: LOGIC[op] for op in ("and", "or", "xor")}
SIGNED: Final[dict[str, Binary]] = {
    **_RING,
    **_BITS,
    "floordiv": _floordiv,
    "mod": _mod,
    "shl": _shl,
    "shr": _ashr,
    **dict.fromkeys(("min", "fmin"), _call("smin")),
    **dict.fromkeys(("max", "fmax"), _call("smax")),
}
UNSIGNED: Final[dict[str, Binary]] = {
    **_RING,
    **_BITS,
    "floordiv": _unsigned_floordiv,
    "mod": _unsigned_mod,
    "shl": _shl,
    "shr": _lshr,
    **dict.fromkeys(("min", "fmin"), _call("umin")),
    **dict.fromkeys(("max", "fmax"), _call("umax")),
}
