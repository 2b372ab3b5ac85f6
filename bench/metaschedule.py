"""A short search of ours against MetaSchedule's 64 trials: which finds the faster kernel, in what time.

    python -m bench.metaschedule --tvm /path/to/python     the table; everything behind it in results/metaschedule.json
    python -m bench.metaschedule matmul --trials 8         quicker; results of the other operators stay as they are

TVM needs versions of its own, so it runs in another Python, as a child process (`bench.metaschedule_peer`). For each operator,
float32 and one thread, MetaSchedule searches first; its wall time leaves out what TVM spends on loading. Then `tune` has a quarter of
that, with everything that it does on the clock. Then both winners run on the same core in turns, called from Python with arrays that
are there, and the result of each has to be NumPy's.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
import timeit
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np

import tensorlang as tl
from bench.child import ROOT
from bench.measure import Figure, interleave
from bench.run import machine
from tensorlang.autotune import tune

RESULTS: Final = Path(__file__).resolve().parent / "results"
PEER: Final = Path(__file__).resolve().with_name("metaschedule_peer.py")
INSTALL: Final = "pip install apache-tvm==0.27.0.post1 'apache-tvm-ffi<0.1.15' xgboost-cpu cloudpickle numpy psutil scipy tornado"
"""With apache-tvm-ffi 0.1.15 this TVM crashes when it writes a module."""
TRIALS: Final = 64
BATCH: Final = 32
"""MetaSchedule's trials between two lessons of its cost model: with all in one batch it would never have learnt."""
SHARE: Final = 0.25
"""Of MetaSchedule's wall time that ours may take."""
MARGIN: Final = 0.94
"""Of the share that is given as the budget: the end of the last trial may be a little late."""
PAIRS: Final = 31
LINE: Final = 64
LONGEST_S: Final = 3600.0

Array: TypeAlias = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Operator:
    """What is computed: our definition, the shapes of its operands, and what the result has to be, from float64 operands."""

    define: Callable[..., tl.Tensor]
    shapes: tuple[tuple[int, ...], ...]
    reference: Callable[..., Array]

    def definition(self) -> tl.Tensor:
        """The operator, over placeholders of its own."""
        return self.define(*(tl.placeholder(shape, name=f"operand{place}") for place, shape in enumerate(self.shapes)))

    def operands(self) -> list[Array]:
        """Normally distributed."""
        rng = np.random.default_rng(0)
        return [aligned(rng.standard_normal(shape, "float32")) for shape in self.shapes]


def aligned(array: Array) -> Array:
    """A copy that begins at a line of the cache, as TVM's arrays do; NumPy's large ones lie 16 bytes behind one."""
    room = np.empty(array.nbytes + LINE, "uint8")
    skipped = -room.ctypes.data % LINE
    copy = room[skipped : skipped + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def _windows(x: Array) -> Array:
    return np.lib.stride_tricks.sliding_window_view(np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))), (3, 3), axis=(2, 3))


def _softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


OPERATORS: Final[Mapping[str, Operator]] = {
    "conv2d": Operator(
        lambda x, w: tl.ops.conv2d(x, w, padding=1),
        ((1, 64, 56, 56), (64, 64, 3, 3)),
        lambda x, w: np.einsum("nchwrs,ocrs->nohw", _windows(x), w, optimize=True),
    ),
    "softmax": Operator(tl.ops.softmax, ((128, 1000),), _softmax),
    "depthwise_conv2d": Operator(
        lambda x, w: tl.ops.depthwise_conv2d(x, w, padding=1),
        ((1, 96, 56, 56), (96, 1, 3, 3)),
        lambda x, w: np.einsum("nchwrs,crs->nchw", _windows(x), w[:, 0]),
    ),
    "matmul": Operator(tl.ops.matmul, ((1024, 1024), (1024, 1024)), np.matmul),
}


