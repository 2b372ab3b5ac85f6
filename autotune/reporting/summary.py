"""What a batch shows: one progress bar on a terminal, a line now and then elsewhere, and the table at the end."""

from __future__ import annotations

import time
from typing import Final

from rich.console import Console
from rich.progress import TimeElapsedColumn
from rich.table import Table

from tensorlang.autotune.jobs.batch import Batch, Overview
from tensorlang.autotune.jobs.batch_task import BatchTask
from tensorlang.autotune.jobs.peak import Peak, measure_peak
from tensorlang.autotune.jobs.result import Result, failures
from tensorlang.autotune.measurement.quality import shown
from tensorlang.autotune.reporting.display import ProgressBar, best_so_far, clock, duration, plain, share_of
from tensorlang.autotune.reporting.winners import Total

EVERY_S: Final = 10.0
"""Seconds between lines where nothing better is found."""


class BatchMonitor(ProgressBar):
    """Shows a running batch: call it with each `Overview`. Without a terminal it prints improvements, and else a line every ten seconds."""

    def __init__(self, console: Console, batch: Batch) -> None:
        super().__init__(console, batch.job.path.name, TimeElapsedColumn())
        self._shown = 0.0
        self._last: tuple[str, float | None] = ("", None)

    def __call__(self, state: Overview) -> None:
        """Show the state, if there is something to say."""
        final = state.task.stage == "final"
        found = "measuring the finalists again" if final else best_so_far(state.task)
        text = f"{state.title}: {found}"
        pace = "" if final else f"{state.rate:.1f} trials/s, {clock(state.eta)} left"
        if self.console.is_terminal:
            self.move(state.done, state.total, pace, text)
            return
        best = (state.title, None if state.task.best is None else state.task.best.time)
        if final or best != self._last or time.monotonic() - self._shown > EVERY_S:
            plain(self.console, f"[{state.done:>5}/{state.total}] {text}" + (f"; {pace}" if pace else ""))
            self._last, self._shown = best, time.monotonic()


def summary(batch: Batch, *, measured: bool) -> Table:
    """One row for each task; `measured`: with the share of the machine's peak, which takes a few seconds to measure."""
    table = Table(title=batch.job.path.name)
    for column in ("task", "trials", "best", "speed-up", "quality", "share of measured peak", "status"):
        table.add_column(column, justify="right" if column in ("trials", "best") else "left", overflow="fold")
    peaks: dict[tuple[int, str], Peak] = {}
    for task in batch.tasks:
        share = "-"
        if task.result is not None and measured:
            key = (task.result.threads, task.result.task.dtype)
            if key not in peaks:
                peaks[key] = measure_peak(task.result.target, *key)
            share = share_of(task.result.best, peaks[key], task.result.target.l3)
        best = task.result.best.time if task.result is not None else None if task.best is None else task.best.time
        quality = task.result.quality if task.result is not None else None if task.best is None else task.best.quality
        table.add_row(task.title, str(len(task.trials)), duration(best), _gain(task.result), shown(quality), share, status_of(task))
    if len(batch.tasks) > 1:
        whole = Total.over(map(_times, batch.tasks))
        table.add_section()
        trials = str(sum(len(task.trials) for task in batch.tasks))
        table.add_row("weighted total", trials, duration(whole.best or None), str(whole), "", "", "")
    return table


def _times(task: BatchTask) -> tuple[float, float | None, float | None]:
    """The weight of a task, the time of its default and of its winner; both None until they were measured side by side."""
    result = task.result
    if result is None or result.speedup is None:
        return task.spec.weight, None, None
    return task.spec.weight, result.best.time * result.speedup, result.best.time


def _gain(result: Result | None) -> str:
    if result is None or result.speedup is None:
        return "-"
    low, high = result.speedup_interval or (result.speedup, result.speedup)
    return f"{result.speedup:.2f}x ({low:.2f} to {high:.2f})"


def status_of(task: BatchTask) -> str:
    """How a task stands, in a few words."""
    if task.failed:
        return f"failed: {task.failed}"
    if task.result is not None:
        return "done" if not task.left else "budget used up"
    if not task.trials:
        return "not begun: no time was left"
    if task.best is None:
        counts = ", ".join(f"{count} {name}" for name, count in failures(task.trials).items())
        return f"no valid schedule ({counts})"
    return "not measured again yet"
