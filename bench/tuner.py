"""What the tuner itself costs: the share of a search's wall time in which no candidate is compiled or measured.

The job is the one of `bench.matmul`. Its log keeps with every trial how long it took and when it ended, so the wall time here is that
from the start of the first trial to the end of the last, whatever went on between.
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
    first, last = trials[0], trials[-1]
    wall = first.wall_s + last.fields["time_unix"] - first.fields["time_unix"]
    compiling, running = sum(trial.compile_s for trial in trials), sum(trial.run_s for trial in trials)
    facts = {
        "trials": len(trials),
        "wall_seconds": wall,
        "compile_seconds": compiling,
        "run_seconds": running,
        "statuses": sorted({trial.status for trial in trials}),
    }
    name = f"overhead of {len(trials)} tuning trials, matmul {matmul.SIZE}: share of wall time"
    return [Figure(name, 100 * (wall - compiling - running) / wall, 20, "at most", "%", facts)]
