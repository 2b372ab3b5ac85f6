"""What windows that overlap compute alike, computed once.

    for y: for x: for a: for b: S[y, x] += W[a, b] * F[clamp(y + a), clamp(x + b)]

                    ->      for y: for x: P[y, x] = F[clamp(y), clamp(x)];  for y: for x: for a: for b: S[y, x] += W[a, b] * P[y + a, x + b]

A function or a division is dearer than the load that it becomes. A place that is asked for costs little, but it is asked in each tap, lanes
at the ends of a row pick elements out of memory one by one, and neighbours share no rows in registers: with some taps a copy with a border
is faster, the more so where three channels of a pixel are the lanes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tensorlang.ir import Expr, Load
from tensorlang.ir.traverse import nodes
from tensorlang.schedules.directive import Refusal
from tensorlang.schedules.directives.share import Share, is_plain
from tensorlang.schedules.rewriting.coordinates import places
from tensorlang.schedules.rewriting.quotients_of_loops import coordinates_of
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies.analysis.fusion import overlaps
from tensorlang.schedules.strategies.analysis.stages import StageInfo, is_dear, stages_of

ASKED: Final = 8
"""How often an element is used, at least, for a copy that asks for its place once."""
COMPUTED: Final = 2
"""The same for one that is dear to compute."""


def share_windows(s: Schedule) -> None:
    """Append the directive for each reduction over windows where that is worth it."""
    for info in stages_of(s.nest):
        if info.combines and overlaps(info) and any(_is_worth_it(s, info)):
            s.attempt(Share(info.name))


def _is_worth_it(s: Schedule, info: StageInfo) -> Iterator[bool]:
    """Is each of the parts that are computed alike?"""
    try:
        alike = Share(info.name).alike(s.nest)
    except Refusal:
        return
    for expr in alike:
        quotients, found = coordinates_of(expr, info.loops)
        used = info.iterations / max(1, places(found))
        yield used >= COMPUTED if is_dear(expr) else used >= ASKED and _asks(quotients.within(expr))


def _asks(expr: Expr) -> bool:
    """Does it read something at a place that is not a sum of axes?"""
    return any(isinstance(node, Load) and not is_plain(node) for node in nodes(expr))
