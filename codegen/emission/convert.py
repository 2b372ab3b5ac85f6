"""Conversions between types. Every one is defined: integers wrap, floating point saturates with NaN as 0, halves round to even.

Half types are 16 bit patterns (see `types`); `widen` gives their float32 value and `round_to_half` rounds one back. bfloat16 is integer
arithmetic throughout, since the hardware instruction flushes denormals. float16 takes the conversion instructions where the target has
them and integer arithmetic elsewhere, since LLVM would call the C library. Both ways give the same bits.
"""

from __future__ import annotations

from llvmlite import ir as llvm

from tensorlang.codegen.emission.types import (
    F32,
    HALVES,
    I1,
    I16,
    I32,
    Builder,
    Value,
    bitcast,
    filled,
    in_register,
    intrinsic,
    known,
    lanes_of,
    literal,
    shaped,
    wrap,
)
from tensorlang.codegen.target import Target
from tensorlang.ir.dtype import FLOAT32, FLOAT64, DType
from tensorlang.ir.halves import SPARE_BITS


def cast(builder: Builder, target: Target, value: Value, source: DType, to: DType, *, fits: bool = False) -> Value:
    """`value` of type `source` as type `to`; `fits`: it is known to lie within an integer type."""
    if source == to:
        return value
    if source in HALVES:
        return cast(builder, target, widen(builder, target, source, value), FLOAT32, to)
    if to in HALVES:
        return round_to_half(builder, target, to, _exact_or_odd(builder, target, value, source, to))
    kind = shaped(in_register(to), lanes_of(value))
    if to == "bool":
        zero = filled(value.type, 0)
        if source.is_floating:
            return builder.fcmp_unordered("!=", value, zero)
        number = known(value)
        if number is not None:
            return literal(I1, number != 0 if isinstance(number, int) else tuple(int(lane != 0) for lane in number))
        return builder.icmp_unsigned("!=", value, zero)
    if to.is_integer and not source.is_floating:
        return _integer(builder, value, source, to)
    if to.is_integer:
        if fits and to.bits >= I32.width:
            return (builder.fptosi if to.kind == "signed" else builder.fptoui)(value, kind)
        if target.is_x86 and lanes_of(value) and known(value) is None:
            return _saturated(builder, value, to)
        name = "fptosi.sat" if to.kind == "signed" else "fptoui.sat"
        return intrinsic(builder, name, kind, [value], [kind, value.type])
    if source.is_floating:
        return builder.fpext(value, kind) if to.bits > source.bits else builder.fptrunc(value, kind)
    return (builder.sitofp if source.kind == "signed" else builder.uitofp)(value, kind)


def _saturated(builder: Builder, value: Value, to: DType) -> Value:
    """Floating point in lanes as integers: what is out of range, and NaN, is left out of the conversion and put in afterwards.

    LLVM 22 converts lane by lane for `fptosi.sat` on x86, 16 times as slowly.
    """
    signed, lanes = to.kind == "signed", lanes_of(value)
    least, past = filled(value.type, -(2.0 ** (to.bits - 1)) if signed else 0.0), filled(value.type, 2.0 ** (to.bits - signed))
    small, large = builder.fcmp_ordered("<", value, least), builder.fcmp_ordered(">=", value, past)
    inside = builder.and_(builder.fcmp_ordered(">=", value, least), builder.fcmp_ordered("<", value, past))
    safe = builder.select(inside, value, filled(value.type, 0.0))
    kind = shaped(in_register(to), lanes)
    if to.bits < I32.width:  # no instruction makes less than 32 bits
        found = builder.trunc(builder.fptosi(safe, shaped(I32, lanes)), kind)
    else:
        found = (builder.fptosi if signed else builder.fptoui)(safe, kind)
    found = builder.select(large, filled(kind, int(to.highest)), found)
    return builder.select(small, filled(kind, int(to.lowest)), found)


def _integer(builder: Builder, value: Value, source: DType, to: DType) -> Value:
    number = known(value)
    signed = source.kind == "signed"
    kind = in_register(to)
    if number is not None:
        bits = element_bits(value)
        if isinstance(number, int):
            return literal(kind, wrap(number, bits, signed=signed))
        return literal(kind, tuple(wrap(lane, bits, signed=signed) for lane in number))
    shape = shaped(kind, lanes_of(value))
    if source.kind != "bool" and to.bits <= source.bits:
        return builder.trunc(value, shape)
    return (builder.sext if signed else builder.zext)(value, shape)


def element_bits(value: Value) -> int:
    """The width of an integer value's elements."""
    kind = value.type.element if isinstance(value.type, llvm.VectorType) else value.type
    return int(kind.width)


def _exact_or_odd(builder: Builder, target: Target, value: Value, source: DType, to: DType) -> Value:
    """As float32 on the way to a half: what is inexact is odd, so that rounding it once more is as rounding once (`ir.halves`).

    Integers that float32 has no room for are infinite as float16 in any case.
    """
    if source.is_integer and source.bits >= 32 and to == "bfloat16":
        whole = _odd_whole(builder, value, source) if source.bits == 64 else value
        value, source = cast(builder, target, whole, source, FLOAT64), FLOAT64
    return _to_odd(builder, value) if source == FLOAT64 else cast(builder, target, value, source, FLOAT32)


def _odd_whole(builder: Builder, value: Value, source: DType) -> Value:
    """A 64-bit integer that float64 has room for: of a large one, what there is none for becomes the last bit that there is."""
    kind = value.type
    lost = builder.and_(value, filled(kind, (1 << SPARE_BITS) - 1))
    last = builder.select(builder.icmp_unsigned("==", lost, filled(kind, 0)), filled(kind, 0), filled(kind, 1 << SPARE_BITS))
    odd = builder.or_(builder.sub(value, lost), last)
    least = filled(kind, 1 << 53)
    if source.kind == "signed":
        large = builder.icmp_unsigned(">", builder.add(value, least), filled(kind, 1 << 54))  # beyond it on either side
    else:
        large = builder.icmp_unsigned(">=", value, least)
    return builder.select(large, odd, value)


