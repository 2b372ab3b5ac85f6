"""What follows the rows of the last stage, computed row by row, or for a few rows side by side, just before these.

    for b: for i: m[b, i] = mean(x[b, i, :])                     for b: for i:
    for b: for i: for j: y[b, i, j] = x[b, i, j] - m[b, i]  ->       m = mean(x[b, i, :])
                                                                     for j: y[b, i, j] = x[b, i, j] - m

Means of a normalisation, maxima and sums of a softmax: a row is still near when it is read again. Each such stage goes into the innermost
loop down to `row` that it follows. The deeper, the less is kept, and nothing is computed twice; but a short row has no lanes of its own.
Rows that the last stage computes side by side, since they read something alike, as the weights of a layer, are summed up side by side too.

A row that comes from afar is waited for by the first stage that reads it, while one that computes much waits for nothing: that one may ask
for the next row, as the exponentials of a softmax do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from tensorlang.errors import ScheduleError
from tensorlang.schedules.model.estimate import estimate
from tensorlang.schedules.rewriting.edit import find_loop, literal_extent
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.spaces.knobs import Choice, Flag, Knob
from tensorlang.schedules.spaces.space import Config
from tensorlang.schedules.strategies.analysis.fusion import followers
from tensorlang.schedules.strategies.analysis.stages import StageInfo, size
from tensorlang.schedules.strategies.descent import OTHER_WAY
from tensorlang.schedules.strategies.loops.prefetching import ASKING, NEXT_ROW
from tensorlang.schedules.strategies.processor import Processor
from tensorlang.schedules.strategies.rows.rows import RowVectors
from tensorlang.schedules.strategies.rows.stage_strategy import RowStrategy

MOST: Final = 64
"""Stages in a row, at most, the last ones: the storage of each stands in that of the next, and a nest is walked by recursion."""
_NONE: Final[Mapping[str, Any]] = {}


@dataclass(frozen=True, slots=True)
class InRows:
    """Stages by the loops of the last one that they follow, outermost first, the last stage of each loop first.

    `rows`: the knob of the last stage that says how many rows are side by side, and what it may be beside 1; `asking`: the knobs of stages
    that may ask for the next row.
    """

    last: StageInfo
    follow: tuple[tuple[str, tuple[str, ...]], ...]
    rows: tuple[str, tuple[int, ...]] = ("", ())
    asking: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, plain: Schedule, last: StageInfo, strategies: Mapping[str, RowStrategy] = _NONE, prefixes: Mapping[str, str] = _NONE
    ) -> InRows | None:
        """The stages of a program that can be computed in the rows of its last one; None where none can be.

        `strategies`: how stages run in rows, the names of whose knobs begin with `prefixes`.
        """
        found: list[tuple[str, tuple[str, ...]]] = []
        for depth, loop in enumerate(last.outer[:-1]):
            names = followers(plain, last, depth)[:MOST] if size(loop) > 1 else ()
            if names:
                found.append((loop.loop, names))
        new = cls(last, tuple(found))
        if not found or not new.schedule(plain.copy(), {}):
            return None
        known = {prefixes[name]: rows for name, rows in strategies.items() if isinstance(rows, RowVectors)}
        beside = ((f"{prefix}rows", rows.tall) for prefix, rows in known.items() if rows.stage.name == last.name)
        asking = (f"{prefix}{ASKING}" for prefix, rows in known.items() if rows.far and rows.stage.name in (*new.names, last.name))
        return replace(new, rows=next(beside, ("", ())), asking=tuple(asking))

    @property
    def names(self) -> tuple[str, ...]:
        """All that may move."""
        return self.follow[0][1]

    def knobs(self) -> tuple[Knob, ...]:
        """Whether they move, and down to which loop."""
        rows = [loop for loop, _ in self.follow]
        return (Flag("in_rows"), *([Choice("row", rows)] if len(rows) > 1 else []))

    def default(self, made: Callable[[Config], Schedule], machine: Processor) -> tuple[Config, Schedule]:
        """The best choice, and the schedule that is made of it: in the outermost rows, one by one, unless another way is clearly faster."""
        known = dict[str, tuple[Schedule, float]]()

        def seconds(choice: Config) -> float:
            if repr(choice) not in known:
                s = made(choice)
                known[repr(choice)] = s, estimate(s.nest, machine.core).seconds
            return known[repr(choice)][1]

        name, counts = self.rows
        places: list[Config] = [{"row": loop} if len(self.follow) > 1 else {} for loop, _ in self.follow]
        within: list[Config] = [{"in_rows": True, **place, **({name: 1} if counts else {})} for place in places]
        whole: Config = {"in_rows": False, **places[0]}  # the last stage says by itself how many of its rows are side by side
        found = _clearly_best([_clearly_best(within, seconds), whole], seconds)
        if found is within[-1]:
            found = _clearly_best([found, *({**found, name: count} for count in counts)], seconds)
        if found["in_rows"]:
            found = _clearly_best([found, *({**found, knob: NEXT_ROW} for knob in self.asking)], seconds)
        return found, known[repr(found)][0]

    def schedule(self, s: Schedule, config: Config) -> tuple[str, ...]:
        """Move the stages into the loops of a point; those that moved."""
        loops = [loop for loop, _ in self.follow]
        depth = loops.index(config.get("row", loops[0]))
        at = {name: loop for loop, names in self.follow[: depth + 1] for name in names}
        at |= self._side_by_side(s, at, config.get(self.rows[0], 1))
        moved: list[str] = []
        for name in self.names:
            if s.can("compute_at", name, at[name]):
                s.compute_at(name, at[name])
                moved.append(name)
        return tuple(moved)

    def _side_by_side(self, s: Schedule, at: Mapping[str, str], count: int) -> dict[str, str]:
        """The loop over groups of rows for those that move into the rows of which so many are computed side by side."""
        row = self.last.outer[-2].loop
        if count == 1 or row not in at.values() or (literal_extent(find_loop(s.nest, row)) or 0) < 2 * count:
            return {}
        with suppress(ScheduleError), s.together():
            outer, _ = s.split(row, count, "peel")
            return {name: outer for name, loop in at.items() if loop == row}
        return {}


def _clearly_best(choices: Sequence[Config], seconds: Callable[[Config], float]) -> Config:
    """The first one, unless the best is clearly faster."""
    best = min(choices, key=seconds)
    return best if seconds(best) < OTHER_WAY * seconds(choices[0]) else choices[0]
