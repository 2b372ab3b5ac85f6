"""Interchange of two loops of which the inner one's bounds depend on the outer one: the bounds by projection.

    for t in range(n):                              for w in range(2 n - 1):
        for w in range(t, t + n):       ->              for t in range(max(0, w - n + 1), min(n, w + 1)):

The four bounds are linear constraints on the pair. The new outer loop runs over their projection (Fourier-Motzkin elimination of the
old outer loop: each lower bound of it with each upper bound), the new inner loop over what the constraints leave of the old outer one.
The inner bounds are exact on integers, so the pair visits the same iterations; the outer ones may hold values for which the inner
loop is empty. A bound that another one implies is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tensorlang import ir
from tensorlang.algebra.simplify import simplify
from tensorlang.ir import Axis, Binary, Const, Expr, For, Nest
from tensorlang.ir.linear import Linear, bound_terms, expression, linear
from tensorlang.ir.printer import short
from tensorlang.ir.relations import closure
from tensorlang.ir.traverse import axes_of
from tensorlang.schedules.directive import Refusal
from tensorlang.schedules.legality.accesses import facts_of
from tensorlang.schedules.legality.narrowing import extremum
from tensorlang.schedules.rewriting.region import expand


def exchanged(nest: Nest, outer: For, inner: For, around: Sequence[For]) -> tuple[For, For]:
    """The two loops with their new bounds, the old inner one first; `around` are the loops outside. Raises `Refusal`."""
    for loop in (outer, inner):
        if loop.kind != "serial":
            raise Refusal("TL-S107", f"the loop {short(loop.loop)!r} is already {loop.kind}; reorder before", loop=loop.loop)
    names = [part.loop for part in (*around, outer, inner)]
    known = _constraints(nest, outer, names, outer, inner) + _constraints(nest, inner, names, outer, inner)
    o = Axis(outer.loop)
    projected = [form for form in known if o not in form.terms]
    for low in (form for form in known if form.terms.get(o, 0) > 0):
        for high in (form for form in known if form.terms.get(o, 0) < 0):
            projected.append(low.times(-high.terms[o]).plus(high, low.terms[o]))  # noqa: PERF401 - two loops read better
    facts = [fact for loop in around for fact in facts_of(loop)]
    new_outer = _bounded(inner, projected, facts)
    new_inner = _bounded(outer, known, [*facts, *facts_of(new_outer)])
    return new_outer, new_inner


def _constraints(nest: Nest, loop: For, names: list[str], outer: For, inner: For) -> list[Linear]:
    """The bounds of a loop as linear forms that are at least 0."""
    own = linear(Axis(loop.loop))
    found: list[Linear] = []
    for bound, lower in ((loop.lo, True), (loop.hi, False)):
        for term in bound_terms(expand(nest, bound, names), lower=lower):
            form = own.plus(term, -1) if lower else term.plus(own, -1).plus(Linear(-1))
            found.append(_without_floor(form, outer.loop))
            _require_linear(nest, found[-1], loop, outer, inner)
    return found


def _without_floor(form: Linear, loop: str) -> Linear:
    """`form >= 0` without floor divisions over a loop.

    `r + floor(e / c) >= 0` is `c r + e >= 0`, and `r - floor(e / c) >= 0` is `c r - e + c - 1 >= 0`.
    """
    for atom, factor in form.terms.items():
        if (
            isinstance(atom, Binary)
            and atom.op == "floordiv"
            and isinstance(atom.right, Const)
            and atom.right.value > 0
            and abs(factor) == 1
            and loop in axes_of(atom)
        ):
            by = int(atom.right.value)
            rest = form.plus(Linear(0, {atom: factor}), -1).times(by).plus(linear(atom.left), factor)
            return _without_floor(rest if factor > 0 else rest.plus(Linear(by - 1)), loop)
    return form


def _require_linear(nest: Nest, form: Linear, loop: For, outer: For, inner: For) -> None:
    for atom in form.terms:
        if atom not in (Axis(outer.loop), Axis(inner.loop)) and closure(nest, axes_of(atom)) & {outer.loop, inner.loop}:
            raise Refusal(
                "TL-S104",
                f"the bounds of {short(loop.loop)!r} depend on {short(outer.loop)!r}, and not as a linear form, "
                "so the two cannot change places",
                loop=loop.loop,
            )


def _bounded(loop: For, constraints: Iterable[Linear], facts: Sequence[Expr]) -> For:
    """The loop with the bounds that constraints `form >= 0` give it."""
    axis = Axis(loop.loop)
    lows: list[Expr] = []
    highs: list[Expr] = []
    for form in constraints:
        factor = form.terms.get(axis, 0)
        if factor:
            rest = form.plus(Linear(0, {axis: factor}), -1)
            size = ir.const(abs(factor))
            start = rest.times(-1).plus(Linear(factor - 1)) if factor > 0 else rest.plus(Linear(-factor))
            (lows if factor > 0 else highs).append(simplify(Binary("floordiv", expression(start), size)))
    return replace(loop, lo=extremum("max", lows, facts), hi=extremum("min", highs, facts))
