"""`tune`: a tuning job from what a user asks for, checked and ready before anything is measured."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from tensorlang.autotune.jobs.fixed import plan_of
from tensorlang.autotune.jobs.plan import Progress, TaskPlan
from tensorlang.autotune.jobs.result import Result
from tensorlang.autotune.jobs.session import Session
from tensorlang.autotune.jobs.template import Template
from tensorlang.autotune.log.log import Log
from tensorlang.autotune.settings import Settings, checked, seconds
from tensorlang.autotune.task import Task
from tensorlang.codegen.runtime.threads import get_threads
from tensorlang.codegen.target import Target, target as named_target, why_foreign
from tensorlang.errors import TuningError
from tensorlang.ops.fusion import fused
from tensorlang.ops.spec import Spec
from tensorlang.schedules.spaces.space import Config, Space

if TYPE_CHECKING:
    from tensorlang.schedules.schedule import Schedule


def tune(
    outputs: object,
    trials: int = 64,
    log: str | os.PathLike[str] | Log | None = None,
    seed: int = 0,
    strategy: str = "bayesian",
    *,
    target: str | Target | None = None,
    threads: int | None = None,
    workers: int = 1,
    cache: str = "warm",
    dask: str | None = None,
    budget: float | str | None = None,
    timeout: float = 30.0,
    resume: bool = True,
    progress: Callable[[Progress], None] | None = None,
    space: Space | Callable[[Space], Space] | None = None,
    schedule: Callable[[Config], Schedule] | None = None,
    name: str | None = None,
    dims: Mapping[str, int] | None = None,
    epilogue: Callable[..., Any] | None = None,
    prologue: Mapping[str, Callable[..., Any]] | None = None,
    fixed: Schedule | Mapping[str, Any] | tuple[Schedule, Mapping[str, Any]] | None = None,
    constants: Collection[str] = (),
) -> Result:
    """Search for the fastest schedule of a program and return the winner.

    `trials` counts those that the log already has for this program, target, threads and cache (unless `resume=False`). `workers` processes
    compile candidates while one measures; where all cores are measured on they take turns. `cache` says what a sample finds in the
    caches: what the call before left ("warm") or nothing ("cold"). `dask` is the address of a Dask scheduler whose workers measure.
    `budget` bounds the whole run, final measurement included, in seconds (or "30m"), `timeout` the seconds in which a candidate must
    compile and, again, run. `space` is a space to search instead of the strategy's, or a function that edits it, as
    `lambda space: space.fix("mr", 6)`. `schedule` is a template of your own: a function from a point of `space` to a `Schedule` of these
    outputs, as `lambda config: by_hand(C, **config)`; a point at which it raises `ScheduleError` is an invalid one. `name` is the
    operator's in the log; `dims` are the values at which extents known only at run time are measured, as `dims={"n": 512}`. `outputs` may
    be a `tensorlang.kernels.Spec`; `epilogue` and `prologue` are what `kernels.compile` takes, and tune just that kernel. `fixed`
    is a partial schedule of these outputs whose directives every trial keeps, the default too, a mapping of knobs to values, or a pair of
    both. `constants` names operands that stay fixed, such as weights: they are packed before anything is timed, and `kernels.compile` with
    the same constants finds the record. On Ctrl-C every process is killed, the log is complete, and `KeyboardInterrupt` propagates.

    Raises `TuningError` for a setting that makes no sense or where no schedule is valid, `LogError` if the log cannot be written.
    """
    if progress is not None and not callable(progress):
        raise TuningError(f"progress= is a function of what is reported, not {progress!r:.60}")
    if epilogue is not None or prologue is not None or isinstance(outputs, Spec):
        outputs = fused(outputs, epilogue, prologue).outputs
    return session(
        outputs, log, target=target, space=space, schedule=schedule, name=name, dims=dims, trials=trials, seed=seed, strategy=strategy,
        budget=seconds(budget), fixed=fixed, timeout=timeout, resume=resume, threads=threads, workers=workers, cache=cache, dask=dask,
        constants=constants,
    ).run(progress)  # fmt: skip


def session(
    outputs: object,
    log: str | os.PathLike[str] | Log | None,
    *,
    target: str | Target | None = None,
    space: Space | Callable[[Space], Space] | None = None,
    schedule: Callable[[Config], Schedule] | None = None,
    name: str | None = None,
    dims: Mapping[str, int] | None = None,
    extents: Mapping[str, int] | None = None,
    threads: int | None = None,
    fixed: object = None,
    constants: object = (),
    **settings: Any,
) -> Session:
    """The job that `tune` runs, checked and ready; `extents` are what the log calls those of its task."""
    if name is not None and not isinstance(name, str):
        raise TuningError(f"name= is the operator's in the log, not {name!r:.60}")
    if space is not None and not callable(space) and not isinstance(space, Space):
        raise TuningError(f"space= is a space, or a function that edits one, not {space!r:.60}")
    if schedule is not None and not (callable(schedule) and isinstance(space, Space)):
        raise TuningError("schedule= is a function from a point of space= to a Schedule, with space=tl.Space(...) beside it")
    wanted = checked(Settings(threads=get_threads() if threads is None else threads, **settings))
    machine = _machine(target, wanted.dask)
    task = Task.of(outputs, name, dims, extents, constants)
    if fixed is not None and (space is not None or schedule is not None):
        raise TuningError("fixed= keeps parts of a schedule of the strategy's space; give it without space= and schedule=")
    library = None if log is None else Log(log) if not isinstance(log, Log) else log
    if schedule is not None and isinstance(space, Space):
        return Session(task, Template(schedule, task.fingerprint, wanted.timeout).plan(space), machine, wanted, library)
    if fixed is not None:
        return Session(task, plan_of(fixed, task, machine, wanted.threads, wanted.timeout), machine, wanted, library)
    from tensorlang.schedules.strategies import choose  # noqa: PLC0415 - tests of the job need no compiler

    strategy = choose(task.outputs, machine, wanted.threads, task.constant_names)
    edited = space(strategy.space) if callable(space) else strategy.space if space is None else space
    if not isinstance(edited, Space):
        raise TuningError(f"space= is a function that returns the edited space, not {edited!r:.60}")
    plan = TaskPlan(strategy.name, edited, strategy.default, tuple(getattr(strategy, "seeds", ())), costs=strategy.costs)
    return Session(task, plan, machine, wanted, library)


def _machine(target: str | Target | None, dask: str | None) -> Target:
    if dask is not None:
        from tensorlang.autotune.cluster import target as of_cluster  # noqa: PLC0415 - an extra

        return of_cluster(dask, target)
    machine = named_target(target)
    if (why := why_foreign(machine)) is not None:
        raise TuningError(f"cannot tune for {machine.name} here: {why}")
    return machine
