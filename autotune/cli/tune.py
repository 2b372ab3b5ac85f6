"""`autotune run`, `job` and `ops`: the commands that measure, and what they can be asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tensorlang.autotune.cli.common import Stop, Usage, console, leave, note
from tensorlang.errors import LogError, TensorlangError

if TYPE_CHECKING:
    from tensorlang.autotune.jobs.batch import Batch, Overview
    from tensorlang.autotune.jobs.plan import Progress
    from tensorlang.autotune.jobs.session import Session

Workers = Annotated[int | None, typer.Option(min=1, help="Processes that compile candidates; measuring is one at a time.")]
Dask = Annotated[str | None, typer.Option(help="Scheduler of a Dask cluster of target machines, as tcp://host:8786.")]
PEAK_S = 10.0
"""Seconds that measuring the machine's peak may take: with less of the budget left it is not measured."""
Budget = Annotated[str | None, typer.Option(help="Time for the whole search, as 90s, 30m or 1h30m.")]


def run(
    operator: Annotated[str, typer.Argument(metavar="OPERATOR", help="A name that `autotune ops` lists, or FILE.py:FUNCTION.")],
    shape: Annotated[str, typer.Option(help="Extents, as M=512,N=512,K=512; for a function its parameters.")] = "",
    dtype: Annotated[str | None, typer.Option(help="Type of the operands (float32 for operators).")] = None,
    trials: Annotated[int, typer.Option(min=1, help="Candidates to measure, those in the log included.")] = 64,
    log: Annotated[str | None, typer.Option(help="Log file, or a folder (ending in /): one file for each task.")] = None,
    target: Annotated[str | None, typer.Option(help="CPU to tune for, as znver3 (default: this machine's).")] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads (default: all usable cores).")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the search.")] = 0,
    strategy: Annotated[str, typer.Option(help="bayesian, uninformed, random, evolutionary or grid.")] = "bayesian",
    budget: Budget = None,
    timeout: Annotated[float, typer.Option(help="Seconds in which a candidate must compile and, again, run.")] = 30.0,
    resume: Annotated[bool, typer.Option(help="Go on from what the log has.")] = True,
    cache: Annotated[str | None, typer.Option(help="Measure with warm or cold caches (warm).")] = None,
    constants: Annotated[str | None, typer.Option(help="Operands that stay fixed, as w or A,B: packed before anything is timed.")] = None,
    workers: Workers = None,
    dask: Dask = None,
) -> None:
    """Tune an operator."""
    from tensorlang.autotune import operators, settings  # noqa: PLC0415 - see `main`
    from tensorlang.autotune.jobs import tune as jobs  # noqa: PLC0415 - see `main`
    from tensorlang.autotune.workers import definitions  # noqa: PLC0415
    from tensorlang.autotune.workers.limited import LimitError  # noqa: PLC0415

    screen = console()
    fixed = None if constants is None else tuple(name.strip() for name in constants.split(","))
    given = _given(target=target, cache=cache, workers=workers, dask=dask, constants=fixed)
    try:
        extents = operators.parse_shape(shape)
        name, outputs = definitions.program(operator, extents, dtype, limit_s=timeout)
        job = jobs.session(
            outputs, log, name=name, extents=operators.named_extents(operator, extents),
            threads=threads, trials=trials, seed=seed, strategy=strategy,
            budget=settings.seconds(budget), timeout=timeout, resume=resume, **given,
        )  # fmt: skip
    except (LogError, LimitError):
        raise
    except TensorlangError as error:
        raise Usage(str(error)) from None
    if dask is None:
        _crowded(job.settings.threads)
    _tuned(screen, job)


def _crowded(threads: int) -> None:
    """Say so where threads have to share cores."""
    from tensorlang.autotune.measurement import host  # noqa: PLC0415 - see `main`

    if threads > (cores := len(host.cores())):
        shared = "1 usable core" if cores == 1 else f"{cores} usable cores"
        note(f"warning: {threads} threads share {shared}: times will say little; --threads {cores} measures what runs here")


def _given(**options: Any) -> dict[str, Any]:
    """The options that were given."""
    return {name: value for name, value in options.items() if value is not None}


