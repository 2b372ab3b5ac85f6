"""The whole comparison: for each family several fresh processes, alternating between two allocators, then one line for each row."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from bench.peers import history, isa, rounds, summary, supervise
from bench.peers.engines import ENGINES, OURS
from bench.peers.supervise import Allocator, Found
from bench.peers.workload import Workload
from bench.peers.workloads import FAMILIES
from bench.run import machine

BUDGET_MIN: Final = 25.0
OVERHEAD_S: Final = 2.5
"""For each workload in each process, beside the rounds: libraries are loaded, candidates built and checked. A guess, until it is known."""
LEAST_S: Final = 0.3
QUICK_S: Final = 0.3
LONGEST_S: Final = 6.0
ALLOCATORS: Final[tuple[Allocator, ...]] = ("heap", "default")
MARGIN: Final = 1.5
"""A peer that takes this many times the best peer's time in the first process is not asked again."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; 1 where some row has no figure of ours."""
    options = parsed(arguments)
    left_out = isa.unheld(options.isa)
    for name, why in left_out.items():
        print(f"{name} is left out: {why}", flush=True)
    end = time.monotonic() + 60 * options.budget
    done = {row["workload"] for row in history.read(options.history) if options.resume and row["run"] == options.resume}
    run = options.resume or datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    chosen = [
        (family, [workload for workload in family.workloads if wanted(workload, options.only) and workload.name not in done])
        for family in FAMILIES.values()
        if not options.family or family.name in options.family
    ]
    print(f"run {run}: to continue it, --resume {run}", flush=True)
    common = {
        "run": run,
        "quick": options.quick,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "isa": options.isa,
    }
    complete, overhead = True, OVERHEAD_S
    with tempfile.TemporaryDirectory() as cache:
        for place, (family, workloads) in enumerate(chosen):
            if not workloads:
                continue
            left = sum(len(later) for _, later in chosen[place:])
            start = time.monotonic()
            seconds = QUICK_S if options.quick else share(end - start, left * options.processes, overhead)
            print(f"{family.title}: {len(workloads)} workloads, {seconds:.1f} s of rounds each", flush=True)
            found = processes(workloads, options, family.engines, seconds, Path(cache))
            overhead = (time.monotonic() - start) / (len(workloads) * options.processes) - seconds
            for workload in workloads:
                row = summary.row(workload, family, found)
                complete &= row["ours"] is not None
                facts = {
                    "versions": found[0].versions,
                    "absent": {**found[0].absent, **left_out},
                    "allocators": [part.allocator for part in found],
                }
                history.append(options.history, {**common, **facts, **row})
                print(line(row), flush=True)
    print(f"written to {options.history}")
    return 0 if complete else 1


def share(remaining: float, shares: int, overhead: float) -> float:
    """Seconds of rounds for a workload in a process: what is left when each has its overhead, as the last family had it."""
    return min(max(LEAST_S, remaining / shares - max(overhead, 0.0)), LONGEST_S)


def wanted(workload: Workload, only: Sequence[str]) -> bool:
    """Is the workload asked for?"""
    return not only or workload.name in only


def processes(
    workloads: Sequence[Workload], options: argparse.Namespace, engines: Sequence[str] | None, seconds: float, cache: Path
) -> list[Found]:
    """The first process asks everybody, the others ask those who were near the best."""
    left_out = isa.unheld(options.isa)
    names, threads = [workload.name for workload in workloads], max(workload.threads for workload in workloads)
    job: dict[str, Any] = {
        "engines": [name for name in options.engine or ENGINES if (engines is None or name in engines) and name not in left_out],
        "seconds": seconds,
        "most": rounds.FEWEST if options.quick else rounds.MOST,
        "skip": {name: list(left_out) for name in names},
        "keep": {},
    }
    found = [supervise.run(names, job, ALLOCATORS[0], threads, cache, options.isa)]
    keep: Mapping[str, list[str] | None] = {workload.name: summary.contenders(workload, found[0], MARGIN) for workload in workloads}
    failed = {name: [*left_out, *found[0].failed.get(name, ())] for name in names}
    job |= {"keep": {name: kept for name, kept in keep.items() if kept is not None}, "skip": failed}
    job["engines"] = [engine for engine in job["engines"] if engine == OURS or needed(engine, keep)]
    order = [ALLOCATORS[number % len(ALLOCATORS)] for number in range(1, options.processes)]
    return [*found, *(supervise.run(names, job, allocator, threads, cache, options.isa) for allocator in order)]


def needed(engine: str, keep: Mapping[str, list[str] | None]) -> bool:
    """Does some workload still ask this engine?"""
    return any(kept is None or any(name.split()[0] == engine for name in kept) for kept in keep.values())


def line(row: Mapping[str, Any]) -> str:
    """A row on the screen."""
    if row["ours"] is None:
        return f"  {row['workload']:38} no figure of ours: {row['failed']}"
    text = f"  {row['workload']:38} {row['ours']['rate']:8.1f} {row['unit']}"
    others = sorted(row["peers"], key=lambda name: float(row["peers"][name]["ratio"]))
    text += "".join(f"  {name} {row['peers'][name]['ratio']:.2f}" for name in others[:4])
    return text + "".join(f"\n      {name}: {reason}" for name, reason in row["failed"].items())


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Options. Names that are unknown are usage errors."""
    parser = argparse.ArgumentParser(prog="bench.peers", description="Our kernels beside those of every peer that is installed.")
    parser.add_argument("--family", nargs="+", choices=FAMILIES, default=[], metavar="FAMILY", help=f"of {', '.join(FAMILIES)}")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="workloads by name")
    parser.add_argument("--engine", nargs="+", choices=ENGINES, default=[], metavar="ENGINE", help=f"of {', '.join(ENGINES)}")
    parser.add_argument("--processes", type=int, default=4, help="fresh processes for each family, alternating between two allocators")
    parser.add_argument("--budget", type=float, default=BUDGET_MIN, metavar="MINUTES", help="for everything; it decides the rounds")
    parser.add_argument("--isa", choices=isa.ISAS, default=isa.NATIVE, help="hold everybody to these instructions (default: all there are)")
    parser.add_argument("--quick", action="store_true", help="one process and few rounds: does everything work?")
    parser.add_argument("--resume", metavar="RUN", help="continue a run: its rows are not measured again")
    parser.add_argument("--history", type=Path, default=history.FILE, metavar="FILE")
    options = parser.parse_args(arguments)
    if unknown := set(options.only) - {workload.name for family in FAMILIES.values() for workload in family.workloads}:
        parser.error(f"no workload {', '.join(sorted(unknown))}")
    if (why := isa.why_not(options.isa)) is not None:
        parser.error(f"--isa {options.isa} cannot be measured here: {why}")
    if options.engine and OURS not in options.engine:
        options.engine.insert(0, OURS)
    if options.quick:
        options.processes = 1
    return options
