"""How a stage runs by what it does: as tiles of a window or a contraction, as a transposition, or in rows.

Where stages are placed in groups, the same tiles are ways to run a stage wherever it stands (`placements`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tensorlang.errors import ScheduleError
from tensorlang.schedules.faults import Fault, unforeseen
from tensorlang.schedules.model.parts import Part, paths
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.strategies.analysis.fusion import owner
from tensorlang.schedules.strategies.analysis.stages import StageInfo, perfectly_nested, tensor_of
from tensorlang.schedules.strategies.contractions.contraction import Contraction
from tensorlang.schedules.strategies.loops.epilogue import sole_reader
from tensorlang.schedules.strategies.placements.contractions import PlacedContraction
from tensorlang.schedules.strategies.placements.windows import PlacedWindow
from tensorlang.schedules.strategies.processor import Processor
from tensorlang.schedules.strategies.rows.abreast import Abreast
from tensorlang.schedules.strategies.rows.chains import Chains
from tensorlang.schedules.strategies.rows.chosen_parts import chosen_parts
from tensorlang.schedules.strategies.rows.cut_sums import cut_sum
from tensorlang.schedules.strategies.rows.planes import planes_side_by_side
from tensorlang.schedules.strategies.rows.row_blocks import RowBlocks
from tensorlang.schedules.strategies.rows.rows import RowVectors
from tensorlang.schedules.strategies.rows.side_by_side import SideBySide
from tensorlang.schedules.strategies.rows.sliding_rows import sliding_rows
from tensorlang.schedules.strategies.rows.stage_strategy import RowStrategy, TileStrategy
from tensorlang.schedules.strategies.rows.steps import Steps
from tensorlang.schedules.strategies.rows.time_tiles import TimeTiles
from tensorlang.schedules.strategies.rows.transpose import Transpose
from tensorlang.schedules.strategies.rows.turns import in_turns
from tensorlang.schedules.strategies.windows.windows import Windows


@dataclass(frozen=True, slots=True)
class StageKinds:
    """The ways to run the stages of a program that is `plain` before it is scheduled, the operands `constants` of it packed beforehand."""

    machine: Processor
    threads: int
    plain: tuple[Part, ...]
    constants: frozenset[str]

    def turned(self, info: StageInfo, stages: Sequence[StageInfo], plain: Schedule) -> StageKinds:
        """The same for a sum in the elements of a recurrence whose rows can take turns: it is judged as it stands then."""
        around = next((other for other in stages if other is not info and stands_in(other, info)), None)
        parts = None if around is None or not reads_itself(around, stages) else in_turns(around, plain)
        return self if parts is None else replace(self, plain=parts)

    def tile(self, info: StageInfo, blocks: RowBlocks) -> TileStrategy | None:
        """The stage as tiles; None where it is not run so."""
        if info.is_idle or info.ragged.bounded:  # a range that data tells is one of its loop where that stays inside the loops that tell it
            return None
        threads = 1 if info.name in blocks else self.threads
        window = Windows.of(info, self.machine, threads, self.plain)
        if window is not None:
            return window
        product = Contraction.of(info, self.machine, threads, self.plain, self.constants)
        if product is not None and info.name in blocks.moved:
            return replace(product, pack_at=blocks.around)
        return product

    def placed_tile(self, info: StageInfo, plain: Schedule) -> RowStrategy | None:
        """The stage as tiles that are placed in a schedule which is `plain`; None where it is not run so."""
        if info.is_idle or info.ragged.bounded:
            return None
        window = PlacedWindow.of(info, self.machine, self.threads, self.plain)
        return window or PlacedContraction.of(info, self.machine, self.threads, self.plain, self.constants, sole_reader(plain, info))

    def row(self, info: StageInfo, *, lanes: bool, asks_ahead: bool, alone: bool) -> RowStrategy:
        """The stage with rows abreast, turned, in blocks side by side or in rows, without `lanes` where a sum stands in it.

        `alone`: no other stage is beside it, and it does not read what it writes.
        """
        rows = RowVectors.of(info, self.machine, self.threads, self.plain)
        if not lanes:
            return replace(rows, vector=None, run=None)
        if not info.ragged.bounded:
            found: RowStrategy | None = Abreast.of(rows, self.machine, self.plain)
            found = found or Transpose.of(info, self.machine, self.threads, self.plain)
            found = found or SideBySide.of(rows, self.machine, self.plain, alone=alone)
            if found is not None:
                return found
        for looked_at in (cut_sum, sliding_rows, chosen_parts, planes_side_by_side):
            rows = looked_at(rows, self.plain, self.machine)
        return rows.asking_ahead(self.machine) if asks_ahead else rows


def recurrence(rows: RowVectors, plain: Schedule, parts: Sequence[Part], machine: Processor) -> RowStrategy:
    """A stage that reads what it wrote: steps written out, tiles of time or chains beside one another, where it can be run so."""
    given = rows, plain, parts, machine
    return Steps.of(*given) or TimeTiles.of(*given) or Chains.of(*given) or rows


def with_consumers(s: Schedule, found: Mapping[str, TileStrategy | None]) -> tuple[dict[str, TileStrategy], tuple[Fault, ...]]:
    """The stages that run as tiles, with the consumers that can be computed from these; and what was refused, by surprise."""
    tiles, faults = dict[str, TileStrategy](), list[Fault]()
    for name, tile in found.items():
        if tile is None:
            continue
        tiles[name] = tile
        consumer = sole_reader(s, tile.stage)
        if consumer:
            candidate = tile.with_consumer(consumer)
            try:
                fits = perfectly_nested(s.nest, tile.stage) and candidate.can_fuse(s)
                tiles[name] = candidate if fits else tile
            except ScheduleError as error:
                faults += unforeseen((Fault.of(name, error),))  # else the tile is as it would be without
    return tiles, tuple(faults)


def made_of_constants(infos: Iterable[StageInfo], constants: frozenset[str]) -> frozenset[str]:
    """The constants, and what stages compute from one of them alone."""
    found = constants
    for info in infos:
        names = [tensor_of(load).name for load in info.loads]
        if len(names) == 1 and names[0] in found and not info.reduced:
            found |= {buffer.name for buffer in info.store.buffers}
    return found


def with_sums_inside(infos: Sequence[StageInfo]) -> frozenset[str]:
    """The stages in whose expressions sums stand, inside all of their loops; those that are computed before are stages like others."""
    known = {info.name: info for info in infos}
    found = ((info, known[owner(info.name, known)]) for info in infos if not info.outer)
    return frozenset(around.name for info, around in found if around is not info and _stands_inside(info, around))


def _stands_inside(info: StageInfo, around: StageInfo) -> bool:
    return not around.outer or any(loop.loop == around.outer[-1].loop for loop in info.around)


def reads_itself(info: StageInfo, stages: Iterable[StageInfo]) -> bool:
    """Is a stage a recurrence, its sums included?"""
    parts = (part for part in stages if part is info or stands_in(info, part))
    own = {buffer.name for buffer in info.store.buffers}
    return any(tensor_of(load).name in own for part in parts for load in part.loads)


def stands_in(info: StageInfo, part: StageInfo) -> bool:
    """Is it a sum in the expression of a stage?"""
    return owner(part.name, {info.name}) == info.name


def stands_beside(s: Schedule, info: StageInfo, tiles: Mapping[str, TileStrategy]) -> bool:
    """Is a stage one of the tiles, or does it make an operand for them alone, or take their result?"""
    beside = info.name in tiles or any(tile.consumer == info.name for tile in tiles.values())
    return beside or (not info.reduced and sole_reader(s, info) in tiles)


def all_run(parts: Iterable[Part], infos: Iterable[StageInfo]) -> bool:
    """Does every stage run, as far as literals tell? The model has none of those in loops of no iterations."""
    return {statement.stage for statement, _ in paths(parts)}.issuperset(info.name for info in infos)
