"""A program as stages of several kinds: the main one by the point of the space, each of the others by the default of its kind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, assert_never

from tensorlang.errors import ScheduleError
from tensorlang.ir.mentions import mentions
from tensorlang.lowering.program import LoweredProgram
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.spaces.knobs import Flag, Knob
from tensorlang.schedules.spaces.space import Config, Space
from tensorlang.schedules.strategies.analysis import StageInfo, readers, size, stages_of
from tensorlang.schedules.strategies.blocks import Blocks, in_blocks
from tensorlang.schedules.strategies.contraction import Contraction
from tensorlang.schedules.strategies.digits import by_digits
from tensorlang.schedules.strategies.dots import Dots
from tensorlang.schedules.strategies.fusion import compute_in_rows, inline_pointwise, owner, raise_contractions
from tensorlang.schedules.strategies.interleave import interleaved
from tensorlang.schedules.strategies.machine import Machine
from tensorlang.schedules.strategies.rows import Rows
from tensorlang.schedules.strategies.turned import Turned
from tensorlang.schedules.strategies.windows import Windows
from tensorlang.system.lazy import cached_property

Kind: TypeAlias = Contraction | Windows | Rows | Turned
Tile: Final = (Contraction, Windows)
"""The kinds that keep a tile of the output in registers: those that have constraints, and may have an epilogue."""
MOST_STAGES: Final = 128
"""The stages that get directives of their own, those of the most work first: every directive is proved against the whole nest, so that
in a program of a thousand stages those of all would take minutes. What is written into its readers before counts as one with them."""


@dataclass(frozen=True)
class Staged:
    """Every stage by the default of its kind, the main one by the point."""

    program: LoweredProgram
    machine: Machine
    threads: int
    constants: frozenset[str] = frozenset()

    @cached_property
    def _in_blocks(self) -> tuple[Schedule, Blocks]:
        s = Schedule(self.program)
        inline_pointwise(s)
        s, blocks = in_blocks(by_digits(raise_contractions(s), self.machine), self.machine)
        return interleaved(s, self.machine, self.threads, self.constants), blocks

    @property
    def _plain(self) -> Schedule:
        """The stages as they stand before any of them is scheduled."""
        return self._in_blocks[0]

    @property
    def _blocks(self) -> Blocks:
        return self._in_blocks[1]

    @cached_property
    def _stages(self) -> tuple[StageInfo, ...]:
        return stages_of(self._plain.nest)

    @cached_property
    def _fixed(self) -> frozenset[str]:
        """The operands that are packed beforehand, and what stages compute from one of them alone."""
        found = self.constants
        for info in self._stages:
            names = [getattr(load.buffer, "name", "") for load in info.loads]
            if len(names) == 1 and names[0] in found and not info.reduced:
                found |= {buffer.name for buffer in info.store.buffers}
        return found

    @cached_property
    def _main(self) -> StageInfo | None:
        infos = [info for info in self._stages if info.name not in self._made]
        return max(infos, key=lambda info: info.iterations) if infos else None

    @cached_property
    def _last(self) -> StageInfo | None:
        infos = [info for info in self._stages if info.name == self._plain.nest.outputs[-1].name]
        return infos[0] if infos else None

    @cached_property
    def _kinds(self) -> dict[str, Kind]:
        """How each stage runs, in program order."""
        kinds = {info.name: self._kind_of(info) for info in self._stages}
        taken = {kind.consumer for kind in kinds.values() if isinstance(kind, Tile)}
        for name, kind in kinds.items():
            if isinstance(kind, Tile) and name not in self._blocks:
                fed = kind.fed(self._plain, self.machine)
                kinds[name] = kind if fed.producer is not None and fed.producer.stage.name in taken else fed
        return kinds

    def _kind_of(self, info: StageInfo) -> Kind:
        if info.ragged.bounded:  # a range that data tells is one of its loop where that stays inside the loops that tell it
            return self._apart(info)
        threads = 1 if info.name in self._blocks else self.threads
        product = Dots.of(info, self.machine, threads, self._fixed) or Contraction.of(info, self.machine, threads, self._fixed)
        if product is not None and info.name in self._blocks.moved:
            product = replace(product, panels=self._blocks.around)
        tile = Windows.of(info, self.machine, threads) or product
        return self._apart(info) if tile is None else self._with_epilogue(tile)

    def _apart(self, info: StageInfo) -> Rows | Turned:
        """How a stage runs whose operands are not reused."""
        rows = Rows.of(info, self.machine, self.threads)
        if info.name in self._owners:  # the loop around a sum has no lanes
            return replace(rows, vector=None)
        return rows if info.ragged.bounded else Turned.of(info, self.machine, self.threads) or rows

    def _with_epilogue(self, kind: Contraction | Windows) -> Contraction | Windows:
        """The kind with the stage that can be computed from its tiles, if there is one."""
        names = {stage for stage, _ in readers(self._plain.nest, kind.stage.store.buffers)} - {kind.stage.name}
        for name in names if len(names) == 1 else ():
            fused = replace(kind, consumer=name)
            whole = {"depth": size(fused.roles.depth)} if isinstance(fused, Contraction) else {}
            try:
                fused.schedule(self._plain.copy(), {**fused.default(), **whole, "epilogue": "fused"})
            except ScheduleError:
                continue
            return fused
        return kind

    @cached_property
    def _owners(self) -> frozenset[str]:
        """The stages in whose expressions others stand."""
        names = frozenset(stage.name for stage in self._stages)
        return frozenset(owner(name, names) for name in names if owner(name, names) != name)

    @cached_property
    def _heavy(self) -> frozenset[str]:
        """The stages that get directives."""
        return frozenset(info.name for info in sorted(self._stages, key=lambda info: -info.iterations)[:MOST_STAGES])

    @cached_property
    def _made(self) -> frozenset[str]:
        """The stages that windows and products place, which read them."""
        found = (kind.producer for kind in self._kinds.values() if isinstance(kind, Tile))
        return frozenset(producer.stage.name for producer in found if producer is not None)

    @cached_property
    def _kind(self) -> Kind | None:
        return None if self._main is None else self._kinds[self._main.name]

    @cached_property
    def _in_rows(self) -> tuple[str, ...]:
        """The stages that can be computed in the rows of the last one."""
        return compute_in_rows(self._plain.copy(), self._last) if self._last is not None and isinstance(self._kind, Rows) else ()

    @property
    def _rows_pay(self) -> bool:
        """Would what is written leave the caches if it were computed whole?"""
        sizes = {info.name: info.written() for info in self._stages}
        moved, result = [sizes[name] for name in self._in_rows], None if self._last is None else sizes[self._last.name]
        if result is None or None in moved:
            return True
        return sum(size or 0 for size in moved) > self.machine.l1 or result > self.machine.l2 // 2

    @property
    def name(self) -> str:
        """`contraction`, `windows`, `turned` or `rows`, by the main stage."""
        return type(self._kind).__name__.lower() if self._kind is not None else "none"

    @cached_property
    def _epilogues(self) -> frozenset[str]:
        """The stages that are computed from the tiles of others by default."""
        return frozenset(kind.consumer for kind in self._kinds.values() if isinstance(kind, Tile) and kind.consumer)

    def _others(self) -> Iterator[tuple[str, Rows | Turned]]:
        """The stages beside the main one that have knobs of their own, with the prefix of these."""
        for name, kind in self._kinds.items():
            main = self._main is not None and name == self._main.name
            if not isinstance(kind, Tile) and not main and name not in self._epilogues | self._made:
                yield f"{name}.", kind

    @cached_property
    def space(self) -> Space:
        """The knobs of the main stage, then those of the others, prefixed by the stage."""
        knobs: list[Knob] = list(self._kind.knobs()) if self._kind is not None else []
        for prefix, kind in self._others():
            knobs += kind.knobs(prefix)
        if self._in_rows:
            knobs.append(Flag("in_rows"))
        if not isinstance(self._kind, Tile):
            return Space(tuple(knobs))
        space = Space(tuple(knobs), footprints=self._kind.footprints())
        for holds, label in self._kind.constraints():
            space = space.where(holds, label)
        return space

    @cached_property
    def default(self) -> Config:
        """The point that the models of the kinds name."""
        config: Config = dict(self._kind.default()) if self._kind is not None else {}
        for prefix, kind in self._others():
            config |= kind.default(prefix)
        return {**config, "in_rows": self._rows_pay} if self._in_rows else config

    def schedule(self, config: Config) -> Schedule:
        """The schedule of a point."""
        s = self._plain.copy()
        moved = compute_in_rows(s, self._last) if config.get("in_rows") and self._last is not None else ()
        first = [name for name, kind in self._kinds.items() if isinstance(kind, Windows) or (isinstance(kind, Tile) and kind.producer)]
        placed: set[str] = set()
        for name in (*first, *(name for name in self._kinds if name not in first)):
            kind = self._kinds[name]
            if (
                name not in self._heavy or name not in mentions(s.nest.body).stages or name in placed
            ):  # computed from the tiles of another one, or by the window that reads it
                continue
            trial = s.copy()
            try:
                self._scheduled(name, kind, trial, config, alone=name not in moved and name not in self._blocks)
            except ScheduleError:  # a recurrence, a scatter or the step of a scan, where a usual directive is not legal: its plain loops
                continue
            s = trial
            if isinstance(kind, Tile) and kind.producer is not None:
                placed.add(kind.producer.stage.name)
        if self.threads > 1:
            self._blocks.share(s)
        return s

    def _scheduled(self, name: str, kind: Kind, s: Schedule, config: Config, *, alone: bool) -> None:
        """Append the directives of one stage: the main one by the point, others by its knobs for them or by their default."""
        main = self._main is not None and name == self._main.name
        match kind:
            case Contraction():
                kind.schedule(s, config if main else kind.default())
            case Windows():
                kind.schedule(s, config if main else kind.default(), alone=alone)
            case Rows() | Turned():
                prefix = "" if main else f"{name}."
                kind.schedule(s, {**kind.default(prefix), **config}, prefix, alone=alone)
            case _:
                assert_never(kind)
