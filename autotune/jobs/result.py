"""What a tuning job gives back: the winner, the default, every trial, and the kernel on demand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tensorlang.autotune.log.record import Trial
from tensorlang.autotune.measurement.quality import Quality
from tensorlang.autotune.measurement.slowness import Slow
from tensorlang.autotune.task import Task
from tensorlang.codegen.target import Target
from tensorlang.schedules.spaces.space import Config
from tensorlang.system.lazy import cached_property

if TYPE_CHECKING:
    import pandas as pd

_COLUMNS = ("id", "seq", "config", "status", "time", "median", "mad", "compile_s", "run_s", "wall_s", "source", "censored", "quality")


@dataclass(frozen=True)
class VerifiedSchedule:
    """A verified schedule of the task: its configuration, its least time in seconds in the final measurement, and its trial."""

    time: float
    config: Config
    directives: str
    record: Trial
    outputs: Any = field(repr=False, compare=False, default=None)

    @cached_property
    def schedule(self) -> Any:
        """The schedule. Raises `ScheduleError` if this version of tensorlang no longer accepts it."""
        from tensorlang.schedules.schedule import Schedule  # noqa: PLC0415 - results are read without it

        return Schedule.from_json(self.outputs, self.directives)


@dataclass(frozen=True)
class Result:
    """The outcome of a job. `speedup` is the median of the paired ratios of the default's time to the winner's; None without a default.

    `speedup_interval` is its 95 % interval (see `interval`), `noise` the stretches of trials in which the machine was slower than usual,
    `quality` how far the verdict can be trusted (see `quality`).
    """

    task: Task
    target: Target
    threads: int
    best: VerifiedSchedule
    default: VerifiedSchedule | None
    speedup: float | None
    records: tuple[Trial, ...]
    reason: str
    speedup_interval: tuple[float, float] | None = None
    noise: tuple[Slow, ...] = ()
    quality: Quality | None = None

    @cached_property
    def kernel(self) -> Any:
        """The winner as a kernel, built now and here: its schedule was verified in a process of its own."""
        from tensorlang.codegen.kernel.build import build_schedule  # noqa: PLC0415 - only here is anything compiled

        return build_schedule(self.best.schedule, self.target, provenance="tuned", reason="the winner of the final measurement")

    def to_pandas(self) -> pd.DataFrame:
        """One row for each trial, in order."""
        import pandas as pd  # noqa: PLC0415 - loaded on use

        rows = [{**{name: getattr(trial, name) for name in _COLUMNS}, "error": trial.why} for trial in self.records]
        return pd.DataFrame(rows, columns=[*_COLUMNS, "error"])

    def _repr_html_(self) -> str:
        from tensorlang.autotune.jobs.shown import html  # noqa: PLC0415 - for notebooks alone

        return html(self)

    def __str__(self) -> str:
        gain = "" if self.speedup is None else f", {self.speedup:.2f} times the default"
        sure = "" if self.quality is None else f" ({self.quality})"
        return f"{self.task.op}: {self.best.time * 1e6:.1f} us{gain}{sure}, after {len(self.records)} trials: {self.best.config}"


def failures(trials: Sequence[Trial]) -> dict[str, int]:
    """How many trials failed in which way, most frequent first."""
    return dict(Counter(trial.status for trial in trials if trial.status != "ok").most_common())


def best_of(trials: Sequence[Trial]) -> Trial | None:
    """The fastest valid trial."""
    valid = [trial for trial in trials if trial.time is not None]
    return min(valid, key=lambda trial: trial.time or 0.0, default=None)
