"""Does the tuner say the right thing beside others? A gain that is known, and one that is none, beside busy processes on the measured core.

    python -m bench.noise                       20 jobs each, beside 0, 1, 2 and 4 processes; a quarter of an hour
    python -m bench.noise --runs 5 --beside 0 4
    python -m bench.noise --units 4000          calls longer than a share of the core, of which no sample is ever undisturbed

Each job is a whole one, search and final measurement, of two points: the default, and one that does the same work (1.0x) or five sixths
of it (1.2x). A verdict is right where the 1.2x wins and where the default stands beside the 1.0x. The exit code is 1 where a wrong one
won, or where in more than one run of twenty the verdict was neither right nor "undecided".
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import tensorlang as tl
from tensorlang.autotune.jobs.plan import TaskPlan
from tensorlang.autotune.jobs.session import Session
from tensorlang.autotune.log.log import Log
from tensorlang.autotune.measurement import host
from tensorlang.autotune.measurement.quality import Quality, doubtful
from tensorlang.autotune.settings import Settings
from tensorlang.autotune.task import Task, longest_reduction, specs
from tensorlang.codegen.target import target
from tensorlang.schedules.spaces.space import Choice, Flag, Space

ROOT: Final = str(Path(__file__).parent.parent)
GAIN: Final = (6, 5)
"""Work of the default and of the candidate that is faster."""
MISSES: Final = 1 / 20
BUSY: Final = "import os, sys\nos.sched_setaffinity(0, {int(sys.argv[1])})\nwhile True: pass"


@contextlib.contextmanager
def busy(count: int, core: int) -> Iterator[None]:
    """So many processes that never leave a core, meanwhile."""
    others = [subprocess.Popen([sys.executable, "-c", BUSY, str(core)]) for _ in range(count)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def verdict(units: int, gain: bool, seed: int, log: Path) -> tuple[str, float | None]:
    """What a job says of a candidate: "right", "undecided", "missed" (it was faster) or "wrong" (it was not); and the speed-up."""
    x = tl.placeholder((100,), name="X")
    outputs = (tl.compute((100,), lambda i: x[i] * 2, name="Y"),)
    task = Task(outputs, "twice", {"stands": "in"}, "f" * 64, "a" * 64, (100,), *specs(outputs), longest_reduction(outputs))
    base = {"units": units * GAIN[0], "other": False}
    other = {"units": units * GAIN[1] if gain else base["units"], "other": True}
    knobs = (Choice("units", tuple(dict.fromkeys((base["units"], other["units"])))), Flag("other"))
    space = Space(knobs).where(lambda point: point in (base, other), "one of two")
    settings = Settings(trials=2, seed=seed, strategy="random", builder="bench.noise_kernels:build", path=(ROOT,))
    result = Session(task, TaskPlan("stand-in", space, base), target(), settings, Log(log)).run()
    won = result.best.config != base
    if doubtful(result.quality):
        said = "undecided" if result.quality is Quality.UNDECIDED or not won else "doubtful"
    else:
        said = "right" if won == gain else "wrong" if won else "missed"
    return said, result.speedup


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the jobs and print how often each verdict came."""
    parser = argparse.ArgumentParser(prog="bench.noise", description="Measure what the tuner says beside busy processes.")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--beside", type=int, nargs="+", default=[0, 1, 2, 4])
    parser.add_argument("--units", type=int, default=20, help="units of work in a sixth of the default's")
    parser.add_argument("--out", type=Path, help="a JSON file for the counts")
    options = parser.parse_args(arguments)
    core = (host.pinned(1) or host.cores())[-1]
    print("| beside | candidate | right | undecided | doubtful | missed | wrong | speed-ups | seconds a job |")
    print("| ---: | --- | ---: | ---: | ---: | ---: | ---: | --- | ---: |", flush=True)
    held, rows = True, []
    for beside in options.beside:
        for gain in (True, False):
            counts, ratios, start = Counter[str](), list[float](), time.perf_counter()
            for seed in range(options.runs):
                with tempfile.TemporaryDirectory() as folder, busy(beside, core):
                    said, ratio = verdict(options.units, gain, seed, Path(folder) / "a.jsonl")
                counts[said] += 1
                ratios += [] if ratio is None or said in ("undecided", "missed") or not gain else [ratio]
            seconds = (time.perf_counter() - start) / options.runs
            span = f"{min(ratios):.2f} to {max(ratios):.2f}" if ratios else "-"
            names = ("right", "undecided", "doubtful", "missed", "wrong")
            cells = (beside, "1.2x" if gain else "1.0x", *(counts[name] for name in names), span, f"{seconds:.1f}")
            print(f"| {' | '.join(map(str, cells))} |", flush=True)
            rows.append({"beside": beside, "gain": gain, "runs": options.runs, **{name: counts[name] for name in names}})
            held = held and not counts["wrong"] and counts["right"] + counts["undecided"] >= (1 - MISSES) * options.runs
    if options.out is not None:
        options.out.write_text(json.dumps(rows, indent=1) + "\n")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
