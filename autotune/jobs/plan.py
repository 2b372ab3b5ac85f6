"""What a job sets out from, and what it tells meanwhile."""

from __future__ import annotations

from dataclasses import dataclass

from tensorlang.autotune.log.record import Trial
from tensorlang.schedules.spaces.space import Config, Space


@dataclass(frozen=True, slots=True)
class Plan:
    """What a strategy offers for a task: its space, its default point, and points worth trying first."""

    name: str
    space: Space
    default: Config
    seeds: tuple[Config, ...] = ()


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
