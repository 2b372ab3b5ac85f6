"""The cost model against recorded logs: nothing is built or timed, so the figures are the same on every machine.

    python -m bench.model                         the logs of `bench/recorded`
    python -m bench.model --page                  the same, and the table of docs/performance.md (make bench-model)
    python -m bench.model ../logs/*.jsonl.gz      others, of any machine whose core is in the table

For each log: the rank correlation (Spearman) of predicted and measured time over a sample of its points, the time of the point that the
model would pick over the best of the sample, and predicted over measured time (least, median, most). A log's core is the one that it names.

A log ends with its best trials and the default, measured again in turns. A pick that is one of them is compared with them, as it was
measured there: a single trial on a shared machine is off by more than models differ. `again / first` is the default's time at the end over
that of the first trial, which tells how steady the machine was: ranks and picks of a log are as good as its trials.
"""

from __future__ import annotations

import argparse
import gzip
import random
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import scipy
from rich.console import Console
from rich.table import Table

from bench.measure import Figure
from bench.peers.tables import table as markdown
from bench.sections import PAGE, written
from tensorlang.autotune.log.record import from_line
from tensorlang.codegen.target import target
from tensorlang.codegen.target.cores import machine_of
from tensorlang.schedules.model.estimate import estimate
from tensorlang.schedules.schedule import Schedule
from tensorlang.serialization.rebuild import rebuild

FOLDER: Final = Path(__file__).resolve().parent / "recorded"
POINTS: Final = 60
CORRELATION: Final = 0.85
LEAST: Final = 0.6
PICK: Final = 1.1
WORST_PICK: Final = 1.3
"""The goals: rank correlation within a space in the middle and at least, and the time of the point that the model picks."""
RECORDED: Final = """\
The model against logs that were recorded on other machines: nothing is built or timed, so the table is the same everywhere.
`python -m bench.model` says what the columns are.
"""
DRIFT: Final = 0.15
"""Trials count beside which the tuner's sentinel, one kernel again and again, was at most this much slower than at its best."""


@dataclass(frozen=True, slots=True)
class Row:
    """One log."""

    name: str
    core: str
    points: int
    correlation: float
    pick: float
    ratios: tuple[float, float, float]
    cost: float
    steady: float | None


def judged(path: Path, points: int) -> Row:
    """The model against one log. Raises `LogError` for a line that is no record."""
    with gzip.open(path) as lines:
        records = [from_line(line) for line in lines]
    trials: list[Any] = [record for record in records if record["kind"] == "trial" and record.get("min")]
    core = trials[0]["target"]["cpu"]
    trials = [trial for trial in trials if trial.get("drift", 0.0) <= DRIFT]
    random.Random(0).shuffle(trials)
    machine = machine_of(target(f"{trials[0]['target']['triple']}:{core}"))
    outputs = rebuild(trials[0]["task"]["definition"])
    nests = [Schedule.from_json(outputs, trial["schedule"]).nest for trial in trials[:points]]
    begin = time.process_time()
    predicted = [estimate(nest, machine).seconds for nest in nests]
    cost = (time.process_time() - begin) / len(nests)
    measured = [float(trial["min"]) for trial in trials[:points]]
    chosen = trials[min(range(len(nests)), key=predicted.__getitem__)]["id"]
    pick = pick_over_best(chosen, {trial["id"]: seconds for trial, seconds in zip(trials, measured, strict=False)}, records)
    ratios = sorted(guess / truth for guess, truth in zip(predicted, measured, strict=True))
    correlation = float(scipy.stats.spearmanr(predicted, measured).statistic)
    told = (ratios[0], statistics.median(ratios), ratios[-1])
    return Row(path.name.split(".")[0], core, len(nests), correlation, pick, told, cost, again_over_first(records))


def again_over_first(records: Sequence[Any]) -> float | None:
    """The default's time at the end of a log over that of its trial; None for a log without an end."""
    trials = {record["id"]: float(record["min"]) for record in records if record["kind"] == "trial" and record.get("min")}
    finals = [record for record in records if record["kind"] == "final" and record.get("default") in trials]
    return float(finals[-1]["default_time"]) / trials[finals[-1]["default"]] if finals else None


