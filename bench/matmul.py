"""float32 matrix product, 512 x 512 x 512, one thread: the default and the tuned schedule against NumPy's OpenBLAS.

OpenBLAS chooses its kernels when it is loaded, and variables such as OPENBLAS_CORETYPE can force slower ones. So the comparison runs
in a process of its own, once under the environment as it is and, where that has OPENBLAS variables, once without them; each says which
kernels it met.

    python -m bench.matmul LOG          tunes where LOG has too few trials, then measures in this process
"""

from __future__ import annotations

import json
import os
import sys
import timeit
from pathlib import Path
from typing import Any

import numpy as np
import threadpoolctl

import tensorlang as tl
from bench import child
from bench.measure import Figure, interleave
from tensorlang.autotune import Database, tune

SIZE = 512
TRIALS = 32


def definition() -> tl.Tensor:
    """The operator, over placeholders of its own."""
    a, b = tl.placeholder((SIZE, SIZE), name="A"), tl.placeholder((SIZE, SIZE), name="B")
    return tl.ops.matmul(a, b)


def tuned(log: Path, seed: int = 0) -> None:
    """Bring the log to `TRIALS` trials for one thread."""
    tl.set_threads(1)
    tune(definition(), trials=TRIALS, log=log, seed=seed)


def measure(log: Path) -> dict[str, Any]:
    """Ratios of speed in this process."""
    tl.set_threads(1)
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((SIZE, SIZE), "float32") for _ in range(2))
    ours, theirs = np.empty((SIZE, SIZE), "float32"), np.empty((SIZE, SIZE), "float32")
    found: dict[str, Any] = {}
    with threadpoolctl.threadpool_limits(1):
        blas = [pool for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"]
        found["blas"] = [f"{pool['internal_api']} {pool['version']} {pool.get('architecture', '?')}" for pool in blas]
        for name, kernel in (("default", tl.build(definition())), ("tuned", tl.compile(definition(), database=Database(log)))):
            kernel(a, b, out=ours)
            np.matmul(a, b, out=theirs)
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-3)
            pairs = interleave(
                timeit.Timer("call(a, b, out=c)", globals={"call": kernel, "a": a, "b": b, "c": ours}),
                timeit.Timer("call(a, b, out=c)", globals={"call": np.matmul, "a": a, "b": b, "c": theirs}),
            )
            found[name] = {"speed_ratio": pairs.speed_ratio, "provenance": kernel.provenance, **pairs.facts()}
    if found["tuned"]["provenance"] != "tuned":
        raise RuntimeError(f"{log} has no tuned record for this task: the kernel is {found['tuned']['provenance']}")
    return found


def figures(log: Path) -> list[Figure]:
    """Tune, then compare under each environment."""
    tuned(log)
    environments = {"as given": dict(os.environ)}
    plain = {key: value for key, value in os.environ.items() if not key.startswith("OPENBLAS_")}
    if plain != environments["as given"]:
        environments["without OPENBLAS_*"] = plain
    rows = []
    for label, env in environments.items():
        found = child.run("-m", "bench.matmul", log, env=env)
        for schedule, bound in (("tuned", 0.9), ("default", 0.6)):
            facts = {**found[schedule], "blas": found["blas"], "environment": label}
            name = f"matmul {SIZE} float32, 1 thread, {schedule}: speed of NumPy ({found['blas'][0]}; environment {label})"
            rows.append(Figure(name, found[schedule]["speed_ratio"], bound, "at least", "x", facts))
    return rows


if __name__ == "__main__":
    print(json.dumps(measure(Path(sys.argv[1]))))
