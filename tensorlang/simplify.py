"""Simplification: the rows of `rules`, applied bottom up.

One pass reaches the normal form, because operands are simplified first and every row's result is already simple.
"""

from __future__ import annotations

from tensorlang.ir import Axis, Const, Dim, Expr, Param
from tensorlang.rules import RULES
from tensorlang.traverse import map_children


def simplify(expr: Expr) -> Expr:
    """An equal expression, with literals folded, like terms collected and decided conditions gone."""
    if isinstance(expr, (Axis, Const, Dim, Param)):
        return expr
    node = map_children(expr, simplify)
    for rule in RULES:
        result = rule(node)
        if result is not None and result != node:
            node = result
    return node
