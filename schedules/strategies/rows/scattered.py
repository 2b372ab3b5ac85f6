"""Scatters whose lanes may meet: elements in turn or what they write in lanes, into one table or into several that are added up.

    for i: for j:                                   for i: for j_o: unroll j_i in range(4):
        H[X[i, j]] += 1                     ->          H_rf[j_i, X[i, j]] += 1
                                                    for v: H[v] += H_rf[0, v] + ... + H_rf[3, v]

An update of an element that was just written waits for it: 1.9 cycles for each byte of a photograph, whose neighbours are alike, and 1
with eight tables in turns. Tables cost their zeros and their sums, and stay in the near cache only where they are small. Where arithmetic
on data tells the place, lanes compute it together; and where data tell whether an element is written at all, lanes need no jump, of which
nobody foretells where it goes. The cost model weighs them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Final

from tensorlang.errors import ScheduleError
from tensorlang.schedules.directives.loop_kinds import Unroll, Vectorize
from tensorlang.schedules.directives.rfactor import Rfactor
from tensorlang.schedules.model.estimate import estimate
from tensorlang.schedules.rewriting.edit import find_loop
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.spaces.knobs import Choice, Flag, Knob
from tensorlang.schedules.strategies.analysis.stages import StageInfo, partial_results, size, tail_of
from tensorlang.schedules.strategies.descent import OTHER_WAY
from tensorlang.schedules.strategies.processor import Processor
from tensorlang.schedules.strategies.rows.reordered import schedule_reordered
from tensorlang.schedules.strategies.rows.rows import IN_TURN, RowVectors

TABLES: Final = (1, 2, 4, 8)
"""Tables that elements next to one another write into."""
NEAR: Final = 0.5
"""The share of the nearest cache that several tables may take: what is read needs the rest."""
POINTS: Final = 16
"""Updates for each element of all tables, at least: below that their zeros and sums take as long as the waits that they save."""


@dataclass(frozen=True, slots=True)
class Scattered:
    """A scatter in `rows` whose vector loop moves its elements as data tell."""

    rows: RowVectors
    tables: tuple[int, ...] = (1,)
    """The numbers of tables that there may be."""
    lanes: bool = False
    """Are elements computed in lanes by default?"""
    best: int = 1
    """The tables of the default."""

    @property
    def name(self) -> str:
        """What logs call it."""
        return self.rows.name

    @property
    def stage(self) -> StageInfo:
        """The stage."""
        return self.rows.stage

    @classmethod
    def of(cls, rows: RowVectors, plain: Schedule, machine: Processor) -> Scattered:
        """The scatter with the tables and lanes that the cost model names, where they are worth their code."""
        rows = replace(rows, apart=None)  # it is asked here whether there are lanes
        found = cls(rows, tuple(count for count in TABLES if count == 1 or _fits(rows, count, machine)))
        ways = dict[tuple[bool, int], float]()
        for way in product((False, True), found.tables):
            seconds = _seconds(replace(found, lanes=way[0], best=way[1]), plain, machine)
            if seconds is not None:
                ways[way] = seconds
        usual = ways.pop((False, 1), None)
        best = min(ways, key=lambda way: ways[way], default=None)
        if usual is None or best is None or ways[best] >= OTHER_WAY * usual:
            return found
        return replace(found, lanes=best[0], best=best[1])

    def knobs(self, prefix: str = "") -> tuple[Knob, ...]:
        """The tables, whether elements are computed in lanes, and the knobs of rows."""
        return (Choice(f"{prefix}tables", self.tables), Flag(f"{prefix}lanes"), *self.rows.knobs(prefix))

    def default(self, prefix: str = "") -> dict[str, Any]:
        """What the model names."""
        return {f"{prefix}tables": self.best, f"{prefix}lanes": self.lanes, **self.rows.default(prefix)}

    def schedule(self, s: Schedule, config: Mapping[str, Any], prefix: str = "", *, alone: bool = True) -> None:
        """Append the directives of a point; of one table in turn, or where a step is refused, those of rows."""
        own = config[f"{prefix}lanes"] or config[f"{prefix}tables"] > 1
        cut = (lambda: self.cut(s, config, prefix)) if own else None
        schedule_reordered(s, self.rows, {**config, f"{prefix}lanes": True}, prefix, cut, alone=alone)

    def cut(self, s: Schedule, config: Mapping[str, Any], prefix: str = "") -> str:
        """Append the directives of a point but for threads; the outermost loop. Raises `ScheduleError` where one is refused."""
        vector = self.rows.vector
        assert vector is not None
        lanes, tables, vectors = (config[f"{prefix}{knob}"] for knob in ("lanes", "tables", "vectors"))
        width = tables if tables > 1 else vectors * (self.rows.lanes if lanes else IN_TURN)
        inner = s.split(vector.loop, width, tail_of(self.rows.literal, "mask"))[1]
        kind, stage = (Vectorize if lanes else Unroll), self.stage.name
        if tables > 1:
            known = set(s.stages())
            s.apply(Rfactor(inner))
            stage = partial_results(s.stages(), known)
            inner, *others = s.loops(stage)
            s.reorder(*others, inner)
            for elements in (s.loops(f"{stage}.init")[1:], s.loops(self.stage.name)[:-1]):  # beside the loop over tables
                if size(find_loop(s.nest, elements[-1])) >= self.rows.lanes:
                    s.attempt(Vectorize(s.split(elements[-1], self.rows.lanes, "peel")[1]))
        elif inside := [loop.loop for loop in self.stage.loops[self.stage.loops.index(vector) + 1 :]]:
            s.reorder(*inside, inner)
        s.apply(kind(inner))
        return s.loops(stage)[0]


def _seconds(way: Scattered, plain: Schedule, machine: Processor) -> float | None:
    """What a scatter takes by default with the sums of its tables; None where a step is refused."""
    s, known = plain.copy(), set(plain.stages())
    try:
        way.cut(s, way.default())
    except ScheduleError:
        return None
    own = {way.stage.name, *(name for name in s.stages() if name not in known)}
    return sum(seconds for stage, seconds in estimate(s.nest, machine.core).stages.items() if stage in own)


def _fits(rows: RowVectors, count: int, machine: Processor) -> bool:
    """Are so many tables small beside the nearest cache and the number of updates?"""
    stage, vector = rows.stage, rows.vector
    written = stage.written()
    if stage.store.reducer is None or written is None or vector is None or size(vector) < count:
        return False
    elements = written // sum(buffer.dtype.bytes for buffer in stage.store.buffers)
    return count * written <= NEAR * machine.l1 and POINTS * count * elements <= stage.iterations
