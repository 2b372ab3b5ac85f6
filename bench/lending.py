"""Can a database hurt? Pairs of a shape and a log of another shape: how fast is what the log lends beside the default schedule?

    python -m bench.lending logs/                   tunes some shapes of each family into logs/ (once), then 200 pairs; half an hour
    python -m bench.lending logs/ --pairs 40
    python -m bench.lending logs/ --anything        also what is refused, to see what the rule is worth

A pair is compiled with a database of that log alone and without one; where the two are different code, both are timed in turns on one
thread, by samples that nothing interrupted or the thread's own time, and what seems to lose is timed again, longer. The exit code is 1
where one is below 0.95 of the other.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

import tensorlang as tl
from tensorlang.autotune import Database, tune
from tensorlang.autotune.log import lending
from tensorlang.autotune.measurement.arrays import inputs
from tensorlang.autotune.measurement.measure import Policy, interleave
from tensorlang.autotune.measurement.timer import timer_of
from tensorlang.autotune.operators import program
from tensorlang.autotune.task import specs
from tensorlang.errors import TensorlangError

BOUND: Final = 0.95
TUNED: Final[dict[str, tuple[dict[str, int], ...]]] = {
    "matmul": (
        {"M": 128, "N": 256, "K": 512}, {"M": 64, "N": 64, "K": 64}, {"M": 384, "N": 384, "K": 384}, {"M": 16, "N": 1024, "K": 256},
        {"M": 512, "N": 128, "K": 1024},
    ),
    "batch_matmul": ({"B": 8, "M": 64, "N": 64, "K": 64}, {"B": 4, "M": 128, "N": 96, "K": 32}),
    "conv2d": (
        {"C": 32, "H": 28, "W": 28, "O": 32}, {"C": 16, "H": 56, "W": 56, "O": 64},
        {"C": 64, "H": 14, "W": 14, "O": 64, "R": 1, "S": 1, "padding": 0},
    ),
    "depthwise_conv2d": ({"C": 32, "H": 56, "W": 56}, {"C": 96, "H": 14, "W": 14}),
    "max_pool2d": ({"C": 32, "H": 56, "W": 56},),
    "conv1d": ({"C": 32, "L": 512, "O": 32},),
    "softmax": ({"M": 256, "N": 512},),
    "layer_norm": ({"M": 256, "N": 768},),
}  # fmt: skip
"""Shapes that are tuned, by operator."""
FACTORS: Final = (0.25, 0.5, 0.75, 0.9, 1.0, 1.0, 1.0, 1.1, 1.5, 2.0, 4.0, 8.0)
FIXED: Final = frozenset(("R", "S", "stride", "padding"))
MOST: Final = 1 << 29
"""Operations of a call beyond which a pair takes too long."""
POLICY: Final = Policy(sample_s=5e-4, rounds=25, total_s=1.0)
LONGER: Final = Policy(sample_s=1e-3, rounds=80, total_s=4.0)
Pair = tuple[str, dict[str, int], Path]


def tuned(folder: Path, trials: int) -> list[tuple[str, dict[str, int], Path]]:
    """The logs, one for each shape that is tuned; those that are there stay as they are."""
    found = []
    for name, shapes in TUNED.items():
        for extents in shapes:
            path = folder / f"{name}-{'-'.join(f'{key}{value}' for key, value in extents.items())}.jsonl"
            result = tune(program(name, extents)[1], trials=trials, log=path, threads=1, seed=0)
            print(f"{path.stem}: {result.speedup or 1:.2f}x its default ({result.quality})", file=sys.stderr, flush=True)
            found.append((name, extents, path))
    return found


def pairs(logs: Sequence[Pair], count: int, seed: int) -> Iterator[Pair]:
    """So many shapes with the log of another shape of the family."""
    rng, seen, made = np.random.default_rng(seed), set[str](), 0
    while made < count:
        name, extents, path = logs[made % len(logs)]
        wanted = {
            key: value if key in FIXED else max(1, round(value * FACTORS[rng.integers(len(FACTORS))])) for key, value in extents.items()
        }
        key = f"{path} {wanted}"
        try:
            outputs = program(name, wanted)[1]
        except TensorlangError:
            continue
        if wanted == extents or key in seen or tl.build(outputs).cost()["flops"] > MOST:
            continue
        seen.add(key)
        made += 1
        yield name, wanted, path


def ratio(outputs: Any, ours: Any, theirs: Any, policy: Policy) -> float:
    """How many times as fast `ours` is as `theirs`: the median over rounds."""
    given, _ = specs((outputs,) if isinstance(outputs, tl.Tensor) else outputs)[:2]
    arrays = [guarded.array for guarded in inputs(given, 0)]
    out = theirs(*arrays)
    calls = [kernel.bind(*arrays, out=out) for kernel in (ours, theirs)]
    for call in calls:
        call()
    mine, other = interleave(calls, policy, timer=timer_of(1))
    return statistics.median(b / a for a, b in zip(mine.samples, other.samples, strict=True))


def measured(pair: Pair) -> dict[str, Any]:
    """What a pair comes to."""
    name, extents, path = pair
    outputs = program(name, extents)[1]
    start = time.process_time()
    default = tl.compile(outputs)
    between = time.process_time()
    database = Database(path)
    looked = time.process_time()
    match = database.best(outputs, threads=1)
    after = time.process_time()
    kernel = tl.compile(outputs, database=database)
    row: dict[str, Any] = {
        "operator": name, "extents": extents, "log": path.stem, "provenance": kernel.provenance, "reason": kernel.provenance_reason,
        "compile_s": between - start, "look_up_s": after - looked, "ratio": 1.0, "kind": match.kind,
    }  # fmt: skip
    if kernel.provenance != "default":
        row["ratio"] = ratio(outputs, kernel, default, POLICY)
        if row["ratio"] < BOUND + 0.03:
            row["first"] = row["ratio"]
            row["ratio"] = ratio(outputs, kernel, default, LONGER)
    return row


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the pairs and print what came of them."""
    parser = argparse.ArgumentParser(prog="bench.lending", description="Measure whether a database of another shape can hurt.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--trials", type=int, default=24)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--anything", action="store_true", help="serve whatever has a counterpart")
    parser.add_argument("--out", type=Path, help="a file of JSON lines, one for each pair")
    options = parser.parse_args(arguments)
    tl.set_threads(1)
    if options.anything:
        lending.FARTHEST, lending.AHEAD, lending.LEAST = float("inf"), 0.0, 0.0  # type: ignore[misc]
    options.folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for pair in pairs(tuned(options.folder, options.trials), options.pairs, options.seed):
        rows.append(measured(pair))
        if options.out is not None:
            with options.out.open("a") as file:
                file.write(json.dumps(rows[-1]) + "\n")
        if rows[-1]["provenance"] != "default":
            told = f"{rows[-1]['operator']} {rows[-1]['extents']} from {rows[-1]['log']}"
            print(f"{rows[-1]['ratio']:.2f}  {told}: {rows[-1]['reason']}", flush=True)
    lent = [row["ratio"] for row in rows if row["provenance"] != "default"]
    print(f"{len(rows)} pairs: {dict(Counter(row['provenance'] for row in rows))}")
    if lent:
        print(f"of those that were lent one: least {min(lent):.2f}, median {statistics.median(lent):.2f}, largest {max(lent):.2f}")
        print(f"below {BOUND}: {sum(value < BOUND for value in lent)}")
    looked = [row["look_up_s"] for row in rows]
    print(f"a first look-up takes {1e3 * statistics.median(looked):.1f} ms of processor time (median), at most {1e3 * max(looked):.0f} ms")
    return 0 if all(value >= BOUND for value in lent) else 1


if __name__ == "__main__":
    sys.exit(main())
