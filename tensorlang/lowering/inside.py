"""Reductions that stand in expressions: which are computed in any case, and which are the same wherever what is around them stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tensorlang.algebra.polyhedra import find
from tensorlang.definition.tensor import Tensor
from tensorlang.ir import Axis, Compare, Const, Expr, Load, Reduce, ReduceAxis, Select, const
from tensorlang.ir.traverse import axes_of, children, nodes, reads_data, substitute


def stays(reduce: Reduce, around: Sequence[ReduceAxis]) -> bool:
    """Is a reduction the same wherever those around it stand, of which there is an iteration?"""
    runs = all(isinstance(axis.lo, Const) and isinstance(axis.hi, Const) and axis.lo.value < axis.hi.value for axis in around)
    return runs and _moves_with(reduce).isdisjoint(axis.name for axis in around)


def is_asked_in_vain(reduce: Reduce, cond: Expr, facts: Sequence[Expr], axes: Mapping[str, Expr]) -> bool:
    """Is a reduction on a side of a choice the same for elements on both sides, and is all that it reads there without it?"""
    return not axes_of(cond) <= _moves_with(reduce) and is_there(reduce, facts, axes)


def is_free(reduce: Reduce, cond: Expr, facts: Sequence[Expr], axes: Mapping[str, Expr]) -> bool:
    """May a reduction be computed without asking the `where=` of one around it? What data ask may be seldom; what loops ask is trimmed."""
    return (not reads_data(cond) or not axes_of(cond) <= _moves_with(reduce)) and is_there(reduce, facts, axes)


def is_there(reduce: Reduce, facts: Sequence[Expr], axes: Mapping[str, Expr]) -> bool:
    """Does all that a reduction reads exist where the `facts` hold of `axes`, as they are called by now?"""
    ranges = [
        fact for axis in _own_axes(reduce) for fact in (Compare("le", axis.lo, Axis(axis.name)), Compare("lt", Axis(axis.name), axis.hi))
    ]
    known = (*facts, *(substitute(fact, axes) for fact in ranges))
    for load in (node for node in nodes(reduce) if isinstance(node, Load)):
        if not isinstance(load.buffer, Tensor) or any(map(reads_data, (*load.index, *ranges))):
            return False
        for part, extent in zip(load.index, load.buffer.extents, strict=True):
            place = substitute(part, axes)
            if find(*known, Compare("lt", place, const(0))) is not None or find(*known, Compare("ge", place, extent)) is not None:
                return False
    return True


def _moves_with(reduce: Reduce) -> frozenset[str]:
    return axes_of(reduce).union(*(axes_of(end) for axis in _own_axes(reduce) for end in (axis.lo, axis.hi)))


def _own_axes(reduce: Reduce) -> list[ReduceAxis]:
    """The axes of a reduction and of those that stand in it."""
    return [axis for node in nodes(reduce) if isinstance(node, Reduce) for axis in node.axes]


def surely(expr: Expr) -> dict[Reduce, None]:
    """The reductions that are computed wherever an expression is, in its order; of their parts those of all components are one."""
    match expr:
        case Reduce():
            return {replace(expr, component=0): None}
        case Select(cond, yes, no):
            other = surely(no)
            return surely(cond) | {reduce: None for reduce in surely(yes) if reduce in other}
        case _:
            return {reduce: None for part in children(expr) for reduce in surely(part)}


def has_reduction(expr: Expr) -> bool:
    """Does a reduction stand in an expression?"""
    return any(isinstance(node, Reduce) for node in nodes(expr))
