"""A program as stages of several kinds: the main one by the point of the space, each of the others by the default of its kind."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

from tensorlang.schedules.model.estimate import estimate
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.spaces.knobs import Flag, Knob
from tensorlang.schedules.spaces.space import Config, Space
from tensorlang.schedules.strategies import stage_kinds
from tensorlang.schedules.strategies.analysis.roles import roles_of
from tensorlang.schedules.strategies.contractions.dot_products import dot_kernels
from tensorlang.schedules.strategies.loops.aligned_rows import align_rows, read_around
from tensorlang.schedules.strategies.loops.sharing import share_rest
from tensorlang.schedules.strategies.loops.steps_in_rows import steps_in_rows
from tensorlang.schedules.strategies.loops.unread import trim_unread
from tensorlang.schedules.strategies.loops.whole_steps import part_whole_steps
from tensorlang.schedules.strategies.meeting import KNOB as TOGETHER, meeting_that_pays, met
from tensorlang.schedules.strategies.placements.as_made import best_as_made
from tensorlang.schedules.strategies.placements.choices import Placements
from tensorlang.schedules.strategies.placements.search import PlacementSearch
from tensorlang.schedules.strategies.point_costs import SCHEDULE_S, PointCosts
from tensorlang.schedules.strategies.preparation.recomputing import Recomputing
from tensorlang.schedules.strategies.preparation.unfolding import Unfolding
from tensorlang.schedules.strategies.program_stages import ProgramStages
from tensorlang.schedules.strategies.rows.stage_strategy import RowStrategy
from tensorlang.schedules.strategies.stage_steps import StageSteps
from tensorlang.system.lazy import cached_property


@dataclass(frozen=True)
class ProgramStrategy(ProgramStages):
    """Every stage by the default of its kind, the main one by the point."""

    _searched: dict[str, Config] = field(default_factory=dict, compare=False, repr=False)
    _made: dict[str, Schedule] = field(default_factory=dict, compare=False, repr=False)

    # Other ways -------------------------------------------------------------------------------------------------------------

    @cached_property
    def unfolded(self) -> ProgramStrategy | None:
        """The strategy with what the stage of most iterations reads unfolded; None where it may not be, or nothing is to be gained."""
        main = max(self._stages, key=lambda info: info.iterations, default=None)
        if main is None or main.name in self._blocks or dot_kernels(main, self.machine) or not roles_of(main):
            return None
        return self._with(Unfolding.of(main, self.machine, self._packed_beforehand))

    @cached_property
    def recomputed(self) -> ProgramStrategy | None:
        """The strategy with what may be computed anew where it is read, in a program that runs in rows."""
        return None if self._tiles else self._with(Recomputing.of(self._plain, self.machine))

    def _with(self, change: Unfolding | Recomputing | None) -> ProgramStrategy | None:
        """The strategy of the program with a change; None where there is none, or it is not legal."""
        s = None if change is None else change.applied(self._plain)
        return None if s is None else replace(self, change=change, prepared=(s, self._blocks), _searched={}, _made={})

    @cached_property
    def placing(self) -> ProgramStrategy | None:
        """The program with windows and contractions in groups; None for one with what makes its operands and takes its result."""
        alone = len(self._tiles) == 1 and all(stage_kinds.stands_beside(self._plain, info, self._tiles) for info in self._stages)
        if not self._tiles or alone:
            return None
        found = replace(self, placed=True, prepared=None, _searched={}, _made={})
        return found if found.places_stages else None

    # The strategy -----------------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """`contraction`, `dots`, `windows`, `turned` or `rows`, by the main stage; `none` where there is no stage."""
        main = self._tiles.get(self._main_name) or self._rows.get(self._main_name)
        return "none" if main is None else main.name

    @cached_property
    def space(self) -> Space:
        """The knobs of the main stage, then those of the others, prefixed by the stage; then those of the whole program."""
        shared = (Flag("shared"),) if self._has_rest else ()
        if self._placements is not None:
            space = self._placements.space(self._prefixes)
            return replace(space, knobs=(*space.knobs, *shared))
        tile, rows = self._tiles.get(self._main_name), self._rows.get(self._main_name)
        knobs: list[Knob] = list(tile.knobs() if tile is not None else rows.knobs() if rows is not None else ())
        for prefix, beside in self._beside():
            knobs += beside.knobs(prefix)
        if self._in_rows is not None:
            knobs += self._in_rows.knobs()
        if self._meets:
            knobs.append(Flag(TOGETHER))
        knobs += shared
        if tile is None:
            return Space(tuple(knobs))
        space = Space(tuple(knobs), footprints=tile.footprints())
        for holds, label in tile.constraints():
            space = space.where(holds, label)
        return space

    @cached_property
    def default(self) -> Config:
        """The point that the cost models name."""
        shared: Config = {"shared": True} if self._has_rest else {}
        if self._placements is not None:
            return self._best_places(self._placements) | shared
        rows = self._rows.get(self._main_name)
        config: Config = self._defaults(self._main_name) if self._main_name in self._tiles else {} if rows is None else rows.default()
        for prefix, beside in self._beside():
            config |= beside.default(prefix)
        if self._in_rows is not None:
            choice, self._made["default"] = self._in_rows.default(lambda choice: self._schedule(config | choice), self.machine)
            config |= choice
        return (self._meeting(config) if self._meets else config) | shared

    def _best_places(self, placements: Placements) -> Config:
        """The point that a search through sketches finds. The schedule is kept."""
        search = self._placed(placements)
        found = search.default()
        best = placements.default(self._prefixes, found)
        others = (placements.default(self._prefixes, point()) for point in (search.whole, partial(search.otherwise, found)))
        alone = replace(search, threads=1, most=math.inf, _known={})  # schedules are compared before threads share them
        best, self._made["default"] = best_as_made(best, others, alone.seconds, self._schedule, self.machine)
        return best

    def _placed(self, placements: Placements) -> PlacementSearch:
        return PlacementSearch(placements, self._parts, self.machine, self.threads)

    @property
    def costs(self) -> PointCosts:
        """What points take by the cost model, on one thread: of tiles the main stage and the copies for it, else the program."""
        tile, core = self._tiles.get(self._main_name), self.machine.core
        if self._placements is not None:
            return PointCosts(replace(self._placed(self._placements), most=math.inf).seconds, SCHEDULE_S / 2)
        if tile is None:
            return PointCosts(lambda config: estimate(self.schedule(config).nest, core).seconds, SCHEDULE_S)
        main = tile.costs()
        return PointCosts(lambda config: main({**self.default, **config}) + self._copying)

    def _defaults(self, tile: str) -> Config:
        """The default of a stage that runs as tiles, searched once."""
        if tile not in self._searched:
            self._searched[tile] = self._tiles[tile].default()
        return dict(self._searched[tile])

    def schedule(self, config: Config) -> Schedule:
        """The schedule of a point, the default made once; a stage whose steps are refused keeps plain loops, and a fault says so."""
        if config != self.default:
            return self._with_threads(self._schedule(config), config)
        if "shared" not in self._made:
            self._made["shared"] = self._with_threads(self._made.get("default") or self._schedule(config), config)
        return self._made["shared"].copy()

    def _with_threads(self, s: Schedule, config: Config) -> Schedule:
        return share_rest(s, self.machine, self.threads) if config.get("shared") else s

    def _schedule(self, config: Config) -> Schedule:
        s = self._plain.copy()
        s.faults = self._fused[1]
        moved: Collection[str] = ()
        if self._placements is not None:
            moved = self._placements.schedule(s, config)
        elif config.get("in_rows") and self._in_rows is not None:
            moved = self._in_rows.schedule(s, config)
        steps = StageSteps(
            tuple(info.name for info in self._stages if info.name in self._heavy),
            self._main_name,
            self._tiles,
            self._rows,
            self._blocks,
            self._placements,
            self._defaults,
            sums_last=not self._tiles and not self.placed,
        )
        s = steps.appended(s, config, moved)
        align_rows(s, read_around(self._stages, self._tiles))
        s = steps_in_rows(trim_unread(s, self.machine), self.machine, self.threads)
        part_whole_steps(s)
        return met(s, self.machine) if config.get(TOGETHER) else s

    def _beside(self) -> Iterator[tuple[str, RowStrategy]]:
        """The stages beside the main one that have knobs of their own, with the prefix of these."""
        for name, rows in self._rows.items():
            if name != self._main_name and name not in self._consumers | self._producers:
                yield f"{name}.", rows

    def _meeting(self, config: Config) -> Config:
        """The point at which they do, where that is predicted to be faster. The schedule is kept."""
        apart = self._made.get("default") or self._schedule(config)
        config, self._made["default"] = meeting_that_pays(config, apart, self._schedule, self._row, self.machine)
        return config