class Served(timeit.Timer):
    """A timer of the kernel in a child process that serves it."""

    def __init__(self, child: subprocess.Popen[str]) -> None:
        super().__init__()
        self._child = child

    def timeit(self, number: int = 1) -> float:
        """The seconds that so many calls take there."""
        assert self._child.stdin is not None
        self._child.stdin.write(f"{number}\n")
        self._child.stdin.flush()
        return float(answer(self._child))


def answer(child: subprocess.Popen[str]) -> Any:
    """The next line of the child. Raises `RuntimeError` if it has ended instead."""
    assert child.stdout is not None
    if line := child.stdout.readline():
        return json.loads(line)
    raise RuntimeError(f"TVM's process ended with {child.wait()}")


def close_to(operator: Operator, found: Array, operands: Sequence[Array]) -> None:
    """Raises `AssertionError` where a result is not NumPy's."""
    wanted = operator.reference(*(array.astype("float64") for array in operands))
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5 * np.abs(wanted).max())


@contextlib.contextmanager
def one_core() -> Iterator[None]:
    """Keep this process, and those that it starts, on one core."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def searched_by_tvm(python: Path, name: str, folder: Path, trials: int, seed: int) -> dict[str, Any]:
    """MetaSchedule's search. Raises `RuntimeError` where it fails or finds nothing."""
    command = [str(part) for part in (python, PEER, "tune", name, folder, trials, min(BATCH, trials), seed)]
    with (folder / "messages").open("w") as messages:
        done = subprocess.run(
            command, env=environment(), stdout=subprocess.PIPE, stderr=messages, text=True, timeout=LONGEST_S, check=False
        )
    if done.returncode:
        last = (folder / "messages").read_text().splitlines()[-5:]
        raise RuntimeError("\n".join([f"MetaSchedule ended with {done.returncode}; a suitable TVM: {INSTALL}", *last]))
    found: dict[str, Any] = json.loads(done.stdout)
    if found["reported_seconds"] is None:
        raise RuntimeError(f"none of MetaSchedule's {found['trials']} trials is valid")
    return found


def environment() -> dict[str, str]:
    """That of the child: one thread, as ours."""
    return {**os.environ, "TVM_NUM_THREADS": "1"}


def measure(name: str, python: Path, trials: int, seed: int) -> dict[str, Any]:
    """Both searches, then both winners in turns."""
    operator = OPERATORS[name]
    operands = operator.operands()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        np.savez(folder / "inputs.npz", *operands)
        theirs = searched_by_tvm(python, name, folder, trials, seed)
        budget = MARGIN * SHARE * theirs["wall_seconds"]
        start = time.perf_counter()
        result = tune(operator.definition(), trials=10_000, budget=budget, threads=1, log=folder / "ours.jsonl", seed=seed)
        wall = time.perf_counter() - start
        pairs = timed(operator, result.kernel, operands, python, name, folder)
    ours = {
        "wall_seconds": wall,
        "trials": len(result.records),
        "statuses": dict(Counter(trial.status for trial in result.records)),
        "reported_seconds": result.best.time,
        "reason": result.reason,
        "configuration": dict(result.best.config),
        "over_default": result.speedup,
    }
    return {"operator": name, "shapes": operator.shapes, "machine": machine(), "ours": ours, "tvm": theirs, **pairs}


def timed(operator: Operator, kernel: Any, operands: Sequence[Array], python: Path, name: str, folder: Path) -> dict[str, Any]:
    """Both winners on one core, checked and then in turns."""
    with (
        one_core(),
        (folder / "messages").open("a") as messages,
        subprocess.Popen(
            [python, PEER, "serve", name, folder],
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=messages,
            text=True,
        ) as child,
    ):
        answer(child)
        close_to(operator, np.load(folder / "output.npy"), operands)
        out = aligned(kernel(*operands))
        kernel(*operands, out=out)
        close_to(operator, out, operands)
        names = [f"operand{place}" for place in range(len(operands))]
        variables = {**dict(zip(names, operands, strict=True)), "kernel": kernel, "result": out}
        pairs = interleave(timeit.Timer(f"kernel({', '.join(names)}, out=result)", globals=variables), Served(child), pairs=PAIRS)
    return {"speed_ratio": pairs.speed_ratio, **pairs.facts()}


