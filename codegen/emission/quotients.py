"""Quotients and rests of places along lanes by a literal: most of it is the same in every lane, and a scalar.

    lanes j: (s + 3 j) // 5                 s // 5 + (n * 13108 >> 16)      n = s mod 5 + 3 j, which is less than 50
             (s + j) mod 100                n < 100 ? n : n - 100           n = s mod 100 + j, which is less than 200

What differs between lanes begins within the first turn, and is so small that a product of 32 bits has the quotient: no upper half of a
product is taken, which is several operations for lanes of 32 bits, and one number after the other for those of 64.

Source: Granlund and Montgomery, "Division by invariant integers using multiplication", 1994.
"""

from __future__ import annotations

from collections.abc import Callable

from tensorlang import ir
from tensorlang.codegen.emission.access import evaluate, uniform
from tensorlang.codegen.emission.affine import number
from tensorlang.codegen.emission.arithmetic import binary
from tensorlang.codegen.emission.frame import Frame
from tensorlang.codegen.emission.types import I32, Value, filled, known, literal, shaped, splat
from tensorlang.ir.dtype import INT32, INT64
from tensorlang.ir.traverse import dtype_of


def along_lanes(frame: Frame, node: ir.Binary, value: Callable[[Frame, ir.Expr], Value]) -> Value | None:
    """A floored quotient of an index, or its rest, in 32 bits, which hold both (`passes.conversions`).

    None where lanes are not apart by known numbers.
    """
    if not (isinstance(node.left, ir.Cast) and isinstance(node.right, ir.Const) and dtype_of(node.left.value) == INT64):
        return None
    divisor = int(node.right.value)
    fixed, moving = frame.space.polynomial(node.left.value).parted()
    if not frame.lanes or not moving.terms:
        return None
    apart = known(evaluate(frame, moving, value, INT32))
    if not isinstance(apart, tuple):
        return None
    ahead = tuple(lane - min(apart) for lane in apart)
    start = uniform(frame, fixed + number(min(apart)), value)
    if isinstance(told := known(start), int):  # then so are all lanes, and what they read lies at known places
        found = (told + lane for lane in ahead)
        return literal(I32, tuple(place // divisor if node.op == "floordiv" else place % divisor for place in found))
    turns, place = (_of_all(frame, op, start, divisor) for op in ("floordiv", "mod"))
    builder, lanes = frame.builder, shaped(I32, frame.lanes)
    places = builder.add(splat(builder, place, frame.lanes), literal(I32, ahead))
    if max(ahead) <= divisor:
        beyond = builder.icmp_unsigned(">=", places, filled(lanes, divisor))
        if node.op == "mod":
            return builder.select(beyond, builder.sub(places, filled(lanes, divisor)), places)
        quotient = builder.zext(beyond, lanes)
    else:
        factor, shift = reciprocal(divisor, divisor + max(ahead))
        if not factor:
            return None
        quotient = builder.lshr(builder.mul(places, filled(lanes, factor)), filled(lanes, shift))
        if node.op == "mod":
            return builder.sub(places, builder.mul(quotient, filled(lanes, divisor)))
    return builder.add(splat(builder, turns, frame.lanes), quotient)


def _of_all(frame: Frame, op: str, start: Value, divisor: int) -> Value:
    """The quotient, or rest, of what is the same in every lane and not known, in 32 bits."""

    def emitted() -> Value:
        return frame.builder.trunc(binary(frame.builder, frame.target, op, INT64, start, literal(start.type, divisor)), I32)

    return frame.numbering.once((start, op, divisor), emitted)


def reciprocal(divisor: int, end: int) -> tuple[int, int]:
    """A factor and a shift by which `n // divisor == n * factor >> shift` for all n below `end`, in 32 bits; a factor of 0 for none."""
    for shift in range(32):
        factor = (1 << shift) // divisor + 1
        if end * factor >= 1 << 32:
            break
        if end * (factor * divisor - (1 << shift)) <= 1 << shift:
            return factor, shift
    return 0, 0
