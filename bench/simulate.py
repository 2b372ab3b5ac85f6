"""Search without a machine: what a log measured stands in for measuring, so strategies are compared exactly, quickly and anywhere.

A table has the outcome of every point of a space, or of as many as a log has; its space holds these points and no others. A simulated
search asks and tells as a job does, so what it proposes is what the job would have proposed had it measured these times. No clock, no
compiler and no kernel take part: the same table, strategy and seed give the same trace on every computer.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from tensorlang.autotune.log.log import Log
from tensorlang.autotune.log.migrate import JsonObject
from tensorlang.autotune.log.record import Trial, from_line
from tensorlang.autotune.search.factory import searcher
from tensorlang.autotune.search.searcher import Observation, Searcher
from tensorlang.errors import LogError, TuningError
from tensorlang.schedules.spaces.space import Config, Space, spelling
from tensorlang.schedules.strategies.point_costs import PointCosts
from tensorlang.system.files import opened
from tensorlang.system.lazy import cached_property

GOAL_DRAWS: Final = 1000
GOAL_WITHIN: Final = 0.05


@dataclass(frozen=True, slots=True)
class Listing:
    """Points by number."""

    points: tuple[Config, ...]

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.points)

    def at(self, number: int) -> Config:
        """The point of this number."""
        return dict(self.points[number])


@dataclass(frozen=True)
class RecordedSpace(Space):
    """A few points of a space so large that drawing until one of them comes would take minutes."""

    recorded: tuple[Config, ...] = ()

    @property
    def _exact(self) -> Any:
        return Listing(self.recorded)


@dataclass(frozen=True)
class Table:
    """The outcome of each point of a space, by its spelling; `default` is the point that the job began with."""

    name: str
    space: Space
    default: Config
    outcomes: Mapping[str, Observation]
    costs: PointCosts | None = None
    """What the cost model says of the points, if a search is to be told."""

    @classmethod
    def of(cls, records: Iterable[Trial | JsonObject], space: Space | None = None) -> Table:
        """The table of a log's records, all of one task.

        The space is the one given, else the one that the log names in `run_start`, else that of the strategy for the recorded program;
        of it the recorded points. Raises `TuningError` where records are of several tasks or none is of the space.
        """
        trials: list[Trial] = []
        for record in records:
            if isinstance(record, Trial):
                trials.append(record)
            elif space is None and record.get("kind") == "run_start" and isinstance(record.get("space"), dict):
                space = Space.from_json(record["space"])
        if len({(str(trial.task.get("fingerprint")), trial.threads, trial.cache) for trial in trials}) != 1:
            raise TuningError("a simulation needs the trials of one task, with one number of threads and one cache policy")
        whole = space or _strategy_space(trials[0])
        outcomes: dict[str, Observation] = {}
        for trial in trials:
            known = outcomes.get(key := spelling(trial.config))
            if trial.status != "infra" and whole.contains(trial.config) and (known is None or known.time is None):
                outcomes[key] = Observation(trial.config, trial.time, trial.noise, trial.compile_s + trial.run_s)
        first = next((trial.config for trial in trials if trial.source == "default"), trials[0].config)
        if not any(outcome.time for outcome in outcomes.values()):
            raise TuningError("no valid trial of the log is a point of the space")
        start = first if spelling(first) in outcomes else next(outcome.config for outcome in outcomes.values() if outcome.time)
        points = tuple(outcome.config for outcome in outcomes.values())
        recorded = whole.only(points)
        if not recorded.count.exact:
            recorded = RecordedSpace(recorded.knobs, recorded.constraints, recorded.derived, recorded.footprints, recorded=points)
        return cls(str(trials[0].task.get("op")), recorded, start, outcomes)

    @cached_property
    def times(self) -> tuple[float, ...]:
        """The times of the valid points, least first."""
        return tuple(sorted(outcome.time for outcome in self.outcomes.values() if outcome.time is not None))

    def goal(self, draws: int = GOAL_DRAWS, within: float = GOAL_WITHIN) -> float:
        """The time that counts as found: within 5 % of the best of 1,000 random points (of all, where there are fewer)."""
        points = self.space.sample(np.random.default_rng(0), draws)
        found = (self.outcomes[spelling(point)].time for point in points)
        return (1 + within) * min(time for time in found if time is not None)

    def outcome(self, config: Config) -> Observation:
        """What the log has of a point. Raises `KeyError` for one that it does not have."""
        return self.outcomes[spelling(config)]


@dataclass(frozen=True, slots=True)
class Trace:
    """What a simulated search measured, in order, and where each point came from."""

    observations: tuple[Observation, ...]
    sources: tuple[str, ...]

    def best(self) -> list[float]:
        """The least time after each trial; infinite before the first valid one."""
        times = [np.inf if observation.time is None else observation.time for observation in self.observations]
        return [float(time) for time in np.minimum.accumulate(times)] if times else []

    def reached(self, goal: float) -> int | None:
        """How many trials it took to come to this time; None if it never did."""
        return next((place for place, time in enumerate(self.best(), 1) if time <= goal), None)


def simulate(table: Table, strategy: str, seed: int = 0, trials: int = 64, *, start: Config | None = None, **options: Any) -> Trace:
    """Search the table by a strategy's name; `start` stands in for the default, `options` go to the searcher.

    Raises `TuningError` for an unknown strategy.
    """
    return follow(table, searcher(strategy, table.space, table.default if start is None else start, seed=seed, **options), trials)


def follow(table: Table, search: Searcher, trials: int) -> Trace:
    """Let a searcher search the table."""
    observations: list[Observation] = []
    sources: list[str] = []
    while len(observations) < trials and (proposal := search.ask()) is not None:
        observations.append(table.outcome(proposal.config))
        sources.append(proposal.source)
        search.tell(observations[-1])
    return Trace(tuple(observations), tuple(sources))


def read(path: str | os.PathLike[str]) -> Iterator[Trial | JsonObject]:
    """The records of a log, also of one that was compressed by gzip; there a line that is not whole is an error.

    Raises `LogError` if it cannot be read.
    """
    if Path(path).suffix != ".gz":
        yield from Log(path).records()
        return
    try:
        with opened(path) as packed, gzip.open(packed, "rb") as file:
            for line in file:
                fields = from_line(line)
                yield Trial.of(fields) if fields["kind"] == "trial" else fields
    except (OSError, EOFError, ValueError) as error:
        raise LogError(f"cannot read {os.fspath(path)}: {error}") from None


def _strategy_space(trial: Trial) -> Space:
    """The space of the strategy for the program that a record holds."""
    from tensorlang.codegen.target import target  # noqa: PLC0415 - a recorded space needs no compiler
    from tensorlang.schedules.strategies import choose  # noqa: PLC0415
    from tensorlang.schedules.strategies.alternatives import Alternatives  # noqa: PLC0415
    from tensorlang.serialization.rebuild import rebuild  # noqa: PLC0415

    strategy = choose(rebuild(trial.task["definition"]), target(trial.target.get("cpu")), trial.threads)
    if isinstance(strategy, Alternatives) and strategy.knob not in trial.config:  # the log is older than the other way
        return strategy.usual.strategy.space
    return strategy.space
