"""What a log says: `status`, `best` and `report`, study by study (program, target, threads, cache policy)."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tensorlang.autotune.jobs.result import best_of, failures
from tensorlang.autotune.log.database import Study, study_of
from tensorlang.autotune.log.glimpse import Glimpse, run_of
from tensorlang.autotune.log.log import Log
from tensorlang.autotune.log.migrate import JsonObject
from tensorlang.autotune.log.record import Trial
from tensorlang.autotune.log.study_records import FinalRecord, Noise, RunEnd, RunStart
from tensorlang.autotune.measurement.quality import MEANING, Quality, doubtful, shown
from tensorlang.autotune.reporting.analysis import contender, gain, improvements, ordered, overhead, slow
from tensorlang.autotune.reporting.display import duration, failure_line, plain, plural, shape_of
from tensorlang.autotune.reporting.knob_effects import knob_effects
from tensorlang.errors import LogError
from tensorlang.schedules.spaces.space import spelling
from tensorlang.system.lazy import cached_property

TOP = 10


@dataclass(frozen=True)
class Tuned:
    """The trials of one study, its last final measurement and how its last run ended.

    Those of `standings` are glimpses of trials, which have what tables show, and `best` reads the one that it gives.
    """

    trials: tuple[Trial, ...]
    final: FinalRecord | None
    ended: str | None
    starts: tuple[RunStart, ...] = ()
    """What its runs set out to do."""
    noise: Noise | None = None
    """What its last run noted of the machine."""

    @property
    def op(self) -> str:
        """The name of the operator."""
        return str(self.trials[0].task.get("op"))

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the program."""
        return str(self.trials[0].task.get("fingerprint"))

    @property
    def name(self) -> str:
        """The operator and its result."""
        task = self.trials[0].task
        return f"{self.op} {shape_of(task)} {task.get('dtype')}"

    @property
    def title(self) -> str:
        """The operator, its result and where it ran."""
        first = self.trials[0]
        return f"{self.name} on {first.target.get('cpu')}, {plural(first.threads, 'thread')}, {first.cache} cache"

    @property
    def strategy(self) -> str:
        """How its last run searched; empty if the log does not say."""
        return str(self.starts[-1].search) if self.starts else ""

    @property
    def points(self) -> int | None:
        """The feasible points of its space, as its last run counted them; None if the log does not say."""
        points = self.starts[-1].points if self.starts else None
        return None if points is None else int(points)

    @property
    def exhausted(self) -> bool:
        """Was every point of its space tried?"""
        return self.ended == "exhausted" or (self.points is not None and len(self.trials) >= self.points)

    @property
    def busy(self) -> str | None:
        """That the machine was slower than usual while this was measured, as its last run noted; None where it was not."""
        slow = self.noise.slow if self.noise is not None else ()
        return "; ".join(map(str, slow)) or None

    @property
    def default_stands(self) -> bool:
        """Did the default win the final measurement?"""
        return self.final is not None and self.final.default_stands

    @property
    def quality(self) -> Quality | None:
        """How far the verdict can be trusted, or the fastest trial where there is none yet; None where the log does not say."""
        return self.final.verdict if self.final is not None else None if self.best is None else self.best.quality

    @cached_property
    def best(self) -> Trial | None:
        """The winner of the final measurement, else the fastest trial."""
        winner = None if self.final is None else self.final.winner
        best: Trial | Glimpse | None = next((trial for trial in self.trials if trial.id == winner), None) or best_of(self.trials)
        return best.trial() if isinstance(best, Glimpse) else best

    @property
    def time(self) -> float | None:
        """The winner's time in the final measurement, else the fastest trial's."""
        return self.final.time if self.final is not None else None if self.best is None else self.best.time

    @property
    def speedup(self) -> float | None:
        """Over the default, in the final measurement or else among trials."""
        if self.final is not None:
            return self.final.speedup
        default = best_of([trial for trial in self.trials if trial.source == "default"])
        return default.time / self.time if default is not None and default.time and self.time else None


def studies(log: Log) -> list[Tuned]:
    """The studies in a log, in order of appearance. Raises `LogError` if the log cannot be read or has no trial."""
    return _studies(log, log.records())


def standings(log: Log, records: Iterable[Glimpse | JsonObject] | None = None) -> list[Tuned]:
    """The same as far as tables need it, in a fraction of the time; `records` are the log's, where they have been read."""
    return _studies(log, log.glimpses() if records is None else records)


def _studies(log: Log, records: Iterable[Any]) -> list[Tuned]:
    trials: dict[Study, list[Any]] = {}
    finals: list[FinalRecord] = []
    ended: dict[str, RunEnd] = {}
    homes: dict[str, Study] = {}
    starts: dict[str, RunStart] = {}
    for record in records:
        if isinstance(record, Trial | Glimpse):
            if (study := study_of(record)) is not None:
                trials.setdefault(study, []).append(record)
                homes[record.id] = study
            continue
        with contextlib.suppress(ValueError):  # what does not say what its kind has to is of no use
            match record["kind"]:
                case "final":
                    finals.append(FinalRecord.of(record))
                case "run_start":
                    start = RunStart.of(record)
                    starts[start.run] = start
                case "run_end":
                    ended[str(record.get("run"))] = RunEnd.of(record)
    if not trials:
        lines = f" ({plural(len(log.problems), 'line')} skipped, the first: {log.problems[0]})" if log.problems else ""
        raise LogError(f"{log.path} holds no trial{lines}")
    last: dict[Study, FinalRecord] = {}
    for final in sorted(finals, key=lambda final: final.time_unix or 0.0):  # a merged log may hold them in any order
        if (study := homes.get(final.winner)) is not None:
            last[study] = final
    return [_tuned(tuple(ordered(own)), last.get(study), ended, starts) for study, own in trials.items()]


