"""Extrema of integers: which are always the same side, by whatever tells that one is never greater, and comparisons by their sides."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from tensorlang.algebra.bounds import Bounds
from tensorlang.ir import Binary, Expr
from tensorlang.ir.dtype import INT64
from tensorlang.ir.traverse import axes_of, dtype_of, reads_data

NeverGreater: TypeAlias = Callable[[Expr, Expr], bool]
"""Is the first of two never greater than the second?"""


def is_clamp(node: Expr) -> bool:
    """Is it an extremum that axes decide, and no data?"""
    if not (isinstance(node, Binary) and node.op in ("min", "max") and dtype_of(node) == INT64 and axes_of(node)):
        return False
    return not reads_data(node)


def side_of(node: Binary, never_greater: NeverGreater) -> Expr:
    """The side that an extremum always is; itself where that is not told."""
    left, right = node.left, node.right
    if never_greater(left, right):
        return left if node.op == "min" else right
    if never_greater(right, left):
        return right if node.op == "min" else left
    return node


def by_intervals(known: Bounds) -> NeverGreater:
    """By the intervals of both, under what is known."""

    def never_greater(one: Expr, other: Expr) -> bool:
        left, right = known.interval(one), known.interval(other)
        return left is not None and right is not None and left[1] <= right[0]

    return never_greater


class BySides(NamedTuple):
    """A comparison as those of `pairs`, all or any of which hold, as `joint` says."""

    joint: str
    pairs: tuple[tuple[Expr, Expr], tuple[Expr, Expr]]


def by_sides(relation: str, left: Expr, right: Expr) -> BySides | None:
    """An inequality with an extremum as those with its sides: `max(a, b) < c` where `a < c` and `b < c`; None where there is none."""
    below = relation in ("lt", "le")
    match left, right:
        case _ if not below and relation not in ("gt", "ge"):
            return None
        case Binary("min" | "max" as op, one, other), _:
            return BySides("and" if (op == "max") == below else "or", ((one, right), (other, right)))
        case _, Binary("min" | "max" as op, one, other):
            return BySides("and" if (op == "min") == below else "or", ((left, one), (left, other)))
        case _:
            return None
