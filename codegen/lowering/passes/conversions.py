"""Conversions of what is known to fit: see `algebra.conversions`."""

from __future__ import annotations

from dataclasses import replace

from tensorlang.algebra.bounds import Bounds
from tensorlang.algebra.conversions import fitting
from tensorlang.codegen.lowering.passes.known import Known
from tensorlang.ir import Cast, Expr, For, Nest, Stmt
from tensorlang.ir.traverse import dtype_of, map_own_expressions, map_statements, nodes, rewrite


def fitted(nest: Nest) -> Nest:
    """The nest whose conversions take an instruction where they can."""
    return replace(nest, body=_fitted(nest.body, Known()))


def _fitted(stmt: Stmt, known: Known) -> Stmt:
    within = known.inside(stmt) if isinstance(stmt, For) else known
    own = map_own_expressions(stmt, lambda expr: _with_fitting(expr, within.bounds))
    return map_statements(own, lambda part: _fitted(part, within))


def _with_fitting(expr: Expr, bounds: Bounds) -> Expr:
    if not any(isinstance(node, Cast) and node.dtype.is_floating != dtype_of(node.value).is_floating for node in nodes(expr)):
        return expr
    return rewrite(expr, lambda node: fitting(node, bounds) or node)
