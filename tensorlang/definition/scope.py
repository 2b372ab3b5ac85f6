"""What holds where a part of a definition is evaluated: the ranges of axes, and conditions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tensorlang import ir
from tensorlang.definition.tensor import Stage
from tensorlang.ir import Axis, Binary, Compare, Const, Expr, Reduce, Select, Unary
from tensorlang.ir.dtype import BOOL
from tensorlang.ir.traverse import children


@dataclass(frozen=True, slots=True)
class Scope:
    """What holds where an expression is evaluated: the range of each axis, and conditions."""

    ranges: tuple[tuple[str, Expr, Expr], ...]
    conditions: tuple[Expr, ...] = ()

    def where(self, condition: Expr) -> Scope:
        """The scope in which `condition` holds too."""
        return Scope(self.ranges, (*self.conditions, condition))

    def over(self, axes: tuple[ir.ReduceAxis, ...]) -> Scope:
        """The scope inside a reduction."""
        return Scope((*self.ranges, *((axis.name, axis.lo, axis.hi) for axis in axes)), self.conditions)

    def follows(self, other: Scope) -> bool:
        """Does all that holds in another one hold here, which began there?"""
        return self.ranges[: len(other.ranges)] == other.ranges and self.conditions[: len(other.conditions)] == other.conditions

    def facts(self) -> tuple[Expr, ...]:
        """All that holds, as conditions."""
        bounds = [bound for name, lo, hi in self.ranges for bound in (Compare("le", lo, Axis(name)), Compare("lt", Axis(name), hi))]
        return (*bounds, *self.conditions)


def scoped(expr: Expr, scope: Scope) -> Iterator[tuple[Expr, Scope]]:
    """The nodes of an expression with what holds where each is evaluated: the chosen side of selects, the domain of reductions.

    A node that stands in several places comes once where the same holds, and not again where more does.
    """
    yield from _scoped(expr, scope, {})


def _scoped(expr: Expr, scope: Scope, seen: dict[int, list[Scope]]) -> Iterator[tuple[Expr, Scope]]:
    before = seen.setdefault(id(expr), [])
    if any(scope.follows(other) for other in before):
        return
    before.append(scope)
    yield expr, scope
    match expr:
        case Select(cond, yes, no):
            yield from _scoped(cond, scope, seen)
            yield from _scoped(yes, scope.where(cond), seen)
            yield from _scoped(no, scope.where(Unary("not", cond)), seen)
        case Reduce(_, values, axes, where, _):
            inner = scope
            for axis in axes:
                yield from _scoped(axis.lo, inner, seen)
                yield from _scoped(axis.hi, inner, seen)
                inner = inner.over((axis,))
            if where is not None:
                yield from _scoped(where, inner, seen)
                inner = inner.where(where)
            for value in values:
                yield from _scoped(value, inner, seen)
        case _:
            for child in children(expr):
                yield from _scoped(child, scope, seen)


def stage_scope(stage: Stage) -> Scope:
    """What holds of the axes of a stage: its own and those of the scans around it."""
    own = tuple((axis, ir.const(0), extent) for axis, extent in zip(stage.axes, stage.shape, strict=True))
    return Scope((*own, *((axis.name, axis.lo, axis.hi) for axis in stage.within)))


def not_before(index: tuple[Expr, ...], axes: tuple[str, ...]) -> Expr:
    """The condition that `index` is not before `axes` in row-major order."""
    result: Expr = Const(True, BOOL)
    for part, axis in reversed(list(zip(index, axes, strict=True))):
        later = Compare("gt", part, Axis(axis))
        result = Binary("or", later, Binary("and", Compare("eq", part, Axis(axis)), result))
    return result
