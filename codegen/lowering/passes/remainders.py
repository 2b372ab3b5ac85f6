"""Partial tiles of unrolled rows, in a version for each number of rows.

    else:                                            else:
        C_acc: float32[4, 16] in registers               if 4 * i_o + 2 < n:
        for k in range(256):                                 C_acc: float32[4, 16] in registers
            unroll i_i in range(4):                          for k in range(256):
                if 4 * i_o + i_i < n:            ->              unroll i_i in range(3):
                    vector j_i in range(16):                         vector j_i in range(16):
                        C_acc[i_i, j_i] += ...                           C_acc[i_i, j_i] += ...
                                                         else: ...                        # range(2), then range(1) with its condition

`hoist` has put whole tiles apart. What is left asks in every iteration of the reduction how many rows there are, which does not change
there: a branch for each row, between instructions that would otherwise run together. The rows of a last tile are the common case where a
call tells the extent: of a batch of 8 by tiles of 6 it is a quarter of the work.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, TypeAlias

from tensorlang import ir
from tensorlang.algebra.simplify import simplify
from tensorlang.ir import Axis, Binary, Block, Compare, Const, Expr, For, If, Stmt
from tensorlang.ir.dtype import INT64
from tensorlang.ir.linear import linear
from tensorlang.ir.traverse import axes_of, dtype_of, map_statements, reads_data, substatements, substitute

MOST_ROWS: Final = 16
"""Rows of a tile that gets versions, at most: as many as there are names of vector registers, or half of them."""

_Rows: TypeAlias = tuple[Expr, int]
"""How many rows there are, as an expression that is the same all through a tile, and how many at most."""


def rows_counted(stmt: Stmt, scope: frozenset[str] = frozenset()) -> Stmt:
    """The statement with the partial tiles in it in versions for each number of rows; `scope` are the loops around."""
    if isinstance(stmt, If) and stmt.orelse is not None:
        outside_in = _versions(stmt.orelse, scope, stmt.cond)  # what is counted out here is not counted again within
        return replace(stmt, then=rows_counted(stmt.then, scope), orelse=rows_counted(outside_in, scope))
    inside = scope | {stmt.loop} if isinstance(stmt, For) else scope
    return map_statements(stmt, lambda part: rows_counted(part, inside))


def _versions(stmt: Stmt, scope: frozenset[str], whole: Expr) -> Stmt:
    """What runs where `whole` does not hold, in versions; itself where its rows are not counted in one way."""
    found = set(_counted(stmt, scope))
    if len(found) != 1:
        return stmt
    ((count, most),) = found
    if isinstance(stmt, (Block, If)):
        parts = substatements(stmt)
        holding = [part for part in parts if any(True for _ in _counted(part, scope))]
        if len(holding) == 1:
            return map_statements(stmt, lambda part: _versions(part, scope, whole) if part is holding[0] else part)
    made = _with_rows(stmt, scope, 1, held=False)
    for rows in _possible(count, most, whole):
        made = If(simplify(Compare("ge", count, ir.const(rows))), _with_rows(stmt, scope, rows, held=True), made)
    return made


def _possible(count: Expr, most: int, whole: Expr) -> list[int]:
    """The numbers of rows above one that a tile may have where `whole` does not hold, least first.

    Where extents are literals that is one number, what is left of them by tiles. A tile may also have all of its rows, and `whole` fail by
    something else: a range that begins inside of the tile.
    """
    form = linear(count)
    told = not any(factor % most for factor in form.terms.values())
    found = [form.constant % most] if told else list(range(2, most))
    return [rows for rows in found if rows > 1] + ([] if _is_whole(whole, count, most) else [most])


def _is_whole(cond: Expr, count: Expr, most: int) -> bool:
    """Does a condition say that there are `most` rows, and nothing else?"""
    match cond:
        case Compare("lt" | "le" as op, low, high):
            pass
        case Compare("gt" | "ge" as op, high, low):
            pass
        case _:
            return False
    spare = linear(Binary("sub", high, low)).plus(linear(ir.const(1)), -1 if op in ("lt", "gt") else 0)
    return spare == linear(Binary("sub", count, ir.const(most)))


def _with_rows(stmt: Stmt, scope: frozenset[str], rows: int, *, held: bool) -> Stmt:
    """The tile with so many rows; their conditions hold, or are asked still."""
    if isinstance(stmt, For) and isinstance(stmt.body, If) and _rows(stmt, scope) is not None:
        return replace(stmt, hi=ir.const(rows), body=stmt.body.then if held else stmt.body)
    return map_statements(stmt, lambda part: _with_rows(part, scope, rows, held=held))


def _counted(stmt: Stmt, scope: frozenset[str]) -> Iterator[_Rows]:
    """How the rows of each unrolled loop under a condition are counted."""
    if isinstance(stmt, For) and (found := _rows(stmt, scope)) is not None:
        yield found
        return
    for part in substatements(stmt):
        yield from _counted(part, scope)


def _rows(loop: For, scope: frozenset[str]) -> _Rows | None:
    """How many iterations of an unrolled loop run; None unless there are few, and its condition says it."""
    found = counted(loop, scope) if loop.kind == "unroll" else None
    return found if found is not None and 1 < found[1] <= MOST_ROWS else None


def counted(loop: For, scope: frozenset[str]) -> tuple[Expr, int] | None:
    """How many iterations of a loop run, and at most; None unless the condition around its body says it by what is known in a scope."""
    match loop:
        case For(name, Const(value=0), Const(value=most), body=If(Compare("lt", left, right), _, None)):
            pass
        case _:
            return None
    if dtype_of(left) != INT64:
        return None
    form = linear(Binary("sub", left, right))
    if form.terms.get(Axis(name)) != 1:
        return None
    count = simplify(Binary("sub", right, substitute(left, {name: ir.const(0)})))
    known = axes_of(count) <= scope and not reads_data(count)
    return (count, int(most)) if known and Axis(name) not in linear(right).terms else None
