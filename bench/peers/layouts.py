"""Candidates that run a convolution of another layout in NCHW: what a library does whose interface takes nothing else."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bench.peers.engines import Candidate, Makers
from bench.peers.images import LAYOUTS, NHWC, ordinary, restored
from bench.peers.workload import Array, Workload, aligned


def in_nchw(make: Callable[[Workload, Sequence[Array]], Makers], workload: Workload, operands: Sequence[Array]) -> Makers:
    """What `make` offers for the workload, in NCHW where it is another layout's."""
    if workload.operator not in LAYOUTS:
        return make(workload, operands)
    image, weights = (aligned(array) for array in ordinary(workload.operator, *operands))
    other = replace(workload, operator="convolution", shapes=(image.shape, weights.shape))
    return {variant: functools.partial(_turned, maker, workload) for variant, maker in make(other, (image, weights)).items()}


def _turned(maker: Callable[[], Candidate], workload: Workload) -> Candidate:
    """With the result in the layout of the workload when it is checked; channels last is what an NHWC row asks for."""
    candidate = maker()

    def result(outcome: Any) -> Array:
        return np.ascontiguousarray(restored(workload.operator, candidate.result(outcome), workload.shapes[0][-1]))

    last = workload.operator == NHWC and candidate.aside.startswith("NHWC")
    return replace(candidate, result=result, aside="" if last else candidate.aside, note="NHWC" if last else "NCHW")
