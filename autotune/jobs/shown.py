"""A tuning result as a notebook shows it: how fast, how sure, by which schedule, after what."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from tensorlang.autotune.log.shown import config_text
from tensorlang.autotune.measurement.quality import MEANING
from tensorlang.codegen.reports.spelling import seconds
from tensorlang.errors import TensorlangError
from tensorlang.system import markup

if TYPE_CHECKING:
    from tensorlang.autotune.jobs.result import Result

TOP: Final = 5


def html(result: Result) -> str:
    """The winner beside the default, its schedule, the fastest trials, and what failed."""
    fastest = sorted((trial for trial in result.records if trial.time is not None), key=lambda trial: trial.time or 0.0)[:TOP]
    rows = [
        (trial.seq, trial.source, seconds(trial.time or 0.0), f"{trial.noise:.1%}", seconds(trial.compile_s), config_text(trial.config))
        for trial in fastest
    ]
    head = ("trial", "source", "time", "noise", "compile", "configuration")
    failed = Counter(trial.status for trial in result.records if trial.status != "ok")
    return markup.display(
        markup.title(f"{result.task.op}: {seconds(result.best.time)}{_gain(result)}"),
        markup.facts(
            [
                ("configuration", config_text(result.best.config)),
                ("default", "" if result.default is None else seconds(result.default.time)),
                ("trials", f"{len(result.records):,}, {result.reason}"),
                ("failed", ", ".join(f"{count} {status}" for status, count in failed.most_common())),
                ("measured on", f"{result.target}, {result.threads} thread{'s' * (result.threads != 1)}"),
                ("quality", "" if result.quality is None else f"{result.quality}: {MEANING[result.quality]}"),
                ("disturbed", "; ".join(map(str, result.noise))),
            ]
        ),
        _schedule(result),
        markup.folded("fastest trials", markup.table(head, rows, numbers=(0, 2, 3, 4)), unfolded=True) if rows else "",
    )


def _gain(result: Result) -> str:
    if result.speedup is None:
        return ""
    sure = "" if result.speedup_interval is None else " (95 %: {:.2f} to {:.2f})".format(*result.speedup_interval)
    return f", {result.speedup:.2f} times the default{sure}"


def _schedule(result: Result) -> str:
    try:
        schedule = result.best.schedule
    except TensorlangError as error:  # written by another version
        return markup.paragraph(str(error).split("\n", 1)[0])
    return markup.folded("the winning schedule", markup.code(repr(schedule)) + markup.nest(str(schedule)))
