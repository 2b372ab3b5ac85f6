"""Index expressions to addresses: the polynomial of an offset becomes instructions, outer loops first.

The uniform part of an offset is added up outside in, so that what an inner loop does not change can leave it, and its constant comes
last, as the displacement of the instruction. What is left tells how the access moves with the lane.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Final

from tensorlang import ir
from tensorlang.codegen.emission.affine import LANE, Atom, Polynomial, Strided, Varying, classify, lane_step
from tensorlang.codegen.emission.arithmetic import binary, decided
from tensorlang.codegen.emission.frame import Frame
from tensorlang.codegen.emission.neighbours import held
from tensorlang.codegen.emission.spans import before
from tensorlang.codegen.emission.types import (
    I1,
    I32,
    I64,
    Builder,
    Value,
    element_of,
    in_register,
    intrinsic,
    known,
    lanes_of,
    literal,
    shaped,
)
from tensorlang.codegen.emission.vector_access import BufferAddress, VectorAccess, address
from tensorlang.ir.dtype import INT32, INT64, DType
from tensorlang.schedules.rewriting.rising import rises

Evaluate = Callable[[Frame, ir.Expr], Value]
LARGEST: Final = (1 << 31) - 1
"""The largest number of an element that 32 bits hold."""


def access_of(frame: Frame, buffer: ir.Buffer, index: tuple[ir.Expr, ...], value: Evaluate, *, reads: bool = False) -> VectorAccess:
    """The elements of `buffer[index]` in the current lanes; `value` evaluates expressions. A statement that `reads` may hold them."""
    place = frame.places[buffer.name]
    offset = frame.space.offset(index, place.shape)
    fixed, moving = offset.parted()
    pattern = classify(moving)
    step, offsets = 0, None
    if isinstance(pattern, Strided):
        step = pattern.step
    elif moving.terms:
        offsets = _lanes(frame, moving, value) if _is_short(place, fixed.offset) else evaluate(frame, moving, value)
        first, step = _evenly(offsets)
        if step:
            fixed, moving, offsets = fixed + Polynomial({(): first}), Polynomial({(LANE,): step}), None
    beyond = None if reads or offsets is None or element_of(offsets) == I32 else distance(frame, index, moving)
    apart = None if beyond is None else uniform(frame, beyond, value)
    start = uniform(frame, fixed.without_offset(), value)
    if offsets is not None and element_of(offsets) == I32:
        start, offsets = literal(I64, 0), _sum(frame, start, offsets)
    if offsets is not None and not lanes_of(offsets):  # the same in every lane after all
        start, offsets = binary(frame.builder, frame.target, "add", INT64, start, offsets), None
    base = frame.numbering.once((place.pointer, start), lambda: address(frame.builder, buffer.dtype, place.pointer, start))
    registers = held(frame, buffer.name, place, base, fixed, moving) if reads and not place.own else None
    base = address(frame.builder, buffer.dtype, base, literal(I64, fixed.offset))
    block = before(frame, buffer.name, place, fixed, moving)
    rising = reads and offsets is not None and rises(index, frame.lane_axis)
    access = VectorAccess(place, base, frame.lanes, step, offsets, before=block, held=registers, rises=rising, apart=apart)
    if not place.own or known(start) != 0:
        return access
    lanes = access.constant_offsets()
    inside = lanes is not None and fixed.offset + min(lanes, default=0) >= 0 and fixed.offset + max(lanes, default=0) < place.own
    return replace(access, owned=inside)


def distance(frame: Frame, index: tuple[ir.Expr, ...], moving: Polynomial) -> Polynomial | None:
    """How far each lane is beyond the one before, where literals tell, or extents: then each is at another place of an axis.

    None where lanes are not evenly apart, and where a number in an index tells how far, by which they may be the same.
    """
    step = lane_step(moving)
    if step is None or step.constant is not None:
        return step
    parts = (frame.space.polynomial(part).parted()[1] for part in index)
    return None if any(isinstance(classify(part), Varying) for part in parts) else step


def _evenly(offsets: Value) -> tuple[int, int]:
    """The first of known places that lie evenly apart, and how far; 0 where they do not.

    Places of all lanes may say so though their expression does not: `2 * s & 63` is every other element, and begins anew at lane 32.
    """
    lanes = known(offsets)
    if not isinstance(lanes, tuple) or len(apart := {after - one for one, after in pairwise(lanes)}) != 1:
        return 0, 0
    return lanes[0], apart.pop()


def _is_short(place: BufferAddress, apart: int) -> bool:
    """Has each element a number that 32 bits hold, also as a distance from the one at `apart`?"""
    extents = [part.value for part in place.shape if isinstance(part, ir.Const)]
    return len(extents) == len(place.shape) and math.prod(extents) + abs(apart) <= LARGEST


def _lanes(frame: Frame, moving: Polynomial, value: Evaluate) -> Value:
    """What changes with the lane of an element's number, in 32 bits; in 64 where it is known, or the same in every lane after all.

    The whole number lies inside of the buffer, so its last 32 bits tell it, however the parts of the sum wrap.
    """
    found = evaluate(frame, moving, value, INT32)
    return found if lanes_of(found) and known(found) is None else evaluate(frame, moving, value)


def _sum(frame: Frame, start: Value, offsets: Value) -> Value:
    """The last 32 bits of a sum."""
    return offsets if known(start) == 0 else binary(frame.builder, frame.target, "add", INT32, _short(frame, start), offsets)


def _short(frame: Frame, number: Value) -> Value:
    """The last 32 bits of an index."""
    told, lanes = known(number), lanes_of(number)
    if told is not None:
        return literal(I32, told)
    return frame.numbering.once((number, "short"), lambda: frame.builder.trunc(number, shaped(I32, lanes)))


def uniform(frame: Frame, polynomial: Polynomial, value: Evaluate) -> Value:
    """The value of a polynomial that is the same in every lane, computed once: neighbours in a tile share it."""
    opaque = frame.space.opaque
    if opaque and any(atom.name in opaque for monomial in polynomial.terms for atom in monomial):  # it may read memory
        return evaluate(frame, polynomial, value)
    terms = tuple((monomial, factor, *(frame.scalars[atom.name] for atom in monomial)) for monomial, factor in polynomial.terms.items())
    return frame.numbering.once(terms, lambda: evaluate(frame, polynomial, value))


def evaluate(frame: Frame, polynomial: Polynomial, value: Evaluate, kind: DType = INT64) -> Value:
    """The value of a polynomial, in integers of a kind: a scalar, or a vector where it has a varying atom."""
    number = in_register(kind)
    total = literal(number, 0)
    by_depth = sorted(polynomial.terms.items(), key=lambda term: (max((atom.depth for atom in term[0]), default=1 << 30), term[0]))
    for monomial, coefficient in by_depth:
        product = literal(number, 1)
        for atom in monomial:
            factor = _atom(frame, atom, value)
            product = _arithmetic(frame, "mul", kind, product, factor if kind == INT64 else _short(frame, factor))
        product = _arithmetic(frame, "mul", kind, product, literal(number, coefficient))
        total = _arithmetic(frame, "add", kind, total, product)
    return total


def _arithmetic(frame: Frame, op: str, kind: DType, a: Value, b: Value) -> Value:
    """A sum or product of indices, which is shared where it is the same in every lane."""

    def emitted() -> Value:
        return binary(frame.builder, frame.target, op, kind, a, b)

    if lanes_of(a) or lanes_of(b):
        return emitted()
    short = decided(op, kind, a, b)
    return frame.numbering.operation(frame.builder, op, a, b, emitted) if short is None else short


def _atom(frame: Frame, atom: Atom, value: Evaluate) -> Value:
    if atom == LANE:
        return literal(I64, tuple(range(frame.lanes)))
    expr = frame.space.opaque.get(atom.name)
    return frame.scalars[atom.name] if expr is None else value(frame, expr)


def any_lane(builder: Builder, mask: Value) -> Value:
    """Whether a mask holds some lane."""
    number_of = known(mask)
    if number_of is not None:
        return literal(I1, int(number_of != 0 if isinstance(number_of, int) else any(number_of)))
    return intrinsic(builder, "vector.reduce.or", I1, [mask], [mask.type]) if lanes_of(mask) else mask
