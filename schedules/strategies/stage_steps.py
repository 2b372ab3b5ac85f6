"""The directives of a point, stage by stage, where it is decided how each of them runs.

A stage whose steps are refused keeps its plain loops, and the fault is recorded on the schedule. Tiles that are too much code are tried
with fewer copies before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tensorlang.errors import ScheduleError
from tensorlang.ir.mentions import mentions
from tensorlang.schedules.faults import TOO_MUCH_CODE, Fault
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.spaces.space import Config
from tensorlang.schedules.strategies.analysis.stages import perfectly_nested
from tensorlang.schedules.strategies.placements.choices import Placements
from tensorlang.schedules.strategies.rows.lanes_around import LanesAround
from tensorlang.schedules.strategies.rows.row_blocks import RowBlocks
from tensorlang.schedules.strategies.rows.rows import RowVectors
from tensorlang.schedules.strategies.rows.short_sums import RowSum, schedule_sums
from tensorlang.schedules.strategies.rows.stage_strategy import RowStrategy, TileStrategy
from tensorlang.schedules.strategies.rows.turns import Turns

SHARES: Final = (1, 2, 4)
"""Parts of the rows of a tile that is tried where all of them are too much code."""


@dataclass(frozen=True, slots=True)
class StageSteps:
    """The `stages` that get directives, in program order, the `main` one by the point; `tiles` and `rows` say how each of them runs.

    `defaults` gives the default of a stage that runs as tiles. With `sums_last`, sums of unknown length get versions of the nest once all
    else is scheduled; beside tiles there would be too much code for two versions.
    """

    stages: tuple[str, ...]
    main: str
    tiles: Mapping[str, TileStrategy]
    rows: Mapping[str, RowStrategy]
    blocks: RowBlocks
    placements: Placements | None
    defaults: Callable[[str], Config]
    sums_last: bool

    def appended(self, s: Schedule, config: Config, moved: Collection[str]) -> Schedule:
        """The schedule with the directives of all stages, of which these have `moved` into the loops of others."""
        placed = set(self._with_their_readers(config))
        sums: dict[str, RowSum] = {}
        for name in sorted(self.stages, key=lambda name: not (name in self.tiles and self.tiles[name].placed_first)):
            inlined = name not in mentions(s.nest.body).stages  # computed from the tiles of another one, or in the taps of a window
            if inlined or name in placed:
                continue
            alone = name not in moved and name not in self.blocks
            sum_of_rows = self._sum_of_rows(name, config, alone=alone)
            if sum_of_rows is not None:
                sums[name] = sum_of_rows
                continue
            s, done = self._with_steps(name, s, config, alone=alone)
            producer = self.tiles[name].producer if done and name in self.tiles else None
            placed |= set() if producer is None else {producer.name}
        return _with_sums(s, sums)

    def _with_steps(self, name: str, s: Schedule, config: Config, *, alone: bool) -> tuple[Schedule, bool]:
        """The schedule with the directives of one stage, and has it some? Tiles that are too much code beside all else are smaller ones."""
        fault: Fault | None = None
        for smaller in self._sizes(name, config):
            trial = s.copy()
            try:
                done = self._scheduled(name, trial, smaller, alone=alone)
            except ScheduleError as error:
                fault = fault or Fault.of(name, error)
                if error.code != TOO_MUCH_CODE:
                    break
            else:
                return (trial, True) if done else (s, False)
        s.faults += () if fault is None else (fault,)
        return s, False

    def _sizes(self, name: str, config: Config) -> Iterator[Config]:
        """The point of a stage; of one that runs as tiles then those with fewer copies."""
        if name not in self.tiles:
            yield config
            return
        own = config if name == self.main else self.defaults(name)
        copies = {"unroll": 1} if isinstance(own.get("unroll"), int) else {}  # that of a window has names
        fewer = ({**own, **copies, **({"rows": max(1, own["rows"] // share)} if "rows" in own else {})} for share in SHARES)
        yield own
        yield from (smaller for smaller in fewer if smaller != own)

    def _with_their_readers(self, config: Config) -> Iterator[str]:
        """The sums that get their directives with the stages in which they stand."""
        for name, rows in self.rows.items():
            if isinstance(rows, Turns | LanesAround):
                prefix = self._prefix(name)
                yield from rows.takes({**rows.default(prefix), **config}, prefix)

    def _prefix(self, name: str) -> str:
        """What the knobs of a stage begin with."""
        return "" if name == self.main else f"{name}."

    def _sum_of_rows(self, name: str, config: Config, *, alone: bool) -> RowSum | None:
        rows, prefix = self.rows.get(name), self._prefix(name)
        if not self.sums_last or not isinstance(rows, RowVectors):
            return None
        return RowSum.of(rows, {**rows.default(prefix), **config}, prefix, alone=alone)

    def _scheduled(self, name: str, s: Schedule, config: Config, *, alone: bool) -> bool:
        """Append the directives of one stage by a point: of tiles their own, of rows that of the program with their default beside it."""
        tile = self.tiles.get(name)
        if tile is not None:
            nested = perfectly_nested(s.nest, tile.stage)  # conditions, or stages that were moved in, may stand between the loops
            return nested and tile.schedule(s, config, alone=alone)
        prefix, rows = self._prefix(name), self.rows[name]
        if self.placements is not None:
            rows = self.placements.rows_in(s, name, config)
        rows.schedule(s, {**rows.default(prefix), **config}, prefix, alone=alone)
        if self.placements is not None:
            self.placements.fuse(s, name, config)
        return True


def _with_sums(s: Schedule, sums: Mapping[str, RowSum]) -> Schedule:
    trial = s.copy()
    try:
        schedule_sums(trial, tuple(sums.values()))
    except ScheduleError as error:
        s.faults += (Fault.of(next(iter(sums)), error),)
        return s
    return trial
