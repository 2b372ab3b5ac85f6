"""Clamps of indices that do nothing where they are read, by the conditions around them.

    max(N[l - 1 - k, min(i + k + 1, n - 1)] for k < l if i + l < n)    ->    N[l - 1 - k, i + k + 1]

A clamp keeps loops from being runs of memory. What a `where=` says decides some of them, for every iteration that it lets through: then the
index is the side that it always is. Conditions that stand apart, as between the middle and the edges of an image, are a matter of code
generation, which parts such loops.
"""

from __future__ import annotations

from collections.abc import Sequence

from tensorlang.algebra.polyhedra import find
from tensorlang.ir import Binary, Compare, Expr, Load
from tensorlang.ir.dtype import INT64
from tensorlang.ir.traverse import axes_of, dtype_of, loads_of, rewrite


def settled(value: Expr, conditions: Sequence[Expr], ranges: Sequence[Expr]) -> Expr:
    """The value with each extremum of its indices as the side that it is under conditions that decide it, in the `ranges` of axes."""
    if not conditions:
        return value
    facts = (*ranges, *conditions)

    def index(node: Expr) -> Expr:
        return rewrite(node, chosen) if isinstance(node, Load) else node

    def chosen(node: Expr) -> Expr:
        if not (isinstance(node, Binary) and node.op in ("min", "max") and dtype_of(node) == INT64 and axes_of(node)):
            return node
        if any(True for _ in loads_of(node)):
            return node
        left, right = node.left, node.right
        if find(*facts, Compare("gt", left, right)) is None:
            return left if node.op == "min" else right
        if find(*facts, Compare("gt", right, left)) is None:
            return right if node.op == "min" else left
        return node

    return rewrite(value, index)
