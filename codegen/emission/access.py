"""Index expressions to addresses: the polynomial of an offset becomes instructions, outer loops first.

The uniform part of an offset is added up outside in, so that what an inner loop does not change can leave it, and its constant comes
last, as the displacement of the instruction. What is left tells how the access moves with the lane.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tensorlang import ir
from tensorlang.codegen.emission.affine import LANE, Atom, Polynomial, Strided, classify
from tensorlang.codegen.emission.arithmetic import binary, decided
from tensorlang.codegen.emission.frame import Frame
from tensorlang.codegen.emission.neighbours import held
from tensorlang.codegen.emission.spans import before
from tensorlang.codegen.emission.types import I1, I64, Builder, Value, intrinsic, known, lanes_of, literal
from tensorlang.codegen.emission.vector_access import VectorAccess, address
from tensorlang.ir.dtype import INT64

Evaluate = Callable[[Frame, ir.Expr], Value]


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
        offsets = evaluate(frame, moving, value)
    start = _uniform(frame, fixed.without_offset(), value)
    if offsets is not None and not lanes_of(offsets):  # the same in every lane after all
        start, offsets = binary(frame.builder, frame.target, "add", INT64, start, offsets), None
    base = frame.numbering.once((place.pointer, start), lambda: address(frame.builder, buffer.dtype, place.pointer, start))
    registers = held(frame, buffer.name, place, base, fixed, moving) if reads and not place.own else None
    base = address(frame.builder, buffer.dtype, base, literal(I64, fixed.offset))
    block = before(frame, buffer.name, place, fixed, moving)
    access = VectorAccess(place, base, frame.lanes, step, offsets, before=block, held=registers)
    if not place.own or known(start) != 0:
        return access
    lanes = access.constant_offsets()
    inside = lanes is not None and fixed.offset + min(lanes, default=0) >= 0 and fixed.offset + max(lanes, default=0) < place.own
    return replace(access, owned=inside)


def _uniform(frame: Frame, polynomial: Polynomial, value: Evaluate) -> Value:
    """The value of a polynomial that is the same in every lane, computed once: neighbours in a tile share it."""
    opaque = frame.space.opaque
    if opaque and any(atom.name in opaque for monomial in polynomial.terms for atom in monomial):  # it may read memory
        return evaluate(frame, polynomial, value)
    terms = tuple((monomial, factor, *(frame.scalars[atom.name] for atom in monomial)) for monomial, factor in polynomial.terms.items())
    return frame.numbering.once(terms, lambda: evaluate(frame, polynomial, value))


def evaluate(frame: Frame, polynomial: Polynomial, value: Evaluate) -> Value:
    """The value of a polynomial: a scalar, or a vector where it has a varying atom."""
    total = literal(I64, 0)
    by_depth = sorted(polynomial.terms.items(), key=lambda term: (max((atom.depth for atom in term[0]), default=1 << 30), term[0]))
    for monomial, coefficient in by_depth:
        product = literal(I64, 1)
        for atom in monomial:
            product = _arithmetic(frame, "mul", product, _atom(frame, atom, value))
        product = _arithmetic(frame, "mul", product, literal(I64, coefficient))
        total = _arithmetic(frame, "add", total, product)
    return total


def _arithmetic(frame: Frame, op: str, a: Value, b: Value) -> Value:
    """A sum or product of indices, which is shared where it is the same in every lane."""

    def emitted() -> Value:
        return binary(frame.builder, frame.target, op, INT64, a, b)

    if lanes_of(a) or lanes_of(b):
        return emitted()
    short = decided(op, INT64, a, b)
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
