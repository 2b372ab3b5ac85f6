"""What is asked of a strategy, whatever kind of program it schedules."""

from __future__ import annotations

from typing import Protocol

from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.spaces.space import Config, Space
from tensorlang.schedules.strategies.point_costs import PointCosts
from tensorlang.schedules.strategies.processor import Processor


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

    @property
    def costs(self) -> PointCosts:
        """What points take by the cost model."""
        ...

    def schedule(self, config: Config) -> Schedule:
        """The schedule of a point."""
        ...


class PreparedStrategy(Strategy, Protocol):
    """That of a program which is prepared for a machine, as other ways to prepare it are."""

    @property
    def machine(self) -> Processor:
        """Whom it is for."""
        ...
