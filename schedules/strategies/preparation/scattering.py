"""Sums of what belongs to each of many groups, with as many steps as there is data.

    for q: for k: if bin[k] == q: H[q] += X[k]          ->          for k: H[bin[k]] += X[k]

Asked for each group, all data are read for each: in lanes that is fast for a few groups and hopeless for many. The cost model tells.
"""

from __future__ import annotations

from typing import Final

from tensorlang.ir import Axis, Compare
from tensorlang.ir.traverse import walk
from tensorlang.schedules.directives.compute_root import ComputeRoot
from tensorlang.schedules.directives.scatter import Scatter
from tensorlang.schedules.legality.accesses import conditions_around
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies.analysis.fusion import owner
from tensorlang.schedules.strategies.analysis.stages import StageInfo, size, stage_named, stages_of
from tensorlang.schedules.strategies.descent import OTHER_WAY
from tensorlang.schedules.strategies.loops.thread_loop import seconds_of_stages
from tensorlang.schedules.strategies.processor import Processor

FEW: Final = 4
"""Groups up to which nothing is looked at: their sums stay in registers."""


def scatter_groups(s: Schedule, machine: Processor, threads: int) -> None:
    """Append the directives for each reduction that asks an equation of its element, where that is predicted to be faster."""
    for info in stages_of(s.nest):
        if info.combines and _asks(s, info):
            _scatter(s, info.name, machine, threads)


def _asks(s: Schedule, info: StageInfo) -> bool:
    """Is there an equation in what it combines, or around it?"""
    found = (node for expr in (*info.store.values, *conditions_around(s.nest, info.store)) for node in walk(expr))
    return any(isinstance(node, Compare) and node.op == "eq" for node in found)


def _scatter(s: Schedule, name: str, machine: Processor, threads: int) -> None:
    before, steps = seconds_of_stages(s, {name}, machine) / threads, 0
    if owner(name, frozenset(s.stages())) != name:  # it stands in the expression of another stage
        if not s.attempt(ComputeRoot(name)):
            return
        steps += 1
    rooted = steps
    info = stage_named(s.nest, name)
    for loop in info.outer:
        if size(loop) > FEW and Axis(loop.loop) in info.store.index:
            steps += s.attempt(Scatter(name, loop.loop))
    if steps and (steps == rooted or seconds_of_stages(s, {name}, machine, lanes=False) >= OTHER_WAY * before):
        s.undo(steps)
