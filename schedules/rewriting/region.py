"""Which part of a tensor is used inside a loop: a box, with a base that outer loops place and extents that are literals.

Indices are expanded into loops and taken as linear forms; the loops inside vary over their ranges, everything else stays in the base.
The box holds at least what is read, so a copy or a producer of the whole box is always enough. Where reads are clamped to the tensor, as
of an image that is repeated at its edge, the box is that of what they are without the clamp, its base clamped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tensorlang import ir
from tensorlang.algebra.simplify import simplify
from tensorlang.ir import Axis, Binary, Const, Expr, For, FuseRelation, Nest, Select, SplitRelation, WindowRelation
from tensorlang.ir.linear import Linear, expression, linear
from tensorlang.ir.relations import derived_values
from tensorlang.ir.traverse import axes_of, map_children, reads_data, substitute
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
    everything, last = Span(ir.const(0), whole), simplify(Binary("sub", whole, ir.const(1)))
    found: list[_Use] = []
    for index, loops in uses:
        use = _use(nest, index, loops, outer, last)
        if use is None:
            return everything
        found.append(use)
    joined = _joined(found) or _joined([_relaxed(use, last) for use in found])  # some may begin where loops do that are clamped
    if joined is None or (isinstance(whole, Const) and joined.extent >= whole.value):
        return everything
    base = expression(joined.base)
    if joined.clamped and not _at_most(nest, joined.base, last):
        base = Binary("min", base, last)
    if not _natural(nest, joined.base):
        base = Binary("max", base, ir.const(0))
    return Span(base, ir.const(joined.extent))


class _Use(NamedTuple):
    """Where what is used begins, for given iterations of the outer loops, and how many elements hold it; is the base to be `clamped`?"""

    base: Linear
    extent: int
    clamped: bool


def _joined(uses: Sequence[_Use]) -> _Use | None:
    """What holds all of these; None where there are none, or how far they are apart is not known."""
    if not uses:
        return None
    least, size = uses[0].base, uses[0].extent
    for base, extent, _ in uses[1:]:
        apart = base.plus(least, -1)
        if not apart.is_constant:
            return None
        if apart.constant < 0:
            least, size = base, max(extent, size - apart.constant)
        else:
            size = max(size, extent + apart.constant)
    return _Use(least, size, any(use.clamped for use in uses))


def _relaxed(use: _Use, last: Expr) -> _Use:
    """A use whose base has no clamps to the tensor, since it is clamped itself.

    What `max(e, 0) + c` begins lies in what `max(e + c, 0)` does, `c` wider; and what `min(e, last) + c` begins in what `min(e + c, last)`
    does, for no negative `c`, since the rest is not there.
    """
    constant = use.base.constant
    match list(use.base.terms.items()):
        case [(Binary("max", inner, Const(0)), 1)]:
            return _relaxed(_Use(linear(inner).plus(Linear(constant)), use.extent + max(constant, 0), True), last)
        case [(Binary("min", inner, bound), 1)] if constant >= 0 and linear(bound) == linear(last):
            return _relaxed(_Use(linear(inner).plus(Linear(constant)), use.extent, True), last)
        case _:
            return use


def _unclamped(index: Expr, last: Expr) -> Expr:
    """An index without clamps to the tensor itself.

    A clamp keeps order and takes nothing further apart, so what it gives lies in the box of what it is given once the base of that is
    clamped. An index without one is where it would clamp it to.
    """
    match index:
        case Binary("max", inner, Const(0)) | Binary("max", Const(0), inner):
            return _unclamped(inner, last)
        case Binary("min", inner, bound) if linear(bound) == linear(last):
            return _unclamped(inner, last)
        case Binary("min", bound, inner) if linear(bound) == linear(last):
            return _unclamped(inner, last)
        case _:
            return index


def _at_most(nest: Nest, form: Linear, last: Expr) -> bool:
    """Is a form nowhere above an extent's last element, as far as the ends of loops tell?"""
    most, ends = Linear(form.constant), {part.loop: part.hi for part in edit.loops(nest.body)}
    for atom, factor in form.terms.items():
        end = ends.get(atom.name) if isinstance(atom, Axis) else None
        if isinstance(atom, ir.Dim):
            most = most.plus(Linear(0, {atom: factor}))
        elif end is None or factor < 0:
            return False
        elif isinstance(end, Binary) and end.op == "floordiv" and end.right == ir.const(factor):  # the tiles of a split
            most = most.plus(linear(end.left)).plus(Linear(-factor))
        else:
            most = most.plus(linear(end), factor).plus(Linear(-factor))
    over = most.plus(linear(last), -1)
    return over.is_constant and over.constant <= 0


