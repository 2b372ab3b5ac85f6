"""What the tuner itself costs: the share of a search's wall time in which no candidate is compiled or measured.

The job is the one of `bench.matmul`, under several seeds, each in a process of its own as the command has it: the first job of a
process also loads the surrogates. The log keeps with every trial how long it took and when it ended, so the wall time here is that from
the start of the first trial to the end of the last, whatever went on between.

    python -m bench.tuner LOG SEED      runs one job in this process
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

from bench import child, matmul
from bench.measure import Figure
from tensorlang.autotune import Log

SEEDS = 3


def job(log: Path, seed: int) -> dict[str, Any]:
    """Run one job and account for its time."""
    matmul.tuned(log, seed)
    trials = list(Log(log))
    first, last = trials[0], trials[-1]
    wall = first.wall_s + last.fields["time_unix"] - first.fields["time_unix"]
    compiling, running = sum(trial.compile_s for trial in trials), sum(trial.run_s for trial in trials)
    return {
        "overhead": (wall - compiling - running) / wall,
        "trials": len(trials),
        "wall_seconds": wall,
        "compile_seconds": compiling,
        "run_seconds": running,
        "statuses": sorted({trial.status for trial in trials}),
    }


def figures(log: Path) -> list[Figure]:
    """The median job."""
    jobs = [child.run("-m", "bench.tuner", log.with_stem(f"{log.stem}-{seed}"), seed) for seed in range(SEEDS)]
    overhead = statistics.median(found["overhead"] for found in jobs)
    name = f"overhead of {matmul.TRIALS} tuning trials, matmul {matmul.SIZE}: share of wall time"
    return [Figure(name, 100 * overhead, 20, "at most", "%", {"jobs": jobs})]


if __name__ == "__main__":
    print(json.dumps(job(Path(sys.argv[1]), int(sys.argv[2]))))
