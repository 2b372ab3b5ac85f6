"""`autotune best --format json|csv`: a row for each study, for programs that read; and the weighted total of several."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tensorlang.autotune.log.index import Study, study_of
from tensorlang.autotune.log.log import Log
from tensorlang.autotune.log.naming import named_extents, spelled_extents
from tensorlang.autotune.log.study_records import JobPlan
from tensorlang.autotune.measurement.quality import Quality
from tensorlang.autotune.reporting.analysis import default_of, gain
from tensorlang.autotune.reporting.report import Tuned, standings

FORMATS: Final = ("json", "csv")

COLUMNS: Final = (
    "task", "op", "shape", "dtype", "cpu", "threads", "cache", "trials", "time", "default_time", "speedup", "low", "high", "quality",
    "flags", "config", "schedule", "id", "fingerprint", "log",
)  # fmt: skip
"""Times in seconds; `low` and `high` bound the speed-up at 95 %; `quality` as in `measurement.quality`; `flags` see `flags`."""


def flags(tuned: Tuned) -> list[str]:
    """What to know of a study before its winner is used, in words for programs.

    `no-valid-schedule`; `default-stands`: nothing beat it; `not-measured-again`: of single trials; `undecided`: a candidate led, but
    the interval of its lead holds 1; `space-exhausted`: every point was tried; `busy`: the machine was slower than usual meanwhile.
    """
    won = gain(tuned.final, tuned.trials, None)
    stands = tuned.default_stands
    said = {
        "no-valid-schedule": tuned.time is None,
        "default-stands": stands,
        "not-measured-again": tuned.final is None and tuned.time is not None,
        "undecided": tuned.quality is Quality.UNDECIDED or (won is not None and not stands and won.low is not None and won.low <= 1),
        "space-exhausted": tuned.exhausted,
        "busy": tuned.busy is not None,
    }
    return [flag for flag, holds in said.items() if holds]


def rows(log: Log) -> list[dict[str, Any]]:
    """The winner of each study. Raises `LogError` for a log without trials."""
    return [_row(tuned, log) for tuned in standings(log)]


def text(logs: Sequence[Log], form: str) -> str:
    """The winners of some logs as "json" or "csv"."""
    found = [row for log in logs for row in rows(log)]
    if form == "json":
        return json.dumps(found, indent=1, allow_nan=False) + "\n"
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in found:
        spelled = {"shape": ",".join(f"{name}={size}" for name, size in row["shape"].items()), "flags": " ".join(row["flags"])}
        spelled["config"] = "" if row["config"] is None else json.dumps(row["config"])
        writer.writerow(["" if (value := {**row, **spelled}[name]) is None else value for name in COLUMNS])
    return out.getvalue()


def _row(tuned: Tuned, log: Log) -> dict[str, Any]:
    first, best, won = tuned.trials[0], tuned.best, gain(tuned.final, tuned.trials, None)
    base = default_of(tuned.trials)
    default = tuned.final.default_time if tuned.final is not None else None if base is None else base.time
    return {
        "task": f"{tuned.op} {spelled_extents(first.task)}".rstrip(),
        "op": tuned.op,
        "shape": named_extents(first.task),
        "dtype": first.task.get("dtype"),
        "cpu": first.target.get("cpu"),
        "threads": first.threads,
        "cache": first.cache,
        "trials": len(tuned.trials),
        "time": tuned.time,
        "default_time": default,
        "speedup": tuned.speedup,
        "low": None if won is None else won.low,
        "high": None if won is None else won.high,
        "quality": None if tuned.quality is None else str(tuned.quality),
        "flags": flags(tuned),
        "config": None if best is None else best.config,
        "schedule": None if best is None else best.schedule,
        "id": None if best is None else best.id,
        "fingerprint": tuned.fingerprint,
        "log": str(log.path),
    }


@dataclass(frozen=True, slots=True)
class Total:
    """Weighted sums of times in seconds over the tasks that have both: of the defaults, and of the winners."""

    tasks: int
    of: int
    default: float
    best: float

    @classmethod
    def over(cls, times: Iterable[tuple[float, float | None, float | None]]) -> Total:
        """The total over tasks, each a weight, the default's time and the winner's."""
        every = list(times)
        told = [(weight, default, best) for weight, default, best in every if default and best]
        sums = (sum(weight * default for weight, default, _ in told), sum(weight * best for weight, _, best in told))
        return cls(len(told), len(every), *sums)

    @property
    def speedup(self) -> float | None:
        """How much less time all of them take; None where nothing is known."""
        return self.default / self.best if self.best else None

    def __str__(self) -> str:
        whole = f"{self.tasks} of {self.of} tasks" if self.tasks < self.of else f"{self.of} tasks"
        return "-" if self.speedup is None else f"{self.speedup:.2f}x over {whole}"


def weights(log: Log) -> Mapping[Study, float]:
    """The weight that the last job of a log gave each study."""
    found: dict[Study, float] = {}
    for record in log.records("run_start"):
        job = record.get("job") if isinstance(record, dict) else None
        try:
            found |= {task.study: float(task.weight) for task in JobPlan.of(job).tasks} if isinstance(job, dict) else {}
        except ValueError:  # a job of another version
            continue
    return found


def total(held: Sequence[Tuned], weight: Mapping[Study, float]) -> Total:
    """The weighted total of some studies; a study without a weight counts once."""

    def times(tuned: Tuned) -> tuple[float, float | None, float | None]:
        study, base = study_of(tuned.trials[0]), default_of(tuned.trials)
        default = tuned.final.default_time if tuned.final is not None else None if base is None else base.time
        return (1.0 if study is None else weight.get(study, 1.0)), default, tuned.time

    return Total.over(map(times, held))
