"""What the tuner itself costs: the share of a job's wall time in which no candidate is compiled or measured.

The job is the one of `bench.matmul`; the times are those that its log keeps with every trial.
"""

from __future__ import annotations

from pathlib import Path

from bench import matmul
from bench.measure import Figure
from tensorlang.autotune import Log


def figures(log: Path) -> list[Figure]:
    """One figure, over the trials of the log."""
    matmul.tuned(log)
    trials = list(Log(log))
    wall = sum(trial.wall_s for trial in trials)
    busy = sum(trial.compile_s + trial.run_s for trial in trials)
    facts = {
        "trials": len(trials),
        "wall_seconds": wall,
        "compile_seconds": sum(trial.compile_s for trial in trials),
        "run_seconds": sum(trial.run_s for trial in trials),
        "statuses": sorted({trial.status for trial in trials}),
    }
    name = f"overhead of {len(trials)} tuning trials, matmul {matmul.SIZE}: share of wall time"
    return [Figure(name, 100 * (wall - busy) / wall, 20, "at most", "%", facts)]
