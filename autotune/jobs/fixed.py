"""What a user keeps of a search: the directives of a partial schedule, and values of knobs by name. The rest is searched.

The strategy is asked for the program as the kept steps leave it, where the stages that these place have no other place. Its steps come
after the kept ones, so every point is a schedule that begins with them, the default too: nothing that was kept is lost to a faster point.
To workers and the log such a search is a template's, which gives directives.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tensorlang.autotune.jobs.plan import TaskPlan
from tensorlang.autotune.jobs.template import Template
from tensorlang.autotune.log.record import Trial
from tensorlang.autotune.task import Task
from tensorlang.codegen.target import Target
from tensorlang.errors import TuningError
from tensorlang.schedules.spaces.space import Config, Space

if TYPE_CHECKING:
    from tensorlang.schedules.directive import Directive
    from tensorlang.schedules.schedule import Schedule

DRAWN: Final = 32
"""Points among which the default is looked for where the strategy's has no counterpart."""
NAME: Final = "fixed"
"""What logs call the strategy of a search that keeps directives."""


class FixedTemplate(Template):
    """A template whose default is one of its own points, since the default schedule of the program lacks what is kept."""

    def makes(self, config: Config) -> bool:  # noqa: ARG002 - all are alike
        """Every point: none is the default schedule of the program."""
        return True

    def made(self, trial: Trial) -> bool:
        """Was a trial of the log made with the same directives kept?"""
        return trial.schedule is not None and self.remade(trial)


def parts(fixed: object) -> tuple[Schedule | None, dict[str, Any]]:
    """The schedule and the knobs in what a user gives. Raises `TuningError` for anything but these, or a pair of them."""
    from tensorlang.schedules.schedule import Schedule  # noqa: PLC0415 - tests of the job need no compiler

    given = fixed if isinstance(fixed, tuple) else (fixed,)
    schedules = [part for part in given if isinstance(part, Schedule)]
    knobs = [part for part in given if isinstance(part, Mapping)]
    if len(given) != len(schedules) + len(knobs) or len(schedules) > 1 or len(knobs) > 1 or not given:
        raise TuningError(f"fixed= is a partial schedule, a mapping of knobs to values, or a pair of the two, not {fixed!r:.60}")
    if wrong := [name for part in knobs for name in part if not isinstance(name, str)]:
        raise TuningError(f"fixed= names knobs by strings, as {{'vectors': 2}}, not by {wrong[0]!r:.60}")
    return (schedules[0] if schedules else None), (dict(knobs[0]) if knobs else {})


def plan_of(fixed: object, task: Task, machine: Target, threads: int, seconds: float) -> TaskPlan:
    """What a search sets out from that keeps `fixed`; a function may take `seconds` to make a schedule.

    Raises `TuningError` for a schedule of other tensors, and where a knob has no such value, naming the directive that decides it if
    one does.
    """
    from tensorlang.lowering.program import LoweredProgram  # noqa: PLC0415 - tests of the job need no compiler
    from tensorlang.schedules.schedule import Schedule  # noqa: PLC0415
    from tensorlang.schedules.strategies import choose  # noqa: PLC0415
    from tensorlang.serialization.canonical import fingerprint  # noqa: PLC0415

    schedule, knobs = parts(fixed)
    kept = Schedule(task.outputs) if schedule is None else schedule
    if fingerprint(kept.outputs) != task.fingerprint:
        raise TuningError("fixed= is a schedule of other tensors; make it of those that are tuned")
    program = LoweredProgram(kept.nest, storage=kept.program.storage, pinned=frozenset(_placed(kept)))
    strategy = choose(program, machine, threads, task.constant_names)
    space = _with(strategy.space, knobs, kept)
    if not space.count.feasible:
        raise TuningError(f"fixed={knobs!r} leaves no feasible point of the space")
    default = space.project({**strategy.default, **knobs})
    if default is None:  # nothing is near: the best of some by the cost model
        default = min(space.sample(np.random.default_rng(0), DRAWN), key=strategy.costs.seconds)

    def scheduled(config: Config) -> Schedule:
        made = kept.copy()
        for step in strategy.schedule(config).directives:
            made.apply(step)
        return made

    return TaskPlan(NAME, space, default, template=FixedTemplate(scheduled, task.fingerprint, seconds), costs=strategy.costs)


def _placed(kept: Schedule) -> list[str]:
    """The stages that the kept steps place."""
    from tensorlang.schedules.directive import field_kinds  # noqa: PLC0415 - tests of the job need no compiler

    return [getattr(step, name) for step in kept.directives for name, kind in field_kinds(type(step)).items() if kind.names == "a stage"]


def _with(space: Space, knobs: Mapping[str, Any], kept: Schedule) -> Space:
    """The space with knobs fixed. Raises `TuningError` where one cannot be."""
    from tensorlang.schedules import trace  # noqa: PLC0415 - tests of the job need no compiler

    for name, value in knobs.items():
        try:
            space = space.fix(name, value)
        except TuningError as error:
            stage = name.rpartition(".")[0]
            steps = [trace.call(step) for step in kept.directives if stage and _speaks_of(step, stage)]
            why = f"{steps[-1]}, which fixed= keeps too, decides that" if steps else str(error)
            raise TuningError(f"the knob {name!r} cannot be fixed to {value!r}: {why}") from None
    return space


def _speaks_of(step: Directive, stage: str) -> bool:
    """Does a step name a stage, or a loop of it?"""
    from tensorlang.schedules.directive import field_kinds  # noqa: PLC0415 - tests of the job need no compiler

    values = [getattr(step, name) for name, kind in field_kinds(type(step)).items() if kind.names]
    named = [part for value in values for part in (value if isinstance(value, tuple) else (value,)) if part]
    return any(part == stage or part.rpartition(".")[0] == stage for part in named)
