"""Arithmetic, comparisons and logic on values: total for every operand, in scalars and vectors alike.

Tables for the regular operations, one small function for each irregular one. Nothing traps or is undefined, since a lane that is switched
off still computes: divisors are frozen and made harmless first, shift counts are bounded. No `nsw` anywhere, and no fast-math flag but
where both zeros are right.
Integers of known value fold, so that conditions on unrolled loops and on the lanes of a full vector vanish.
"""

from __future__ import annotations

from typing import Final

from tensorlang.codegen.emission.constant_folding import folded
from tensorlang.codegen.emission.convert import round_to_half, widen
from tensorlang.codegen.emission.integers import LOGIC, SIGNED, UNSIGNED, Binary
from tensorlang.codegen.emission.lanes import product_of_wide
from tensorlang.codegen.emission.math import emit_fma
from tensorlang.codegen.emission.types import HALVES, I1, Builder, Value, constant, filled, intrinsic, known, literal, matched
from tensorlang.codegen.target import Target
from tensorlang.errors import InternalError
from tensorlang.ir.dtype import BOOL, FLOAT32, INT64, DType
from tensorlang.ir.integers import ARITHMETIC
from tensorlang.ir.reciprocals import reciprocal


def binary(builder: Builder, target: Target, op: str, dtype: DType, a: Value, b: Value) -> Value:
    """`a op b` for operands of one type. Raises `InternalError` where the type has no such operation."""
    if dtype in HALVES:
        wide = binary(builder, target, op, FLOAT32, widen(builder, target, dtype, a), widen(builder, target, dtype, b))
        return round_to_half(builder, target, dtype, wide)
    short = decided(op, dtype, a, b)
    if short is not None:
        return short
    table = _FLOATING if dtype.is_floating else LOGIC if dtype == BOOL else SIGNED if dtype.kind == "signed" else UNSIGNED
    if op not in table:
        raise InternalError(f"{op} has no meaning for {dtype}")
    a, b = matched(builder, a, b)
    if op == "mul" and dtype.is_integer and dtype.bits == INT64.bits:
        return product_of_wide(builder, target, a, b)
    return table[op](builder, a, b)


def divided(builder: Builder, target: Target, dtype: DType, a: Value, divisor: float) -> Value:
    """`a / divisor` by a literal, rounded as the division is: by two instructions in place of one that takes ten times as long."""
    parts = reciprocal(divisor, dtype) if target.has_fma and dtype not in HALVES else None
    if parts is None:
        return binary(builder, target, "div", dtype, a, constant(dtype, divisor))
    a, high, low = matched(builder, a, *(constant(dtype, part) for part in parts))
    return emit_fma(builder, a, high, builder.fmul(a, low), has_fma=True)


def decided(op: str, dtype: DType, a: Value, b: Value) -> Value | None:
    """What `a op b` comes down to without an instruction: of two numbers, or as far as one of them tells; None where it takes one."""
    number = folded(op, dtype, a, b) if op in ARITHMETIC else None
    return _trivial(op, dtype, a, b) if number is None else number


def _trivial(op: str, dtype: DType, a: Value, b: Value) -> Value | None:
    """The operand or constant that an integer or logical operation comes down to, as far as one scalar constant tells."""
    if dtype.is_floating:
        return None
    for one, other in ((a, b), (b, a)):
        match op, known(one):
            case ("add", 0) | ("mul", 1) | ("and", -1) | ("or", 0):
                return other
            case ("mul" | "and", 0):
                return one
            case ("and", 1) if dtype == BOOL:
                return other
            case ("or", 1) if dtype == BOOL:
                return one
            case _:
                pass
    return a if op in ("sub", "shl", "shr") and known(b) == 0 else None


_PREDICATE: Final = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def compare(builder: Builder, target: Target, op: str, dtype: DType, a: Value, b: Value) -> Value:
    """`a op b` as bool. NaN compares unequal to everything."""
    if dtype in HALVES:
        return compare(builder, target, op, FLOAT32, widen(builder, target, dtype, a), widen(builder, target, dtype, b))
    number = folded(op, dtype, a, b)
    if number is not None:
        return number
    a, b = matched(builder, a, b)
    if dtype.is_floating:
        return (builder.fcmp_unordered if op == "ne" else builder.fcmp_ordered)(_PREDICATE[op], a, b)
    return (builder.icmp_signed if dtype.kind == "signed" else builder.icmp_unsigned)(_PREDICATE[op], a, b)


def unary(builder: Builder, op: str, dtype: DType, value: Value) -> Value:
    """`neg`, `abs` or `not`."""
    kind = value.type
    match op:
        case "not":
            return _invert(builder, value) if dtype == BOOL else builder.xor(value, filled(kind, -1))
        case "neg" if dtype in HALVES:
            return builder.xor(value, filled(kind, 0x8000))
        case "abs" if dtype in HALVES:
            return builder.and_(value, filled(kind, 0x7FFF))
        case "neg" if dtype.is_floating:
            return builder.fneg(value)
        case "abs" if dtype.is_floating:
            return intrinsic(builder, "fabs", kind, [value], [kind])
        case "neg":
            return builder.sub(filled(kind, 0), value)
        case "abs" if dtype.kind == "signed":
            return intrinsic(builder, "abs", kind, [value, literal(I1, 0)], [kind])
        case "abs":
            return value
    raise InternalError(f"{op} has no meaning for {dtype}")


def _invert(builder: Builder, value: Value) -> Value:
    number = known(value)
    if number is not None:
        return literal(I1, 1 - number if isinstance(number, int) else tuple(1 - lane for lane in number))
    return builder.xor(value, filled(value.type, 1))


def both(builder: Builder, mask: Value | None, cond: Value) -> Value:
    """`mask` and `cond`, a lane that the mask switches off staying so whatever the condition computed there."""
    if mask is None or known(mask) == 1:
        return cond
    if known(cond) in (0, 1):
        return mask if known(cond) == 1 else cond
    mask, cond = matched(builder, mask, cond)
    return builder.select(mask, cond, filled(cond.type, 0))


def _extremum(name: str) -> Binary:
    """The lesser or greater, NaN if either is; of zeros of both signs, either. What is tested for NaN is `b`, as `a` may be a sum.

    One hardware min or max, a comparison and a selection, of which only the first waits for `a`. Written with comparisons, LLVM makes it
    two comparisons that both wait for it.
    """

    def emit(builder: Builder, a: Value, b: Value) -> Value:
        return intrinsic(builder, name, a.type, [b, a], [a.type], flags=("nsz",))

    return emit


def _number(predicate: str) -> Binary:
    """The lesser or greater, of a number and NaN the number."""

    def emit(builder: Builder, a: Value, b: Value) -> Value:
        plain = builder.select(builder.fcmp_ordered(predicate, a, b), a, b)
        return builder.select(builder.fcmp_unordered("uno", b, b), a, plain)

    return emit


_FLOATING: Final[dict[str, Binary]] = {
    "add": lambda builder, a, b: builder.fadd(a, b),
    "sub": lambda builder, a, b: builder.fsub(a, b),
    "mul": lambda builder, a, b: builder.fmul(a, b),
    "div": lambda builder, a, b: builder.fdiv(a, b),
    "min": _extremum("minimum"),
    "max": _extremum("maximum"),
    "fmin": _number("<"),
    "fmax": _number(">"),
}