def _to_odd(builder: Builder, value: Value) -> Value:
    """float64 to float32, inexact results made odd."""
    near = builder.fptrunc(value, shaped(F32, lanes_of(value)))
    back = builder.fpext(near, value.type)
    magnitude = [intrinsic(builder, "fabs", value.type, [side], [value.type]) for side in (back, value)]
    bits = bitcast(builder, near, I32)
    one = filled(bits.type, 1)
    towards_zero = builder.select(builder.fcmp_ordered(">", *magnitude), builder.sub(bits, one), bits)
    odd = builder.select(builder.fcmp_ordered("!=", back, value), builder.or_(towards_zero, one), towards_zero)
    return bitcast(builder, odd, F32)


def widen(builder: Builder, target: Target, dtype: DType, value: Value) -> Value:
    """The float32 value of a half; other types as they are."""
    if dtype not in HALVES:
        return value
    lanes = lanes_of(value)
    if dtype == "float16" and _converts(target):
        if target.is_x86 and not lanes and known(value) is None:
            value = _through_integer(builder, value)
        return builder.fpext(bitcast(builder, value, llvm.HalfType()), shaped(F32, lanes))
    bits = builder.zext(value, shaped(I32, lanes))
    if dtype == "bfloat16":
        return bitcast(builder, builder.shl(bits, filled(bits.type, 16)), F32)
    magnitude = builder.and_(bits, filled(bits.type, 0x7FFF))
    shifted = builder.shl(magnitude, filled(bits.type, 13))
    scaled = bitcast(builder, builder.fmul(bitcast(builder, shifted, F32), filled(shaped(F32, lanes), 2.0**112)), I32)
    special = builder.or_(shifted, filled(bits.type, 0x7F800000))
    quiet = builder.or_(special, filled(bits.type, 0x400000))
    special = builder.select(builder.icmp_unsigned(">", magnitude, filled(bits.type, 0x7C00)), quiet, special)
    result = builder.select(builder.icmp_unsigned(">=", magnitude, filled(bits.type, 0x7C00)), special, scaled)
    sign = builder.shl(builder.and_(bits, filled(bits.type, 0x8000)), filled(bits.type, 16))
    return bitcast(builder, builder.or_(result, sign), F32)


def _through_integer(builder: Builder, value: Value) -> Value:
    """A 16-bit value by way of a register for integers, as an empty piece of assembly has it.

    LLVM 22 would insert it from memory into whatever vector is at hand, so that it waits for that: in a product for one of the sums.
    """
    whole = builder.zext(value, I32)
    kept = builder.asm(llvm.FunctionType(I32, [I32]), "", "=r,0", [whole], side_effect=False)
    kept.attributes.add("readnone")  # so that one for each value is left
    kept.attributes.add("nounwind")
    return builder.trunc(kept, I16)


def round_to_half(builder: Builder, target: Target, dtype: DType, value: Value) -> Value:
    """A float32 value rounded to a half, ties to even; other types as they are."""
    if dtype not in HALVES:
        return value
    lanes = lanes_of(value)
    if dtype == "float16" and _converts(target):
        return bitcast(builder, builder.fptrunc(value, shaped(llvm.HalfType(), lanes)), I16)
    bits = bitcast(builder, value, I32)
    rounded = _to_bfloat16(builder, value, bits) if dtype == "bfloat16" else _to_float16(builder, bits)
    return builder.trunc(rounded, shaped(I16, lanes))


def _to_bfloat16(builder: Builder, value: Value, bits: Value) -> Value:
    top = builder.lshr(bits, filled(bits.type, 16))
    odd = builder.and_(top, filled(bits.type, 1))
    near = builder.lshr(builder.add(bits, builder.add(odd, filled(bits.type, 0x7FFF))), filled(bits.type, 16))
    return builder.select(builder.fcmp_unordered("uno", value, value), builder.or_(top, filled(bits.type, 0x40)), near)


def _to_float16(builder: Builder, bits: Value) -> Value:
    def number(value: int) -> Value:
        return filled(bits.type, value)

    magnitude = builder.and_(bits, number(0x7FFFFFFF))
    sign = builder.and_(builder.lshr(bits, number(16)), number(0x8000))
    odd = builder.and_(builder.lshr(magnitude, number(13)), number(1))
    normal = builder.lshr(builder.add(builder.add(magnitude, number(0xFFF - (112 << 23))), odd), number(13))
    half = builder.fadd(bitcast(builder, magnitude, F32), filled(shaped(F32, lanes_of(bits)), 0.5))  # aligns the least denormal bit
    tiny = builder.sub(bitcast(builder, half, I32), number(0x3F000000))
    finite = builder.select(builder.icmp_unsigned("<", magnitude, number(0x38800000)), tiny, normal)
    payload = builder.and_(builder.lshr(magnitude, number(13)), number(0x1FF))
    nan = builder.or_(payload, number(0x7E00))
    large = builder.select(builder.icmp_unsigned(">", magnitude, number(0x7F800000)), nan, number(0x7C00))
    result = builder.select(builder.icmp_unsigned(">=", magnitude, number(0x47800000)), large, finite)
    return builder.or_(result, sign)


def _converts(target: Target) -> bool:
    """Whether the target has float16 conversion instructions."""
    return target.is_arm or not target.isa.isdisjoint(("f16c", "avx512fp16"))
