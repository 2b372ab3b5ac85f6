"""Strategies: for any definition a default schedule, a search space, and the directives of each point in it.

The stage with the most arithmetic is the main one: a contraction, a transposition or rows. Its knobs, those of the other row-wise
stages, and whether intermediates are computed in rows are the space; a contraction beside the main stage gets its default. A strategy
only ever writes directives that the schedule accepts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

from tensorlang.errors import ScheduleError
from tensorlang.schedules.knobs import Flag, Knob
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.space import Config, Space
from tensorlang.schedules.strategies.analysis import StageInfo, readers, size, stages_of
from tensorlang.schedules.strategies.contraction import Contraction
from tensorlang.schedules.strategies.dots import Dots
from tensorlang.schedules.strategies.fusion import compute_in_rows, inline_pointwise, raise_contractions
from tensorlang.schedules.strategies.machine import Machine
from tensorlang.schedules.strategies.rows import Rows
from tensorlang.schedules.strategies.turned import Turned
from tensorlang.tensor import Tensor, as_outputs

__all__ = ["Machine", "Strategy", "choose"]


class Strategy(Protocol):
    """How a program can be scheduled."""

    @property
    def name(self) -> str:
        """What kind of strategy this is, for logs."""
        ...

    @property
    def space(self) -> Space:
        """The points worth trying."""
        ...

    @property
    def default(self) -> Config:
        """The point to use where nothing is known."""
        ...

    def schedule(self, config: Config) -> Schedule:
        """The schedule of a point."""
        ...


@dataclass(frozen=True)
class Staged:
    """Every stage by the default of its kind, the main one by the point."""

    outputs: tuple[Tensor, ...]
    machine: Machine
    threads: int
    constants: frozenset[str] = frozenset()

    @cached_property
    def _plain(self) -> Schedule:
        s = Schedule(self.outputs)
        inline_pointwise(s)
        return raise_contractions(s)

    @cached_property
    def _main(self) -> StageInfo | None:
        infos = stages_of(self._plain.nest)
        return max(infos, key=lambda info: info.iterations) if infos else None

    @cached_property
    def _last(self) -> StageInfo | None:
        infos = [info for info in stages_of(self._plain.nest) if info.name == self._plain.nest.outputs[-1].name]
        return infos[0] if infos else None

    @cached_property
    def _kinds(self) -> dict[str, Contraction | Rows | Turned]:
        """How each stage runs, in program order."""
        found: dict[str, Contraction | Rows | Turned] = {}
        for info in stages_of(self._plain.nest):
            kind = Dots.of(info, self.machine, self.threads, self.constants) or Contraction.of(
                info, self.machine, self.threads, self.constants
            )
            found[info.name] = self._apart(info) if kind is None else self._with_epilogue(kind)
        return found

    def _apart(self, info: StageInfo) -> Rows | Turned:
        """How a stage runs whose operands are not reused."""
        return Turned.of(info, self.machine, self.threads) or Rows.of(info, self.machine, self.threads)

    def _with_epilogue(self, kind: Contraction) -> Contraction:
        """The contraction with the stage that can be computed from its tiles, if there is one."""
        names = {stage for stage, _ in readers(self._plain.nest, kind.stage.store.buffers)} - {kind.stage.name}
        for name in names if len(names) == 1 else ():
            fused = replace(kind, consumer=name)
            try:
                fused.schedule(self._plain.copy(), {**fused.default(), "depth": size(kind.roles.depth), "epilogue": "fused"})
            except ScheduleError:
                continue
            return fused
        return kind

    @cached_property
    def _kind(self) -> Contraction | Rows | Turned | None:
        return None if self._main is None else self._kinds[self._main.name]

    @cached_property
    def _rows_possible(self) -> bool:
        return self._last is not None and isinstance(self._kind, Rows) and bool(compute_in_rows(self._plain.copy(), self._last))

    @property
    def name(self) -> str:
        """`contraction`, `turned` or `rows`, by the main stage."""
        return type(self._kind).__name__.lower() if self._kind is not None else "none"

    @cached_property
    def _epilogues(self) -> frozenset[str]:
        """The stages that are computed from the tiles of a contraction by default."""
        return frozenset(kind.consumer for kind in self._kinds.values() if isinstance(kind, Contraction) and kind.consumer)

    def _others(self) -> Iterator[tuple[str, Rows | Turned]]:
        """The stages beside the main one that have knobs of their own, with the prefix of these."""
        for name, kind in self._kinds.items():
            if not isinstance(kind, Contraction) and self._main is not None and name != self._main.name and name not in self._epilogues:
                yield f"{name}.", kind

    @cached_property
    def space(self) -> Space:
        """The knobs of the main stage, then those of the others, prefixed by the stage."""
        knobs: list[Knob] = list(self._kind.knobs()) if self._kind is not None else []
        for prefix, kind in self._others():
            knobs += kind.knobs(prefix)
        if self._rows_possible:
            knobs.append(Flag("in_rows"))
        if not isinstance(self._kind, Contraction):
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
        return {**config, "in_rows": True} if self._rows_possible else config

    def schedule(self, config: Config) -> Schedule:
        """The schedule of a point."""
        s = self._plain.copy()
        moved = compute_in_rows(s, self._last) if config.get("in_rows") and self._last is not None else ()
        for name, kind in self._kinds.items():
            if name not in s.stages():  # computed from the tiles of another one
                continue
            main = self._main is not None and name == self._main.name
            trial = s.copy()
            try:
                if not isinstance(kind, Contraction):
                    point = config if name not in self._epilogues else kind.default(f"{name}.")
                    kind.schedule(trial, point, "" if main else f"{name}.", alone=name not in moved)
                else:
                    kind.schedule(trial, config if main else kind.default())
            except ScheduleError:  # a recurrence, a scatter or the step of a scan, where a usual directive is not legal: its plain loops
                continue
            s = trial
        return s


def choose(outputs: object, machine: Machine, threads: int, constants: frozenset[str] = frozenset()) -> Strategy:
    """The strategy for a program on a machine; there is one for every definition. `constants` are operands that are packed beforehand."""
    return Staged(as_outputs(outputs), machine, threads, constants)
