"""Does LLVM compile what we emit, for processors that we do not have? Objects only: nothing runs.

    python -m tests.fuzz.targets --cases 2000 --seed 0 [--minutes M] [--keep FOLDER]
    python -m tests.fuzz.targets --seed 0 --only 17         one case

Three kinds of programs in turn, each for some of the named processors: points of the strategies' spaces for operators of odd extents,
random definitions under random schedules, and tiles of odd numbers of rows and lanes that change layout in registers. Every module is
compiled in a process that may die (`codegen.llvm.isolated`), whether its form is proven or not; the exit code is 1 where one did.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

import tensorlang as tl
from tensorlang.codegen.emission.emit import emit
from tensorlang.codegen.llvm import isolated, safe_compilation
from tensorlang.codegen.lowering.lower import lower
from tensorlang.codegen.target import Target, target
from tensorlang.ir import Nest
from tensorlang.schedules.strategies import choose

from .oracles import Judge
from .program import Builder
from .replay import Tally, Wrong, attempt
from .worker import tell

PROCESSORS: Final = (
    "x86-64", "x86-64-v2", "haswell", "skylake-avx512", "cascadelake", "icelake-server", "sapphirerapids", "znver3", "znver4", "znver5",
    "aarch64-linux-gnu:neoverse-v1", "aarch64-linux-gnu:cortex-a72",
)  # fmt: skip
EXTENTS: Final = (1, 2, 3, 5, 6, 7, 9, 11, 12, 13, 15, 17, 23, 29, 31, 33)
TYPES: Final = ("bool", "int8", "uint8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64")
OPERATORS: Final = (
    "matmul", "dense", "bytes", "conv1d", "conv2d", "depthwise", "pool", "softmax", "norm", "attention", "gelu", "turned",
)  # fmt: skip
LIMIT: Final = 200.0
"""Seconds for one module."""


def operator(rng: random.Random) -> Any:
    """An operator of the library with odd extents."""
    a, b, c, d = (rng.choice(EXTENTS) for _ in range(4))
    dtype = rng.choice(("float32", "float32", "float32", "float64", "float16", "bfloat16"))

    def made(*shape: int) -> Any:
        return tl.placeholder(shape, dtype)

    match rng.choice(
        ("matmul", "dense", "bytes", "conv1d", "conv2d", "depthwise", "pool", "softmax", "norm", "attention", "gelu", "turned")
    ):
        case "matmul":
            return tl.ops.matmul(made(a, b), made(b, c))
        case "dense":
            return tl.ops.gelu(tl.ops.dense(made(a, b), made(c, b)))
        case "bytes":
            return tl.ops.matmul(tl.placeholder((a, b), "int8"), tl.placeholder((b, c), "int8"))
        case "conv1d":
            return tl.ops.conv1d(made(1, a, b + 4), made(c, a, 3))
        case "conv2d":
            return tl.ops.conv2d(made(1, a, b + 2, c + 2), made(d, a, 3, 3), padding=rng.choice((0, 1)), stride=rng.choice((1, 2)))
        case "depthwise":
            return tl.ops.depthwise_conv2d(made(1, a, b + 2, c + 2), made(a, 1, 3, 3), padding=1)
        case "pool":
            return tl.ops.max_pool2d(made(1, a, b + 2, c + 2), 3, stride=rng.choice((1, 2)))
        case "softmax":
            return tl.ops.softmax(made(a, b))
        case "norm":
            return tl.ops.layer_norm(made(a, b), (b,))
        case "attention":
            return tl.ops.attention(made(1, 1, a, b), made(1, 1, c, b), made(1, 1, c, b))
        case "gelu":
            return tl.ops.gelu(made(a, b))
        case _:
            x = made(a, b)
            return tl.compute((b, a), lambda i, j: x[j, i] + 1)


def point(rng: random.Random, machine: Target) -> Nest:
    """A point of the space of a strategy for an operator."""
    strategy = choose(operator(rng), machine, rng.choice((1, 4)))
    drawn = strategy.space.sample(np.random.default_rng(rng.randrange(1 << 30)), 1)
    return strategy.schedule(drawn[0] if drawn and rng.random() < 0.9 else strategy.default).nest  # type: ignore[no-any-return]


def scheduled(rng: random.Random) -> Nest:
    """A random definition under the steps that were drawn for it."""
    case = Judge().generate(rng.randrange(1 << 30))
    schedule, tally = tl.Schedule(Builder(case).program().outputs), Tally()
    for step in case["steps"]:
        try:
            attempt(schedule, step, tally)
        except Wrong:
            break
    return schedule.nest


def turned(rng: random.Random) -> Nest:
    """A tile whose rows and lanes change places, of a matrix or of its packed copy, with what lies beyond its edges."""
    rows, lanes, dtype = rng.randint(2, 17), rng.randint(2, 24), rng.choice(TYPES)
    n, m = rows * rng.randint(1, 3) + rng.randint(0, 3), lanes * rng.randint(1, 2) + rng.randint(0, 3)
    x = tl.placeholder((n, m), dtype, name="X")
    s = tl.Schedule(tl.compute((m, n), lambda i, j: x[j, i], name="Y"))
    tail = rng.choice(("guard", "mask", "peel"))
    s.split("Y.i", lanes, tail=tail)
    s.split("Y.j", rows, tail=rng.choice(("guard", "mask", "peel")))
    s.reorder("Y.i_o", "Y.j_o", "Y.j_i", "Y.i_i")
    for step in (lambda: s.unroll("Y.j_i"), lambda: s.vectorize("Y.i_i"), lambda: s.pack("X", at=rng.choice(("Y.i_o", "Y.j_o")))):
        if rng.random() < 0.9:
            try:
                step()
            except tl.ScheduleError:
                continue
    return s.nest


def modules(rng: random.Random) -> Iterator[tuple[str, Target, str]]:
    """What a case compiles: where it comes from, for which processor, and the text."""
    kind = rng.choice(("point", "schedule", "tile"))
    chosen = rng.sample(PROCESSORS, 3)
    if kind == "point":
        machine = target(chosen[0])
        nests = [(machine, point(rng, machine))]
    else:
        nest = scheduled(rng) if kind == "schedule" else turned(rng)
        nests = [(target(name), nest) for name in chosen]
    for machine, nest in nests:
        yield kind, machine, emit(lower(nest, machine), machine, name="f")


def judged(number: int, seed: int, counts: Counter[str], keep: Path | None = None) -> list[str]:
    """What went wrong in a case."""
    found = []
    for kind, machine, text in modules(random.Random(f"{seed}:{number}")):
        counts[kind] += 1
        counts["modules with odd lanes" if safe_compilation.odd_lanes(text) else "modules of proven form"] += 1
        began = time.perf_counter()
        try:
            isolated.ask("compile", *safe_compilation.words(machine.machine), text=text, limit=LIMIT)
        except (isolated.Died, tl.TensorlangError) as error:
            found.append(f"case {number} ({kind}, {machine.name}): {error}")
            if keep is not None:
                (keep / f"{seed}-{number}-{machine.cpu}.ll").write_text(text)
        if time.perf_counter() - began > LIMIT / 4:
            counts["slow"] += 1
    return found


def main(words: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.targets", description="Compile for processors that we do not have.")
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int)
    parser.add_argument("--minutes", type=float, default=1e6)
    parser.add_argument("--keep", type=Path, help="a folder for the modules that LLVM did not survive")
    arguments = parser.parse_args(words)
    counts: Counter[str] = Counter()
    failures: list[str] = []
    end = time.monotonic() + 60 * arguments.minutes
    for number in range(arguments.cases) if arguments.only is None else [arguments.only]:
        if time.monotonic() > end:
            break
        counts["cases"] += 1
        for text in judged(number, arguments.seed, counts, arguments.keep):
            failures.append(text)
            tell(text)
    tell(f"{dict(sorted(counts.items()))}, {len(failures)} failures")
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
