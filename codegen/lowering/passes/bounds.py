"""Conditions directly inside a loop that only bound it become its bounds.

    for k in range(n):                  for k in range(min(n, i + 1)):
        if k <= i:              ->          s += A[i, k]
            s += A[i, k]

This serves the tails of splits as well as the triangular domains of `where=`. Serial and parallel loops take any affine bound, unrolled
loops literal ones, tensor loops those that are literal once the loops around are unrolled; vector loops keep their conditions, which
become masks. A condition that the bounds imply, as those of a skewed or shifted loop do in every order, goes.
"""

from __future__ import annotations

from dataclasses import replace

from tensorlang import ir
from tensorlang.algebra.bounds import conjuncts
from tensorlang.algebra.simplify import simplify
from tensorlang.codegen.lowering.passes.effect_conditions import effect_conditions
from tensorlang.ir import Axis, Binary, Const, Expr, For, If, Stmt
from tensorlang.ir.linear import Linear, below_zero, bound_terms, expression, linear
from tensorlang.ir.traverse import axes_of, map_statements, reads_data, walk


def tighten(stmt: Stmt, lanes: frozenset[str] = frozenset(), known: frozenset[str] = frozenset()) -> Stmt:
    """The statement with conditions turned into bounds where a loop can take them.

    `lanes` are the vector loops around; a bound that differed by lane would be none. `known` are the unrolled ones.
    """
    inside = lanes | {stmt.loop} if isinstance(stmt, For) and stmt.kind == "vector" else lanes
    written = known | {stmt.loop} if isinstance(stmt, For) and stmt.kind == "unroll" else known
    stmt = map_statements(stmt, lambda part: tighten(part, inside, written))
    if not isinstance(stmt, For):
        return stmt
    loop, kept = stmt, []
    conditions, body = asked_first(stmt.body)
    for condition in conditions:
        if _implied(stmt, condition):
            continue
        stays = stmt.kind == "vector" or (stmt.kind == "tensor" and not axes_of(condition) <= known | {stmt.loop})
        data = reads_data(condition)  # `passes.ranges` has seen those
        tight = None if stays or data or axes_of(condition) & lanes else bounded(loop, condition)
        if tight is None:
            kept.append(condition)
        else:
            loop = tight
    for condition in effect_conditions(body) if not lanes and stmt.kind in ("serial", "parallel") else ():
        data = reads_data(condition)
        tight = None if data or _implied(loop, condition) else bounded(loop, condition)
        loop = loop if tight is None else tight
    if len(kept) == len(conditions):
        return replace(loop, body=stmt.body)
    for condition in reversed(kept):
        body = If(condition, body)
    return replace(loop, body=body)


def asked_first(body: Stmt) -> tuple[list[Expr], Stmt]:
    """The conditions that a body asks before it does anything, and what it does where they hold."""
    conditions: list[Expr] = []
    while isinstance(body, If) and body.orelse is None:
        conditions += conjuncts((body.cond,))
        body = body.then
    return conditions, body


def _implied(loop: For, condition: Expr) -> bool:
    """Do the bounds of the loop alone make an order of two indices hold?"""
    form = below_zero(condition)
    factor = 0 if form is None else form.terms.get(Axis(loop.loop), 0)
    if form is None or factor == 0:
        return False
    rest = form.plus(Linear(0, {Axis(loop.loop): factor}), -1)
    ends = [term.plus(Linear(-1)) for term in bound_terms(loop.hi, lower=False)] if factor > 0 else bound_terms(loop.lo, lower=True)
    return any(most.is_constant and most.constant < 0 for most in (_at_most(rest.plus(end, factor)) for end in ends))


def _at_most(form: Linear) -> Linear:
    """A form that is nowhere below, with fewer floor divisions: `e - c < c floor(e / c) <= e`."""
    for atom, factor in form.terms.items():
        by = int(atom.right.value) if isinstance(atom, Binary) and isinstance(atom.right, Const) else 0
        if isinstance(atom, Binary) and atom.op == "floordiv" and by > 0 and factor % by == 0:  # a quotient by 0 is 0, and says nothing
            whole = linear(atom.left) if factor > 0 else linear(atom.left).plus(Linear(1 - by))
            return _at_most(form.plus(Linear(0, {atom: factor}), -1).plus(whole, factor // by))
    return form


def bounded(loop: For, condition: Expr) -> For | None:
    """The loop bounded by a condition, or None where that cannot be expressed."""
    form = below_zero(condition)
    if form is None:
        return None
    axis = Axis(loop.loop)
    factor = form.terms.get(axis, 0)
    rest = Linear(form.constant, {atom: value for atom, value in form.terms.items() if atom != axis})
    if factor == 0 or any(axis in walk(atom) for atom in rest.terms):
        return None
    if factor > 0:  # factor * loop < -rest
        room = expression(Linear(factor - 1).plus(rest, -1))
        hi = simplify(Binary("min", loop.hi, simplify(Binary("floordiv", room, ir.const(factor)))))
        return replace(loop, hi=hi) if loop.kind != "unroll" or isinstance(hi, Const) else None
    least = expression(rest.plus(Linear(-factor)))  # rest < -factor * loop, so loop >= floor((rest - factor) / -factor)
    lo = simplify(Binary("max", loop.lo, simplify(Binary("floordiv", least, ir.const(-factor)))))
    return replace(loop, lo=lo) if loop.kind != "unroll" or isinstance(lo, Const) else None
