"""What a stage computes anew in each iteration of a loop that does not move it, computed before.

    for i: for j: Y[i, j] = (X[i, j] - mean[j]) / sqrt(v[j])          ->          for j: h[j] = sqrt(v[j])
                                                                                  for i: for j: Y[i, j] = (X[i, j] - mean[j]) / h[j]

A compiler moves what no inner loop moves; this moves with one, and needs storage: columns that are normalised, the row of a matrix that is
subtracted from others, the factors of a transform, rotations by positions. What is worth it is dearer than the load that it becomes, by the
cost model. A few elements that loops alone tell are literals once the loops of a window are unrolled, and stay.
"""

from __future__ import annotations

from math import prod
from typing import Final

from tensorlang.ir import Expr, For, Nest
from tensorlang.ir.relations import closure
from tensorlang.ir.traverse import axes_of, reads_data
from tensorlang.schedules.directives.hoist import Hoist, invariants
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies.analysis.stages import StageInfo, is_dear, size, stage_named, stages_of
from tensorlang.schedules.strategies.descent import OTHER_WAY
from tensorlang.schedules.strategies.loops.thread_loop import seconds_of_stages
from tensorlang.schedules.strategies.processor import Processor

LOOKED_AT: Final = 32
"""Stages that are looked at, those of the most work first: each proof reads the whole program."""
SHORT: Final = 4
"""Iterations up to which a loop is unrolled, which computes once what stays the same."""
UNROLLED: Final = 256
"""Elements below which those that loops alone tell stay: windows and short sums are unrolled, which makes literals of them."""


def hoist_invariants(s: Schedule, machine: Processor) -> None:
    """Append the directives, for each stage and loop where that is legal and predicted to be faster; for those that they make, too."""
    found = [info for info in stages_of(s.nest) if any(map(is_dear, info.store.values)) and not info.ragged.bounded]
    waiting = [info.name for info in sorted(found, key=lambda info: -info.iterations)[:LOOKED_AT]]
    while waiting:
        stage = waiting.pop()
        for loop in _loops(stage_named(s.nest, stage))[:-1]:
            waiting += _hoisted(s, stage, loop, machine)


def _hoisted(s: Schedule, stage: str, loop: For, machine: Processor) -> set[str]:
    """The stages that are made of what a loop does not move; none where it is not worth it."""
    info = stage_named(s.nest, stage)
    loops = _loops(info)
    inside = loops[[part.loop for part in loops].index(loop.loop) + 1 :]
    if size(loop) <= SHORT or not any(_is_worth_it(s.nest, expr, loops, inside) for expr in invariants(s.nest, info.store, loop.loop)):
        return set()
    known, before = set(s.stages()), seconds_of_stages(s, {stage}, machine)
    if not s.attempt(Hoist(stage, loop.loop)):
        return set()
    made = set(s.stages()) - known
    if seconds_of_stages(s, {stage, *made}, machine) >= OTHER_WAY * before:
        s.undo()
        return set()
    return made


def _loops(info: StageInfo) -> tuple[For, ...]:
    return (*info.around, *info.loops)


def _is_worth_it(nest: Nest, expr: Expr, loops: tuple[For, ...], inside: tuple[For, ...]) -> bool:
    """Does it move with a loop inside, cost more than a load, and not become literals?"""
    moving = [loop for loop in loops if loop.loop in closure(nest, axes_of(expr))]
    literal = not reads_data(expr) and prod(map(size, moving)) < UNROLLED
    return any(loop in inside for loop in moving) and is_dear(expr) and not literal
