"""Reductions over the same ranges that read the same elements, computed in one pass.

The forces on a body along three axes share a distance and its root; a sum and a sum of squares share a row. Apart, each reads and computes
that again. One that stands in an expression, `0.5 * tl.sum(...)`, is computed before it then. Windows share the registers of one tile
then, so that they are joined where the cost model says that this is faster: a weighted mean and its weights, of which each is an
exponential. Scatters to the same places, as the least and the greatest of each group, are joined where it says so, too, whatever reads
them: they share the way there, and the room of caches. Products stay apart: their operands are reused from registers, which several
results would have to share.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, pairwise
from math import prod
from typing import Final

from tensorlang.ir import Axis, Buffer, Load
from tensorlang.ir.traverse import loads_of, substitute
from tensorlang.schedules.directives.join_reductions import JoinReductions
from tensorlang.schedules.model.estimate import estimated
from tensorlang.schedules.model.parts import Part
from tensorlang.schedules.model.program import program
from tensorlang.schedules.model.sketch import Sketch, numbered
from tensorlang.schedules.rewriting.edit import stage_of
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies.analysis.fusion import owner, place_before
from tensorlang.schedules.strategies.analysis.roles import roles_of
from tensorlang.schedules.strategies.analysis.sliding import sliding
from tensorlang.schedules.strategies.analysis.stages import StageInfo, readers, size, stage_named, stages_of, tensor_of
from tensorlang.schedules.strategies.descent import OTHER_WAY
from tensorlang.schedules.strategies.processor import Processor
from tensorlang.schedules.strategies.windows.search import WindowSearch
from tensorlang.system.identity import Identity

MOST_JOINED: Final = 4
"""Results that are computed together, at most: each has vectors of partial results in registers."""
FEW: Final = 16
"""Iterations below which a sum in an expression is part of it: written out, or the same for lanes of elements."""
MOST_SCATTERED: Final = 8
"""The same of scatters, whose results are in memory: as many streams are read and written side by side."""


def join_reductions(s: Schedule, machine: Processor) -> Schedule:
    """The schedule with reductions joined that read the same elements, where that is legal, of windows and scatters where it is faster."""
    found = _candidates(s)
    if len(found) < 2:
        return s
    inside = _inside(s, found)
    apart = _candidates(_before(s, inside)) if inside else found
    for first, second in _pairs([info for info in apart if not _is_judged(info) and len(info.store.buffers) == 1]):
        trial = _before(s, {name: around for name, around in inside.items() if name in (first, second)})
        s = trial if trial.attempt(JoinReductions(first, second)) else s
    judged = _Judged(machine)
    joined: Schedule | None = s
    while joined is not None:
        s, joined = joined, judged.with_two_joined(joined)
    return s


def _inside(s: Schedule, found: Sequence[StageInfo]) -> dict[str, str]:
    """The sums that stand in expressions, and read a tensor that another one reads, with the stage of the expression."""
    names = frozenset(s.stages())
    read = {info.name: {tensor_of(load).name for load in info.loads} for info in found}
    around = {info.name: owner(info.name, names) for info in found if info.around}
    alike = {one for one in around for other in read if one != other and not read[one].isdisjoint(read[other])}
    return {name: stage for name, stage in around.items() if stage != name and name in alike}


def _before(s: Schedule, inside: Mapping[str, str]) -> Schedule:
    """A copy of the schedule with sums computed before the stages in whose expressions they stand, as far as that is legal."""
    s = s.copy()
    for name, around in inside.items():
        own = {stage_of(loop.loop) for loop in stage_named(s.nest, name).around}
        place = place_before(s, name, around) if around in own else None
        if place is not None:
            s.apply(place)
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


class _Judged:
    """What windows and scatters take on a machine, and which two of them are not joined: once two are, the others are what they were."""

    def __init__(self, machine: Processor) -> None:
        self._machine = machine
        self._known: dict[Identity, float] = {}
        self._apart: set[Identity] = set()

    def with_two_joined(self, s: Schedule) -> Schedule | None:
        """The schedule with two windows that the same stages read joined, or two scatters; None where no two are faster so."""
        for first, second in combinations(filter(_is_judged, _candidates(s)), 2):
            pair = Identity((first.store, second.store))
            if pair in self._apart or not _may_be_one(s, first, second) or not s.can("join_reductions", first.name, second.name):
                continue
            joined = s.copy()
            joined.join_reductions(first.name, second.name)
            if self._seconds(joined, second.name) < OTHER_WAY * (self._seconds(s, first.name) + self._seconds(s, second.name)):
                return joined
            self._apart.add(pair)
        return None

    def _seconds(self, s: Schedule, name: str) -> float:
        """What a stage takes by the cost model, a window in the tile that it names."""
        info = stage_named(s.nest, name)
        key = Identity((info.store,))
        if key not in self._known:
            self._known[key] = _seconds_of(info, program(s.nest), self._machine)
        return self._known[key]


def _may_be_one(s: Schedule, first: StageInfo, second: StageInfo) -> bool:
    """Have two windows, or two scatters, what they could share, and few results; are both windows in registers for the same stages?"""
    if first.scatters != second.scatters or not _reads_alike(first, second):
        return False
    most = MOST_SCATTERED if first.scatters else MOST_JOINED
    if len(first.store.buffers) + len(second.store.buffers) > most:
        return False
    return first.scatters or _takers(s, first) == _takers(s, second)


def _is_judged(info: StageInfo) -> bool:
    """Is it a window or a scatter?"""
    return info.scatters or sliding(info) is not None


def _seconds_of(info: StageInfo, plain: tuple[Part, ...], machine: Processor) -> float:
    window = sliding(info)
    if window is None:
        return estimated(numbered(Sketch.of(plain, info.name).parts()), machine.core).seconds
    search = WindowSearch.of_tile(window, machine, plain)
    return search.seconds(search.tile())


def _takers(s: Schedule, info: StageInfo) -> tuple[frozenset[str], frozenset[bool]]:
    """The stages that read what a stage computes, and whether it is a result: what takes one of two windows has to take both."""
    found = frozenset(name for name, _ in readers(s.nest, info.store.buffers))
    return found, frozenset(buffer in s.nest.outputs for buffer in info.store.buffers)


def _candidates(s: Schedule) -> list[StageInfo]:
    """The reductions, in program order, whose operands are not reused from registers, and windows; of expressions none that is short."""
    names = frozenset(s.stages())
    found = (info for info in stages_of(s.nest) if _is_candidate(info))
    return [info for info in found if owner(info.name, names) == info.name or prod(map(size, info.reduced)) >= FEW]


def _is_candidate(info: StageInfo) -> bool:
    if info.store.reducer is None or info.is_idle:
        return False
    return _is_judged(info) or (bool(info.reduced) and all(roles.row is None for roles in roles_of(info)))


def _reads_alike(one: StageInfo, other: StageInfo) -> bool:
    """Do two run over as many iterations of as many loops, and read some element alike that moves in the sum, or tells where it goes?

    Results of sums in vectors are of one type: those of others would fill another number of them.
    """
    if [size(loop) for loop in one.loops] != [size(loop) for loop in other.loops]:
        return False
    if not one.scatters and len({buffer.dtype for info in (one, other) for buffer in info.store.buffers}) > 1:
        return False
    names = {mine.loop: Axis(theirs.loop) for mine, theirs in zip(one.loops, other.loops, strict=True)}
    moved = [load for load in _operands(one) if any(one.stride(load, loop) != 0 for loop in one.reduced or one.loops)]
    alike = {Load(load.buffer, tuple(substitute(part, names) for part in load.index)) for load in moved}
    return not alike.isdisjoint(_operands(other))


def _operands(info: StageInfo) -> tuple[Load, ...]:
    """What a stage reads for its values, and for where they go."""
    return (*info.loads, *(load for part in info.store.index for load in loads_of(part) if isinstance(load.buffer, Buffer)))
