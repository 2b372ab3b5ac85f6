"""Partial tiles of several vectors, in a version for each number of vectors.

    else:                                            else:
        C_acc: float32[4, 48] in registers               if n - 48 * j_o <= 16:
        for k in range(256):                                 C_acc: float32[4, 48] in registers
            unroll i_i in range(4):                          for k in range(256):
                vector j_i in range(48):                         unroll i_i in range(4):
                    if 48 * j_o + j_i < n:   ->                      vector j_i in range(16):
                        C_acc[i_i, j_i] += ...                           if 48 * j_o + j_i < n: C_acc[i_i, j_i] += ...
                                                         else: ...                        # range(32), then range(48)

`hoist` has put whole tiles apart. What is left computes with all vectors of a tile under masks, though most of them may have no lane
that is wanted: of 56 columns by tiles of 48 that is two fifths of all work. Where extents are literals one number is left, which `peel`
has made a loop of its own. A tile without a loop inside stays as it is: it costs little more than its versions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from tensorlang import ir
from tensorlang.codegen.lowering.passes.remainders import counted
from tensorlang.ir import Compare, Expr, For, If, Stmt, Store
from tensorlang.ir.dtype import DType
from tensorlang.ir.traverse import map_statements, statements, substatements
from tensorlang.schedules.legality.code_size import instructions
from tensorlang.schedules.rewriting.edit import literal_extent

MOST_ADDED: Final = 2048
"""Instructions of all the versions of one tile together, but for the one that is there anyway."""


class _Lanes(NamedTuple):
    """How many lanes run, as an expression that is the same all through a tile, how many there are, and how many fill a register."""

    number: Expr
    most: int
    register: int


def vectors_counted(stmt: Stmt, lanes: Callable[[DType], int], scope: frozenset[str] = frozenset()) -> Stmt:
    """The statement with the partial tiles in it in versions for each number of vectors; `scope` are the loops around."""
    if isinstance(stmt, If) and stmt.orelse is not None:
        return replace(stmt, then=vectors_counted(stmt.then, lanes, scope), orelse=_versions(stmt.orelse, lanes, scope))
    inside = scope | {stmt.loop} if isinstance(stmt, For) else scope
    return map_statements(stmt, lambda part: vectors_counted(part, lanes, inside))


def _versions(stmt: Stmt, lanes: Callable[[DType], int], scope: frozenset[str]) -> Stmt:
    """What runs where a tile is not whole, in versions; what is in it where its lanes are not counted in one way."""
    found = set(_counted(stmt, lanes, scope))
    tiles = {(count, most) for count, most, _ in found}
    if len(tiles) == 1:
        ((count, most),) = tiles
        register = max(part.register for part in found)
        widths = range(register, most, register)
        if _repeats(stmt) and instructions(stmt) * sum(widths) <= MOST_ADDED * most:
            made = stmt
            for width in reversed(widths):
                made = If(Compare("le", count, ir.const(width)), _of_width(stmt, count, width, scope), made)
            return made
    return vectors_counted(stmt, lanes, scope)


def _repeats(stmt: Stmt) -> bool:
    """Is there a loop that is run through, so that the tile is worth versions?"""
    return any(isinstance(part, For) and part.kind == "serial" and literal_extent(part) != 1 for part in statements(stmt))


def _of_width(stmt: Stmt, count: Expr, width: int, scope: frozenset[str]) -> Stmt:
    """The tile with so many lanes, which are still asked for."""
    if isinstance(stmt, For) and stmt.kind == "vector":
        found = counted(stmt, scope)
        return replace(stmt, hi=ir.const(width)) if found is not None and found[0] == count else stmt
    return map_statements(stmt, lambda part: _of_width(part, count, width, scope))


def _counted(stmt: Stmt, lanes: Callable[[DType], int], scope: frozenset[str]) -> Iterator[_Lanes]:
    """How the lanes of each vector loop under a condition are counted."""
    if isinstance(stmt, For) and stmt.kind == "vector":
        found = counted(stmt, scope)
        if found is not None:
            yield _Lanes(
                *found, max(lanes(buffer.dtype) for part in statements(stmt) if isinstance(part, Store) for buffer in part.buffers)
            )
        return
    for part in substatements(stmt):
        yield from _counted(part, lanes, scope)
