"""Records the logs that `bench.search` searches: every point of a space of each operator, measured once.

    python -m bench.record                  all, about an hour on one thread
    python -m bench.record matmul softmax   these only
    python -m bench.record --like cascadelake      random points of the tasks of that machine's logs, on this one: some ten minutes

A space of more than some 2,000 points is first cut to a grid, so that the table is complete and a search meets real neighbours. What is
kept are the lines of the tuner's own log, which holds all samples, as written by a job of the grid strategy with one thread; the space
is written into `run_start`, so that a table stays readable when strategies change. A job that was stopped goes on where it was.

Logs that are `like` others are whole: the default, random points, and the best of them measured once more in turns. They hold the cost
model against this machine, and are named after its core.
"""

from __future__ import annotations

import argparse
import gzip
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tensorlang.autotune.jobs.tune import session, tune
from tensorlang.autotune.log.log import Log
from tensorlang.autotune.log.record import Trial, from_line, to_line
from tensorlang.autotune.operators import program
from tensorlang.codegen.target import target
from tensorlang.schedules.spaces.space import Space
from tensorlang.serialization.rebuild import rebuild

FOLDER = Path(__file__).resolve().parent / "recorded"
EVERYTHING = 1_000_000


@dataclass(frozen=True, slots=True)
class Recording:
    """An operator, its extents, and the values to which knobs of a large space are cut."""

    operator: str
    extents: Mapping[str, int]
    cut: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def edit(self, space: Space) -> Space:
        """The space to record."""
        for name, values in self.cut.items():
            space = space.restrict(name, values)
        return space


_TILES = {"rows": (1, 2, 4, 6, 8, 12, 14), "vectors": (1, 2, 3, 4), "unroll": (1, 4)}

RECORDINGS: Mapping[str, Recording] = {
    "matmul": Recording("matmul", {"M": 192, "N": 256, "K": 384}, {**_TILES, "depth": (16, 64, 128, 384)}),
    "matmul_other": Recording("matmul", {"M": 256, "N": 384, "K": 192}, {**_TILES, "depth": (16, 64, 128, 192)}),
    "batch_matmul": Recording("batch_matmul", {"B": 4, "M": 96, "N": 128, "K": 128}, {**_TILES, "depth": (8, 16, 32, 128)}),
    "conv2d": Recording(
        "conv2d",
        {"C": 32, "H": 28, "W": 28, "O": 32},
        {"rows": (1, 2, 4, 6, 7, 8, 10, 12, 14), "depth": (8, 16, 32), "conv2d_pad.vectors": (2,)},
    ),
    "depthwise_conv2d": Recording("depthwise_conv2d", {"C": 64, "H": 56, "W": 56}),
    "softmax": Recording("softmax", {"M": 512, "N": 1024}),
    "layer_norm": Recording("layer_norm", {"M": 256, "N": 1024}),
}


def measure(recording: Recording, raw: Path) -> Space:
    """Measure every point into the log `raw`; the space."""
    _, outputs = program(recording.operator, recording.extents)
    job = session(
        outputs,
        raw,
        name=recording.operator,
        space=recording.edit,
        threads=1,
        strategy="grid",
        trials=EVERYTHING,
        budget=None,
        timeout=20.0,
        resume=True,
    )
    job.run()
    return job.plan.space


def compress(raw: Path, space: Space, path: Path) -> None:
    """Write the trials of a log, and the space that they are of, as one compressed file; the same bytes for the same log."""
    described: dict[str, Any] = {"kind": "run_start", "id": "space", "space": space.to_json()}
    lines = [to_line(described)]
    lines += [to_line(record.fields) for record in Log(raw).records("trial") if isinstance(record, Trial)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(b"".join(lines), 9, mtime=0))


def again(path: Path, raw: Path, trials: int) -> Path:
    """Random points of the task of a log, measured here; the log, named after this machine's core."""
    with gzip.open(path) as lines:
        first = next(record for record in map(from_line, lines) if record["kind"] == "trial")
    tune(rebuild(first["task"]["definition"]), trials, raw, strategy="random", threads=1)
    records = [record.fields if isinstance(record, Trial) else record for record in Log(raw).records()]
    named = [{**record, "machine": {**record["machine"], "host": ""}} if "machine" in record else record for record in records]
    made = FOLDER / f"{target().cpu}_{path.name.partition('_')[2]}"
    made.write_bytes(gzip.compress(b"".join(map(to_line, named)), 9, mtime=0))
    return made


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(prog="bench.record", description="Record the tables of bench.search.")
    parser.add_argument("operators", nargs="*", help=f"of {', '.join(RECORDINGS)} (default: all)")
    parser.add_argument("--raw", type=Path, help="folder in which the whole logs are kept, to go on after a stop")
    parser.add_argument("--like", metavar="CORE", help="record the tasks of that core's logs on this machine")
    parser.add_argument("--trials", type=int, default=60, help="of each such task (default: %(default)s)")
    options = parser.parse_args(arguments)
    if unknown := set(options.operators) - set(RECORDINGS):
        parser.error(f"no recording {', '.join(sorted(unknown))}; known: {', '.join(RECORDINGS)}")
    with tempfile.TemporaryDirectory() as folder:
        raw = options.raw or Path(folder)
        if options.like:
            paths = sorted(FOLDER.glob(f"{options.like}_*.jsonl.gz"))
            if not paths:
                parser.error(f"there are no logs of {options.like!r} in {FOLDER.name}")
            for path in paths:
                made = again(path, raw / path.name.replace(".jsonl.gz", ".jsonl"), options.trials)
                print(f"{made.stem}: {made.stat().st_size:,} bytes", flush=True)
            return
        for name in options.operators or RECORDINGS:
            log = raw / f"{name}.jsonl"
            space = measure(RECORDINGS[name], log)
            compress(log, space, FOLDER / f"{name}.jsonl.gz")
            print(f"{name}: {space.count.feasible} points, {(FOLDER / f'{name}.jsonl.gz').stat().st_size:,} bytes", flush=True)


if __name__ == "__main__":
    main()
