"""What an expression never exceeds while loops run, over none of them: where a box ends, and what its storage holds at most."""

from __future__ import annotations

from collections.abc import Sequence

from tensorlang import ir
from tensorlang.algebra.simplify import simplify
from tensorlang.ir import Axis, Binary, Expr, For, Nest
from tensorlang.ir.linear import Linear, expression, linear
from tensorlang.ir.relations import closure, derived_values, in_scope
from tensorlang.ir.traverse import axes_of, substitute
from tensorlang.schedules.rewriting.region import expand


def greatest(nest: Nest, expr: Expr, loops: Sequence[For]) -> Expr | None:
    """An expression that `expr` never exceeds while the loops run, over none of them; None where it is not linear in them."""
    names = [part.loop for part in loops]
    expr = _within_tails(nest, contracted(nest, expr, frozenset(names)))
    for position, loop in reversed(list(enumerate(loops))):
        expr = expand(nest, expr, names)
        form = linear(expr)
        factor = form.terms.get(Axis(loop.loop), 0)
        hidden = next((atom for atom in form.terms if loop.loop in axes_of(atom) and atom != Axis(loop.loop)), None)
        if isinstance(hidden, Binary) and hidden.op in ("min", "max"):
            others = form.plus(Linear(0, {hidden: form.terms[hidden]}), -1)
            sides = (expression(others.plus(linear(side), form.terms[hidden])) for side in (hidden.right, hidden.left))
            found = [greatest(nest, side, loops[: position + 1]) for side in sides]  # the ends of the others stand in the expression
            ends = [end for end in found if end is not None]
            if hidden.op == ("min" if form.terms[hidden] > 0 else "max"):  # either side is a bound
                return next(iter(ends), None)
            return simplify(Binary("max", *ends)) if len(ends) == len(found) else None
        if hidden is not None:
            return None
        if factor:
            end: Expr = Binary("sub", loop.hi, ir.const(1)) if factor > 0 else loop.lo
            rest = Binary("sub", expr, Binary("mul", ir.const(factor), Axis(loop.loop)))
            expr = simplify(Binary("add", rest, Binary("mul", ir.const(factor), end)))
    return None if closure(nest, axes_of(expr)) & set(names) else expr


def contracted(nest: Nest, expr: Expr, loops: frozenset[str]) -> Expr:
    """The expression over the axes that loops were made of by split, skew and shift: their ends are known.

    An axis that was skewed by one of an inner loop stays: it has other values in each iteration of that. So does the inner loop of a split
    whose outer one is not among the loops: where its tile ends says more than where all do.
    """
    form, known = linear(simplify(expr)), loops | closure(nest, axes_of(expr))
    moving = loops.union(*(derived_values(relation) for relation in in_scope(nest, loops)))
    for relation in reversed(nest.relations):
        match relation:
            case ir.SplitRelation(parent, outer, inner, lo=lo) if outer in moving:
                by = form.terms.get(Axis(inner), 0)
                digits = linear(simplify(Binary("sub", derived_values(relation)[parent], lo)))
                if by and all(form.terms.get(atom, 0) == by * factor for atom, factor in digits.terms.items()):
                    form = form.plus(digits, -by).plus(linear(simplify(Binary("sub", Axis(parent), lo))), by)
            case ir.WindowRelation(parent, inner, base) if axes_of(base) <= known:
                by = form.terms.get(Axis(inner), 0)
                moved = Binary("sub", Binary("sub", Axis(parent), base), Axis(inner))
                form = form.plus(linear(simplify(moved)), by) if by else form
            case _:
                pass
    return expression(form)


def _within_tails(nest: Nest, expr: Expr) -> Expr:
    """An expression that is nowhere below: derived axes replaced by the ends that the conditions of tails give them.

    These bound more tightly than the loops do. The end of a loop may speak of an axis of a loop that was split before it, so the latest
    comes first.
    """
    for relation in reversed(nest.relations):
        if isinstance(relation, (ir.SplitRelation, ir.WindowRelation)):
            form = linear(expr)
            if form.terms.get(Axis(relation.parent), 0) > 0:
                last = Binary("sub", relation.hi, ir.const(1))
                expr = simplify(substitute(expression(form), {relation.parent: last}))
    return expr