def pick_over_best(chosen: str, single: Mapping[str, float], records: Sequence[Any]) -> float:
    """The time of a trial over that of the best one: of those measured in turns at the end of its log, where it is one of them."""
    finals = [record for record in records if record["kind"] == "final"]
    turns = {point["id"]: float(point["min"]) for final in finals[-1:] for point in final["finalists"] if point.get("min")}
    times = turns if chosen in turns else single
    return times[chosen] / min(times.values())


def table(rows: Sequence[Row]) -> Table:
    """The rows, and their medians."""
    found = Table("log", "core", "points", "rank correlation", "pick / best", "predicted / measured", "ms a point")
    for row in rows:
        least, median, most = row.ratios
        spread = f"{least:.2f} {median:.2f} {most:.2f}"
        found.add_row(row.name, row.core, str(row.points), f"{row.correlation:.2f}", f"{row.pick:.2f}", spread, f"{1e3 * row.cost:.1f}")
    found.add_section()
    middle = statistics.median(row.correlation for row in rows)
    found.add_row(
        "median", "", "", f"{middle:.2f}", f"{statistics.geometric_mean(row.pick for row in rows):.2f} (geometric)", "",
        f"{1e3 * statistics.median(row.cost for row in rows):.1f}",
    )  # fmt: skip
    return found


def figures(rows: Sequence[Row]) -> list[Figure]:
    """What the rows of each processor come to, beside the goals."""
    found = []
    for core in dict.fromkeys(row.core for row in rows):
        own = [row for row in rows if row.core == core]
        correlations, picks = [row.correlation for row in own], [row.pick for row in own]
        found += [
            Figure(
                f"rank correlation, {core}: median of {len(own)} spaces", statistics.median(correlations), CORRELATION, "at least", "", {}
            ),
            Figure(f"rank correlation, {core}: least", min(correlations), LEAST, "at least", "", {}),
            Figure(f"the model's pick / best, {core}: geometric mean", statistics.geometric_mean(picks), PICK, "at most", "", {}),
            Figure(f"the model's pick / best, {core}: the worst space", max(picks), WORST_PICK, "at most", "", {}),
        ]
    return found


def section(rows: Sequence[Row]) -> str:
    """The same for docs/performance.md."""
    goals = [
        [figure.name, f"{figure.value:.2f}", f"{figure.sense} {figure.bound:g}", "yes" if figure.kept else "**no**"]
        for figure in figures(rows)
    ]
    lines = []
    for row in rows:
        least, median, most = row.ratios
        spread = f"{least:.2f} {median:.2f} {most:.2f}"
        steady = "" if row.steady is None else f"{row.steady:.2f}"
        lines.append([f"`{row.name}`", row.core, str(row.points), f"{row.correlation:.2f}", f"{row.pick:.2f}", steady, spread])
    heads = ["log", "core ", "points", "rank correlation", "pick / best", "again / first", "predicted / measured: least, median, most "]
    return "\n".join([RECORDED, markdown(["figure", "value", "goal ", "kept "], goals), markdown(heads, lines)])


def main() -> None:
    """Judge the logs that are named, or those that are recorded here."""
    parser = argparse.ArgumentParser(prog="python -m bench.model", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("logs", nargs="*", type=Path)
    parser.add_argument("--points", type=int, default=POINTS, help="points of each log (default: %(default)s)")
    parser.add_argument(
        "--page", type=Path, nargs="?", const=PAGE, metavar="FILE", help="write the table into docs/performance.md, or FILE"
    )
    chosen = parser.parse_args()
    if chosen.page and chosen.logs:
        parser.error("--page is for the logs that are recorded here")
    rows = [judged(path, chosen.points) for path in chosen.logs or sorted(FOLDER.glob("*.jsonl.gz"))]
    Console().print(table(rows))
    if chosen.page:
        written(chosen.page, {("ranking", "recorded logs"): section(rows)})
        print(f"written to {chosen.page}")


if __name__ == "__main__":
    main()