def figures(row: Mapping[str, Any]) -> list[Figure]:
    """The two bounds on an operator: the faster kernel, in the shorter time."""
    share = row["ours"]["wall_seconds"] / row["tvm"]["wall_seconds"]
    name = f"{row['operator']}, {row['tvm']['trials']} trials of MetaSchedule"
    return [
        Figure(f"{name}: speed of our winner by theirs", row["speed_ratio"], 1.0, "at least", "x", {}),
        Figure(f"{name}: wall time of our search by theirs", share, SHARE, "at most", "", {}),
    ]


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """One line for each operator, in Markdown."""
    side = "trials | wall s | kernel us"
    lines = [
        f"| operator | MetaSchedule: {side} | ours: {side} | wall ratio | speed ratio | spread | kept |",
        "| --- |" + " ---: |" * 9 + " --- |",
    ]
    for row in rows:
        theirs, ours = row["tvm"], row["ours"]
        speed, share = figures(row)
        cells = [
            f"{row['operator']} {' '.join('x'.join(map(str, shape)) for shape in row['shapes'])}",
            f"{theirs['trials']} ({theirs['failed']} failed)",
            f"{theirs['wall_seconds']:.1f}",
            f"{1e6 * row['theirs_seconds']:.1f}",
            str(ours["trials"]),
            f"{ours['wall_seconds']:.1f}",
            f"{1e6 * row['ours_seconds']:.1f}",
            f"{share.value:.3f}",
            f"{speed.value:.2f}",
            f"{row['spread']:.1%}",
            "yes" if speed.kept and share.kept else "NO",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def written(rows: Sequence[Mapping[str, Any]], file: Path) -> None:
    """Put the rows into the file, in place of former ones of the same operators."""
    former = json.loads(file.read_text())["rows"] if file.exists() else []
    every = {row["operator"]: row for row in [*former, *rows]}
    bounds = [figure.to_json() for row in every.values() for figure in figures(row)]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"figures": bounds, "rows": list(every.values())}, indent=1) + "\n")


def has_tvm(python: Path) -> bool:
    """Can this Python import TVM?"""
    return subprocess.run([python, "-c", "import tvm"], capture_output=True, check=False, cwd=ROOT).returncode == 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write after each operator; 1 where a bound is not kept."""
    parser = argparse.ArgumentParser(prog="bench.metaschedule", description="Our search against TVM's MetaSchedule.")
    parser.add_argument("operators", nargs="*", help=f"of {', '.join(OPERATORS)} (default: all)")
    parser.add_argument("--tvm", type=Path, metavar="PYTHON", help="a Python that has TVM (default: this one)")
    parser.add_argument("--trials", type=int, default=TRIALS, help="of MetaSchedule")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for metaschedule.json")
    options = parser.parse_args(arguments)
    if unknown := set(options.operators) - set(OPERATORS):
        parser.error(f"no operator {', '.join(sorted(unknown))}; known: {', '.join(OPERATORS)}")
    if options.tvm is not None and not (options.tvm.is_file() and has_tvm(options.tvm)):
        parser.error(f"{options.tvm} is no Python that has TVM; in an environment of its own: {INSTALL}")
    python = options.tvm or Path(sys.executable)
    if not has_tvm(python):
        print(f"skipped, since TVM is not here; in an environment of its own: {INSTALL}; then --tvm with that environment's python")
        return 0
    rows = []
    for name in options.operators or OPERATORS:
        print(f"measuring {name} ...", flush=True)
        rows.append(measure(name, python, options.trials, options.seed))
        written(rows, options.results / "metaschedule.json")
        print(table(rows[-1:]), flush=True)
    print(f"\n{table(rows)}\nwritten to {options.results / 'metaschedule.json'}")
    return 0 if all(figure.kept for row in rows for figure in figures(row)) else 1


if __name__ == "__main__":
    sys.exit(main())
