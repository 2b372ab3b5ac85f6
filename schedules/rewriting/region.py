"""Which part of a tensor is used inside a loop: a box, with a base that outer loops place and extents that are literals.

Indices are expanded into loops and taken as linear forms; the loops inside vary over their ranges, everything else stays in the base.
The box holds at least what is read, so a copy or a producer of the whole box is always enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tensorlang import ir
from tensorlang.algebra.simplify import simplify
from tensorlang.ir import Axis, Binary, Const, Expr, For, FuseRelation, Nest, Select, SplitRelation, WindowRelation
from tensorlang.ir.linear import Linear, expression, linear
from tensorlang.ir.relations import derived_values
from tensorlang.ir.traverse import axes_of, loads_of, map_children, substitute
from tensorlang.schedules.rewriting import edit


@dataclass(frozen=True, slots=True)
class Span:
    """`base <= index < base + extent`, of one dimension."""

    base: Expr
    extent: Expr


def expand(nest: Nest, expr: Expr, loops: Iterable[str]) -> Expr:
    """The expression over loops alone, where its derived axes are splits and windows; other derived axes stay."""
    known = set(loops)
    values: dict[str, Expr] = {}
    for relation in reversed(nest.relations):
        if not isinstance(relation, FuseRelation):
            values.update({axis: value for axis, value in derived_values(relation).items() if axis not in known})
    splits = [relation for relation in nest.relations if isinstance(relation, SplitRelation) and relation.parent in values]
    digits = {split.parent: split for split in splits if split.lo == ir.const(0) and split.tail != "shift"}
    while axes_of(expr) & values.keys():
        expr = substitute(_digits(expr, digits) if digits else expr, values)
    return simplify(expr)


def _digits(expr: Expr, splits: Mapping[str, SplitRelation]) -> Expr:
    """The expression with the loops of a split for the quotient and the remainder of what was split by its factor: a blocked layout."""
    match expr:
        case Binary("floordiv" | "mod" as op, Axis(name), Const(by)) if name in splits and splits[name].factor == by:
            return Axis(splits[name].outer if op == "floordiv" else splits[name].inner)
        case _:
            return map_children(expr, lambda part: _digits(part, splits))


def greatest_literal(extent: Expr) -> int | None:
    """A literal that an extent never exceeds."""
    match extent:
        case Const(value, _):
            return max(0, int(value))
        case Binary("min", left, right):
            found = [side for side in (greatest_literal(left), greatest_literal(right)) if side is not None]
            return min(found) if found else None
        case _:
            return None


def whole_start(loop: For) -> Expr:
    """Where the loop of a sliding window would start if it did not slide: its start has a choice of two literals that its end has not."""
    sides = (loop.hi.left, loop.hi.right) if isinstance(loop.hi, Binary) and loop.hi.op == "min" else (loop.hi,)
    form = linear(loop.lo)
    for atom, factor in tuple(form.terms.items()):
        match atom:
            case Select(_, Const(yes), Const(no)) if not any(atom in linear(side).terms for side in sides):
                ends = (factor * int(yes), factor * int(no))
                form = form.plus(Linear(0, {atom: factor}), -1).plus(Linear(min(ends)))
            case _:
                pass
    return expression(form) if form.terms != linear(loop.lo).terms else loop.lo


def trip_bound(loop: For) -> int | None:
    """A literal that the number of iterations never exceeds."""
    candidates = [loop.hi]
    if isinstance(loop.hi, Binary) and loop.hi.op == "min":
        candidates = [loop.hi.left, loop.hi.right]
    start = whole_start(loop)
    found = [greatest_literal(simplify(Binary("sub", hi, start))) for hi in candidates]
    literal = [value for value in found if value is not None]
    return min(literal) if literal else None


def region(
    nest: Nest, uses: Sequence[tuple[tuple[Expr, ...], Sequence[For]]], shape: tuple[Expr, ...], outer: Iterable[str]
) -> tuple[Span, ...]:
    """The box of `shape` that holds every use: an index, with the loops inside which surround it.

    A dimension whose used part has no literal bound is taken whole.
    """
    outer_names = tuple(outer)
    return tuple(
        _span(nest, [(index[dimension], loops) for index, loops in uses], extent, outer_names) for dimension, extent in enumerate(shape)
    )


def _span(nest: Nest, uses: Sequence[tuple[Expr, Sequence[For]]], whole: Expr, outer: tuple[str, ...]) -> Span:
    everything = Span(ir.const(0), whole)
    least: Linear | None = None
    size = 0
    for index, loops in uses:
        found = _use(nest, index, loops, outer)
        if found is None:
            return everything
        base, extent = found
        if least is None:
            least, size = base, extent
            continue
        apart = base.plus(least, -1)
        if not apart.is_constant:
            return everything
        if apart.constant < 0:
            least, size = base, max(extent, size - apart.constant)
        else:
            size = max(size, extent + apart.constant)
    if least is None or (isinstance(whole, Const) and size >= whole.value):
        return everything
    base_expr = expression(least)
    if not _natural(nest, least):
        base_expr = Binary("max", base_expr, ir.const(0))
    return Span(base_expr, ir.const(size))


def _natural(nest: Nest, form: Linear) -> bool:
    """Is a form nowhere below zero, as far as the starts of loops tell? A shifted or skewed loop may start there."""
    if form.constant < 0 or any(factor < 0 for factor in form.terms.values()):
        return False
    starts = {part.loop: part.lo for part in edit.loops(nest.body)}
    for relation in nest.relations:
        match relation:
            case SplitRelation(parent, lo=lo):
                starts[parent] = lo
            case FuseRelation(outer=outer, inner=inner, outer_lo=outer_lo, inner_lo=inner_lo):
                starts[outer], starts[inner] = outer_lo, inner_lo
            case WindowRelation():
                pass
    return all(_not_negative(atom, starts) for atom in form.terms)


def _not_negative(atom: Expr, starts: dict[str, Expr]) -> bool:
    match atom:
        case ir.Dim():
            return True
        case Axis(name):
            return _starts_at_zero(starts, name)
        case Binary("min", left, right):  # the start of a shifted tile
            forms = (linear(left), linear(right))
            return all(
                form.constant >= 0 and all(factor > 0 and _not_negative(part, starts) for part, factor in form.terms.items())
                for form in forms
            )
        case Binary("mod", _, Const(by)):
            return by > 0
        case _:
            return False


def _starts_at_zero(starts: dict[str, Expr], name: str) -> bool:
    match starts.get(name):
        case None:
            return False
        case Binary("max", _, Const(value)) | Const(value):
            return value >= 0
        case lo:
            form = linear(lo)
            rest = {part: start for part, start in starts.items() if part != name}
            inside = all(isinstance(atom, Axis) and factor > 0 and _starts_at_zero(rest, atom.name) for atom, factor in form.terms.items())
            return form.constant >= 0 and inside


def _use(nest: Nest, index: Expr, loops: Sequence[For], outer: tuple[str, ...]) -> tuple[Linear, int] | None:
    inside = [loop.loop for loop in loops]
    form = linear(expand(nest, index, (*outer, *inside)))
    base, spread = Linear(form.constant), 0
    pending = dict(form.terms)
    for loop in reversed(loops):  # innermost first: the start of a loop may count with the loops around it, which may then cancel out
        factor = pending.pop(Axis(loop.loop), 0)
        if not factor:
            continue
        trips = trip_bound(loop)
        if trips is None:
            return None
        if trips == 0:
            return base, 0
        lo = linear(expand(nest, whole_start(loop), (*outer, *inside)))
        base = Linear(base.constant + factor * lo.constant, base.terms)
        for part, coefficient in lo.terms.items():
            pending[part] = pending.get(part, 0) + factor * coefficient
        reach = factor * (trips - 1)
        spread += abs(reach)
        base = Linear(base.constant + min(reach, 0), base.terms)
    for rest, factor in pending.items():
        if not factor:
            continue
        if axes_of(rest) - set(outer) or any(True for _ in loads_of(rest)):
            return None  # a loaded index may be readable only under the conditions of its use
        base = base.plus(Linear(0, {rest: factor}))
    return base, spread + 1
