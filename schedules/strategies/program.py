"""A program as stages of several kinds: the main one by the point of the space, each of the others by the default of its kind.

A stage that reuses its operands keeps a tile of the output in registers (a contraction, a sliding window); others run in rows.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from tensorlang.schedules.faults import Fault
from tensorlang.schedules.model.estimate import estimate
from tensorlang.schedules.model.parts import Part
from tensorlang.schedules.model.program import program as parts_of
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.spaces.knobs import Flag, Knob
from tensorlang.schedules.spaces.space import Config, Space
from tensorlang.schedules.strategies import stage_kinds
from tensorlang.schedules.strategies.analysis.roles import roles_of
from tensorlang.schedules.strategies.analysis.stages import StageInfo, stages_of, tensor_of
from tensorlang.schedules.strategies.contractions.contraction import Contraction
from tensorlang.schedules.strategies.contractions.dot_products import dot_kernels
from tensorlang.schedules.strategies.loops.aligned_rows import align_rows, read_around
from tensorlang.schedules.strategies.loops.neighbours import may_meet
from tensorlang.schedules.strategies.loops.sharing import share_rest
from tensorlang.schedules.strategies.loops.thread_loop import seconds_in_lanes
from tensorlang.schedules.strategies.loops.unread import trim_unread
from tensorlang.schedules.strategies.loops.whole_steps import part_whole_steps
from tensorlang.schedules.strategies.meeting import KNOB as TOGETHER, meeting_that_pays, met, stages_of_a_row
from tensorlang.schedules.strategies.placements.choices import Placements
from tensorlang.schedules.strategies.placements.search import PlacementSearch, keep_much
from tensorlang.schedules.strategies.point_costs import SCHEDULE_S, PointCosts
from tensorlang.schedules.strategies.preparation.interleave import interleave_operands
from tensorlang.schedules.strategies.preparation.recomputing import Recomputing
from tensorlang.schedules.strategies.preparation.simplified import Simplified
from tensorlang.schedules.strategies.preparation.unfolding import Unfolding
from tensorlang.schedules.strategies.processor import Processor
from tensorlang.schedules.strategies.rows.in_rows import InRows
from tensorlang.schedules.strategies.rows.lanes_around import LanesAround
from tensorlang.schedules.strategies.rows.row_blocks import RowBlocks, block_rows
from tensorlang.schedules.strategies.rows.rows import RowVectors
from tensorlang.schedules.strategies.rows.scattered import Scattered
from tensorlang.schedules.strategies.rows.stage_strategy import RowStrategy, TileStrategy
from tensorlang.schedules.strategies.rows.turns import Turns
from tensorlang.schedules.strategies.stage_steps import StageSteps
from tensorlang.system.lazy import cached_property

MOST_STAGES: Final = 128
"""The stages that get directives of their own, those of the most work first: every directive is proved against the whole nest, so that
in a program of a thousand stages those of all would take minutes. What is written into its readers before counts as one with them."""


@dataclass(frozen=True)
class ProgramStrategy:
    """Every stage by the default of its kind, the main one by the point.

    The program is `simplified` before, wherever stages stand; where a `change` was made after that, it is `prepared`.
    """

    simplified: Simplified
    constants: frozenset[str] = frozenset()
    change: Unfolding | Recomputing | None = None
    prepared: tuple[Schedule, RowBlocks] | None = field(default=None, compare=False, repr=False)
    placed: bool = False
    _searched: dict[str, Config] = field(default_factory=dict, compare=False, repr=False)
    _made: dict[str, Schedule] = field(default_factory=dict, compare=False, repr=False)

    # The stages -------------------------------------------------------------------------------------------------------------

    @property
    def machine(self) -> Processor:
        """Whom it is for."""
        return self.simplified.machine

    @property
    def threads(self) -> int:
        """How many threads a call has."""
        return self.simplified.threads

    @cached_property
    def _prepared(self) -> tuple[Schedule, RowBlocks]:
        if self.prepared is not None:
            return self.prepared
        s = self.simplified.schedule
        s, blocks = (s, RowBlocks()) if self.placed else block_rows(s, self.machine)
        return interleave_operands(s, self.machine, self.constants), blocks

    @property
    def _plain(self) -> Schedule:
        """The stages as they stand before any of them is scheduled."""
        return self._prepared[0]

    @property
    def _blocks(self) -> RowBlocks:
        return self._prepared[1]

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

    @property
    def placing(self) -> ProgramStrategy | None:
        """The program with windows and contractions in groups; None for one with what makes its operands and takes its result."""
        alone = len(self._tiles) == 1 and all(stage_kinds.stands_beside(self._plain, info, self._tiles) for info in self._stages)
        if not self._tiles or alone:
            return None
        found = replace(self, placed=True, prepared=None, _searched={}, _made={})
        return found if found.places_stages else None

    @property
    def places_stages(self) -> bool:
        """Is it searched where stages are computed?"""
        return self._placements is not None

    @property
    def keeps_much(self) -> bool:
        """Would its intermediates together leave the near caches?"""
        return keep_much(self._stages, self.machine)

    @cached_property
    def seconds(self) -> float:
        """What the main stage takes by the cost model before its sizes are searched, with the copies that an unfolded image needs."""
        tile = self._tiles.get(self._main_name)
        return tile.search.tile_seconds() + self._copying if isinstance(tile, Contraction) else math.inf

    @cached_property
    def _copying(self) -> float:
        """What the copies of an unfolded image take."""
        unfolded = isinstance(self.change, Unfolding) and self._main is not None
        read = {tensor_of(load).name for load in self._main.loads} if unfolded and self._main else set[str]()
        return sum(seconds_in_lanes(info, info.loops[-1], self._parts, self.machine) for info in self._stages if info.name in read)

    @cached_property
    def _stages(self) -> tuple[StageInfo, ...]:
        return stages_of(self._plain.nest)

    @cached_property
    def _parts(self) -> tuple[Part, ...]:
        """The stages as the cost model reads them."""
        return parts_of(self._plain.nest)

    @cached_property
    def _packed_beforehand(self) -> frozenset[str]:
        """The constants, and what stages compute from one of them alone."""
        return stage_kinds.made_of_constants(self._stages, self.constants)

    @cached_property
    def _main(self) -> StageInfo | None:
        if not self.placed and self._placements is not None:
            return self._last
        producers = frozenset[str]() if self.placed else self._producers
        return max((info for info in self._stages if info.name not in producers), key=lambda info: info.iterations, default=None)

    @cached_property
    def _last(self) -> StageInfo | None:
        return next((info for info in self._stages if self._plain.nest.outputs[-1] in info.store.buffers), None)

    @cached_property
    def _heavy(self) -> frozenset[str]:
        """The stages that get directives: none that never runs."""
        running = [info for info in self._stages if not info.is_idle]
        return frozenset(info.name for info in sorted(running, key=lambda info: -info.iterations)[:MOST_STAGES])

    @cached_property
    def _owners(self) -> frozenset[str]:
        """The stages in whose expressions others stand."""
        return stage_kinds.with_sums_inside(self._stages)

    # How they run -----------------------------------------------------------------------------------------------------------

    @cached_property
    def _fused(self) -> tuple[dict[str, TileStrategy], tuple[Fault, ...]]:
        """The stages that run as tiles, in program order, with the consumers that are computed from these; and what was refused."""
        if self.placed:
            return {}, ()
        return stage_kinds.with_consumers(self._plain, {info.name: self._kinds.tile(info, self._blocks) for info in self._stages})

    @cached_property
    def _tiles(self) -> dict[str, TileStrategy]:
        """The stages that run as tiles, with the producers that these place: none that is computed from tiles itself."""
        fused, _ = self._fused
        tiles, consumers = dict(fused), {tile.consumer for tile in fused.values()}
        for name, tile in fused.items():
            if name not in self._blocks:
                placing = tile.with_producer(self._plain, self.machine)
                tiles[name] = tile if placing.producer is not None and placing.producer.name in consumers else placing
        return tiles

    @cached_property
    def _rows(self) -> dict[str, RowStrategy]:
        """The other stages, in program order."""
        return {info.name: self._row_strategy(info) for info in self._stages if info.name not in self._tiles}

    @cached_property
    def _kinds(self) -> stage_kinds.StageKinds:
        return stage_kinds.StageKinds(self.machine, self.threads, self._parts, self._packed_beforehand)

    def _row_strategy(self, info: StageInfo) -> RowStrategy:
        lanes = info.name not in self._owners  # the loop around a sum has none
        placed = self._kinds.placed_tile(info, self._plain) if self.placed and lanes else None
        recurs = stage_kinds.reads_itself(info, self._stages)
        alone = len(self._stages) == 1 and not recurs
        rows = placed or self._kinds.turned(info, self._stages, self._plain).row(info, lanes=lanes, asks_ahead=not self._tiles, alone=alone)
        if isinstance(rows, RowVectors) and recurs:
            if not lanes:
                return Turns.of(rows, self._plain, self._sums_in(info), self.machine) or rows
            return stage_kinds.recurrence(rows, self._plain, self._parts, self.machine)
        if isinstance(rows, RowVectors) and not lanes:
            return LanesAround.of(rows, self._plain, self._sums_in(info), self.machine) or rows
        if isinstance(rows, RowVectors) and rows.told and lanes:
            return Scattered.of(rows, self._plain, self.machine)
        return rows

    def _sums_in(self, info: StageInfo) -> tuple[tuple[StageInfo, RowStrategy], ...]:
        """The sums that stand in the expression of a stage, and how they run."""
        return tuple((part, self._row_strategy(part)) for part in self._stages if part is not info and stage_kinds.stands_in(info, part))

    @cached_property
    def _producers(self) -> frozenset[str]:
        """The stages that tiles place, which read them."""
        return frozenset(tile.producer.name for tile in self._tiles.values() if tile.producer is not None)

    @cached_property
    def _consumers(self) -> frozenset[str]:
        """The stages that are computed from the tiles of others by default."""
        return frozenset(tile.consumer for tile in self._tiles.values() if tile.consumer)

    @cached_property
    def _placements(self) -> Placements | None:
        """Where stages can be computed, of a program in rows; None where nothing can be but what follows the rows of the last stage."""
        if self._tiles or self._blocks.moved or len(self._stages) > MOST_STAGES or not stage_kinds.all_run(self._parts, self._stages):
            return None
        found = Placements.of(self._plain, {info.name: info for info in self._stages}, self._rows)
        if found is None or self._last is None:
            return None
        follow = None if self.placed else InRows.of(self._plain, self._last)
        return None if follow is not None and found.places.keys() <= set(follow.names) else found

    @property
    def _main_name(self) -> str:
        return self._main.name if self._main is not None else ""

    @cached_property
    def _in_rows(self) -> InRows | None:
        """The stages that can be computed in the rows of the last one, where the main stage runs in rows."""
        main = self._rows.get(self._main_name)
        if self._last is None or main is None or main.name != "rows" or self._placements is not None:
            return None
        found = InRows.of(self._plain, self._last, self._rows, self._prefixes)
        met = found is not None and self._consumers & {self._last.name, *found.names}  # what is computed from tiles has no rows of its own
        return None if met else found

    def _beside(self) -> Iterator[tuple[str, RowStrategy]]:
        """The stages beside the main one that have knobs of their own, with the prefix of these."""
        for name, rows in self._rows.items():
            if name != self._main_name and name not in self._consumers | self._producers:
                yield f"{name}.", rows

    @cached_property
    def _row(self) -> dict[str, RowVectors]:
        """How the stages run that may be in one row, by the prefix of their knobs."""
        return {self._prefixes[name]: rows for name, rows in stages_of_a_row(self._stages, self._in_rows, self._rows).items()}

    @cached_property
    def _meets(self) -> bool:
        """May stages that stand beside one another run in one loop?"""
        return self._placements is None and (len(self._row) > 1 or may_meet(self._plain, self.machine))

    def _meeting(self, config: Config) -> Config:
        """The point at which they do, where that is predicted to be faster. The schedule is kept."""
        apart = self._made.get("default") or self._schedule(config)
        config, self._made["default"] = meeting_that_pays(config, apart, self._schedule, self._row, self.machine)
        return config

    @property
    def _has_rest(self) -> bool:
        """May threads have something to share beside what the knobs of stages that stand alone say?"""
        return self.threads > 1 and not (len(self._stages) == 1 and self._tiles)

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
            return self._placements.default(self._prefixes, self._placed(self._placements).default()) | shared
        rows = self._rows.get(self._main_name)
        config: Config = self._defaults(self._main_name) if self._main_name in self._tiles else {} if rows is None else rows.default()
        for prefix, beside in self._beside():
            config |= beside.default(prefix)
        if self._in_rows is not None:
            choice, self._made["default"] = self._in_rows.default(lambda choice: self._schedule(config | choice), self.machine)
            config |= choice
        return (self._meeting(config) if self._meets else config) | shared

    @property
    def _prefixes(self) -> dict[str, str]:
        """What the knobs of a stage's rows begin with: those of the main one, which comes first, with nothing."""
        return {self._main_name: "", **{name: f"{name}." for name in self._rows if name != self._main_name}}

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
        s = trim_unread(s, self.machine)
        part_whole_steps(s)
        return met(s, self.machine) if config.get(TOGETHER) else s
