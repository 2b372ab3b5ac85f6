"""Strategies: for any definition a default schedule, a search space, and the directives of each point in it.

The stage with the most arithmetic is the main one: a contraction or rows. Its knobs are the space, with whether intermediates are
computed in rows; every other stage gets the default of its kind. A strategy only ever writes directives that the schedule accepts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from tensorlang.schedules.knobs import Flag, Knob
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.space import Config, Space
from tensorlang.schedules.strategies.analysis import StageInfo, stages_of
from tensorlang.schedules.strategies.contraction import Contraction
from tensorlang.schedules.strategies.fusion import compute_in_rows, inline_pointwise
from tensorlang.schedules.strategies.machine import Machine
from tensorlang.schedules.strategies.rows import Rows
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

    @cached_property
    def _plain(self) -> Schedule:
        s = Schedule(self.outputs)
        inline_pointwise(s)
        return s

    @cached_property
    def _main(self) -> StageInfo | None:
        infos = stages_of(self._plain.nest)
        return max(infos, key=lambda info: info.iterations) if infos else None

    @cached_property
    def _last(self) -> StageInfo | None:
        infos = [info for info in stages_of(self._plain.nest) if info.name == self._plain.nest.outputs[-1].name]
        return infos[0] if infos else None

    @cached_property
    def _kind(self) -> Contraction | Rows | None:
        if self._main is None:
            return None
        return Contraction.of(self._main, self.machine, self.threads) or Rows.of(self._main, self.machine, self.threads)

    @cached_property
    def _rows_possible(self) -> bool:
        return self._last is not None and isinstance(self._kind, Rows) and bool(compute_in_rows(self._plain.copy(), self._last))

    @property
    def name(self) -> str:
        """`contraction` or `rows`, by the main stage."""
        return type(self._kind).__name__.lower() if self._kind is not None else "none"

    @cached_property
    def space(self) -> Space:
        """The knobs of the main stage."""
        knobs: list[Knob] = list(self._kind.knobs()) if self._kind is not None else []
        if self._rows_possible:
            knobs.append(Flag("in_rows"))
        space = Space(tuple(knobs))
        return space.where(self._kind.fits, "fits the vector registers") if isinstance(self._kind, Contraction) else space

    @cached_property
    def default(self) -> Config:
        """The point that the models of the kinds name."""
        config: Config = self._kind.default() if self._kind is not None else {}
        return {**config, "in_rows": True} if self._rows_possible else config

    def schedule(self, config: Config) -> Schedule:
        """The schedule of a point."""
        s = self._plain.copy()
        moved = compute_in_rows(s, self._last) if config.get("in_rows") and self._last is not None else ()
        for info in stages_of(self._plain.nest):
            if self._main is not None and info.name == self._main.name and self._kind is not None:
                self._kind.schedule(s, config)
            elif info.name in s.stages():
                threads = 1 if info.name in moved else self.threads
                kind = Contraction.of(info, self.machine, threads) or Rows.of(info, self.machine, threads)
                kind.schedule(s, kind.default())
        return s


def choose(outputs: object, machine: Machine, threads: int) -> Strategy:
    """The strategy for a program on a machine; there is one for every definition."""
    return Staged(as_outputs(outputs), machine, threads)
