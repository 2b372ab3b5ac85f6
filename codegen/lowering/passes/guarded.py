"""Clamps, remainders and comparisons that the conditions around a statement decide, as those of the last tile ask how long a row is.

    vector j_i in range(8):                         vector j_i in range(8):
        if j_i + 194 < 199:             ->              if j_i + 194 < 199:
            Y[..] = X[(j_i + 195) % 200]                    Y[..] = X[j_i + 195]

What lanes that are off would read is nobody's concern, and the others are contiguous now. By intervals alone, of axes (`algebra.bounds`)
and of the sums that conditions speak of; what holds for most tiles, and not for all, is parted from the rest by `interiors`.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

from tensorlang import ir
from tensorlang.algebra.bounds import negated
from tensorlang.algebra.extrema import side_of
from tensorlang.algebra.rules import FALSE, TRUE
from tensorlang.algebra.simplify import simplify
from tensorlang.codegen.lowering.passes.known import Known, of_axes
from tensorlang.codegen.lowering.passes.questions import is_question
from tensorlang.ir import Binary, Compare, Const, Expr, For, If, Nest, Stmt, Store
from tensorlang.ir.dtype import INT64
from tensorlang.ir.traverse import (
    axes_of,
    dtype_of,
    expressions,
    map_own_expressions,
    map_statements,
    nodes,
    reads_data,
    rewrite,
    statements,
)


def settled_by_guards(nest: Nest) -> Nest:
    """The nest with what conditions and loops around each store decide."""
    return replace(nest, body=_settled(nest.body, Known())) if _asks(nest.body) else nest


def _asks(stmt: Stmt) -> bool:
    asking = (part for part in statements(stmt) if isinstance(part, Store | If))
    return any(_of_axes_alone(node) for part in asking for expr in expressions(part) for node in nodes(expr))


def _of_axes_alone(node: Expr) -> bool:
    """Is it a question that axes decide, and no data?"""
    return is_question(node) and bool(axes_of(node)) and not reads_data(node)


def _settled(stmt: Stmt, known: Known) -> Stmt:
    match stmt:
        case For():
            inside = known.inside(stmt)
            return map_statements(stmt, lambda part: _settled(part, inside))
        case If(cond, then, None) if _decided(cond, known) == TRUE:
            return _settled(then, known)
        case If(cond, then, orelse):
            made = _settled(then, known.under(of_axes(cond)))
            other = None if orelse is None else _settled(orelse, known.under(of_axes(negated(cond))))
            return stmt if made is then and other is orelse else If(cond, made, other)
        case Store():
            return map_own_expressions(stmt, lambda expr: _decided(expr, known))
        case _:
            return map_statements(stmt, lambda part: _settled(part, known))


def _decided(expr: Expr, known: Known) -> Expr:
    def side(node: Expr) -> Expr:
        if not _of_axes_alone(node):
            return node
        match node:
            case Compare():
                told = {(1, 1): TRUE, (0, 0): FALSE}.get(known.bounds.values(node))
                return _compared(node, known) if told is None else told
            case Binary("mod", left, Const(by)):
                ends = known.interval(left)
                turns = None if ends is None or inf in map(abs, ends) or ends[0] // by != ends[1] // by else ends[0] // by
                return node if turns is None else Binary("sub", left, ir.const(int(turns * by)))
            case Binary("min" | "max"):
                return side_of(node, known.never_greater)
            case _:
                return node

    new = rewrite(expr, side)
    return expr if new is expr else simplify(new)


def _compared(node: Compare, known: Known) -> Expr:
    """A comparison that the difference of its sides decides: `16 i + j < 16 i + 16`."""
    if node.op not in ("lt", "le", "gt", "ge") or dtype_of(node.left) != INT64:
        return node
    least, most = known.interval(Binary("sub", node.left, node.right)) or (-inf, inf)
    lesser, other = (most < 0, least >= 0) if node.op in ("lt", "ge") else (most <= 0, least > 0)
    if not lesser and not other:
        return node
    return TRUE if lesser == (node.op in ("lt", "le")) else FALSE
