"""Do estimates rank kernels as the clock does? Every operator of the table at its usual extents, and some at others, on one thread.

A planner compares candidates, so what counts is the order: Spearman's rank correlation of `kernels.estimate(spec).seconds` with the
processor time of a call of the default kernel. Kernels that cost the same to the microsecond rank by chance, so 0.8 and not 1 is asked for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from math import prod
from typing import Any, Final

import numpy as np
from scipy.stats import spearmanr

from bench.measure import Figure
from tensorlang import kernels
from tensorlang.ops.table import OPERATORS

BOUND: Final = 0.8
LEAST_S: Final = 0.005
"""Seconds of calls in a sample."""
SAMPLES: Final = 5
MOST_ELEMENTS: Final = 1 << 24

OTHERS: Final[dict[str, tuple[dict[str, int], ...]]] = {
    "matmul": ({"M": 1, "N": 1000, "K": 2048}, {"M": 64, "N": 64, "K": 64}, {"M": 128, "N": 3072, "K": 768}),
    "softmax": ({"M": 16, "N": 64}, {"M": 64, "N": 32000}),
    "layer_norm": ({"M": 8, "N": 768}, {"M": 512, "N": 1024}),
    "conv2d": ({"C": 3, "H": 224, "W": 224, "O": 16, "R": 3, "S": 3}, {"C": 256, "H": 14, "W": 14, "O": 256, "R": 3, "S": 3}),
    "depthwise_conv2d": ({"C": 32, "H": 14, "W": 14},),
}


def specs() -> Iterator[tuple[str, kernels.Spec]]:
    """Each operator at its usual extents, then some at others, with what it is called."""
    for name, row in OPERATORS.items():
        for extents in ({}, *OTHERS.get(name, ())):
            spec = kernels.Spec.at(row, {**row.defaults, **extents})
            if kernels.supports(spec) and sum(prod(_shape(shape)) for shape in spec.shapes) <= MOST_ELEMENTS:
                yield " ".join([name, *(f"{extent}={size}" for extent, size in extents.items())]), spec


def _shape(shape: Any) -> tuple[int, ...]:
    return tuple(int(extent) for extent in shape or ())


def measured(spec: kernels.Spec) -> float:
    """Seconds of this thread's processor time that a call of the default kernel takes at least."""
    kernel, rng = kernels.compile(spec, threads=1), np.random.default_rng(0)
    arrays = [_operand(part, rng) for part in kernel.program.signature.passed]
    call = kernel.bind(*arrays, out=kernel(*arrays))
    once = max(_spent(call, 1), 1e-7)
    times = max(1, round(LEAST_S / once))
    return min(_spent(call, times) for _ in range(SAMPLES))


def _operand(part: Any, rng: np.random.Generator) -> Any:
    shape = tuple(int(extent.value) for extent in part.shape)
    kind = part.dtype.numpy
    return (rng.random(shape) + 0.5).astype(kind) if kind.kind == "f" else np.zeros(shape, kind)


def _spent(call: Callable[[], Any], times: int) -> float:
    start = time.thread_time()
    for _ in range(times):
        call()
    return (time.thread_time() - start) / times


def figures() -> list[Figure]:
    """The rank correlation, with the estimate over the time of each kernel."""
    rows = [(name, kernels.estimate(spec).seconds, measured(spec)) for name, spec in specs()]
    found = float(spearmanr([told for _, told, _ in rows], [took for _, _, took in rows]).statistic)
    facts = {"kernels": len(rows), "by_operator": {name: told / took for name, told, took in rows}}
    return [Figure("estimate: rank correlation with time over the operators", found, BOUND, "at least", "", facts)]
