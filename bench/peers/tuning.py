"""Schedules for a named subset of the workloads, searched on this machine: at most 200 trials and 10 minutes each.

python -m bench.peers.tuning FOLDER [--budget SECONDS] [--trials N] [--only NAME ...]

The comparison uses what the folder knows where `TENSORLANG_BENCH_DATABASE` names it, and shows the default schedule beside it
(`make bench-tuned` does all of it). The subset was named before anything was tuned. The tuner times calls that pack their weights; the
comparison packs constant ones before: so the convolutions here are those whose packing is little beside their arithmetic.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench.peers.definitions import definition
from bench.peers.workload import Workload
from bench.peers.workloads import FAMILIES
from tensorlang.autotune import tune

SUBSET: Final = (
    *("matmul_512", "matmul_2048", "matmul_333", "matmul_bert_128x3072x768", "matmul_skinny_32x4096x4096", "vecmat_4096"),
    *("conv7x7s2_3-64_224", "conv1x1_64-64_56", "conv3x3_64-64_56", "conv1x1_256-128_56"),
    *("conv3x3s2_128-128_56", "conv1x1_128-512_28", "conv3x3_128-128_28", "conv3x3_256-256_14"),
    *("depthwise3x3_512_14", "depthwise5x5s2_144_56", "depthwise5x5_1152_7"),
)
"""Six products of matrices, eight convolutions, three depthwise ones."""
TRIALS: Final = 200
BUDGET_S: Final = 600.0


def workloads(names: Sequence[str] = SUBSET) -> list[Workload]:
    """The workloads of these names, in the order of the families."""
    return [workload for family in FAMILIES.values() for workload in family.workloads if workload.name in names]


def tuned(workload: Workload, folder: Path, trials: int, budget: float) -> str:
    """Search on one thread, and say what came of it; a job that was interrupted goes on."""
    return str(tune(definition(workload), trials, folder, name=workload.name, threads=1, budget=budget))


def main(arguments: Sequence[str] | None = None) -> None:
    """Tune one after the other."""
    parser = argparse.ArgumentParser(prog="bench.peers.tuning", description="Tune the named subset of the comparison's workloads.")
    parser.add_argument("folder", type=Path, help="where the tuning logs go")
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument("--budget", type=float, default=BUDGET_S, metavar="SECONDS", help="for each")
    parser.add_argument("--only", nargs="+", choices=SUBSET, default=SUBSET, metavar="NAME", help="some of the subset")
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    for workload in workloads(options.only):
        print(tuned(workload, options.folder, options.trials, options.budget), flush=True)


if __name__ == "__main__":
    main()
