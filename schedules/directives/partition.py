"""`partition`: the iterations of a loop for which conditions hold, whatever some loops around do, run without asking for them.

    for i_o in range(3):                                    for i_o in range(3):
        for i_i in range(8):                                    for i_i in range(8):
            for k in range(24):                 ->                  for k in range(8 * i_o):
                if k < 8 * i_o + i_i:                                   x[i] -= A[i, k] * x[k]
                    x[i] -= A[i, k] * x[k]                          for k_last in range(8 * i_o, 24):
                                                                        if k_last < 8 * i_o + i_i:
                                                                            x[i] -= A[i, k_last] * x[k_last]

Conditions that bound the loop from above, or from below (`k >= i`, whose iterations before run in `k_first`), are asked in the rest alone.
The bounds of `k` are over the loops outside of `across` alone, so the iterations of `across` may share them: in blocks of a triangular
solution, or of a factorisation, the part of a sum that no element of the block is in. `fission(..., after="k")` takes it out of the block.

Legal always, for a serial loop whose conditions are linear: the order of iterations stays. The bounds may not depend on a lane.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from tensorlang import ir
from tensorlang.algebra.bounds import conjuncts, negated
from tensorlang.algebra.polyhedra import find
from tensorlang.algebra.rules import conjunction
from tensorlang.algebra.simplify import simplify
from tensorlang.ir import Axis, Binary, Compare, Expr, For, If, Nest, Select, Stmt, Unary, block
from tensorlang.ir.linear import Linear, below_zero, expression, linear
from tensorlang.ir.printer import short
from tensorlang.ir.relations import closure
from tensorlang.ir.traverse import axes_of, map_children, map_expressions, map_statements, reads_data, substatements
from tensorlang.schedules.directive import Directive, LoopName, Refusal
from tensorlang.schedules.legality.accesses import facts_of
from tensorlang.schedules.legality.narrowing import extremum
from tensorlang.schedules.placement.upper_bounds import greatest
from tensorlang.schedules.rewriting.copies import FreshNames, copied
from tensorlang.schedules.rewriting.edit import edit_loops, loops, path_to_loop
from tensorlang.schedules.rewriting.region import expand


class Bound(NamedTuple):
    """A condition that holds for the iterations from `end` on, or for those before it; no inner loop moves `end`."""

    condition: Expr
    end: Expr
    from_below: bool


@dataclass(frozen=True, slots=True)
class Partition(Directive):
    """Run the iterations of `loop` for which the conditions in it hold in all iterations of `across`, a loop around it, apart."""

    loop: LoopName
    across: LoopName | None = None

    def apply(self, nest: Nest) -> Nest:
        """The nest with the iterations before and after in copies."""
        path = path_to_loop(nest, self.loop)
        around = [part for part in path if isinstance(part, For)]
        loop = around.pop()
        if loop.kind != "serial":
            raise Refusal("TL-S107", f"the loop is already {loop.kind}; partition it before", loop=self.loop)
        facts = [fact for part in around for fact in facts_of(part)]
        every = _bounds(nest, loop.body, loop, [part.loop for part in around], self._moving(around))
        bounds = [bound for bound in every if _leaves_some(bound, loop, facts)]
        if not bounds:
            raise Refusal(
                "TL-S005",
                f"no condition in {short(self.loop)!r} says, by a linear form, from where or up to where it runs in whatever iterations",
                loop=self.loop,
            )
        lows = [bound.end for bound in bounds if bound.from_below]
        highs = [bound.end for bound in bounds if not bound.from_below]
        start = extremum("min", [extremum("max", [loop.lo, *lows], facts), loop.hi], facts) if lows else loop.lo
        end = extremum("max", [extremum("min", [loop.hi, *highs], facts), start], facts) if highs else loop.hi
        lanes = {part.loop for part in around if part.kind in ("vector", "tensor")}
        if not lanes.isdisjoint(closure(nest, axes_of(start) | axes_of(end))):
            hint = f"partition it before, or across={short(min(lanes))!r}"
            raise Refusal("TL-S104", f"the bounds of {short(self.loop)!r} would depend on the lane; {hint}", loop=self.loop)
        names, relations = FreshNames.of(nest), list(nest.relations)

        def rest(label: str, lo: Expr, hi: Expr) -> Stmt:
            chosen = [part.loop for part in loops(loop)]
            part = replace(loop, lo=lo, hi=hi)
            made = copied(nest, part, [part.loop for part in around], chosen, lambda axis: names.fresh(f"{axis}_{label}"))
            relations.extend(made.relations)
            return made.body

        parts: list[Stmt] = [replace(loop, lo=start, hi=end, body=_without(loop.body, frozenset(bound.condition for bound in bounds)))]
        if start != loop.lo:
            parts.insert(0, rest("first", loop.lo, start))
        if end != loop.hi:
            parts.append(rest("last", end, loop.hi))
        body = edit_loops(nest.body, lambda part: part.loop == self.loop, lambda _: block(*parts))
        return replace(nest, body=body, relations=tuple(relations))

    def _moving(self, around: Sequence[For]) -> list[For]:
        """The loops around from `across` on."""
        if self.across is None:
            return []
        names = [part.loop for part in around]
        if self.across not in names:
            raise Refusal("TL-S105", f"{short(self.across)!r} does not stand around {short(self.loop)!r}", loop=self.loop)
        return list(around[names.index(self.across) :])


def _bounds(nest: Nest, stmt: Stmt, loop: For, around: Sequence[str], moving: Sequence[For]) -> Iterator[Bound]:
    """What conditions in the body of a loop say of it that holds for all iterations of the loops `moving`, and of those inside."""
    if isinstance(stmt, For):
        moving = (*moving, stmt)
    if isinstance(stmt, If):
        for condition in conjuncts([stmt.cond]):
            bound = _bound(nest, condition, loop, around, moving)
            if bound is not None:
                yield bound
    for part in substatements(stmt):
        yield from _bounds(nest, part, loop, around, moving)


def _bound(nest: Nest, condition: Expr, loop: For, around: Sequence[str], moving: Sequence[For]) -> Bound | None:
    form = None if reads_data(condition) else below_zero(condition)
    if form is None:
        return None
    above = expression(form.times(-1))  # above 0 where it holds
    slack = linear(expand(nest, above, (*around, loop.loop, *(part.loop for part in moving))))
    axis = Axis(loop.loop)
    factor = slack.terms.get(axis, 0)
    rest = slack.plus(Linear(0, {axis: factor}), -1)
    most = greatest(nest, simplify(expression(rest.times(-1))), moving) if factor else None
    if most is None or not closure(nest, axes_of(most)) <= {*around}:  # the ends of a skewed loop inside follow the loop itself
        return None
    if factor > 0:
        return Bound(condition, simplify(Binary("add", Binary("floordiv", most, ir.const(factor)), ir.const(1))), from_below=True)
    end = Binary("floordiv", Binary("sub", _negated(most), ir.const(1 + factor)), ir.const(-factor))
    return Bound(condition, simplify(end), from_below=False)


def _leaves_some(bound: Bound, loop: For, facts: Sequence[Expr]) -> bool:
    """Is there an iteration that a bound lets be? One that is about another loop leaves none."""
    side = Compare("ge" if bound.from_below else "lt", Axis(loop.loop), bound.end)
    return find(*facts, *facts_of(loop), side) is not None


def _negated(expr: Expr) -> Expr:
    """`-expr`, the least of bounds written as such."""
    if isinstance(expr, Binary) and expr.op == "max":
        return simplify(Binary("min", _negated(expr.left), _negated(expr.right)))
    return simplify(Unary("neg", expr))


def _without(stmt: Stmt, known: frozenset[Expr]) -> Stmt:
    """A statement in which conditions hold."""

    def settled(expr: Expr) -> Expr:
        if isinstance(expr, Select):
            cond, yes, no = map(settled, (expr.cond, expr.yes, expr.no))
            return yes if cond in known else no if negated(cond) in known else Select(cond, yes, no)
        return map_children(expr, settled)

    def rewrite(part: Stmt) -> Stmt:
        part = map_statements(part, rewrite)
        if not isinstance(part, If):
            return part
        kept = [condition for condition in conjuncts([part.cond]) if condition not in known]
        return replace(part, cond=conjunction(kept)) if kept else part.then

    return rewrite(map_expressions(stmt, settled))
