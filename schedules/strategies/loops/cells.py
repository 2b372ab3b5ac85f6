"""Threads for a scatter into cells: where places follow a loop in steps of several iterations, each thread has whole cells.

    for i: for j:                                       parallel i_o: for i_i: for j:
        grid[i // 8, shade(X[i, j])] += X[i, j]   ->        grid[i // 8, shade(X[i, j])] += X[i, j]        # i = 8 k i_o + i_i

Eight rows write to the same places, so that rows cannot be shared; those of different cells can, and each place is added to in the order in
which it was. Where the first cell is met within (`(i + 4) // 8`), the iterations before the second one are peeled off.
"""

from __future__ import annotations

from contextlib import suppress
from math import ceil
from typing import Final

from tensorlang.errors import ScheduleError
from tensorlang.ir import Axis, Binary, Const, Expr, For
from tensorlang.ir.linear import linear
from tensorlang.ir.traverse import nodes
from tensorlang.schedules.rewriting.edit import stores
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies.analysis.stages import size
from tensorlang.schedules.strategies.loops.thread_loop import sharing_pays

STRETCHES: Final = 8
"""Stretches of cells for each thread: what is left after the last whole one runs on one thread alone."""


def share_cells(s: Schedule, loop: For, work: float, threads: int, fork: float) -> Schedule | None:
    """Each thread with whole cells that a loop goes through; None where it goes through none, or that is not legal or does not pay."""
    found = list(stores(loop))
    cells = _cells(found[0].index, loop.loop) if len(found) == 1 else None
    if cells is None or not sharing_pays(loop, work, threads, fork):
        return None
    first, each = cells
    stretch = ceil((size(loop) - first) / (each * threads * STRETCHES)) * each
    trial = s.copy()
    with suppress(ScheduleError):
        if first:
            trial.peel(loop.loop, first=first)
        trial.parallel(trial.split(loop.loop, stretch, "peel")[0])
        return trial
    return None


def _cells(index: tuple[Expr, ...], loop: str) -> tuple[int, int] | None:
    """How many iterations come before the second cell at most, and how many each cell has; None where the loop goes through none."""
    for part in index:
        for node in nodes(part):
            if isinstance(node, Binary) and node.op == "floordiv" and isinstance(node.right, Const):
                form = linear(node.left)
                each = int(node.right.value)
                if form.terms == {Axis(loop): 1} and each > 1:
                    return -form.constant % each, each
    return None
