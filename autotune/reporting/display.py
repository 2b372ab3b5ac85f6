"""What a job shows: a progress bar on a terminal, plain lines elsewhere, and the table at the end."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress as Bar, ProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from tensorlang.autotune.jobs.plan import Progress
from tensorlang.autotune.jobs.result import Result, VerifiedSchedule, failures
from tensorlang.autotune.log.naming import spelled_extents
from tensorlang.autotune.log.record import Trial
from tensorlang.autotune.measurement.quality import MEANING, Quality

if TYPE_CHECKING:
    from tensorlang.autotune.jobs.peak import Peak


def plural(count: int, noun: str) -> str:
    """`1 trial`, `2 trials`."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def duration(seconds: float | None) -> str:
    """A time with three digits and a unit."""
    if seconds is None:
        return "-"
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def clock(seconds: float | None) -> str:
    """A length of time as people say it: `45s`, `12m05s`, `3h07m`, `2d04h`."""
    if seconds is None:
        return "?"
    whole = round(seconds)
    for unit, below, size in (("d", "h", 86400), ("h", "m", 3600), ("m", "s", 60)):
        if whole >= size:
            part = size // {"h": 24, "m": 60, "s": 60}[below]
            return f"{whole // size}{unit}{whole % size // part:02d}{below}"
    return f"{whole}s"


class ProgressBar:
    """A progress bar with `title`, a `state` and clocks, shown between entering and leaving where the console is a terminal."""

    def __init__(self, console: Console, title: str, *clocks: ProgressColumn) -> None:
        self.console = console
        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[state]}")
        self._bar = Bar(*columns, *clocks, console=console, transient=True)
        self._task = self._bar.add_task(title, total=None, state="")

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._bar.stop()

    def move(self, done: int, total: int, state: str, title: str | None = None) -> None:
        """Show how far it is."""
        self._bar.update(self._task, description=title, completed=done, total=total, state=state)


class Monitor(ProgressBar):
    """Shows a running job: call it with each `Progress`."""

    def __init__(self, console: Console, title: str) -> None:
        super().__init__(console, title, TimeElapsedColumn(), TimeRemainingColumn())

    def __call__(self, state: Progress) -> None:
        """Show the state."""
        if self.console.is_terminal:
            self.move(state.done, state.total, best_so_far(state))
        elif state.last is not None:
            outcome = _measured(state.last) if state.last.time is not None else state.last.status
            plain(self.console, f"[{state.done:>4}/{state.total}] {state.last.source:<9} {outcome:<16} {best_so_far(state)}")
        else:
            plain(self.console, "measuring the finalists and the default again, side by side")


def _measured(trial: Trial) -> str:
    """Its time, and why that is not to be trusted, if so."""
    return duration(trial.time) + ("" if trial.quality in (None, Quality.CLEAN) else f" {trial.quality}")


def best_so_far(state: Progress) -> str:
    """The best time, and what it is of the default's."""
    if state.best is None or state.best.time is None:
        return "no valid schedule yet"
    gain = f" ({state.default.time / state.best.time:.2f}x default)" if state.default and state.default.time else ""
    return f"best {duration(state.best.time)}{gain}"


AGREE: Final = 1.1
"""Measures of one thing that differ by more than this factor are not to be trusted."""


def plain(console: Console, text: str) -> None:
    """Print text as it stands: no markup, no colours, no folding."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def final_table(result: Result, peak: Peak) -> Table:
    """Default and winner: time, speed-up, and what they are of the machine's measured peak."""
    table = Table(title=f"{result.task.op} {shape_of(result.task.to_json())} {result.task.dtype}, {plural(result.threads, 'thread')}")
    for column in ("schedule", "time", "speed-up", "GFLOP/s", "GB/s", "share of measured peak"):
        table.add_column(column, justify="left" if column == "schedule" else "right")
    if result.default is not None:
        table.add_row("default", *_row(result.default, 1.0, peak, result.target.l3))
    table.add_row("best", *_row(result.best, result.speedup, peak, result.target.l3))
    if result.quality is not None:
        table.caption = f"{result.quality}: {MEANING[result.quality]}"
    least = None if result.default is None else result.default.time / result.best.time
    if least is not None and result.speedup is not None and not 1 / AGREE < result.speedup / least < AGREE:
        said = f"paired rounds say {result.speedup:.2f}x, least times {least:.2f}x"
        table.caption = f"the machine was busy: {said}; measure again when it is quiet"
    return table


def _row(choice: VerifiedSchedule, speedup: float | None, peak: Peak, cache: int) -> list[str]:
    flops, moved = _rates(choice)
    gain = "-" if speedup is None else f"{speedup:.2f}x"
    return [duration(choice.time), gain, f"{flops / 1e9:.1f}", f"{moved / 1e9:.1f}", share_of(choice, peak, cache)]


def _rates(choice: VerifiedSchedule) -> tuple[float, float]:
    """Operations and bytes a second."""
    flops, moved = (float(choice.record.fields.get(name) or 0.0) / choice.time for name in ("flops", "bytes"))
    return flops, moved


def share_of(choice: VerifiedSchedule, peak: Peak, cache: int) -> str:
    """What a schedule gets of the machine's measured peak; data of up to `cache` bytes does not count as memory traffic."""
    flops, moved = _rates(choice)
    return share_of_peak(flops, moved if moved * choice.time > cache else 0.0, peak)


def share_of_peak(flops: float, moved: float, peak: Peak) -> str:
    """The shares of multiply-adds and of memory traffic (0: the data fits the caches) in what the machine was measured to do.

    What exceeds them tells that the machine was busy while they were measured, and has no share.
    """
    found = ((flops, peak.flops, "FMA"), (moved, peak.bandwidth, "memory"))
    shares = [f"{rate / most:.0%} {name}" for rate, most, name in found if rate and most and rate <= AGREE * most]
    busy = any(rate > AGREE * most for rate, most, _ in found if most)
    return ", ".join(shares) or ("? (busy)" if busy else "-")


def shape_of(task: dict[str, Any]) -> str:
    """The extents of a task by name, from its record; where it does not tell them the shape of its result, if that."""
    if named := spelled_extents(task):
        return named
    try:
        definition = task["definition"]
        shapes = [definition["definitions"][place if isinstance(place, int) else place[0]]["shape"] for place in definition["outputs"]]
    except (KeyError, IndexError, TypeError):
        return ""
    return " ".join(str(shape) for shape in shapes)


def failure_line(trials: list[Trial] | tuple[Trial, ...]) -> str:
    """Counts of failures by status, and one example of each."""
    counts = failures(trials)
    examples = {status: next(trial.why for trial in trials if trial.status == status) for status in counts}
    return "\n".join(f"  {count} {status}: {examples[status][:160]}" for status, count in counts.items())
