"""What a tuning job survives: candidates that misbehave, and signals to the parent at random moments. (`bench.log_faults` hurts logs.)

    python -m bench.tuner_faults --kills 200        half an hour; 200 lives ended by SIGKILL, 25 by each other signal
    python -m bench.tuner_faults --kills 5          two minutes

Prints two tables. The exit code is 1 where a finished trial was lost or measured twice, a process outlived the job by two seconds, a
log could not be read, or a fault was not recorded as what it is.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence

from bench import candidate_faults, kills

OTHERS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGSEGV)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaigns and print what they found."""
    parser = argparse.ArgumentParser(prog="bench.tuner_faults", description="Measure what a tuning job survives.")
    parser.add_argument("--kills", type=int, default=200, help="lives to end by SIGKILL; an eighth of it by each other signal")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    if options.kills < 1:
        parser.error("--kills must be at least 1")
    held = [_candidates(), _signals(options.kills, options.seed)]
    return 0 if all(held) else 1


def _candidates() -> bool:
    print("| candidate | recorded as | reason | winner | seconds | kept |\n| --- | --- | --- | --- | ---: | --- |", flush=True)
    held = True
    for where, how in candidate_faults.EXPECTED:
        found = candidate_faults.inject(where, how)
        held = held and found.kept
        won = "valid" if found.won else "NO"
        print(f"| {where}: {how} | {found.status} | {found.why[:60]} | {won} | {found.seconds:.1f} | {_said(found.kept)} |", flush=True)
    return held


def _signals(count: int, seed: int) -> bool:
    heads = (
        "signal",
        "lives ended",
        "trials finished",
        "lost",
        "measured twice",
        "alive after 2 s",
        "slowest end",
        "unreadable",
        "torn",
        "codes",
    )
    print(f"\n| {' | '.join(heads)} |\n|{' --- |' * len(heads)}", flush=True)
    held = True
    for number, lives in ((signal.SIGKILL, count), *((other, max(count // 8, 1)) for other in OTHERS)):
        (name, toll), *_ = kills.campaign([(number, lives)], seed).items()
        held = held and toll.kept
        codes = ", ".join(f"{code} x {times}" for code, times in sorted(toll.codes.items()))
        print(
            f"| {name} | {toll.killed} | {toll.finished} | {toll.lost} | {toll.repeated} | {toll.survivors} | {toll.slowest_s:.2f} s "
            f"| {toll.unreadable} | {toll.torn} | {codes} |",
            flush=True,
        )  # fmt: skip
    print(f"\n{'every promise was kept' if held else 'NOT KEPT: see above'}")
    return held


def _said(kept: bool) -> str:
    return "yes" if kept else "NO"


if __name__ == "__main__":
    sys.exit(main())
