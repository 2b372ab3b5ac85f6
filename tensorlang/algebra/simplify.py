"""Simplification: the rows of `rules`, applied bottom up.

One pass reaches the normal form, because operands are simplified first and every row's result is already simple.
"""

from __future__ import annotations

from typing import Final

from tensorlang.algebra.rules import ROWS_OF, kind_of
from tensorlang.ir import Axis, Const, Dim, Expr, Param
from tensorlang.ir.traverse import rewrite

LEAVES: Final = (Axis, Const, Dim, Param)


def simplify(expr: Expr) -> Expr:
    """An equal expression, with literals folded, like terms collected and decided conditions gone."""
    return _simplified(expr) if isinstance(expr, LEAVES) else rewrite(expr, _simplified)


def _simplified(node: Expr) -> Expr:
    """A node over simple operands: each row in turn, of those that are about nodes of its kind."""
    first = 0
    while True:
        for place, rule in ROWS_OF.get(kind_of(node), ()):
            result = rule(node) if place >= first else None
            if result is not None and result != node:
                node, first = result, place + 1
                break
        else:
            return node
