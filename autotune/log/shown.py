"""A log as a notebook shows it: what was tuned, how often, and how fast the fastest is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorlang.autotune.log.index import Study, study_of
from tensorlang.autotune.log.record import Trial
from tensorlang.codegen.reports.spelling import seconds
from tensorlang.errors import LogError
from tensorlang.schedules.spaces.space import Config
from tensorlang.system import markup

if TYPE_CHECKING:
    from tensorlang.autotune.log.log import Log

_HEAD = ("task", "CPU", "threads", "trials", "valid", "best", "configuration")


def html(log: Log) -> str:
    """A row for each study; a log that cannot be read says why."""
    studies: dict[Study | None, list[Trial]] = {}
    try:
        for trial in log:
            studies.setdefault(study_of(trial), []).append(trial)
    except LogError as error:
        return markup.display(markup.title(repr(log)), markup.paragraph(str(error)))
    skipped = markup.paragraph(f"{len(log.problems)} lines skipped, the first: {log.problems[0]}") if log.problems else ""
    return markup.display(markup.title(repr(log)), markup.table(_HEAD, map(_row, studies.values()), numbers=(2, 3, 4, 5)), skipped)


def config_text(config: Config) -> str:
    """A configuration as people read it: `rows = 6, vectors = 2`."""
    return ", ".join(f"{knob} = {value}" for knob, value in config.items())


def _row(trials: list[Trial]) -> tuple[object, ...]:
    first, valid = trials[0], [(trial.time, trial) for trial in trials if trial.time is not None]
    time, best = min(valid, key=lambda entry: entry[0], default=(None, None))
    cpu, told = first.target.get("cpu"), "-" if time is None else seconds(time)
    return first.task.get("op"), cpu, first.threads, len(trials), len(valid), told, "" if best is None else config_text(best.config)
