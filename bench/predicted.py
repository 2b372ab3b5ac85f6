"""What today's cost model says of the points of a recorded table, as a job would ask it: for the processor that the log names.

A point that the strategy still has is predicted from its sketch, where there are sketches; others from the schedule that was recorded.
"""

from __future__ import annotations

from collections.abc import Iterable

from tensorlang.autotune.log.migrate import JsonObject
from tensorlang.autotune.log.record import Trial
from tensorlang.codegen.target import Target, target
from tensorlang.errors import TuningError
from tensorlang.schedules.model.estimate import estimate
from tensorlang.schedules.schedule import Schedule
from tensorlang.schedules.spaces.space import Config, spelling
from tensorlang.schedules.strategies import choose
from tensorlang.schedules.strategies.alternatives import Alternatives
from tensorlang.schedules.strategies.point_costs import SCHEDULE_S, SKETCH_S, PointCosts
from tensorlang.serialization.rebuild import rebuild


def core_of(trial: Trial) -> Target:
    """The processor on which it was measured, as the table describes it."""
    return target(f"{trial.target['triple']}:{trial.target['cpu']}")


def costs(records: Iterable[Trial | JsonObject]) -> PointCosts:
    """The predictions for the points of a log of one task; a point is predicted once."""
    trials = [record for record in records if isinstance(record, Trial)]
    first, machine = trials[0], core_of(trials[0])
    outputs = rebuild(first.task["definition"])
    recorded = {spelling(trial.config): trial.fields.get("schedule") for trial in trials}
    strategy = choose(outputs, machine, first.threads)
    if isinstance(strategy, Alternatives):  # logs are older than the other ways to prepare a program
        strategy = strategy.usual.strategy
    sketched = strategy.costs.each == SKETCH_S and all(strategy.space.contains(trial.config) for trial in trials[:8])
    known: dict[str, float] = {}

    def replayed(config: Config) -> float:
        text = recorded.get(spelling(config))
        if not text:
            raise TuningError(f"no schedule was recorded for {spelling(config)}")
        return estimate(Schedule.from_json(outputs, text).nest, machine.core).seconds

    ask = strategy.costs.seconds if sketched else replayed

    def seconds(config: Config) -> float:
        if (key := spelling(config)) not in known:
            known[key] = ask(config)
        return known[key]

    return PointCosts(seconds, SKETCH_S if sketched else SCHEDULE_S)
