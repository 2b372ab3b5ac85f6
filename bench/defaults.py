"""Default schedules against tuned ones, on forty tasks that no constant was fitted on (see `unfitted`): how far off is the model's best?

    python -m bench.defaults                             200 trials of each task: hours, on a quiet machine
    python -m bench.defaults --trials 20 --tasks 3       does it work?

Each task is a tuning job on one thread with a log of its own, below `--folder` by machine and instructions. What was measured is not
measured again: a run that was stopped, or whose `--budget` was used up, goes on where it was. A row is the ratio of the default's time to
the winner's, as the job's final measurement has it, taken in turns. Where vectors are wider than those of AVX2, everything is measured
once more without what x86-64-v3 lacks. The table of this machine in docs/performance.md is written after each task, and no other one.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from bench import startup
from bench.child import ROOT
from bench.measure import Figure
from bench.peers.isa import AVX2, ISAS, NATIVE, is_wider, ours, why_not
from bench.peers.tables import table
from bench.run import machine
from bench.sections import PAGE, name_of, written
from bench.unfitted import UnfittedTask, tasks
from tensorlang.autotune import tune
from tensorlang.errors import TensorlangError

FOLDER: Final = ROOT / "out" / "model"
TRIALS: Final = 200
MEAN: Final = 1.05
WORST: Final = 1.2
"""What the defaults may take of the winners' time: in the geometric mean, and none of them."""


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """What is known of each task, the last line of each; a torn line, which only a killed run can leave, is passed over."""
    found: dict[str, dict[str, Any]] = {}
    file = folder / "rows.jsonl"
    for line in file.read_text().splitlines() if file.exists() else ():
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            continue
        found[row["task"]] = row
    return list(found.values())


