"""Arithmetic, counted: every statement times the integer points of its domain.

A box is a product. A domain whose bounds depend on outer loops (a triangle) or that has conditions is enumerated over those loops that
bounds or conditions speak of, the others multiply. What would take more than `LIMIT` points, or depends on data, is counted as if its
conditions held, and the count is then an upper bound and says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tensorlang import ir
from tensorlang.codegen.counts import operations
from tensorlang.ir import For, If, Nest, Stmt, Store
from tensorlang.traverse import axes_of, loads_of, substatements

LIMIT: Final = 1 << 22
Points = dict[str, npt.NDArray[np.int64]]


@dataclass(frozen=True, slots=True)
class Count:
    """A number of operations; `exact`, or at most so many."""

    value: int
    exact: bool = True

    def __add__(self, other: Count) -> Count:
        return Count(self.value + other.value, self.exact and other.exact)


def flops(nest: Nest, dims: Mapping[str, int]) -> Count:
    """Arithmetic operations of an unscheduled nest under these dims."""
    return _count(nest.body, (), (), dims)


def _count(stmt: Stmt, loops: tuple[For, ...], conditions: tuple[ir.Expr, ...], dims: Mapping[str, int]) -> Count:
    match stmt:
        case Store():
            work = operations(stmt)
            if not work:
                return Count(0)
            points = domain(loops, conditions, dims)
            return Count(points.value * work, points.exact)
        case For():
            return _count(stmt.body, (*loops, stmt), conditions, dims)
        case If(cond, then, orelse):
            total = _count(then, loops, (*conditions, cond), dims)
            return total if orelse is None else total + _count(orelse, loops, (*conditions, ir.Unary("not", cond)), dims)
        case _:
            total = Count(0)
            for part in substatements(stmt):
                total += _count(part, loops, conditions, dims)
            return total


def domain(loops: Sequence[For], conditions: Sequence[ir.Expr], dims: Mapping[str, int]) -> Count:
    """How many iterations of a nest meet the conditions."""
    known = [cond for cond in conditions if not any(True for _ in loads_of(cond))]
    spoken = set().union(*(axes_of(cond) for cond in known), *(axes_of(loop.lo) | axes_of(loop.hi) for loop in loops))
    points: Points = {}
    weight = np.ones(1, np.int64)
    exact = len(known) == len(conditions)
    for loop in loops:
        trips = np.broadcast_to(np.maximum(_value(loop.hi, points, dims) - _value(loop.lo, points, dims), 0), weight.shape)
        if loop.loop not in spoken:
            weight = weight * trips
        elif int(trips.sum()) <= LIMIT:
            first = np.broadcast_to(_value(loop.lo, points, dims), weight.shape)
            steps = np.arange(int(trips.sum())) - np.repeat(np.cumsum(trips) - trips, trips)
            points = {name: np.repeat(values, trips) for name, values in points.items()}
            points[loop.loop] = np.repeat(first, trips) + steps
            weight = np.repeat(weight, trips)
        else:  # too many: from here on every iteration is taken to be as long as the first loop around it allows
            return Count(int((weight * trips).sum()) * _rest(loops[loops.index(loop) + 1 :], points, dims), exact=False)
    for cond in known:
        weight = weight * np.asarray(_value(cond, points, dims), bool)
    return Count(int(weight.sum()), exact)


def _rest(loops: Sequence[For], points: Points, dims: Mapping[str, int]) -> int:
    total = 1
    for loop in loops:
        inside = axes_of(loop.hi) | axes_of(loop.lo)
        total *= 1 if inside - points.keys() else int(np.max(np.maximum(_value(loop.hi, points, dims) - _value(loop.lo, points, dims), 0)))
    return total


def _value(expr: ir.Expr, points: Points, dims: Mapping[str, int]) -> Any:
    match expr:
        case ir.Const(value, _):
            return np.int64(value)
        case ir.Dim(name):
            return np.int64(dims[name])
        case ir.Axis(name):
            return points[name]
        case ir.Cast(inner, _):
            return _value(inner, points, dims)
        case ir.Unary(op, inner):
            found = _value(inner, points, dims)
            return np.logical_not(found) if op == "not" else -found
        case ir.Binary(op, left, right):
            return _BINARY[op](_value(left, points, dims), _value(right, points, dims))
        case ir.Compare(op, left, right):
            return _COMPARE[op](_value(left, points, dims), _value(right, points, dims))
        case ir.Select(cond, yes, no):
            return np.where(_value(cond, points, dims), _value(yes, points, dims), _value(no, points, dims))
        case _:
            return np.bool_(True)


def _total(divide: Any) -> Any:
    return lambda a, b: np.where(b == 0, 0, divide(a, np.where(b == 0, 1, b)))


_BINARY: Final[dict[str, Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "floordiv": _total(np.floor_divide),
    "mod": _total(np.mod),
}
_COMPARE: Final[dict[str, Any]] = {
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
}
