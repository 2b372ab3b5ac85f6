"""Conditions of partial tiles leave the hot loops.

`hoist`: where the conditions inside a loop body hold for whole tiles (their unrolled and vector loops taken at their ends), the body is
emitted twice, `if` the tile is whole without its conditions, `else` with them. `scalar_rests`: a vector loop whose split has the tail
"guard" runs its partial tile lane by lane instead of under a mask.
"""

from __future__ import annotations

from collections.abc import Iterator, Set as AbstractSet
from dataclasses import replace
from typing import Final

from tensorlang import ir
from tensorlang.algebra.rules import FALSE, TRUE
from tensorlang.algebra.simplify import simplify
from tensorlang.codegen.lowering.passes.ranges import may_protect, runs, told_by
from tensorlang.ir import Axis, Binary, Compare, Const, Expr, For, If, Stmt
from tensorlang.ir.dtype import INT64
from tensorlang.ir.linear import linear
from tensorlang.ir.traverse import axes_of, dtype_of, map_statements, read_in, substatements, substitute, written_in
from tensorlang.schedules.legality.code_size import instructions

MAX_VERSIONED: Final = 8192
"""Instructions of a body that is versioned at most; half as many inside a version, and so on."""


def hoist(
    stmt: Stmt,
    scope: frozenset[str] = frozenset(),
    depth: int = 0,
    decided: frozenset[Expr] = frozenset(),
    around: tuple[Expr, ...] = (),
) -> Stmt:
    """The statement with the bodies of loops versioned on whole tiles, outermost possible loop first.

    `decided` are conditions that an enclosing version has tested, `around` is what holds there.
    """
    around = (*around, *told_by(stmt))
    if not isinstance(stmt, For) or stmt.kind not in ("serial", "parallel"):
        inner = scope | ({stmt.loop} if isinstance(stmt, For) else set())
        return map_statements(stmt, lambda part: hoist(part, inner, depth, decided, around))
    inside, made = scope | {stmt.loop}, written_in(stmt.body)  # what is read of that cannot be tested before
    found = {
        guard: whole
        for guard, whole in _guards(stmt.body, {}, frozenset(), (), around)
        if axes_of(whole) <= inside and whole not in (TRUE, FALSE) and whole not in decided and not read_in(whole) & made
    }
    if not found or instructions(stmt.body) > MAX_VERSIONED >> depth:
        return replace(stmt, body=hoist(stmt.body, inside, depth, decided, around))
    test: Expr = TRUE
    for whole in dict.fromkeys(found.values()):
        test = simplify(Binary("and", test, whole))
    fast = hoist(_without(stmt.body, frozenset(found)), inside, depth + 1, decided, around)
    slow = hoist(stmt.body, inside, depth + 2, decided | frozenset(found.values()), around) if depth < 2 else stmt.body
    return replace(stmt, body=If(test, fast, slow))


def _guards(
    stmt: Stmt, tiles: dict[str, For], serial: frozenset[str], passed: tuple[Expr, ...], around: tuple[Expr, ...], *, surely: bool = True
) -> Iterator[tuple[Expr, Expr]]:
    """Each condition of a partial tile, with the condition that makes it hold for the whole tile.

    `passed` are the conditions between here and it, `around` is what holds outside. One that may keep it from reading outside a buffer
    keeps it where it is. So does a loop around it that may have no iteration: where it has one, extents are not empty, and ends are
    behind starts. `surely`: there is no such loop.
    """
    match stmt:
        case If(cond, then, None):
            moved = axes_of(cond) & tiles.keys()
            if (
                isinstance(cond, Compare)
                and cond.op in ("lt", "le")
                and moved
                and not axes_of(cond) & serial
                and _is_linear(cond.left, cond.right, moved)
                and not may_protect(passed, around, cond)
                and (surely or not read_in(cond))
            ):
                yield cond, _most(cond, tiles)
            yield from _guards(then, tiles, serial, (*passed, cond), around, surely=surely)
        case For(loop, body=body, kind="unroll" | "vector" | "tensor"):
            yield from _guards(body, {**tiles, loop: stmt}, serial, passed, around, surely=surely and runs(stmt))
        case For(loop, body=body):
            yield from _guards(body, tiles, serial | {loop}, passed, around, surely=surely and runs(stmt))
        case If(cond, then, orelse):
            yield from _guards(then, tiles, serial, (*passed, cond), around, surely=surely)
            if orelse is not None:
                yield from _guards(orelse, tiles, serial, (*passed, cond), around, surely=surely)
        case _:
            for part in substatements(stmt):
                yield from _guards(part, tiles, serial, passed, around, surely=surely)


def _is_linear(left: Expr, right: Expr, tiles: AbstractSet[str]) -> bool:
    """Is the difference linear in the loops of the tile, so that it is greatest at their ends? What is loaded is not."""
    if dtype_of(left) != INT64:
        return False
    atoms = linear(Binary("sub", left, right)).terms
    return all(isinstance(atom, Axis) or not axes_of(atom) & tiles for atom in atoms)


def _most(cond: Compare, tiles: dict[str, For]) -> Expr:
    """An inequality at the ends of the tile loops at which it is hardest."""
    form = linear(Binary("sub", cond.left, cond.right))
    ends: dict[str, Expr] = {}
    for name, loop in tiles.items():
        last = simplify(Binary("sub", loop.hi, ir.const(1)))
        ends[name] = loop.lo if form.terms.get(Axis(name), 0) < 0 else last
    return simplify(Compare(cond.op, substitute(cond.left, ends), substitute(cond.right, ends)))


def _without(stmt: Stmt, held: frozenset[Expr]) -> Stmt:
    if isinstance(stmt, If) and stmt.cond in held and stmt.orelse is None:
        return _without(stmt.then, held)
    return map_statements(stmt, lambda part: _without(part, held))


def scalar_rests(stmt: Stmt, loops: frozenset[str], failed: frozenset[Expr] = frozenset(), around: tuple[Expr, ...] = ()) -> Stmt:
    """Vector loops among `loops` that hold conditions on their lanes: vectors where all lanes run, else a loop over the lanes.

    `failed` are conditions that do not hold here, `around` is what does.
    """
    around = (*around, *told_by(stmt))
    if isinstance(stmt, If) and stmt.orelse is not None:
        other = scalar_rests(stmt.orelse, loops, failed | {stmt.cond}, around)
        return replace(stmt, then=scalar_rests(stmt.then, loops, failed, around), orelse=other)
    stmt = map_statements(stmt, lambda part: scalar_rests(part, loops, failed, around))
    if not isinstance(stmt, For) or stmt.kind != "vector" or stmt.loop not in loops:
        return stmt
    made = written_in(stmt.body)
    held = {
        guard: whole
        for guard, whole in _guards(stmt.body, {stmt.loop: stmt}, frozenset(), (), around, surely=runs(stmt))
        if stmt.loop not in axes_of(whole) and not read_in(whole) & made
    }
    if not held or (isinstance(stmt.hi, Const) and all(whole == FALSE for whole in held.values())):
        return stmt
    test: Expr = TRUE
    for whole in held.values():
        test = simplify(Binary("and", test, whole))
    if test in failed:
        return replace(stmt, kind="serial")
    return If(test, replace(stmt, body=_without(stmt.body, frozenset(held))), replace(stmt, kind="serial"))