def _tuned(screen: Any, job: Session) -> None:
    from tensorlang.autotune.jobs.peak import Peak, measure_peak  # noqa: PLC0415
    from tensorlang.autotune.jobs.result import best_of  # noqa: PLC0415
    from tensorlang.autotune.reporting.display import Monitor, duration, final_table, plain, plural  # noqa: PLC0415 - see `main`

    stop = Stop()
    try:
        with Monitor(screen, job.task.op) as monitor:

            def progress(state: Progress) -> None:
                monitor(state)
                stop.check()

            result = job.run(progress)
        hurried = job.left is not None and job.left < PEAK_S
        peak = Peak(None, None) if hurried else measure_peak(result.target, result.threads, result.task.dtype)
        screen.print(final_table(result, peak))
    except KeyboardInterrupt:
        stop.ignore()
        best = best_of(job.trials)
        found = "no valid schedule yet" if best is None else f"best {duration(best.time)}: {best.config}"
        plain(screen, f"stopped after {plural(len(job.trials), 'trial')}; {found}")
        leave(130)
    plain(screen, f"best configuration: {result.best.config}")
    if job.log is not None:
        job.log.remember()
        plain(screen, f"log: {job.log.path}")


def job(
    file: Annotated[Path, typer.Argument(metavar="JOBS.toml", help="The tasks and what they share; see docs/tuning.md.")],
    log: Annotated[str | None, typer.Option(help="Folder of logs, instead of the file's.")] = None,
    target: Annotated[str | None, typer.Option(help="CPU to tune for, instead of the file's and its tasks'.")] = None,
    budget: Budget = None,
    workers: Workers = None,
    dask: Dask = None,
    check: Annotated[bool, typer.Option("--check", help="Measure nothing: print what each task would take, and what is left out.")] = False,
    retry: Annotated[bool, typer.Option("--retry", help="Try again what runs before left out: tasks that took too much.")] = False,
) -> None:
    """Tune a batch of tasks within one budget; run again, it goes on where it stopped."""
    from tensorlang.autotune import settings  # noqa: PLC0415 - see `main`
    from tensorlang.autotune.jobs import batch, jobfile  # noqa: PLC0415 - see `main`

    try:
        given = _given(log=log and f"{log.rstrip('/')}/", budget=settings.seconds(budget), workers=workers, dask=dask)
        wanted = jobfile.read(file)
        if target is not None:
            given["specs"] = tuple(replace(spec, target=target) for spec in wanted.specs)
        ready = batch.Batch(replace(wanted, **given), retry=retry)
    except LogError:
        raise
    except TensorlangError as error:
        raise Usage(str(error)) from None
    if ready.job.dask is None:
        _crowded(max((spec.threads or 1 for spec in ready.job.specs), default=1))
    if not check:
        _run_batch(console(), ready)
        return
    from tensorlang.autotune.reporting import forecast  # noqa: PLC0415 - see `main`

    if not forecast.show(console(), ready):
        raise typer.Exit(1)


def _run_batch(screen: Any, ready: Batch) -> None:
    from tensorlang.autotune.log.log import Log  # noqa: PLC0415 - see `main`
    from tensorlang.autotune.reporting.display import plain, plural  # noqa: PLC0415
    from tensorlang.autotune.reporting.summary import BatchMonitor, summary  # noqa: PLC0415

    stop = Stop()
    interrupted = False
    try:
        with BatchMonitor(screen, ready) as monitor:

            def progress(state: Overview) -> None:
                monitor(state)
                stop.check()

            ready.run(progress)
        Log(ready.job.log).remember()
        hurried = ready.left is not None and ready.left < PEAK_S
        table = summary(ready, measured=ready.measured and not hurried)
    except KeyboardInterrupt:
        stop.ignore()
        interrupted, table = True, summary(ready, measured=False)
    screen.print(table)
    plain(screen, f"logs: {ready.job.log}")
    if interrupted:
        plain(
            screen, f"stopped after {plural(sum(len(task.trials) for task in ready.tasks), 'trial')}; the same command goes on from there"
        )
        leave(130)
    if any(task.result is None for task in ready.tasks):
        raise typer.Exit(1)


def ops() -> None:
    """List the operators with the extents that --shape takes, and their defaults."""
    from tensorlang.autotune.reporting.display import plain  # noqa: PLC0415 - see `main`
    from tensorlang.ops.table import OPERATORS  # noqa: PLC0415

    screen = console()
    for operator in sorted(OPERATORS.values(), key=lambda operator: operator.name):
        plain(screen, f"{operator.name:<18}{','.join(f'{name}={value}' for name, value in operator.defaults.items())}")
