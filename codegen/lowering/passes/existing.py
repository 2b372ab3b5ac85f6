"""Loads whose element exists in every iteration, whatever the conditions around them say: lanes that are off may read it as well.

    vector j_i in range(8):                                           X[i, j] and X[i, j + 1] are read by all lanes,
        Y[i, j] = select((i + j) % 2 == 0, X[i, j], X[i, j + 1])      and the condition chooses

A load under a mask costs more than one of all lanes, and where an element has fewer than 32 bits and vectors have no masks each lane is a
branch. Where data say which element it is, or conditions alone keep it inside, lanes that are off read nothing. Of copies that
share a mask an element that all lanes read is read whether one is on or not: else that would be asked first, and copies that stand in
branches share nothing of what they compute.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from tensorlang.algebra.bounds import negated
from tensorlang.codegen.lowering.passes.known import Known, of_axes
from tensorlang.ir import Binary, Buffer, Expr, For, If, Load, Nest, Select, Stmt, Store
from tensorlang.ir.traverse import axes_of, map_own_expressions, map_statements, nodes, reads_data, rewrite


def existing(nest: Nest) -> Nest:
    """The nest with such loads told, of those in vector loops."""
    return replace(nest, body=_told(nest.body, Known(), _Around()))


class _Around(NamedTuple):
    """The vector loops around a statement, the loops that copy it, and whether a mask is around that some of its copies share."""

    lanes: frozenset[str] = frozenset()
    copies: frozenset[str] = frozenset()
    shared: bool = False


def _told(stmt: Stmt, known: Known, around: _Around) -> Stmt:
    match stmt:
        case For(kind="vector"):
            within, around = known.inside(stmt), around._replace(lanes=around.lanes | {stmt.loop})
            return map_statements(stmt, lambda part: _told(part, within, around))
        case For(kind=kind):
            within = known.inside(stmt)
            around = around._replace(copies=around.copies | {stmt.loop}) if kind == "unroll" else around
            return map_statements(stmt, lambda part: _told(part, within, around))
        case If(cond, then, orelse):  # of lanes it is a mask
            masked = bool(axes_of(cond) & around.lanes) or reads_data(cond)
            yes, no = (known, known) if masked else (known.under(of_axes(cond)), known.under(of_axes(negated(cond))))
            around = around._replace(shared=around.shared or (masked and bool(around.copies - axes_of(cond))))
            return replace(stmt, then=_told(then, yes, around), orelse=None if orelse is None else _told(orelse, no, around))
        case Store():
            if not around.lanes or not (around.shared or _chooses(stmt)):
                return stmt
            but = frozenset[str]() if _chooses(stmt) else around.lanes
            return map_own_expressions(stmt, lambda expr: _with_existing(expr, known, but))
        case _:
            return map_statements(stmt, lambda part: _told(part, known, around))


def _chooses(store: Store) -> bool:
    return any(isinstance(node, Select) for value in store.values for node in nodes(value))


def _with_existing(expr: Expr, known: Known, but: frozenset[str]) -> Expr:
    """An expression whose loads are told, `but` for those that move with these loops."""

    def told(node: Expr) -> Expr:
        if not (isinstance(node, Load) and isinstance(node.buffer, Buffer)) or any(map(reads_data, node.index)):
            return node
        if any(axes_of(part) & but for part in node.index):
            return node
        exists = all(_lies_in(part, extent, known) for part, extent in zip(node.index, node.buffer.shape, strict=True))
        return replace(node, exists=True) if exists else node

    return rewrite(expr, told)


def _lies_in(index: Expr, extent: Expr, known: Known) -> bool:
    least, room = known.interval(index), known.interval(Binary("sub", index, extent))
    return least is not None and least[0] >= 0 and room is not None and room[1] < 0
