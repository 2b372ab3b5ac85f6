"""Loops in parts: where a test holds from some iteration on, or up to one, each part has its own version of the body and asks nothing.

    for j_o in range(7):                                        for j_o in range(max(0, (n - 15) // 16)):
        if 16 j_o + 15 < n:                                         vector j_i in range(16): S
            vector j_i in range(16): S                  ->      for j_o in range(max(0, (n - 15) // 16), 7):
        else:                                                       vector j_i in range(16): if 16 j_o + j_i < n: S
            vector j_i in range(16): if 16 j_o + j_i < n: S

That is index-set splitting (Griebl, Feautrier and Lengauer, "Index set splitting", 2000). What the test costs is little, as it is mostly
foreseen; but what stands behind it may not run, so nothing that is read there can be read before the loop. Every iteration runs once, and
in its order. A loop that threads share stays one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tensorlang.algebra.bounds import conjuncts
from tensorlang.algebra.polyhedra import find
from tensorlang.algebra.simplify import simplify
from tensorlang.codegen.lowering.passes.bounds import bounded
from tensorlang.ir import Binary, Compare, Expr, For, If, Stmt, block, const
from tensorlang.ir.traverse import map_statements, reads_data
from tensorlang.schedules.legality.accesses import facts_of
from tensorlang.schedules.rewriting.edit import literal_extent


def cut_where_tested(stmt: Stmt, facts: tuple[Expr, ...] = ()) -> Stmt:
    """The statement with each loop in two parts of which the body is one of two versions, where bounds can name the parts.

    `facts` hold around it. What has one iteration at most is no loop, and stays whole.
    """
    match stmt:
        case For(body=If(test, then, orelse)) if orelse is not None and not reads_data(test) and not _is_single(stmt, facts):
            parts = cut(stmt, where(stmt, conjuncts((test,))), then, orelse)
            if parts is not None:
                return map_statements(parts, lambda part: _asked_once(cut_where_tested(part, facts), facts))
        case _:
            pass
    inside = (*facts, *facts_of(stmt)) if isinstance(stmt, For) else facts
    return map_statements(stmt, lambda part: cut_where_tested(part, inside))


def _is_single(loop: For, facts: tuple[Expr, ...]) -> bool:
    """Has a loop one iteration at most?"""
    extent = literal_extent(loop)
    return extent <= 1 if extent is not None else find(*facts, Compare("lt", Binary("add", loop.lo, const(1)), loop.hi)) is None


def _asked_once(part: Stmt, facts: tuple[Expr, ...]) -> Stmt:
    """A part of one iteration at most as a condition; one of literal ends says so itself."""
    if not isinstance(part, For) or literal_extent(part) is not None or not _is_single(part, facts):
        return part
    return If(Compare("lt", part.lo, part.hi), replace(part, hi=simplify(Binary("add", part.lo, const(1)))))


def where(loop: For, tests: Iterable[Expr]) -> For | None:
    """The iterations of a serial loop in which tests hold, where these are neighbours that bounds can name."""
    main: For | None = loop if loop.kind == "serial" else None
    for test in tests:
        main = None if main is None else bounded(main, test)
    return main


def cut(loop: For, main: For | None, inside: Stmt, outside: Stmt, *, in_three: bool = False) -> Stmt | None:
    """The loop in parts with one body in the iterations `main` and another elsewhere; None where it has no such parts, or more than wanted.

    Two parts where these iterations reach one end of the loop, three where they do not and `in_three` is wanted.
    """
    if main is not None and main.hi == loop.hi:
        before = simplify(Binary("min", main.lo, loop.hi))
        return block(replace(loop, hi=before, body=outside), replace(main, body=inside))
    if main is not None and main.lo == loop.lo:
        after = simplify(Binary("max", main.hi, loop.lo))
        return block(replace(main, body=inside), replace(loop, lo=after, body=outside))
    if main is not None and in_three:
        return block(replace(loop, hi=main.lo, body=outside), replace(main, body=inside), replace(loop, lo=main.hi, body=outside))
    return None