def _tuned(own: tuple[Any, ...], final: FinalRecord | None, ended: dict[str, RunEnd], starts: dict[str, RunStart]) -> Tuned:
    runs = dict.fromkeys(map(run_of, own))
    end = ended.get(next(reversed(runs)))
    plans = tuple(starts[run] for run in runs if run in starts)
    return Tuned(own, final, None if end is None else end.reason, plans, None if end is None else end.noise)


def status(console: Console, log: Log, records: Iterable[Glimpse | JsonObject] | None = None) -> None:
    """One row for each study: trials, best, speed-up, failures, whether the last run ended."""
    table = Table()
    for column in ("task", "trials", "best", "speed-up", "quality", "failed", "last run"):
        table.add_column(column, overflow="fold")
    for tuned in standings(log, records):
        failed = ", ".join(f"{count} {name}" for name, count in failures(tuned.trials).items()) or "none"
        gain = "-" if tuned.speedup is None else f"{tuned.speedup:.2f}x"
        state = "space exhausted" if tuned.exhausted and tuned.ended else tuned.ended or "running, or killed"
        state += "; busy machine" if tuned.busy else ""
        cells = (tuned.title, str(len(tuned.trials)), duration(tuned.time), gain, shown(tuned.quality), failed, state)
        table.add_row(*map(Text, cells))  # a log may hold what looks like markup
    console.print(table)
    _skipped(console, log)


def best(console: Console, log: Log) -> None:
    """For each study the best configuration, and its schedule as Python."""
    from tensorlang.autotune.reporting.replay import python_of  # noqa: PLC0415 - other reports need no compiler

    for tuned in standings(log):
        first = f"{tuned.title}: {duration(tuned.time)}{_sure(tuned)}"
        if tuned.best is None:
            plain(console, f"{first}\nno valid schedule\n{failure_line(tuned.trials)}")
            continue
        plain(console, f"{first}\nconfiguration: {spelling(tuned.best.config)}\n{python_of(tuned.best)}\n")


def _sure(tuned: Tuned) -> str:
    """How much faster than the default, and how surely."""
    gain = "" if tuned.speedup is None else f", {tuned.speedup:.2f}x default"
    if (
        tuned.speedup is not None
        and tuned.final is not None
        and not tuned.default_stands
        and (interval := tuned.final.interval) is not None
    ):
        gain += f" ({interval[0]:.2f} to {interval[1]:.2f})"
    said = "" if tuned.quality is None else f", {tuned.quality}"
    if doubtful(tuned.quality) and tuned.quality is not None:
        said += f": {MEANING[tuned.quality]}"
    if tuned.quality is Quality.UNDECIDED and tuned.default_stands and (led := contender(tuned.final)) is not None:
        said += f" (the candidate: {led.middle:.2f}x, {led.low:.2f} to {led.high:.2f})"
    return gain + said + ("" if tuned.final is not None or tuned.best is None else ", of a single trial, not measured again yet")


def report(console: Console, log: Log) -> None:
    """For each study the fastest trials, failures by reason, noise, and how the best came about."""
    for tuned in studies(log):
        table = Table("trial", "source", "time", "noise", "compile", "configuration", title=tuned.title, title_justify="left")
        valid = sorted((trial for trial in tuned.trials if trial.time is not None), key=lambda trial: trial.time or math.inf)
        places = {trial.id: count for count, trial in enumerate(tuned.trials, 1)}
        for trial in valid[:TOP]:
            table.add_row(
                str(places[trial.id]),
                trial.source,
                duration(trial.time),
                f"{trial.noise:.1%}" + ("" if trial.quality in (None, Quality.CLEAN) else f" {trial.quality}"),
                duration(trial.compile_s),
                spelling(trial.config),
            )
        console.print(table)
        noise = f"{median(trial.noise for trial in valid):.1%}" if valid else "-"
        wall, spent = sum(trial.wall_s for trial in tuned.trials), overhead(tuned.trials)
        share = "" if spent is None else f", of which {spent:.0%} overhead"
        plain(console, f"{plural(len(tuned.trials), 'trial')} in {duration(wall)}{share}; median noise {noise}")
        for stretch in slow(tuned.trials):
            plain(console, str(stretch))
        if valid:
            steps = (f"{duration(time)} (trial {count})" for count, time in improvements(tuned.trials))
            plain(console, f"best so far: {', '.join(steps)}")
        if tuned.final is not None:
            won = gain(tuned.final, tuned.trials, tuned.best) or "no valid default"
            said = "" if tuned.quality is None else f"; {tuned.quality}: {MEANING[tuned.quality]}"
            plain(console, f"measured again, side by side: {duration(tuned.time)}, {won}{said}")
        if effects := knob_effects(tuned.trials):
            plain(console, "knobs:\n" + "\n".join(f"  {effect}" for effect in effects))
        if failed := failure_line(tuned.trials):
            plain(console, "failures:\n" + failed)
    _skipped(console, log)


def _skipped(console: Console, log: Log) -> None:
    for problem in log.problems[:5]:
        plain(console, f"skipped {problem}")
    if len(log.problems) > 5:
        plain(console, f"... and {len(log.problems) - 5} more lines skipped")
