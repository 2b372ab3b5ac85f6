"""Reductions in steps: what overlapping windows share, and what a factor does not move, is combined once.

    Y[y, x] = sum(F[y + a, x + b])      ->      rows[y, j] = sum(F[y + a, j]);  Y[y, x] = sum(rows[y, x + b])

A window of 15 x 15 takes 15 + 15 steps, and each of the 15 is 3 + 5; a product of three matrices that is written as one sum is two
products. Where there is no such division, as of a disc, whose rows have windows of several lengths, these are put together of powers of
two. A window that is written out as a sum of integers is divided where its weights are a product, as of a binomial filter. Whether it is
worth storing what is combined first, and reading it again, the cost model says of the whole program (`alternatives`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from math import isqrt, prod
from typing import Final

from tensorlang.ir import Nest
from tensorlang.schedules.directive import Directive, Refusal
from tensorlang.schedules.directives.separate import Separate
from tensorlang.schedules.directives.split import Split
from tensorlang.schedules.directives.written_out import fewest, terms
from tensorlang.schedules.rewriting.coordinates import places
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies.analysis.fusion import overlaps
from tensorlang.schedules.strategies.analysis.stages import StageInfo, is_dear, is_literal, size, stage_named, stages_of
from tensorlang.schedules.strategies.preparation.narrowing import narrow_integers

FEWER: Final = 0.6
"""The share of its steps that a reduction may take in two: else less is saved than what is stored in between costs."""
FEWER_DEAR: Final = 0.75
"""The same where each step has a function or a division."""
FEWER_WRITTEN: Final = 0.7
"""The same of a window that is written out: each of its terms is a load, and lanes of integers are many."""
FEWER_DOUBLED: Final = 0.4
"""The same of windows that are put together: what each power of two has is stored, and read again."""
ALIKE: Final = 1.1
"""What steps are by the fewest up to which the outermost loops are combined first: a row of sums is read where it was written."""
MOST_LOOPS: Final = 5
"""Loops of a reduction up to which all ways to divide them are looked at."""


def separate_reductions(s: Schedule) -> float:
    """Append the directives for each reduction, and for what they make, as long as that takes fewer steps; the share of all left."""
    before = _steps(s)
    _separate_sums(s)
    waiting = [info for info in stages_of(s.nest) if info.combines]
    while waiting:
        info = waiting.pop()
        made = _separated(s, info)
        waiting += _looked_at_again(s, info, made) if made else []
    return _steps(s) / max(1, before)


def _steps(s: Schedule) -> int:
    return sum(info.iterations * info.turns * max(1, terms(info.store.values)) for info in stages_of(s.nest))


def _separate_sums(s: Schedule) -> None:
    """Append the directives for windows that are written out, and for what they make, in as few bits as hold it."""
    waiting = [*stages_of(s.nest)]
    while waiting:
        info = waiting.pop()
        if fewest(info.store.values, [loop.loop for loop in info.loops]) > FEWER_WRITTEN:
            continue
        known = set(s.stages())
        if s.attempt(Separate(info.name, ())):
            made = [name for name in s.stages() if name not in known]
            narrow_integers(s, made)
            waiting += _looked_at_again(s, info, made)


def _looked_at_again(s: Schedule, info: StageInfo, made: Sequence[str]) -> list[StageInfo]:
    """What was made of a stage, and what is left of it: others are as they were, of which a program may have a thousand."""
    return [stage_named(s.nest, name) for name in (info.name, *made)]


def _separated(s: Schedule, info: StageInfo) -> list[str]:
    """The stages that are made of one reduction by the division of fewest steps; none where that is not worth it."""
    enough = (FEWER_DEAR if any(map(is_dear, info.store.values)) else FEWER) * info.iterations
    found = list(_divisions(s.nest, info))
    if min((steps for steps, _ in found), default=enough) >= enough:
        found, enough = list(_doublings(s.nest, info)), FEWER_DOUBLED * info.iterations
    least = min((steps for steps, _ in found), default=enough)
    if least >= enough:
        return []
    best = next(division for division in found if division[0] <= ALIKE * least)
    known = set(s.stages())
    for count, step in enumerate(best[1]):
        if not s.attempt(step):
            s.undo(count)
            return []
    return [name for name in s.stages() if name not in known and not name.endswith(".init")]


def _divisions(nest: Nest, info: StageInfo) -> Iterator[tuple[float, tuple[Directive, ...]]]:
    """Ways to divide a reduction, each with the steps that both parts take."""
    loops = info.reduced
    if len(loops) > MOST_LOOPS:
        return
    for count in range(1, len(loops)):
        for inner in combinations(loops, count):
            yield from _taken(nest, Separate(info.name, tuple(loop.loop for loop in inner)))
    if len(loops) == 1 and is_literal(loops[0]) and overlaps(info):
        steps = size(loops[0])
        small = [factor for factor in range(2, isqrt(steps) + 1) if steps % factor == 0]
        for factor in (*small, *(steps // factor for factor in reversed(small))):
            split = Split(loops[0].loop, factor)
            yield from _taken(nest, Separate(info.name, split.made()[1:]), split)


def _doublings(nest: Nest, info: StageInfo) -> Iterator[tuple[float, tuple[Directive, ...]]]:
    """Loops along which windows may be put together, with the steps that this takes."""
    for loop in info.reduced if overlaps(info) else ():
        step = Separate(info.name, (loop.loop,), doubling=True)
        try:
            plan = step.doubled(nest)
        except Refusal:
            continue
        yield places(plan.coordinates) * plan.windows.levels + prod(map(size, plan.outer)) * len(plan.windows.pieces), (step,)


def _taken(nest: Nest, step: Separate, *before: Directive) -> Iterator[tuple[float, tuple[Directive, ...]]]:
    """A division with the steps that it takes; nothing where it is refused."""
    try:
        for other in before:
            nest = other.apply(nest)
        plan = step.plan(nest)
    except Refusal:
        return
    yield places(plan.portion.coordinates) * prod(map(size, plan.inner)) + prod(map(size, plan.outer)), (*before, step)
