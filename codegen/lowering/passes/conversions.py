"""Conversions of what is known to fit (`algebra.conversions`), and quotients in lanes by way of fewer bits.

    x[(i + 3 * j) % 5]          ->          x[int64(uint32(i + 3 * j) % 5)]             lanes of j, i + 3 * j is less than 2 ** 31

A division by a literal takes the upper half of a product, which no processor has for lanes of 64 bits: one number is taken out after the
other, and put back. Those of 32 bits have it. `emission.affine` sees through: the parts of an index still add up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeAlias

from tensorlang.algebra.bounds import Bounds
from tensorlang.algebra.conversions import fitting, quotient_in
from tensorlang.algebra.interval import inside, whole
from tensorlang.codegen.lowering.passes.known import Known
from tensorlang.ir import Binary, Cast, Const, Expr, For, Nest, Stmt
from tensorlang.ir.dtype import INT32, DType
from tensorlang.ir.traverse import dtype_of, map_own_expressions, map_statements, nodes, rewrite
from tensorlang.schedules.rewriting.quotients import is_quotient

Rule: TypeAlias = Callable[[Expr, Bounds], Expr]

_UINT32: Final = DType("uint32")


def fitted(nest: Nest) -> Nest:
    """The nest whose conversions take an instruction where they can."""
    return replace(nest, body=_by(nest.body, Known(), _with_fitting, within=True))


def short_quotients(nest: Nest) -> Nest:
    """The nest whose lanes divide small numbers in 32 bits."""
    return replace(nest, body=_by(nest.body, Known(), _with_short_quotients, within=False))


def _by(stmt: Stmt, known: Known, rule: Rule, *, within: bool) -> Stmt:
    """A statement by a rule for its expressions, where `within` or else inside a vector loop."""
    if isinstance(stmt, For):
        known, within = known.inside(stmt), within or stmt.kind == "vector"
    own = map_own_expressions(stmt, lambda expr: rule(expr, known.bounds)) if within else stmt
    return map_statements(own, lambda part: _by(part, known, rule, within=within))


def _with_fitting(expr: Expr, bounds: Bounds) -> Expr:
    if not any(isinstance(node, Cast) and node.dtype.is_floating != dtype_of(node.value).is_floating for node in nodes(expr)):
        return expr
    return rewrite(expr, lambda node: fitting(node, bounds) or node)


def _with_short_quotients(expr: Expr, bounds: Bounds) -> Expr:
    return rewrite(expr, lambda node: _short(node, bounds) or node) if any(map(divides, nodes(expr))) else expr


def divides(node: Expr) -> bool:
    """Is it a quotient or a rest of an index by a literal that is no power of two?"""
    by = int(node.right.value) if isinstance(node, Binary) and isinstance(node.right, Const) and is_quotient(node) else 0
    return bool(by & (by - 1))


def _short(node: Expr, bounds: Bounds) -> Expr | None:
    if not (isinstance(node, Binary) and isinstance(node.right, Const) and divides(node)):
        return None
    values, divisor = bounds.interval(node.left), int(node.right.value)
    if values is None or not inside(values, whole(INT32)) or divisor > INT32.highest:
        return None
    return quotient_in(_UINT32 if values[0] >= 0 else INT32, node.op, node.left, divisor)
