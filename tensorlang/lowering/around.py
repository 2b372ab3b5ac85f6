"""Loops and conditions around a statement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from tensorlang.algebra.simplify import simplify
from tensorlang.ir import Expr, For, If, Stmt

Range: TypeAlias = "tuple[str, Expr, Expr]"
"""A loop, where it begins and where it ends."""


def under(conditions: Sequence[Expr], body: Stmt) -> Stmt:
    """`body` where conditions hold, each read only where those before it do."""
    for cond in reversed(conditions):
        body = If(cond, body)
    return body


def loops(ranges: Sequence[Range], body: Stmt) -> Stmt:
    """`body` inside loops, outermost first."""
    for loop, lo, hi in reversed(ranges):
        body = For(loop, simplify(lo), simplify(hi), body)
    return body
