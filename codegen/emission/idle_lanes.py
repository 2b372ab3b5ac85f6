"""Register tiles whose lanes that are off are never wanted: they may hold anything, so nothing has to keep what they held.

    acc: float32[7, 8] in registers                         lane 7 of a row is off wherever `acc` is written or read:
    vector x in range(8):                           ->          sums are plain multiply-adds,
        if x < 7:                                               without a blend after each
            acc[y, x] += P[y + r, x + s] * W[r, s]

Each statement that touches such storage does so under the same conditions on the element along the lanes. They ask for nothing that
changes while the storage lives, so that an element is wanted by all of them or by none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

from tensorlang.algebra.bounds import conjuncts
from tensorlang.ir import Alloc, Axis, Binary, Buffer, Compare, Expr, For, If, Stmt, Store
from tensorlang.ir.linear import Linear, linear
from tensorlang.ir.traverse import axes_of, dtype_of, expressions, loads_of, reads_data, substatements

ELEMENT: Final = Axis("")
"""The index along the lanes, as conditions are compared."""
Mask: TypeAlias = frozenset[tuple[str, int, frozenset[tuple[Expr, int]]]]
"""Conditions `form < 0` (or another comparison): the comparison, constant and terms of each."""


def without_idle_readers(alloc: Alloc) -> frozenset[str]:
    """The buffers in registers whose masked lanes nothing reads that is not under the same mask."""
    held = {buffer.name: buffer for buffer in alloc.buffers if buffer.memory == "register" and buffer.shape}
    masks: dict[str, set[Mask | None]] = {name: set() for name in held}
    for name, mask in _touched(alloc.body, held, None, (), frozenset()):
        masks[name].add(mask)
    return frozenset(name for name, found in masks.items() if len(found) == 1 and None not in found and frozenset() not in found)


def _touched(
    stmt: Stmt, held: dict[str, Buffer], vector: For | None, conditions: tuple[Expr, ...], inner: frozenset[str]
) -> Iterator[tuple[str, Mask | None]]:
    """The buffers that statements touch, with the mask of each; `inner` are the loops inside of their storage."""
    for index, name in _indices(stmt):
        if name in held:
            yield name, None if vector is None else _mask(index, vector, conditions, inner)
    if isinstance(stmt, For):
        vector, inner = (stmt if stmt.kind == "vector" else vector), inner | {stmt.loop}
    if isinstance(stmt, If):
        conditions = (*conditions, stmt.cond)
        if stmt.orelse is not None and vector is not None and vector.loop in axes_of(stmt.cond):
            yield from ((name, None) for part in (stmt.then, stmt.orelse) for name, _ in _touched(part, held, None, (), inner))
            return
    for part in substatements(stmt):
        yield from _touched(part, held, vector, conditions, inner)


def _indices(stmt: Stmt) -> Iterator[tuple[tuple[Expr, ...], str]]:
    """What a statement itself writes and reads."""
    if isinstance(stmt, Store):
        yield from ((stmt.index, buffer.name) for buffer in stmt.buffers)
    for expr in expressions(stmt):
        yield from ((load.index, load.buffer.name) for load in loads_of(expr) if isinstance(load.buffer, Buffer))


def _mask(index: tuple[Expr, ...], vector: For, conditions: tuple[Expr, ...], inner: frozenset[str]) -> Mask | None:
    """The conditions on lanes in terms of the element that a lane touches; None where they, or the element, are told in another way."""
    moving = [linear(part) for part in index if vector.loop in axes_of(part)]
    lane = Axis(vector.loop)
    if len(moving) != 1 or moving[0].terms.get(lane) != 1:
        return None
    rest = moving[0].plus(Linear(0, {lane: 1}), -1)
    found = set()
    for condition in conjuncts(conditions):
        if vector.loop not in axes_of(condition):
            continue
        if not isinstance(condition, Compare) or dtype_of(condition.left) != "int64":
            return None
        form = linear(Binary("sub", condition.left, condition.right))
        factor = form.terms.get(lane, 0)
        form = form.plus(Linear(0, {lane: factor}), -1).plus(rest, -factor).plus(Linear(0, {ELEMENT: factor}))
        if any(axes_of(atom) & (inner | {vector.loop}) or reads_data(atom) for atom in form.terms):
            return None
        found.add((condition.op, form.constant, frozenset(form.terms.items())))
    return frozenset(found)