def measured(task: UnfittedTask, folder: Path, isa: str, trials: int, budget: float | None) -> dict[str, Any]:
    """Tune one task, or go on with it; the row of what came of it. What is no schedule at all is a row with the reason."""
    told: dict[str, Any] = {
        "task": task.name,
        "kind": task.kind.name,
        "wanted": trials,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    try:
        result = tune(
            task.outputs(), trials, folder / f"{task.name}.jsonl", name=task.kind.name, threads=1, target=ours(isa), budget=budget
        )  # fmt: skip
    except TensorlangError as error:
        return told | {"ratio": None, "why": str(error).splitlines()[0]}
    default = result.default
    told |= {"ratio": result.speedup, "trials": len(result.records), "best": result.best.time, "reason": result.reason}
    told |= {"default": None if default is None else default.time, "config": result.best.config}
    return told if result.speedup is not None else told | {"why": "the default has no time"}


def is_done(row: Mapping[str, Any], trials: int) -> bool:
    """Was the task measured to the end, with as many trials as are wanted or all that its space has?"""
    return row["ratio"] is not None and (row["trials"] >= trials or row["reason"] == "exhausted" or row["wanted"] >= trials)


def section(name: str, rows: Sequence[Mapping[str, Any]], build: Figure | None) -> str:
    """The table of a machine."""
    lines = []
    for row in sorted(rows, key=lambda row: (row["ratio"] is None, -(row["ratio"] or 0.0))):
        ratio, trials = row["ratio"], str(row.get("trials", ""))
        if ratio is None:
            lines.append([f"`{row['task']}`", "", "", "", trials, row["why"]])
            continue
        spent = f"{row['default'] * 1e6:.4g}", f"{row['best'] * 1e6:.4g}"
        lines.append([f"`{row['task']}`", f"{ratio:.2f}", *spent, trials, "**too slow**" if ratio > WORST else ""])
    parts = [f"### {name}\n", "The default against the best that the tuner found, on tasks that no constant was fitted on.\n"]
    parts.append(table(["figure", "value", "goal ", "kept "], list(summary(rows, build))))
    parts.append(table(["task", "default / best", "default, us", "best, us", "trials", "note "], lines))
    return "\n".join(parts)


def summary(rows: Sequence[Mapping[str, Any]], build: Figure | None) -> Iterator[list[str]]:
    """The figures above the table."""
    for figure in figures(rows) + ([] if build is None else [build]):
        value = f"{figure.value:.3g} {figure.unit}".strip()
        yield [figure.name, value, f"{figure.sense} {figure.bound:g}", "yes" if figure.kept else "**no**"]


def figures(rows: Sequence[Mapping[str, Any]]) -> list[Figure]:
    """What the ratios come to."""
    ratios = [row["ratio"] for row in rows if row["ratio"] is not None]
    if not ratios:
        return []
    mean = statistics.geometric_mean(ratios)
    return [
        Figure(f"default / best of tuned trials, {len(ratios)} tasks, geometric mean", mean, MEAN, "at most", "", {}),
        Figure("default / best of tuned trials, the worst task", max(ratios), WORST, "at most", "", {}),
    ]


def first_build() -> Figure:
    """The time of a first build of matmul 512."""
    return startup.builds()[0]


def folder_of(folder: Path, name: str) -> Path:
    """Where the logs of a machine and its instructions are."""
    return folder / re.sub(r"[^A-Za-z0-9.+-]+", "_", name).strip("_")


def campaign(options: argparse.Namespace, isa: str, end: float) -> list[dict[str, Any]]:
    """Measure what is missing for one set of instructions, until the time is over; all rows that are known then."""
    name = name_of(machine(), isa)
    folder = folder_of(options.folder, name)
    folder.mkdir(parents=True, exist_ok=True)
    build: Figure | None = None if options.no_build else first_build()
    for task in tasks()[: options.tasks]:
        known = {row["task"]: row for row in rows_of(folder)}
        if task.name in known and is_done(known[task.name], options.trials):
            continue
        if (left := end - time.monotonic()) <= 0:
            print(f"{name}: the budget is used up; the same command goes on", flush=True)
            break
        row = measured(task, folder, isa, options.trials, left if options.budget else None)
        with (folder / "rows.jsonl").open("a") as lines:
            lines.write(json.dumps(row) + "\n")
        told = row["why"] if row["ratio"] is None else f"default / best {row['ratio']:.3f} after {row['trials']} trials"
        print(f"{name}: {task.name}: {told}", flush=True)
        written(options.page, {("model", name): section(name, rows_of(folder), build)})
    rows = rows_of(folder)
    if rows:
        written(options.page, {("model", name): section(name, rows, build)})
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write; 1 where a goal is not kept."""
    parser = argparse.ArgumentParser(prog="bench.defaults", description="Default schedules against tuned ones, on tasks drawn by a rule.")
    parser.add_argument("--trials", type=int, default=TRIALS, help="of each task (default: %(default)s)")
    parser.add_argument("--tasks", type=int, default=len(tasks()), help="how many, one of each kind first (default: all %(default)s)")
    parser.add_argument("--budget", type=float, default=0.0, metavar="MINUTES", help="stop after that; the same command goes on")
    parser.add_argument("--isa", choices=ISAS, help=f"only for these instructions (default: native, and {AVX2} where native is wider)")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="of the logs (default: out/model)")
    parser.add_argument("--page", type=Path, default=PAGE, metavar="FILE")
    parser.add_argument("--no-build", action="store_true", help="leave out the time of a first build")
    options = parser.parse_args(arguments)
    if options.isa and (why := why_not(options.isa)) is not None:
        parser.error(f"--isa {options.isa} cannot be measured here: {why}")
    if options.trials < 1 or options.tasks < 1 or options.budget < 0:
        parser.error("--trials and --tasks are at least 1, --budget at least 0")
    end = time.monotonic() + (60 * options.budget or float("inf"))
    kept = True
    for isa in [options.isa] if options.isa else [NATIVE, *([AVX2] if is_wider(AVX2) and why_not(AVX2) is None else [])]:
        kept &= all(figure.kept for figure in figures(campaign(options, isa, end)))
    print(f"written to {options.page}")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
