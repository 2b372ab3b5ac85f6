"""All steps of some rows of a state, then of the next ones, where rows do not wait for one another.

    for t: { for i: v[i] = f(v[i], x[i]) }              for i_o: for t: { for i_i: v[i] = f(v[i], x[i]) }
           { for i: x[i] = g(x[i], v[i]) }      ->                      { for i_i: x[i] = g(x[i], v[i]) }

Step by step a state that has left the near caches comes from afar each time; a few rows of it stay there for all steps. So it is with
paths of a simulation, options of a book, filters of a bank. Where a row looks at its neighbours tiles of time are skewed instead
(`rows/time_tiles`). Threads that shared the rows of each step share them for all steps, with one fork.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import Final

from tensorlang.ir import Alloc, Binary, Block, For, Nest, Stmt
from tensorlang.ir.relations import closure
from tensorlang.ir.traverse import axes_of
from tensorlang.schedules.directives.fuse_loops import FuseLoops
from tensorlang.schedules.directives.loop_kinds import Parallel
from tensorlang.schedules.directives.reorder import Reorder
from tensorlang.schedules.directives.split import Split
from tensorlang.schedules.model.estimate import estimate
from tensorlang.schedules.rewriting.edit import literal_extent, stores
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies.processor import Processor

BLOCKS: Final = (1, 8, 32, 128)
"""Iterations of the outermost loops of a step that one block may have."""
FEW_STEPS: Final = 4
"""Steps from which a state is worth keeping near."""
WORTH: Final = 0.85
"""The share of a program's time below which blocks are taken: more loops begin and end, of which the model sees a part (trees of options in
rows of their own: 0.95 predicted, 1.24 measured on a Zen 4; other ones 0.71 and 0.95, oscillators 0.67 and 0.68)."""
NEAR: Final = ("arithmetic", "L1")
"""What blocks do not change."""


def steps_in_rows(s: Schedule, machine: Processor, threads: int) -> Schedule:
    """The schedule with the steps of states inside loops over their rows, where the cost model says that this is faster."""
    for steps, rows in list(_steps(s.nest)):
        whole = estimate(s.nest, machine.core)
        far = sum(seconds for level, seconds in whole.shares.items() if level not in NEAR)
        if far < (1 - WORTH) * whole.seconds:
            break
        tried = ((estimate(trial.nest, machine.core).seconds, trial) for trial in _in_blocks(s, steps, rows, threads))
        seconds, best = min(tried, key=itemgetter(0), default=(whole.seconds, s))
        if seconds < WORTH * whole.seconds:
            s = best
    return s


def _steps(nest: Nest) -> Iterator[tuple[str, tuple[For, ...]]]:
    """Loops over steps in no other loop, with nothing but loops of as many iterations in them: those, by the name of the loop."""
    for part in _parts(nest.body):
        if isinstance(part, For) and part.kind == "serial" and (literal_extent(part) or 0) >= FEW_STEPS and _is_of_steps(nest, part):
            rows = _parts(part.body)
            found = tuple(row for row in rows if isinstance(row, For) and row.kind in ("serial", "parallel"))
            extents = {literal_extent(row) for row in found}
            if rows and len(found) == len(rows) and len(extents) == 1 and None not in extents:
                yield part.loop, found


def _is_of_steps(nest: Nest, loop: For) -> bool:
    """Does a loop take turns with copies of a state, or write the same one again and again?"""
    places = (part for store in stores(loop.body) for part in store.index if not (isinstance(part, Binary) and part.op == "mod"))
    return loop.loop not in closure(nest, frozenset().union(*map(axes_of, places)))


def _parts(stmt: Stmt) -> list[Stmt]:
    """What a statement does one after the other."""
    match stmt:
        case Alloc(_, body):
            return _parts(body)
        case Block(body):
            return [piece for part in body for piece in _parts(part)]
        case _:
            return [stmt]


def _in_blocks(s: Schedule, steps: str, rows: Sequence[For], threads: int) -> Iterator[Schedule]:
    """The ways to run the steps in blocks of rows, smaller ones first, as far as they are legal: one that is not says that none is."""
    serial = _without_threads(s, [row.loop for row in rows])
    extent = literal_extent(rows[0]) or 0
    for size in BLOCKS:
        if serial is None or size * max(2, threads) > extent:
            return
        trial = serial.copy()
        names = [row.loop for row in rows]
        if size > 1:
            splits = [Split(name, size, "peel") for name in names]
            if not all(map(trial.attempt, splits)):
                return
            names = [split.made()[0] for split in splits]
        turned = (*(FuseLoops(one, other) for one, other in pairwise(names)), Reorder((names[-1], steps)))
        if not all(map(trial.attempt, turned)):
            return
        if any(row.kind == "parallel" for row in rows):
            trial.attempt(Parallel(names[-1]))
        yield trial


def _without_threads(s: Schedule, loops: Sequence[str]) -> Schedule | None:
    """A copy whose loops no threads share; None where something builds on that."""
    trial, shared = s.copy(), [step for step in s.directives if isinstance(step, Parallel) and step.loop in loops]
    if shared:
        first = next(place for place, step in enumerate(s.directives) if step in shared)
        trial.undo(len(s.directives) - first)
        if not all(trial.attempt(step) for step in s.directives[first:] if step not in shared):
            return None
    return trial