def _natural(nest: Nest, form: Linear) -> bool:
    """Is a form nowhere below zero, as far as the starts of loops tell? A shifted or skewed loop may start there."""
    starts = {part.loop: part.lo for part in edit.loops(nest.body)}
    form = _begun(form, starts)
    if form.constant < 0 or any(factor < 0 for factor in form.terms.values()):
        return False
    for relation in nest.relations:
        match relation:
            case SplitRelation(parent, lo=lo):
                starts[parent] = lo
            case FuseRelation(outer=outer, inner=inner, outer_lo=outer_lo, inner_lo=inner_lo):
                starts[outer], starts[inner] = outer_lo, inner_lo
            case WindowRelation():
                pass
    return all(_not_negative(atom, starts) for atom in form.terms)


def _begun(form: Linear, starts: Mapping[str, Expr]) -> Linear:
    """A lower bound of a form: where loops that count from others begin, which is 0 for `h - 8 h_o` if `h` starts at `8 h_o`."""
    for _ in starts:
        if all(factor > 0 for factor in form.terms.values()):
            break
        for atom, factor in tuple(form.terms.items()):
            start = starts.get(atom.name) if isinstance(atom, Axis) and factor > 0 else None
            if start is not None and axes_of(start):
                form = form.plus(linear(start).plus(Linear(0, {atom: 1}), -1), factor)
    return form


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


def _use(nest: Nest, index: Expr, loops: Sequence[For], outer: tuple[str, ...], last: Expr) -> _Use | None:
    """What is used of a dimension at an index inside loops; None where it has no literal bound."""
    inside = [loop.loop for loop in loops]
    written = expand(nest, index, (*outer, *inside))
    inner = _unclamped(written, last)
    form, spread = _quotients_apart(nest, linear(inner), loops, outer)
    clamped = inner is not written
    for loop in reversed(loops):  # innermost first: the start of a loop may count with the loops around it, which may then cancel out
        factor = form.terms.get(Axis(loop.loop), 0)
        if not factor:
            continue
        trips = trip_bound(loop)
        if trips is None:
            return None
        form = form.plus(Linear(0, {Axis(loop.loop): factor}), -1)
        if trips == 0:
            return _Use(Linear(form.constant), 0, clamped)
        form = form.plus(linear(expand(nest, whole_start(loop), (*outer, *inside))), factor)
        reach = factor * (trips - 1)
        spread += abs(reach)
        form = form.plus(Linear(min(reach, 0)))
        if any(axes_of(atom) & set(inside) and not isinstance(atom, Axis) for atom in form.terms):
            form, extent, clamped = _relaxed(_Use(form, spread + 1, clamped), last)
            spread = extent - 1
    for rest in form.terms:
        if axes_of(rest) - set(outer) or reads_data(rest):
            return None  # a loaded index may be readable only under the conditions of its use
    return _Use(form, spread + 1, clamped)


def _quotients_apart(nest: Nest, form: Linear, loops: Sequence[For], outer: tuple[str, ...]) -> tuple[Linear, int]:
    """The form with where they begin for quotients and remainders that change in the loops inside, and how far these go beyond."""
    inside, spread = {loop.loop for loop in loops}, 0
    for atom, factor in tuple(form.terms.items()):
        match atom:
            case Binary("floordiv" | "mod" as op, left, Const(value)) if axes_of(atom) & inside and value > 0:
                by, begin = int(value), Linear(0)
                reach = by - 1
                if op == "floordiv":
                    use = _use(nest, left, loops, outer, left)
                    if use is None or use.clamped or not use.extent:
                        continue
                    whole = all(part % by == 0 for part in (use.base.constant, *use.base.terms.values()))
                    begin = linear(simplify(Binary("floordiv", expression(use.base), ir.const(by))))
                    reach = (use.extent - 1 + (0 if whole else by - 1)) // by
                form = form.plus(Linear(0, {atom: factor}), -1).plus(begin, factor).plus(Linear(min(factor * reach, 0)))
                spread += abs(factor) * reach
            case _:
                pass
    return form, spread
