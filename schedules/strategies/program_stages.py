"""The stages of a program, and how each of them runs.

A stage that reuses its operands keeps a tile of the output in registers (a contraction, a sliding window); others run in rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

from tensorlang.schedules.faults import Fault
from tensorlang.schedules.model.parts import Part
from tensorlang.schedules.model.program import program as parts_of
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies import stage_kinds
from tensorlang.schedules.strategies.analysis.stages import StageInfo, stages_of, tensor_of
from tensorlang.schedules.strategies.contractions.contraction import Contraction
from tensorlang.schedules.strategies.loops.neighbours import may_meet
from tensorlang.schedules.strategies.loops.thread_loop import seconds_in_lanes
from tensorlang.schedules.strategies.meeting import stages_of_a_row
from tensorlang.schedules.strategies.placements.choices import Placements
from tensorlang.schedules.strategies.placements.search import keep_much
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
from tensorlang.system.lazy import cached_property

MOST_STAGES: Final = 128
"""The stages that get directives of their own, those of the most work first: every directive is proved against the whole nest, so that
in a program of a thousand stages those of all would take minutes. What is written into its readers before counts as one with them."""


@dataclass(frozen=True)
class ProgramStages:
    """What there is to schedule of a program, read once.

    The program is `simplified` before, wherever stages stand; where a `change` was made after that, it is `prepared`.
    """

    simplified: Simplified
    constants: frozenset[str] = frozenset()
    change: Unfolding | Recomputing | None = None
    prepared: tuple[Schedule, RowBlocks] | None = field(default=None, compare=False, repr=False)
    placed: bool = False

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

    @property
    def _prefixes(self) -> dict[str, str]:
        """What the knobs of a stage's rows begin with: those of the main one, which comes first, with nothing."""
        return {self._main_name: "", **{name: f"{name}." for name in self._rows if name != self._main_name}}

    @cached_property
    def _in_rows(self) -> InRows | None:
        """The stages that can be computed in the rows of the last one, where the main stage runs in rows."""
        main = self._rows.get(self._main_name)
        if self._last is None or main is None or main.name != "rows" or self._placements is not None:
            return None
        found = InRows.of(self._plain, self._last, self._rows, self._prefixes)
        met = found is not None and self._consumers & {self._last.name, *found.names}  # what is computed from tiles has no rows of its own
        return None if met else found

    @cached_property
    def _row(self) -> dict[str, RowVectors]:
        """How the stages run that may be in one row, by the prefix of their knobs."""
        return {self._prefixes[name]: rows for name, rows in stages_of_a_row(self._stages, self._in_rows, self._rows).items()}

    @cached_property
    def _meets(self) -> bool:
        """May stages that stand beside one another run in one loop?"""
        return self._placements is None and (len(self._row) > 1 or may_meet(self._plain, self.machine))

    @property
    def _has_rest(self) -> bool:
        """May threads have something to share beside what the knobs of stages that stand alone say?"""
        return self.threads > 1 and not (len(self._stages) == 1 and self._tiles)
