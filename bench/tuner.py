"""What the tuner itself costs: the share of a search's wall time in which neither a build nor a measurement runs, and trials a second.

The job is the one of `bench.matmul`, under several seeds, each in a process of its own as the command has it: the first job of a process
also loads the surrogates. A builder compiles the next candidate while one is measured, so their seconds overlap and may not be added up;
the log keeps with every trial when it was built and when it ran (verification included), and the time that at least one of these covers
is subtracted. The wall time is that from the first candidate's start to the last outcome, whatever went on between: the search, the
log, and starting processes.

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
from tensorlang.autotune.jobs.ledger import seconds_covered

SEEDS = 3


def job(log: Path, seed: int) -> dict[str, Any]:
    """Run one job and account for its time."""
    matmul.tuned(log, seed)
    trials = list(Log(log))
    wall = sum(trial.wall_s for trial in trials)  # each is the time since the outcome before it
    busy = seconds_covered(span for trial in trials for span in trial.fields["spans"].values())
    return {
        "overhead": (wall - busy) / wall,
        "trials": len(trials),
        "trials_per_second": len(trials) / wall,
        "wall_seconds": wall,
        "compile_seconds": sum(trial.compile_s for trial in trials),
        "run_seconds": sum(trial.run_s for trial in trials),
        "statuses": sorted({trial.status for trial in trials}),
    }


def figures(log: Path) -> list[Figure]:
    """The median job."""
    jobs = [child.run("-m", "bench.tuner", log.with_stem(f"{log.stem}-{seed}"), seed) for seed in range(SEEDS)]
    overhead = statistics.median(found["overhead"] for found in jobs)
    name = f"overhead of {matmul.TRIALS} tuning trials, matmul {matmul.SIZE}: share of wall time"
    return [Figure(name, 100 * overhead, 10, "at most", "%", {"jobs": jobs})]


if __name__ == "__main__":
    print(json.dumps(job(Path(sys.argv[1]), int(sys.argv[2]))))
