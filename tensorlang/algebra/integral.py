"""Comparisons of numbers of a floating-point type that are whole, as comparisons of the integers that they are."""

from __future__ import annotations

import math
from typing import Final

from tensorlang.algebra.bounds import INDEX_LIMIT, Bounds
from tensorlang.algebra.interval import exact_integers, inside
from tensorlang.ir import Cast, Compare, Const, Expr
from tensorlang.ir.dtype import BOOL, INT64
from tensorlang.ir.traverse import dtype_of

MIRRORED: Final = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
"""The comparison that holds of two numbers the other way round."""


def of_integers(op: str, left: Expr, right: Expr, here: Bounds) -> Expr | None:
    """A comparison of numbers of a floating-point type as one of the integers that they are; None where they may be others."""
    if isinstance(left, Const):
        return of_integers(MIRRORED[op], right, left, here) if not isinstance(right, Const) else None
    a, b = _held(left, here), _held(right, here)
    if a is None:
        return None
    if b is not None:
        return Compare(op, a, b)
    number = float(dtype_of(right).rounded(right.value)) if isinstance(right, Const) else math.nan
    if not abs(number) < INDEX_LIMIT or number.is_integer():
        return None
    if op in ("eq", "ne"):
        return Const(op == "ne", BOOL)
    return Compare("le" if op in ("lt", "le") else "gt", a, Const(math.floor(number), INT64))


def _held(expr: Expr, here: Bounds) -> Expr | None:
    """The integer that a number of a floating-point type is, with nothing rounded; None where it may be another number."""
    match expr:
        case Cast(value, of) if dtype_of(value).is_integer and inside(here.values(value), exact_integers(of)):
            return value
        case Const(value, of) if float(value).is_integer() and inside((int(value), int(value)), exact_integers(of)):
            return Const(int(value), INT64)
        case _:
            return None
