"""Reductions over the same ranges that read the same elements, computed in one pass.

The forces on a body along three axes share a distance and its root; a sum and a sum of squares share a row. Apart, each reads and computes
that again. Products and windows stay apart: their operands are reused from registers, which several results would have to share.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from tensorlang.ir import Axis, Load
from tensorlang.ir.traverse import substitute
from tensorlang.schedules.directives.join_reductions import JoinReductions
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies.analysis.fusion import owner
from tensorlang.schedules.strategies.analysis.roles import roles_of
from tensorlang.schedules.strategies.analysis.sliding import sliding
from tensorlang.schedules.strategies.analysis.stages import StageInfo, size, stages_of

MOST_JOINED: Final = 4
"""Results that are computed together, at most: each has vectors of partial results in registers."""


def join_reductions(s: Schedule) -> Schedule:
    """The schedule with reductions joined that read the same elements, where that is legal."""
    infos = [info for info in stages_of(s.nest) if _is_candidate(info)]
    if len(infos) < 2:
        return s
    s, names = s.copy(), frozenset(s.stages())
    for first, second in _pairs([info for info in infos if owner(info.name, names) == info.name]):
        s.attempt(JoinReductions(first, second))
    return s


def _pairs(infos: list[StageInfo]) -> Iterator[tuple[str, str]]:
    """Stages and the next one each can be joined with, in program order."""
    left = list(infos)
    while left:
        group = [left.pop(0)]
        for info in list(left):
            if len(group) < MOST_JOINED and _reads_alike(group[0], info):
                group.append(info)
                left.remove(info)
        yield from ((first.name, second.name) for first, second in pairwise(group))


def _is_candidate(info: StageInfo) -> bool:
    """Is it a reduction of one result whose operands are not reused from registers?"""
    plain = info.store.reducer is not None and len(info.store.buffers) == 1 and bool(info.reduced) and not info.is_idle
    return plain and not info.ragged.bounded and sliding(info) is None and all(roles.row is None for roles in roles_of(info))


def _reads_alike(one: StageInfo, other: StageInfo) -> bool:
    """Do two run over as many iterations of as many loops, give results of one type, and read some element alike that moves in the sum?"""
    if [size(loop) for loop in one.loops] != [size(loop) for loop in other.loops]:
        return False
    if one.store.buffers[0].dtype != other.store.buffers[0].dtype:
        return False
    names = {mine.loop: Axis(theirs.loop) for mine, theirs in zip(one.loops, other.loops, strict=True)}
    moved = [load for load in one.loads if any(one.stride(load, loop) != 0 for loop in one.reduced)]
    alike = {Load(load.buffer, tuple(substitute(part, names) for part in load.index)) for load in moved}
    return not alike.isdisjoint(other.loads)
