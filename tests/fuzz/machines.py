"""Descriptions of machines for the fuzzer of file contents: mutated, read, and asked what a program costs on them."""

from __future__ import annotations

import json
import math
import random
from functools import cache
from pathlib import Path
from typing import Final

import tensorlang as tl
from tensorlang.codegen.target import described
from tensorlang.codegen.target.cores import digest, shipped

from .mutate import restructured, shaken, written

CPUS: Final = ("haswell", "znver5", "neoverse-v1", "apple-m1")


@cache
def machines() -> tuple[bytes, ...]:
    """Descriptions as `autotune calibrate` writes them."""
    found = []
    for name in CPUS:
        target = tl.target(name)
        about = described.Described(arch=target.arch, cpu=target.cpu, measured=("hertz",), machine=shipped(target))
        found.append(described.encode(about))
    return tuple(found)


def mutated_machine(rng: random.Random, steps: list[random.Random]) -> bytes:
    """A description."""
    data = rng.choice(machines())
    if rng.random() < 0.2:
        for step in steps:
            data = shaken(step, data)
        return data
    value = json.loads(data)
    for step in steps:
        value = restructured(step, value)
    return written(value)


@cache
def _schedule() -> tl.Schedule:
    a, b, k = tl.placeholder((24, 2048), name="A"), tl.placeholder((2048, 40), name="B"), tl.reduce_axis((0, 2048), "k")
    return tl.Schedule(tl.compute((24, 40), lambda i, j: tl.sum(a[i, k] * b[k, j], k), name="C"))


def read_machine(rng: random.Random, data: bytes, folder: Path) -> None:
    """Read it, estimate on it, write it again."""
    path = folder / "machine.json"
    path.write_bytes(data)
    found = described.read(path)
    estimate = _schedule().estimate(path)
    assert math.isfinite(estimate.seconds)
    assert estimate.seconds > 0
    described.write(found, path)
    assert described.read(path) == found
    assert digest(tl.machine(path)) == digest(found.machine)
