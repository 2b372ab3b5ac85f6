"""What some loops of a reduction combine, apart from the rest of it: values, conditions, and the coordinates that these move with.

Of a sum over `a` and `b` of `w[a] * F[y + a, x + b]`, the loop `b` combines `F[j, x + b]`, which moves with `j = y + a` and with `x`; the
factor `w[a]` is left. All expressions here are over loops alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from tensorlang.ir import Binary, Const, Expr, For, Param, Reducer
from tensorlang.ir.dtype import DType
from tensorlang.ir.traverse import axes_of, dtype_of, loads_of
from tensorlang.schedules.rewriting.coordinates import Coordinate, coordinates, fits, forms
from tensorlang.schedules.rewriting.edit import always_runs
from tensorlang.schedules.rewriting.quotients_of_loops import Quotients


@dataclass(frozen=True, slots=True)
class Portion:
    """What the inner loops combine where the conditions hold, what it moves with, and the factors of the sum that they do not move.

    In the values, and in what they move with, quotients stand as loops.
    """

    values: tuple[Expr, ...]
    conditions: tuple[Expr, ...]
    coordinates: tuple[Coordinate, ...]
    factors: tuple[Expr, ...]
    quotients: Quotients


def portion_of(reducer: Reducer, values: tuple[Expr, ...], asked: Sequence[Expr], inner: Sequence[For], outer: Sequence[For]) -> Portion:
    """The portion of the inner loops in the combination of `values` where all that is `asked` holds.

    Factors and conditions that move with nothing else than it does are part of it, too.
    """
    names = {loop.loop for loop in inner}
    conditions = [cond for cond in asked if axes_of(cond) & names]
    distributes = _is_sum(reducer) and _may_distribute(dtype_of(values[0]), inner, conditions)
    parts = _factors(values[0]) if distributes else list(values)
    moved = [part for part in parts if axes_of(part) & names] if distributes else parts
    ends = [end for loop in inner for end in (loop.lo, loop.hi)]
    quotients = Quotients.of((*moved, *conditions, *ends), outer)
    found = coordinates([row for expr in (*moved, *conditions, *ends) for row in forms(quotients.within(expr))], quotients.loops(outer))
    every = (*outer, *quotients.quotients.values())

    def follows(expr: Expr) -> bool:
        return fits(forms(quotients.within(expr)), found, every)

    taken = [part for part in parts if part in moved or follows(part)]
    factors = tuple(part for part in parts if part not in taken)
    kept = tuple(taken) if not distributes else (product(taken) if taken else Const(1, dtype_of(values[0])),)
    kept = tuple(map(quotients.within, kept))
    within = tuple(cond for cond in asked if cond in conditions or follows(cond))
    return Portion(kept, within, _lanes_last(found, kept), factors, quotients)


def product(factors: Sequence[Expr]) -> Expr:
    """Factors, of which there is one at least, multiplied."""
    return reduce(lambda left, right: Binary("mul", left, right), factors)


def _may_distribute(kind: DType, inner: Sequence[For], conditions: Sequence[Expr]) -> bool:
    """May factors leave a sum of this type over the inner loops?

    Of floats there has to be an iteration: infinity times a sum of none is no number, where it was not taken at all.
    """
    return kind.is_integer or (not conditions and all(map(always_runs, inner)))


def _is_sum(reducer: Reducer) -> bool:
    kinds = [dtype_of(identity) for identity in reducer.identities]
    return reducer.results == tuple(Binary("add", Param("a0", kind), Param("b0", kind)) for kind in kinds[:1])


def _factors(value: Expr) -> list[Expr]:
    """The factors of a product, in order."""
    if isinstance(value, Binary) and value.op == "mul":
        return [*_factors(value.left), *_factors(value.right)]
    return [value]


def _lanes_last(found: Sequence[Coordinate], values: Sequence[Expr]) -> tuple[Coordinate, ...]:
    """The coordinates in order, but that one last along which most of what is read lies side by side."""
    rows = [row for value in values for load in loads_of(value) if load.index for row in forms(load.index[-1])]
    last = max(reversed(found), key=lambda one: sum(one.times(row) == 1 for row in rows), default=None)
    return tuple(sorted(found, key=lambda one: one == last))
