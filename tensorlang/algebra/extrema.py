"""Extrema of integers that are always the same side, by whatever tells that one side is never greater than the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tensorlang.algebra.bounds import Bounds
from tensorlang.ir import Binary, Expr
from tensorlang.ir.dtype import INT64
from tensorlang.ir.traverse import axes_of, dtype_of, loads_of

NeverGreater: TypeAlias = Callable[[Expr, Expr], bool]
"""Is the first of two never greater than the second?"""


def is_clamp(node: Expr) -> bool:
    """Is it an extremum that axes decide, and no data?"""
    if not (isinstance(node, Binary) and node.op in ("min", "max") and dtype_of(node) == INT64 and axes_of(node)):
        return False
    return not any(True for _ in loads_of(node))


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
