"""`separate` with `doubling=True`: see there, and `rewriting.doubling` for the pieces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from tensorlang.algebra.simplify import simplify
from tensorlang.ir import Axis, Binary, Buffer, Expr, For, Load, Nest, Stmt, Store, allocate, block, const
from tensorlang.ir.linear import expression, linear
from tensorlang.ir.traverse import substitute
from tensorlang.schedules.placement.local_copies import fresh_buffer
from tensorlang.schedules.rewriting.boxes import axes, new_stage, shape_of, sweep
from tensorlang.schedules.rewriting.coordinates import Coordinate, rewritten
from tensorlang.schedules.rewriting.copies import FreshNames, pruned
from tensorlang.schedules.rewriting.doubling import Piece, Windows
from tensorlang.schedules.rewriting.edit import edit_loops, nested, remove


class Doubled(NamedTuple):
    """A reduction whose windows along a loop are put together: its statement, loops, value over loops alone, and the pieces."""

    store: Store
    chain: tuple[For, ...]
    outer: tuple[For, ...]
    value: Expr
    coordinates: tuple[Coordinate, ...]
    along: Coordinate
    apart: int
    """How far the coordinate moves with an iteration of the loop."""
    windows: Windows

    def shape(self, level: int) -> tuple[Expr, ...]:
        """The extents of the windows of 2^`level`."""
        less = self.apart * ((1 << level) - 1)
        extents = zip(self.coordinates, shape_of(self.coordinates), strict=True)
        return tuple(simplify(Binary("sub", extent, const(less))) if part == self.along else extent for part, extent in extents)


def with_doubled(nest: Nest, plan: Doubled) -> tuple[Nest, tuple[str, ...]]:
    """The nest with stages for windows of 2, 4, 8, ... and the stage of them; the names of the former."""
    names, stage = FreshNames.of(nest), plan.store.stage
    first, labels, made = list[Stmt](), list[str](), list[Buffer]()
    for level in range(1, plan.windows.levels + 1):
        label = new_stage(nest, f"{stage}_{1 << level}")
        buffer = Buffer(fresh_buffer(nest, f"{plan.store.buffers[0].name}_{1 << level}"), plan.shape(level), plan.store.buffers[0].dtype)
        loops = sweep(plan.coordinates, buffer.shape, plan.store, label, names)
        further = plan.apart << (level - 1)
        sides = [_at(plan, made[-1] if made else None, loops, away) for away in (0, further)]
        first.append(nested(loops, Store(label, (buffer,), axes(loops), (plan.windows.combined(*sides),))))
        labels.append(label)
        made.append(buffer)
    whole = plan.windows.all_of(_piece(plan, made, piece) for piece in plan.windows.pieces)
    last = nested(plan.outer, replace(plan.store, values=(whole,), reducer=None))
    body = edit_loops(nest.body, lambda part: part.loop == plan.chain[0].loop, lambda _: allocate(tuple(made), block(*first, last)))
    start = f"{stage}.init"
    left = remove(body, lambda part: part.stage == start, start)
    assert left is not None
    return pruned(replace(nest, body=left)), tuple(labels)


def _at(plan: Doubled, buffer: Buffer | None, loops: Sequence[For], away: int) -> Expr:
    """A window of half the length, or a single value, where the loops of a stage stand, or further along."""
    places = [
        expression(linear(Axis(loop.loop)).plus(linear(const(away if part == plan.along else 0))))
        for part, loop in zip(plan.coordinates, loops, strict=True)
    ]
    if buffer is not None:
        return Load(buffer, tuple(places))
    values = {part: simplify(Binary("add", part.lo, place)) for part, place in zip(plan.coordinates, places, strict=True)}
    return rewritten(plan.value, values)


def _piece(plan: Doubled, made: Sequence[Buffer], piece: Piece) -> Expr:
    if not piece.level:
        return _standing(plan.value, piece.at)
    return Load(made[piece.level - 1], tuple(_standing(part.place, piece.at) for part in plan.coordinates))


def _standing(expr: Expr, at: Mapping[str, int]) -> Expr:
    """An expression where loops of the reduction stand at known iterations."""
    return simplify(substitute(expr, {name: const(value) for name, value in at.items()}))
