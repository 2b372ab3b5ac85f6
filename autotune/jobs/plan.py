"""What a job sets out from, and what it tells meanwhile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tensorlang.autotune.log.record import Trial
from tensorlang.schedules.spaces.space import Config, Space

if TYPE_CHECKING:
    from tensorlang.autotune.jobs.template import Template
    from tensorlang.schedules.strategies.point_costs import PointCosts


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """What a strategy offers for a task: its space, its default point, and points worth trying first."""

    name: str
    space: Space
    default: Config
    seeds: tuple[Config, ...] = ()
    template: Template | None = None
    """What makes schedules of points, where it is not the strategy that workers know."""
    costs: PointCosts | None = None
    """What points take by the cost model; None for a template, which may take any time to make a schedule."""

    @property
    def points(self) -> int:
        """The points that can be tried: those of the space, and the default where it is none of them."""
        return self.space.count.feasible + (self.template is not None)


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a job stands, as its `progress` callback is told after each trial and before the final measurement.

    `drift` is how much slower the machine is at the moment than at its best in this run, by a fixed piece of work.
    """

    done: int
    total: int
    last: Trial | None
    best: Trial | None
    default: Trial | None
    stage: str = "search"
    drift: float | None = None
