"""`python -m bench.programs`: see the package."""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import numpy as np

import tensorlang as tl
from bench.peers.tables import table
from bench.programs import arrays, fronts, images, linear, outside, pictures, recurrences
from bench.programs.program import Program
from bench.run import machine
from bench.sections import PAGE, name_of, written
from tensorlang.autotune import tune
from tensorlang.errors import did_you_mean

MODULES: Final = (images, pictures, recurrences, fronts, arrays, linear, outside)
PROGRAMS: Final = tuple(program for module in MODULES for program in module.PROGRAMS)
TURNS: Final = 11
LEAST: Final = 0.02
"""Seconds of a sample, at least."""
TRIALS: Final = 200
NEAR: Final = 2e-3
"""Relative error up to which sums that were added in another order are the same."""
DIFFERENT: Final = 1e-3
"""Whole numbers that may differ, as a share: steps of a bounded point at the edge, the nearer of two equal distances."""


class Row(NamedTuple):
    """Medians of seconds, how many times as fast ours is, and seconds until the kernel was built; where it was tuned, those too."""

    name: str
    ours: float
    theirs: float
    ratio: float
    build: float
    tuned: float | None = None
    tuned_ratio: float | None = None


def compared(program: Program, compiled: Callable[..., None], seconds: float = 0.0) -> Row:
    """A program beside its loops, tuned before for at most so many `seconds`. Raises `SystemExit` where they do not compute the same."""
    outputs, given = program.define()
    start = time.perf_counter()
    kernel = tl.build(outputs)
    build = time.perf_counter() - start
    found = kernel(*given)
    ours = found if isinstance(found, tuple) else (found,)
    theirs = tuple(np.zeros_like(result) for result in ours)
    compiled(*given, *theirs)
    if not all(map(_agree, ours, theirs)):
        raise SystemExit(f"{program.name}: the kernel and the loops differ")
    out = ours if len(ours) > 1 else ours[0]
    sides = [lambda: kernel(*given, out=out), lambda: compiled(*given, *theirs)]
    if seconds:
        tuned = tune(outputs, trials=TRIALS, budget=seconds, threads=1).kernel
        sides.append(lambda: tuned(*given, out=out))
    counts = [_count(side) for side in sides]
    samples: list[list[float]] = [[] for _ in sides]
    for _ in range(TURNS):
        for side, count, taken in zip(sides, counts, samples, strict=True):
            taken.append(_seconds(side, count) / count)
    medians = list(map(statistics.median, samples))
    ratios = [statistics.median(b / a for a, b in zip(taken, samples[1], strict=True)) for taken in samples]
    return Row(program.name, medians[0], medians[1], ratios[0], build, *((medians[2], ratios[2]) if seconds else ()))


def _agree(ours: Any, theirs: Any) -> bool:
    if ours.dtype.kind in "iu":
        return bool((ours != theirs).mean() <= DIFFERENT)
    return bool(np.allclose(ours, theirs, rtol=NEAR, atol=NEAR))


def _seconds(side: Callable[[], Any], count: int) -> float:
    start = time.thread_time()
    for _ in range(count):
        side()
    return time.thread_time() - start


def _count(side: Callable[[], Any]) -> int:
    side()
    count = 1
    while (taken := _seconds(side, count)) < LEAST:
        count = max(count + 1, int(1.2 * count * LEAST / max(taken, 1e-9)))
    return count


def page(rows: list[Row], about: dict[str, Any]) -> str:
    """The section of this machine: a line for each program, the slowest beside its loops first."""
    ratios = [row.ratio for row in rows]
    head = (
        f"### Programs without a schedule on {name_of(about)}\n\n"
        f"`python -m bench.programs --page`, {datetime.now(UTC):%Y-%m-%d}: default schedules on one thread, beside loops that Numba "
        "compiles with fastmath. Microseconds of thread time, in turns.\n\n"
        f"{len(rows)} programs: geometric mean {statistics.geometric_mean(ratios):.2f}, least {min(ratios):.2f}, "
        f"{sum(ratio < 1 for ratio in ratios)} slower than their loops.\n\n"
    )
    columns = ["program", "tensorlang", "numba", "ratio", "seconds to build"]
    lines = [
        [f"`{row.name}`", f"{row.ours * 1e6:.0f}", f"{row.theirs * 1e6:.0f}", f"{row.ratio:.2f}", f"{row.build:.2f}"]
        for row in sorted(rows, key=lambda row: row.ratio)
    ]
    found = {f"`{row.name}`": (row.tuned, row.tuned_ratio) for row in rows if row.tuned is not None and row.tuned_ratio is not None}
    if found:
        tuned = [ratio for _, ratio in found.values()]
        head += (
            f"Tuned (`--tune`, at most {TRIALS} trials): geometric mean {statistics.geometric_mean(tuned):.2f}, least {min(tuned):.2f}, "
            f"{sum(ratio < 1 for ratio in tuned)} slower than their loops.\n\n"
        )
        columns += ["tuned", "ratio of tuned"]
        lines = [
            [*line, *((f"{found[line[0]][0] * 1e6:.0f}", f"{found[line[0]][1]:.2f}") if line[0] in found else ("", ""))] for line in lines
        ]
    return head + table(columns, lines)


def chosen(names: list[str]) -> Iterator[Program]:
    """The programs of these names, or all. Raises `SystemExit` for an unknown one."""
    known = {program.name: program for program in PROGRAMS}
    for name in names or known:
        if name not in known:
            raise SystemExit(f"there is no program {name!r}{did_you_mean(name, list(known))}")
        yield known[name]


def main(arguments: list[str] | None = None) -> int:
    """Compare, print a line for each, and write the table where it is asked for."""
    parser = argparse.ArgumentParser(prog="python -m bench.programs", description=__doc__)
    parser.add_argument("names", nargs="*", help="programs to compare; all without any")
    parser.add_argument(
        "--tune", type=float, default=0.0, metavar="SECONDS", help="tune each program for at most so long, and compare that too"
    )
    parser.add_argument("--page", action="store_true", help="write the table of this machine")
    options = parser.parse_args(arguments)
    import numba  # noqa: PLC0415 - of the extra `peers`

    tl.set_threads(1)
    rows: list[Row] = []
    for program in chosen(options.names):
        rows.append(compared(program, numba.njit(fastmath=True, error_model="numpy")(program.loops), options.tune))
        row = rows[-1]
        tuned = f", tuned {row.tuned_ratio:6.2f}" if row.tuned_ratio is not None else ""
        print(f"{row.name:22s} {row.ours * 1e6:10.1f} us, numba {row.theirs * 1e6:10.1f}, ratio {row.ratio:6.2f}{tuned}", flush=True)
    print(f"geometric mean of {len(rows)}: {statistics.geometric_mean([row.ratio for row in rows]):.2f}")
    if options.page:
        about = machine()
        written(PAGE, {("figures", f"of programs without a schedule on {name_of(about)}"): page(rows, about)})
    return 0


if __name__ == "__main__":
    sys.exit(main())
