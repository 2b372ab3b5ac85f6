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

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from tensorlang import ir
from tensorlang.codegen.lowering.passes.remainders import counted
from tensorlang.ir import Compare, Expr, For, If, Stmt
from tensorlang.ir.dtype import DType
from tensorlang.ir.traverse import map_statements
from tensorlang.schedules.legality.code_size import instructions
from tensorlang.schedules.rewriting.edit import edit_loops, literal_extent, loops, stores

MOST_ADDED: Final = 2048
"""Instructions of all the versions of one tile together, but for the one that is there anyway."""


def vectors_counted(stmt: Stmt, lanes: Callable[[DType], int], scope: frozenset[str] = frozenset()) -> Stmt:
    """The statement with the partial tiles in it in versions for each number of vectors; `scope` are the loops around."""
    if isinstance(stmt, If) and stmt.orelse is not None:
        return replace(stmt, then=vectors_counted(stmt.then, lanes, scope), orelse=_versions(stmt.orelse, lanes, scope))
    inside = scope | {stmt.loop} if isinstance(stmt, For) else scope
    return map_statements(stmt, lambda part: vectors_counted(part, lanes, inside))


def _versions(stmt: Stmt, lanes: Callable[[DType], int], scope: frozenset[str]) -> Stmt:
    """What runs where a tile is not whole, in versions; what is in it where its lanes are not counted in one way."""
    found = {loop: told for loop in loops(stmt) if (told := _lanes_of(loop, scope)) is not None}
    if len(set(found.values())) == 1:
        number, most = next(iter(found.values()))
        register = max(lanes(buffer.dtype) for loop in found for store in stores(loop) for buffer in store.buffers)
        widths = range(register, most, register)
        if _repeats(stmt) and instructions(stmt) * sum(widths) <= MOST_ADDED * most:
            made = stmt
            for width in reversed(widths):
                made = If(Compare("le", number, ir.const(width)), _of_width(stmt, width, scope), made)
            return made
    return vectors_counted(stmt, lanes, scope)


def _repeats(stmt: Stmt) -> bool:
    """Is there a loop that is run through, so that the tile is worth versions?"""
    return any(loop.kind == "serial" and literal_extent(loop) != 1 for loop in loops(stmt))


def _of_width(stmt: Stmt, width: int, scope: frozenset[str]) -> Stmt:
    """The tile with so many lanes, which are still asked for."""
    return edit_loops(stmt, lambda loop: _lanes_of(loop, scope) is not None, lambda loop: replace(loop, hi=ir.const(width)))


def _lanes_of(loop: For, scope: frozenset[str]) -> tuple[Expr, int] | None:
    """How many lanes of a vector loop run, as an expression that is the same all through a tile, and at most; None where none tells."""
    return counted(loop, scope) if loop.kind == "vector" else None
